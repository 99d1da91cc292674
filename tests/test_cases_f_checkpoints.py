"""Cases of group F: checkpoints and resuming. The promise over all optimizers is in test_checkpoints.py."""
from __future__ import absolute_import, division, print_function

import contextlib

import pytest
from ways import Toy, close, each_control_flow, each_kind, each_way, everywhere, exactly, named

from tf1accum._compat import tf

each_saving = pytest.mark.parametrize("save_accumulators", [False, True], ids=["dropped", "saved"])


@pytest.fixture
def checkpoint(tmpdir):
    return str(tmpdir.join("model.ckpt"))


def gradient_descent():
    return tf.train.GradientDescentOptimizer(1.)


def scalar_toy(toy, optimizer, value=0., **kwargs):
    """`w` starting at `value`, with loss `w * x`; returns (w, x)."""
    w = toy.variable("w", value)
    x = tf.placeholder(tf.float32, [], name="x")
    toy.train(optimizer, w * x, **kwargs)
    return w, x


def save(toy, path):
    with toy.graph.as_default():
        tf.train.Saver().save(toy.session, path, write_meta_graph=False)


def restore(toy, path, var_list=None):
    """Starts a session from a checkpoint, and runs no initialiser at all."""
    saver = tf.train.Saver(var_list)
    toy.start(initialize=False)
    saver.restore(toy.session, path)


def save_bare(path, resource, value=3.):
    with Toy(resource=resource) as toy:
        w = toy.variable("w", value)
        gradient_descent().minimize(w * 1.)
        toy.start()
        save(toy, path)


# Case 72

@everywhere
def test_case_072_checkpoint_without_accumulators_restores(way, resource, control_flow, checkpoint):
    save_bare(checkpoint, resource)
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, gradient_descent())
        restore(toy, checkpoint)
        exactly(toy.run(w), 3.)
        assert toy.counts == (0, 0, 0, 0)
        exactly(toy.feed(x, [2., 6.], w), [3., -1.])


@everywhere
def test_case_072_restores_in_the_middle_of_training(way, resource, control_flow, checkpoint):
    """What a session holds is not part of the checkpoint, so restoring leaves an open cycle as it is."""
    save_bare(checkpoint, resource)
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, gradient_descent())
        saver = tf.train.Saver()
        toy.start()
        toy.feed(x, [2., 6., 100.])
        saver.restore(toy.session, checkpoint)
        toy.run(toy.training.drop_op)
        exactly(toy.feed(x, [2., 6.], w), [3., -1.])


@everywhere
def test_case_072_saved_accumulators_need_a_variable_list_for_an_older_checkpoint(way, resource, control_flow,
                                                                                 checkpoint):
    save_bare(checkpoint, resource)
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, gradient_descent(), save_accumulators=True)
        everything = tf.train.Saver()
        restore(toy, checkpoint, [w])
        exactly(toy.run(w), 3.)
        assert toy.counts == (0, 0, 0, 0)
        exactly(toy.feed(x, [2., 6.], w), [3., -1.])
        with pytest.raises(tf.errors.NotFoundError):
            everything.restore(toy.session, checkpoint)


# Case 74

@everywhere
@each_saving
def test_case_074_both_or_neither_survive_inside_a_cycle(way, resource, control_flow, save_accumulators, checkpoint):
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, gradient_descent(), steps=4, save_accumulators=save_accumulators)
        toy.start()
        toy.feed(x, [1., 2.])
        assert toy.counts == (2, 0, 2, 0)
        save(toy, checkpoint)
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, gradient_descent(), steps=4, save_accumulators=save_accumulators)
        restore(toy, checkpoint)
        toy.feed(x, [3., 4.])
        if save_accumulators:
            exactly(toy.run(w), -2.5)
            assert toy.counts == (4, 1, 0, 0)
        else:
            exactly(toy.run(w), 0.)
            assert toy.counts == (2, 0, 2, 0)
            toy.feed(x, [5., 8.])
            exactly(toy.run(w), -5.)


