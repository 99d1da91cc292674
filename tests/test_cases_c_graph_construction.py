"""Cases of group C: graph construction, control flow, order inside one session run."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from toys import after_restarts, run_micro_batches, scalar_toy
from ways import Training, close, each_control_flow, each_kind, each_way, everywhere, exactly

import tf1accum
from tf1accum._compat import tf

each_optimizer = pytest.mark.parametrize("make_optimizer", [
    tf.train.GradientDescentOptimizer, lambda rate: tf.train.MomentumOptimizer(rate, .5), tf.train.AdamOptimizer,
], ids=["sgd", "momentum", "adam"])


# Case 27

@everywhere
def test_case_027_each_run_adds_once(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.descend(3, reduction="sum")
        exactly(run_micro_batches(toy, [1.] * 6), [0., 0., -3., -3., -3., -6.])


@everywhere
def test_case_027_in_100_of_100(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.descend(3, reduction="sum")
        assert after_restarts(toy, 100, [1.] * 3) == {-3.}
        assert toy.run(toy.training.held) == 0


# Case 30

@everywhere
@each_optimizer
def test_case_030_built_under_control_dependencies(way, resource, control_flow, make_optimizer):
    with scalar_toy(way, resource, control_flow) as toy:
        moving = toy.variable("moving", 0., trainable=False)
        with tf.control_dependencies([tf.assign(moving, toy.x)]):
            toy.train(make_optimizer(1.), toy.loss, steps=2)
        toy.start()  # The initialiser runs here, and is fed nothing.
        seen = run_micro_batches(toy, [2., 6.], [toy.w, moving])
        exactly([value for _, value in seen], [2., 6.])
        close([w for w, _ in seen], [0., -1. if make_optimizer is tf.train.AdamOptimizer else -4.])


# Case 31

@everywhere
@each_optimizer
def test_case_031_update_under_either_control_flow(way, resource, control_flow, make_optimizer):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.train(make_optimizer(1.), toy.loss, steps=2)
        toy.start()
        close(run_micro_batches(toy, [1., 1.]), [0., -1.])


@each_kind
@each_control_flow
@pytest.mark.parametrize("config", [dict(nonfinite="skip"), dict(nonfinite="skip_cycle"), dict(steps=lambda _: 2)],
                         ids=["skip", "skip_cycle", "steps_callable"])
def test_case_031_conditionals_inside_conditionals(resource, control_flow, config):
    with scalar_toy("wrapper", resource, control_flow) as toy:
        config = dict(dict(steps=2), **config)
        toy.train(tf.train.AdamOptimizer(1.), toy.loss, weight=toy.x, **config)
        toy.start()
        close(run_micro_batches(toy, [1., 1.]), [0., -1.])


# Case 33

@everywhere
def test_case_033_graph_stays_as_it_is(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        training = toy.descend(2)
        at_the_end = [training.drop_op] + ([training.flush_op] if way == "wrapper" else [])
        before = len(toy.graph.get_operations())
        toy.graph.finalize()
        run_micro_batches(toy, [1., 3.] * 100)
        for op in at_the_end:
            toy.run(op)
        assert len(toy.graph.get_operations()) == before
        exactly(toy.run(toy.w), -200.)


def test_case_033_runner_builds_nothing():
    with scalar_toy() as toy:
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(1.), toy.loss, steps=2)
        session = toy.start()
        toy.graph.finalize()
        runner = tf1accum.PhaseRunner(session, ops)
        for _ in range(100):
            runner.run_cycle([{toy.x: 1.}, {toy.x: 3.}], fetches=toy.loss)
        exactly(toy.run(toy.w), -200.)


def test_case_033_asking_again_builds_nothing():
    with scalar_toy() as toy:
        optimizer = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=2)
        optimizer.minimize(toy.loss)
        asked = [(optimizer.flush(), optimizer.drop(), optimizer.held, optimizer.updates, optimizer.micro_steps)]
        before = len(toy.graph.get_operations())
        asked.append((optimizer.flush(), optimizer.drop(), optimizer.held, optimizer.updates, optimizer.micro_steps))
        assert len(toy.graph.get_operations()) == before
        assert asked[0] == asked[1]


# Case 35

@each_way
@each_kind
@each_control_flow
def test_case_035_read_apply_zero_in_500_of_500(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.descend(2)
        assert after_restarts(toy, 500, [1., 3.]) == {-2.}
        assert toy.run(toy.training.held) == 0


@each_kind
def test_case_035_variable_as_gradient_in_500_of_500(resource):
    with scalar_toy(resource=resource) as toy:
        gradient = toy.variable("gradient", 2., trainable=False)
        train_op = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=2).apply_gradients(
            [(gradient, toy.w)])
        with tf.control_dependencies([train_op]):
            train_and_change = tf.assign_add(gradient, 4.)
        init = tf.global_variables_initializer()
        toy.start()
        ends = set()
        for _ in range(500):
            toy.run(init)
            for _ in range(2):
                toy.run(train_and_change)
            ends.add(toy.run(toy.w))
        assert ends == {-4.}  # The mean of 2 and 6: the sum does not share the variable's memory.


# Case 36

@pytest.mark.parametrize("way", ["wrapper", "low_level"])
@each_kind
@each_control_flow
@pytest.mark.parametrize("shape", [None, [None], [2]], ids=["unknown_rank", "unknown_size", "known"])
def test_case_036_gradient_of_unknown_shape(way, resource, control_flow, shape):
    with scalar_toy(way, resource, control_flow) as toy:
        w = toy.variable("vector", [0., 0.])
        gradient = tf.placeholder(tf.float32, shape)
        toy.train(tf.train.MomentumOptimizer(1., .5), pairs=[(gradient, w)], steps=2)
        toy.start()
        init = tf.global_variables_initializer()
        for _ in range(10):
            toy.run(init)
            exactly(toy.feed(gradient, [[1., 2.], [3., 6.]], w), [[0., 0.], [-2., -4.]])


@everywhere
def test_case_036_loss_over_batches_of_unknown_size(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow, examples=True) as toy:
        toy.descend(2)
        init = tf.global_variables_initializer()
        for _ in range(10):
            toy.run(init)
            # The third is left in an open cycle, which the initialiser empties.
            exactly(run_micro_batches(toy, [[8.], [1., 2., 3.], [100.]]), [0., -5., -5.])


# Case 38

@everywhere
def test_case_038_each_micro_step_takes_the_next_element(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        element = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices([1., 2., 3., 4.])).get_next()
        training = toy.descend(2, loss=toy.w * element)
        exactly(toy.feeds([None] * 4, toy.w), [0., -1.5, -1.5, -5.])
        with pytest.raises(tf.errors.OutOfRangeError):
            toy.feeds([None])
        exactly(toy.run([toy.w, training.held, training.micro_steps]), [-5., 0, 4])


@each_way
@each_kind
def test_case_038_data_ends_inside_a_cycle(way, resource):
    with scalar_toy(way, resource) as toy:
        element = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices([1., 2., 3., 4., 5.])).get_next()
        training = toy.descend(2, loss=toy.w * element)
        with pytest.raises(tf.errors.OutOfRangeError):
            toy.feeds([None] * 6)
        exactly(toy.run([toy.w, training.held]), [-5., 1])
        training.flush(toy.session)  # It takes no element, of which there are none left.
        exactly(toy.run(toy.w), -10.)


@each_kind
@each_control_flow
def test_case_038_loop_in_the_graph_takes_the_next_element(resource, control_flow):
    with scalar_toy("low_level", resource, control_flow) as toy:
        iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices([1., 2., 3., 4.]))
        accumulator = tf1accum.GradientAccumulator([toy.w], steps=2)

        def body(done):
            accumulate = accumulator.accumulate_op([(iterator.get_next(), toy.w)])
            with tf.control_dependencies([accumulate]):
                return done + 1

        window = tf.while_loop(lambda done: done < 2, body, [tf.constant(0)], parallel_iterations=1)
        apply_op = accumulator.apply_op(tf.train.GradientDescentOptimizer(1.))
        toy.start()
        weights = []
        for _ in range(2):
            toy.run(window)
            assert toy.run(accumulator.held) == 2
            toy.run(apply_op)
            weights.append(toy.run(toy.w))
        exactly(weights, [-1.5, -5.])


# Case 39

@each_kind
@each_control_flow
def test_case_039_update_ops_born_in_a_loop_run_once_a_micro_batch(resource, control_flow):
    with scalar_toy("low_level", resource, control_flow, initial=1.) as toy:
        moving = tf.Variable(0., trainable=False, use_resource=True)
        values = tf.constant([1., 2., 3., 4.])
        accumulator = tf1accum.GradientAccumulator([toy.w], steps=4)

        def body(done):
            x = values[done]
            update = tf.assign(moving, .5 * moving + .5 * x)
            accumulate = accumulator.accumulate_op([(tf.gradients(toy.w * x, toy.w)[0], toy.w)])
            with tf.control_dependencies([accumulate, update]):
                return done + 1

        loop = tf.while_loop(lambda done: done < 4, body, [tf.constant(0)], parallel_iterations=1)
        apply_op = accumulator.apply_op(tf.train.GradientDescentOptimizer(1.))
        toy.start()
        toy.run(loop)
        toy.run(apply_op)
        exactly(toy.run([toy.w, moving]), [-1.5, 3.0625])


# Case 41

@pytest.mark.parametrize("way", ["wrapper", "low_level"])
@each_kind
@each_control_flow
def test_case_041_fed_gradients(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        gradient = tf.placeholder(tf.float32, [])
        toy.descend(2, pairs=[(gradient, toy.w)])
        exactly(toy.feed(gradient, [2., 6.], toy.w), [0., -4.])


@pytest.mark.parametrize("way", ["wrapper", "low_level"])
@each_kind
@pytest.mark.parametrize("size", [2, 4096])
def test_case_041_fed_from_one_array_that_is_filled_anew(way, resource, size):
    with scalar_toy(way, resource) as toy:
        w = toy.variable("vector", np.zeros(size))
        gradient = tf.placeholder(tf.float32, [size])
        toy.descend(2, pairs=[(gradient, w)])
        array = np.zeros(size, np.float32)
        for value in (2., 6., 1., 3.):
            array[:] = value
            toy.feed(gradient, [array])
            array[:] = 1000.
        exactly(toy.run(w), np.full(size, -6.))


@each_way
@each_kind
def test_case_041_fed_in_place_of_a_computed_gradient(way, resource):
    with scalar_toy(way, resource) as toy:
        scale = tf.identity(toy.x)
        toy.descend(2, loss=toy.w * scale)
        exactly(toy.feed(scale, [2., 6.], toy.w), [0., -4.])


# Case 42

@everywhere
def test_case_042_apply_with_nothing_fed(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        moving = toy.variable("moving", 0., trainable=False)
        with tf.control_dependencies([tf.assign(moving, toy.x)]):
            training = toy.train(tf.train.GradientDescentOptimizer(1.), toy.loss, steps=2)
        toy.start()
        toy.run(training.accumulate, {toy.x: 2.})
        training.flush(toy.session)  # In the phases this is `apply`; it is fed nothing.
        exactly(toy.run([toy.w, moving]), [-2., 2.])


@pytest.mark.parametrize("phase", ["zero", "normalize", "apply"])
@each_kind
def test_case_042_each_phase_but_accumulate_with_nothing_fed(resource, phase):
    with scalar_toy(resource=resource) as toy:
        with tf.control_dependencies([tf.identity(toy.x)]):
            ops = tf1accum.build(tf.train.AdamOptimizer(1.), toy.loss, steps=2)
        session = toy.start()
        session.run(ops.accumulate, {toy.x: 2.})
        session.run(getattr(ops, phase))
        held, micro_steps, updates = session.run([ops.held, ops.micro_steps, ops.updates])
        assert (held, micro_steps, updates) == {"zero": (0, 1, 0), "normalize": (1, 1, 0), "apply": (0, 1, 1)}[phase]


# Case 43

def train_in_a_branch(toy, steps=2):
    """Returns (op, predicate, training): the true branch builds and runs a micro-step."""
    predicate = tf.placeholder(tf.bool, [])
    built = []

    def micro_step():
        loss = toy.w * 1.
        training = Training(toy.way, tf.train.GradientDescentOptimizer(1.), loss, steps)
        built.append(training)
        with tf.control_dependencies([training.accumulate]):
            return tf.constant(True)

    op = tf.cond(predicate, micro_step, lambda: tf.constant(False))
    return op, predicate, built[0]


def run_in_a_branch(toy, op, predicate, training):
    """Returns the weight after the predicates True, False and True."""
    toy.start()
    weights = []
    for value in (True, False, True):
        assert toy.run(op, {predicate: value}) == value
        if toy.way != "wrapper" and toy.run(training.held) == 2:
            toy.run(training.apply)
        weights.append(toy.run(toy.w))
    return weights


@each_way
@each_control_flow
def test_case_043_built_inside_a_branch(way, control_flow):
    with scalar_toy(way, True, control_flow) as toy:
        op, predicate, training = train_in_a_branch(toy)
        exactly(run_in_a_branch(toy, op, predicate, training), [0., 0., -1.])
        assert training.counts(toy.session) == (2, 1, 0, 0)


@pytest.mark.parametrize("way, control_flow", [("wrapper", "v1"), ("phases", "v1"), ("phases", "v2"),
                                               ("low_level", "v1"), ("low_level", "v2")])
def test_case_043_reference_variable_inside_a_branch(way, control_flow):
    with scalar_toy(way, False, control_flow) as toy:
        op, predicate, training = train_in_a_branch(toy)
        exactly(run_in_a_branch(toy, op, predicate, training), [0., 0., -1.])
        assert training.counts(toy.session) == (2, 1, 0, 0)


def test_case_043_update_of_a_reference_variable_inside_a_v2_branch_is_refused():
    with scalar_toy("wrapper", False, "v2") as toy:
        with pytest.raises(tf1accum.AccumulationError, match="(?i)control.flow") as caught:
            train_in_a_branch(toy)
        assert isinstance(caught.value, (TypeError, ValueError))
