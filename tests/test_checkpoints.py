"""Checkpoints stay interchangeable: for every optimizer of tf.train, and at every micro-step."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from ways import Toy, each_control_flow, each_kind, each_way, everywhere, exactly

from tf1accum._compat import tf

OPTIMIZERS = [
    ("GradientDescent", lambda step: tf.train.GradientDescentOptimizer(.1)),
    ("Momentum", lambda step: tf.train.MomentumOptimizer(.1, .9)),
    ("Adam", lambda step: tf.train.AdamOptimizer(.1)),
    ("RMSProp", lambda step: tf.train.RMSPropOptimizer(.1, momentum=.9)),
    ("RMSPropCentered", lambda step: tf.train.RMSPropOptimizer(.1, momentum=.9, centered=True)),
    ("Adagrad", lambda step: tf.train.AdagradOptimizer(.1)),
    ("Adadelta", lambda step: tf.train.AdadeltaOptimizer(.5)),
    ("Ftrl", lambda step: tf.train.FtrlOptimizer(.1, l1_regularization_strength=.01, l2_regularization_strength=.01)),
    ("AdagradDA", lambda step: tf.train.AdagradDAOptimizer(.1, step, l1_regularization_strength=.01)),
    ("ProximalAdagrad", lambda step: tf.train.ProximalAdagradOptimizer(
        .1, l1_regularization_strength=.01, l2_regularization_strength=.01)),
    ("ProximalGradientDescent", lambda step: tf.train.ProximalGradientDescentOptimizer(
        .1, l1_regularization_strength=.01, l2_regularization_strength=.01)),
]
SCOPES = [
    ("root", lambda: tf.name_scope(None)),
    ("name_scope", lambda: tf.name_scope("outer")),
    ("variable_scope", lambda: tf.variable_scope("outer")),
]
each_optimizer = pytest.mark.parametrize("make_optimizer", [case[1] for case in OPTIMIZERS],
                                         ids=[case[0] for case in OPTIMIZERS])
# Only what makes variables outside the slots can be named otherwise by a scope.
_SCOPED = [case for case in OPTIMIZERS if case[0] in ("Momentum", "Adam", "AdagradDA")]
each_optimizer_and_scope = pytest.mark.parametrize(
    "make_optimizer, scope",
    [(case[1], SCOPES[0][1]) for case in OPTIMIZERS] + [
        (case[1], scope[1]) for scope in SCOPES[1:] for case in _SCOPED],
    ids=["%s-root" % case[0] for case in OPTIMIZERS] + [
        "%s-%s" % (case[0], scope[0]) for scope in SCOPES[1:] for case in _SCOPED])


class Model(object):
    """A dense variable and a table, in one graph, whose micro-gradients are fed."""

    def __init__(self, way, resource, control_flow, make_optimizer, scope, steps=1, save_accumulators=False,
                 weighted=False, only_build=False):
        self.toy = Toy(way or "wrapper", resource, control_flow)
        with self.toy:
            with scope():
                step = self.toy.step_variable()
                with tf.variable_scope("model", use_resource=resource):
                    w = tf.get_variable("w", [2, 3], initializer=tf.constant_initializer(.5))
                    table = tf.get_variable("table", [4, 2], initializer=tf.constant_initializer(.25))
                # The names of what is fed tell nothing of what is trained.
                self.g = tf.placeholder(tf.float32, [2, 3])
                self.ids = tf.placeholder(tf.int32, [None])
                self.c = tf.placeholder(tf.float32, [None])
                self.weight = tf.placeholder(tf.float32, []) if weighted else None
                loss = tf.reduce_sum(w * self.g) + tf.reduce_sum(
                    tf.nn.embedding_lookup(table, self.ids) * self.c[:, None])
                optimizer = make_optimizer(step)
                if way is None:
                    self.bare = optimizer.minimize(loss, global_step=step)
                else:
                    self.bare = None
                    self.toy.train(optimizer, loss, steps=steps, global_step=step, weight=self.weight,
                                   save_accumulators=save_accumulators)
            self.variables = tf.global_variables()
            self.names = [variable.name for variable in self.variables]
            if not only_build:
                self.saver = tf.train.Saver(max_to_keep=None)
                self.init = tf.global_variables_initializer()
        self.session = tf.Session(graph=self.toy.graph)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.session.close()

    def micro_step(self, micro_batch):
        g, ids, c = micro_batch[:3]
        feed_dict = {self.g: g, self.ids: ids, self.c: c}
        if self.weight is not None:
            feed_dict[self.weight] = micro_batch[3]
        if self.bare is not None:
            self.session.run(self.bare, feed_dict)
        else:
            self.toy.training.micro_step(self.session, feed_dict)

    def save(self, path):
        self.saver.save(self.session, path, write_meta_graph=False)

    def restore(self, path):
        """Restores, and runs no initialiser."""
        self.saver.restore(self.session, path)

    def state(self):
        """Returns the values of all global variables by name."""
        return dict(zip(self.names, self.session.run(self.variables)))


def equal_states(actual, expected):
    assert set(actual) == set(expected)
    for name in sorted(expected):
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


def exact_cycle(random, count):
    """Returns `count` micro-batches, and the one whose gradients are their mean exactly in float32."""
    micro_batches = []
    for _ in range(count):
        rows = random.randint(0, 5)
        micro_batches.append((random.randint(-8, 9, size=[2, 3]) * count / 4.,
                              random.randint(0, 4, size=rows), random.randint(-8, 9, size=rows) * count / 4.))
    rows = np.zeros(4)
    for _, ids, c in micro_batches:
        np.add.at(rows, ids, c)
    touched = sorted(set(np.concatenate([ids for _, ids, _ in micro_batches]).astype(int)))
    mean = (sum(g for g, _, _ in micro_batches) / count, touched, rows[touched] / count)
    # Gradient descent applies a row that comes twice in two additions, with an accumulation of one step too.
    return [mean] if count == 1 else micro_batches, mean


def names_of(way, resource, control_flow, make_optimizer, scope, **kwargs):
    with Model(way, resource, control_flow, make_optimizer, scope, only_build=True, **kwargs) as model:
        return model.names


@each_kind
@each_control_flow
@each_optimizer_and_scope
def test_names_equal_those_of_the_bare_optimizer(make_optimizer, control_flow, resource, scope):
    # As lists: order too, since a collection's order is what old savers and `variables()[k]` go by.
    bare = names_of(None, resource, control_flow, make_optimizer, scope)
    assert names_of("wrapper", resource, control_flow, make_optimizer, scope, steps=2) == bare


@each_optimizer_and_scope
def test_names_with_steps_1_and_with_the_phases(make_optimizer, scope):
    bare = names_of(None, True, "v1", make_optimizer, scope)
    for way, steps in [("wrapper", 1), ("low_level", 2), ("phases", 2)]:
        assert names_of(way, True, "v1", make_optimizer, scope, steps=steps) == bare, (way, steps)


def bare_run(resource, control_flow, make_optimizer, scope, means, checkpoint, saved_after):
    """Trains the bare optimizer on the means; returns the state before each update, and after the last."""
    with Model(None, resource, control_flow, make_optimizer, scope) as model:
        model.session.run(model.init)
        states = []
        for update, mean in enumerate(means):
            states.append(model.state())
            if update == saved_after:
                model.save(checkpoint)
            model.micro_step(mean)
        return states + [model.state()]


def handed_on(directory, resource, control_flow, make_optimizer, scope, stages, ways=("wrapper",)):
    """Trains in stages, each a new graph and session that starts from the checkpoint of the one before.

    Args:
      stages: list of (steps, updates); steps None is the bare optimizer. The first is bare.
    """
    random = np.random.RandomState(7)
    plan = [steps for steps, updates in stages for _ in range(updates)]
    cycles = [exact_cycle(random, steps or 1) for steps in plan]
    checkpoint = str(directory.join("stage0"))
    done = stages[0][1]
    states = bare_run(resource, control_flow, make_optimizer, scope, [mean for _, mean in cycles], checkpoint, done)
    listed = tf.train.list_variables(checkpoint)
    for number, (steps, updates) in enumerate(stages[1:], 1):
        way = ways[number % len(ways)] if steps else None
        with Model(way, resource, control_flow, make_optimizer, scope, steps=steps) as model:
            model.restore(checkpoint)
            equal_states(model.state(), states[done])
            for micro_batches, _ in cycles[done:done + updates]:
                for micro_batch in micro_batches:
                    model.micro_step(micro_batch)
                done += 1
                equal_states(model.state(), states[done])
            checkpoint = str(directory.join("stage%d" % number))
            model.save(checkpoint)
            assert tf.train.list_variables(checkpoint) == listed
    assert done == len(cycles)
    assert states[-1]["outer/global_step:0" if "outer/global_step:0" in states[-1] else "global_step:0"] == done


@each_kind
@each_control_flow
@each_optimizer
def test_checkpoints_are_interchangeable(make_optimizer, control_flow, resource, tmpdir):
    handed_on(tmpdir, resource, control_flow, make_optimizer, SCOPES[0][1], [(None, 2), (2, 2), (None, 1)])


@pytest.mark.slow
@pytest.mark.parametrize("scope", [case[1] for case in SCOPES[1:]], ids=[case[0] for case in SCOPES[1:]])
@pytest.mark.parametrize("make_optimizer", [case[1] for case in _SCOPED], ids=[case[0] for case in _SCOPED])
@pytest.mark.parametrize("resource, control_flow", [(False, "v2"), (True, "v1")], ids=["ref-cf_v2", "resource-cf_v1"])
def test_checkpoints_are_interchangeable_in_a_scope(make_optimizer, control_flow, resource, scope, tmpdir):
    handed_on(tmpdir, resource, control_flow, make_optimizer, scope, [(None, 1), (2, 2), (None, 1)])


@each_optimizer
def test_steps_may_change_between_checkpoints(make_optimizer, tmpdir):
    handed_on(tmpdir, True, "v2", make_optimizer, SCOPES[0][1],
              [(None, 1), (2, 2), (3, 1), (1, 2), (4, 1), (None, 2)])


@each_optimizer
def test_checkpoints_are_interchangeable_with_the_phases(make_optimizer, tmpdir):
    handed_on(tmpdir, True, "v1", make_optimizer, SCOPES[0][1], [(None, 1), (2, 1), (3, 1), (None, 1)],
              ways=("phases", "low_level"))


@each_optimizer
def test_checkpoints_of_reference_variables_restore_into_resource_variables_and_back(make_optimizer, tmpdir):
    cycles = [exact_cycle(np.random.RandomState(5), 2) for _ in range(3)]
    checkpoint = str(tmpdir.join("model.ckpt"))
    for before, after in [(False, True), (True, False)]:
        states = bare_run(before, "v1", make_optimizer, SCOPES[0][1], [mean for _, mean in cycles], checkpoint, 1)
        with Model("wrapper", after, "v2", make_optimizer, SCOPES[0][1], steps=2) as model:
            model.restore(checkpoint)
            for micro_batches, _ in cycles[1:]:
                for micro_batch in micro_batches:
                    model.micro_step(micro_batch)
            # Kernels of both kinds round alike (docs of TensorFlow promise nothing, so not bitwise).
            for name, value in model.state().items():
                np.testing.assert_allclose(value, states[-1][name], rtol=1e-5, atol=1e-6, err_msg=name)


def inexact_micro_batches(random, count):
    """Micro-batches whose sums round, so that another order or another split would show."""
    result = []
    for _ in range(count):
        rows = random.randint(0, 6)
        result.append((random.normal(size=[2, 3]), random.randint(0, 4, size=rows), random.normal(size=rows),
                       random.randint(1, 9)))
    return result


def killed_at_every_micro_step(directory, make_optimizer, way, resource, control_flow, steps=3, cycles=2):
    micro_batches = inexact_micro_batches(np.random.RandomState(11), steps * cycles)

    def model():
        return Model(way, resource, control_flow, make_optimizer, SCOPES[0][1], steps=steps, save_accumulators=True,
                     weighted=True)

    with model() as uninterrupted:
        uninterrupted.session.run(uninterrupted.init)
        for number, micro_batch in enumerate(micro_batches):
            uninterrupted.save(str(directory.join("after%d" % number)))
            uninterrupted.micro_step(micro_batch)
        expected = uninterrupted.state()
        counts = uninterrupted.toy.training.counts(uninterrupted.session)
    assert counts == (steps * cycles, cycles, 0, 0)
    for number in range(len(micro_batches)):
        with model() as resumed:
            resumed.restore(str(directory.join("after%d" % number)))
            assert resumed.toy.training.counts(resumed.session) == (number, number // steps, number % steps, 0)
            for micro_batch in micro_batches[number:]:
                resumed.micro_step(micro_batch)
            assert resumed.toy.training.counts(resumed.session) == counts
            actual = resumed.state()
            trained = [name for name in expected if not name.startswith("accumulat")]
            assert len(trained) < len(expected), "saved accumulators are among the global variables"
            equal_states({name: actual[name] for name in trained}, {name: expected[name] for name in trained})


@everywhere
def test_a_kill_at_any_micro_step_resumes_identically(way, resource, control_flow, tmpdir):
    killed_at_every_micro_step(tmpdir, lambda step: tf.train.AdamOptimizer(.1), way, resource, control_flow)


@pytest.mark.slow
@each_optimizer
def test_a_kill_at_any_micro_step_resumes_identically_with_every_optimizer(make_optimizer, tmpdir):
    killed_at_every_micro_step(tmpdir, make_optimizer, "wrapper", True, "v2", steps=4)


@each_way
def test_a_kill_with_skipped_micro_batches_resumes_identically(way, tmpdir):
    """What was skipped, and that an open cycle is poisoned, is saved too."""
    for nonfinite in ("skip", "skip_cycle"):
        stream = [2., np.nan, 6., 1., 3., np.inf, 5., 7., 8., 10.]

        def build(toy, nonfinite=nonfinite):
            w = toy.variable("w", 0.)
            x = tf.placeholder(tf.float32, [])
            toy.train(tf.train.MomentumOptimizer(1., .5), w * x, steps=2, nonfinite=nonfinite,
                      save_accumulators=True)
            return w, x, tf.train.Saver(max_to_keep=None)

        with Toy(way) as toy:
            w, x, saver = build(toy)
            toy.start()
            for number, value in enumerate(stream):
                saver.save(toy.session, str(tmpdir.join("%s%d" % (nonfinite, number))), write_meta_graph=False)
                toy.feed(x, [value])
            expected, counts = toy.run(w), toy.counts
        assert np.isfinite(expected) and counts[3] == {"skip": 2, "skip_cycle": 4}[nonfinite]
        for number in (1, 2, 6, 7):  # before and after what is not finite
            with Toy(way) as toy:
                w, x, saver = build(toy)
                toy.start(initialize=False)
                saver.restore(toy.session, str(tmpdir.join("%s%d" % (nonfinite, number))))
                toy.feed(x, stream[number:])
                exactly(toy.run(w), expected)
                assert toy.counts == counts