@each_way
def test_case_074_saved_weights_survive_too(way, checkpoint):
    def build(toy):
        weight = tf.placeholder(tf.float32, [])
        w, x = scalar_toy(toy, gradient_descent(), steps=3, save_accumulators=True, weight=weight)
        return w, x, weight

    with Toy(way) as toy:
        w, x, weight = build(toy)
        toy.start()
        toy.feeds([{x: 8., weight: 1.}])
        save(toy, checkpoint)
    with Toy(way) as toy:
        w, x, weight = build(toy)
        restore(toy, checkpoint)
        toy.feeds([{x: 2., weight: 2.}, {x: 4., weight: 5.}])
        exactly(toy.run(w), -(8. + 4. + 20.) / 8.)


# Case 75

class SaveAtEnd(tf.train.SessionRunHook):
    """Saves when the session ends; the built-in hook does not, unless global_step has moved."""

    def __init__(self, path):
        self._path = path

    def begin(self):
        self._saver = tf.train.Saver()

    def end(self, session):
        self._saver.save(session, self._path, write_meta_graph=False)


class AbortOnce(tf.train.SessionRunHook):
    """Aborts the session before a run, as a lost worker does."""

    def __init__(self, before_run_of, run):
        self._fetch = before_run_of
        self._run = run
        self.seen = 0

    def before_run(self, run_context):
        if run_context.original_args.fetches is self._fetch:
            self.seen += 1
            if self.seen == self._run:
                raise tf.errors.AbortedError(None, None, "lost worker")


@contextlib.contextmanager
def monitored(way, resource, control_flow, directory, save_accumulators, make_hooks=None):
    """Yields (toy, w, x) in a MonitoredTrainingSession with a checkpoint directory."""
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, gradient_descent(), steps=4, save_accumulators=save_accumulators,
                          global_step=toy.step_variable())
        hooks = make_hooks(toy) if make_hooks else []
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=directory, chief_only_hooks=hooks, save_summaries_steps=None,
                save_summaries_secs=None, log_step_count_steps=None) as session:
            toy.session = session
            yield toy, w, x
        toy.session = None


@everywhere
@pytest.mark.parametrize("save_accumulators,saves,persists", [
    (False, "by default", False), (True, "at end", True)], ids=["dropped", "saved_at_end"])
def test_case_075_accumulators_and_counter_live_and_die_together(
        way, resource, control_flow, save_accumulators, saves, persists, tmpdir):
    two_sessions(way, resource, control_flow, save_accumulators, saves, persists, tmpdir)


@each_way
@pytest.mark.parametrize("save_accumulators,saves,persists", [(False, "at end", False), (True, "by default", None)],
                         ids=["dropped_though_saving_at_end", "saved_when_the_step_moves"])
def test_case_075_whoever_saves_when(way, save_accumulators, saves, persists, tmpdir):
    two_sessions(way, True, "v2", save_accumulators, saves, persists, tmpdir)


def two_sessions(way, resource, control_flow, save_accumulators, saves, persists, tmpdir):
    directory = str(tmpdir)

    def hooks(toy):
        del toy
        return [SaveAtEnd(str(tmpdir.join("model.ckpt")))] if saves == "at end" else []

    with monitored(way, resource, control_flow, directory, save_accumulators, hooks) as (toy, w, x):
        toy.feed(x, [4.])
        assert toy.counts == (1, 0, 1, 0)
    with monitored(way, resource, control_flow, directory, save_accumulators) as (toy, w, x):
        trajectory = [float(number) for number in toy.feed(x, [4., 4., 4., 4.], w)]
        held = toy.counts[2]
    persisted = ([0., 0., -4., -4.], 1)
    dropped = ([0., 0., 0., -4.], 0)
    if persists is None:
        # Whether the hook saves at the end is TensorFlow's choice. Both are right, a mixture is not.
        assert (trajectory, held) in (persisted, dropped)
    else:
        assert (trajectory, held) == (persisted if persists else dropped)


@each_way
@each_kind
@each_saving
def test_case_075_recovery_inside_a_session(way, resource, save_accumulators, tmpdir):
    def hooks(toy):
        return [AbortOnce(toy.training.accumulate, 3)]

    with monitored(way, resource, "v1", str(tmpdir), save_accumulators, hooks) as (toy, w, x):
        # Two are lost with the worker. The checkpoint is the one of the start, so four more are needed.
        trajectory = toy.feed(x, [100., 100., 4., 4., 4., 4.], w)
        exactly(trajectory, [0., 0., 0., 0., 0., -4.])
        assert toy.counts == (4, 1, 0, 0)


# Case 77

ADAM_NAMES = ["beta1_power", "beta2_power", "model/w", "model/w/Adam", "model/w/Adam_1"]


SCOPES = {
    "root": ADAM_NAMES,
    "name_scope": ["accumulate/beta1_power", "accumulate/beta2_power", "model/w", "model/w/Adam", "model/w/Adam_1"],
    "variable_scope": ["model/beta1_power", "model/beta2_power", "model/model/w/Adam", "model/model/w/Adam_1",
                       "model/w"],
}
each_scope = pytest.mark.parametrize("scope", sorted(SCOPES))


def variable_names(way, resource, control_flow, scope, **config):
    """Names of all global variables after a training was built in a scope; way None is the bare optimizer."""
    with Toy(way, resource, control_flow) as toy:
        def train():
            loss = w * tf.placeholder(tf.float32, [])
            if way is None:
                tf.train.AdamOptimizer(.1).minimize(loss)
            else:
                toy.train(tf.train.AdamOptimizer(.1), loss, **config)

        with tf.variable_scope("model", use_resource=resource):
            w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
            if scope == "variable_scope":
                train()
        if scope == "name_scope":
            with tf.name_scope("accumulate"):
                train()
        elif scope == "root":
            train()
        return sorted(variable.op.name for variable in tf.global_variables())


@everywhere
@each_scope
def test_case_077_names_are_those_without_accumulation(way, resource, control_flow, scope):
    assert variable_names(way, resource, control_flow, scope, steps=2) == SCOPES[scope]


@each_kind
@each_scope
def test_case_077_names_of_the_bare_optimizer_and_of_steps_1(resource, scope):
    assert variable_names(None, resource, "v1", scope) == SCOPES[scope]
    assert variable_names("wrapper", resource, "v1", scope, steps=1) == SCOPES[scope]


@everywhere
def test_case_077_saved_accumulators_rename_nothing(way, resource, control_flow):
    names = variable_names(way, resource, control_flow, "root", steps=2, save_accumulators=True)
    assert set(ADAM_NAMES) < set(names)


@each_way
@each_kind
def test_case_077_weight_clipping_and_skipping_rename_nothing(way, resource):
    for nonfinite in ("propagate", "skip", "skip_cycle", "error"):
        assert variable_names(way, resource, "v2", "root", weight=2., nonfinite=nonfinite,
                              clip_global_norm=1.) == ADAM_NAMES


@each_kind
@each_control_flow
def test_case_077_a_second_training_is_named_as_without_accumulation(resource, control_flow):
    """Two Adam optimizers in one graph: TensorFlow calls the second one's powers beta1_power_1."""
    def names(way):
        with Toy(way, resource, control_flow) as toy:
            w, v = toy.variable("w", 0.), toy.variable("v", 0.)
            for variable in (w, v, w):
                optimizer = tf.train.AdamOptimizer(.1)
                if way is None:
                    optimizer.minimize(variable * 2., var_list=[variable])
                else:
                    toy.train(optimizer, variable * 2., var_list=[variable])
            return sorted(variable.op.name for variable in tf.global_variables())

    bare = names(None)
    assert "beta1_power_2" in bare
    for way in ("wrapper", "phases", "low_level"):
        assert names(way) == bare


# Case 79

@everywhere
def test_case_079_moments_survive_at_the_end_of_a_cycle(way, resource, control_flow, checkpoint):
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, tf.train.AdamOptimizer(.1))
        toy.start()
        toy.feed(x, [2., 6., 2., 6.])
        close(toy.run(w), -.19999965)
        save(toy, checkpoint)
        toy.feed(x, [-6., -2.])
        uninterrupted = toy.run(w)
        close(uninterrupted, -.22619872)
    with Toy(way, resource, control_flow) as toy:
        w, x = scalar_toy(toy, tf.train.AdamOptimizer(.1))
        restore(toy, checkpoint)
        toy.feed(x, [-6., -2.])
        exactly(toy.run(w), uninterrupted)


@each_way
def test_case_079_trap_of_lost_moments(way):
    with Toy(way) as toy:
        w, x = scalar_toy(toy, tf.train.AdamOptimizer(.1), value=-.19999965)
        toy.start()
        toy.feed(x, [-6., -2.])
        close(toy.run(w), -.09999966)
        moments = named("w/Adam"), named("w/Adam_1")
        assert all(toy.run(moments))
