"""Cases of group B: step counters, schedules, side effects of reading."""
from __future__ import absolute_import, division, print_function

import json
import subprocess
import sys
import textwrap

import pytest
from toys import after_restarts, each_step_dtype, run_micro_batches, scalar_toy
from ways import close, each_kind, each_way, everywhere, exactly

from tf1accum._compat import tf

# Case 13

@everywhere
@each_step_dtype
def test_case_013_step_counts_updates(way, resource, control_flow, step_dtype):
    with scalar_toy(way, resource, control_flow) as toy:
        step = toy.step_of(step_dtype)
        loss = tf.square(1. - toy.w)
        toy.descend(2, learning_rate=.25, loss=loss, global_step=step)
        seen = []
        for _ in range(6):
            loss_before = toy.micro_step(beside=loss)
            seen.append((loss_before, toy.run(step)))
        exactly([loss_before for loss_before, _ in seen], [1., 1., .25, .25, .0625, .0625])
        assert [step_after for _, step_after in seen] == [0, 1, 1, 2, 2, 3]


# Case 14

@everywhere
def test_case_014_updates_at_the_end_of_a_window(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.descend(3)
        exactly(run_micro_batches(toy, [1., 2., 3., 4., 5., 6.]), [0., 0., -2., -2., -2., -7.])


# Case 15

@everywhere
@each_step_dtype
def test_case_015_schedule_counts_updates(way, resource, control_flow, step_dtype):
    with scalar_toy(way, resource, control_flow) as toy:
        step = toy.step_of(step_dtype)
        learning_rate = tf.train.exponential_decay(1., step, decay_steps=1, decay_rate=.5, staircase=True)
        toy.descend(2, learning_rate=learning_rate, global_step=step)
        exactly(run_micro_batches(toy, [1.] * 6), [0., -1., -1., -1.5, -1.5, -1.75])


@each_way
@each_kind
def test_case_015_schedule_without_staircase_sees_whole_updates(way, resource):
    with scalar_toy(way, resource) as toy:
        step = toy.step_of(tf.int64)
        toy.descend(4, learning_rate=tf.train.polynomial_decay(1., step, decay_steps=4, end_learning_rate=0.),
                    global_step=step)
        exactly(run_micro_batches(toy, [1.] * 16)[3::4], [-1., -1.75, -2.25, -2.5])


# Case 16

class IgnoresStep(tf.train.Optimizer):
    """Gradient descent whose `apply_gradients` leaves the step to the caller, as BERT's Adam does."""

    def __init__(self):
        super(IgnoresStep, self).__init__(use_locking=False, name="IgnoresStep")

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return tf.group(*[tf.assign_sub(variable, gradient) for gradient, variable in grads_and_vars], name=name)


class MovesStepItself(IgnoresStep):
    """Gradient descent that counts in a way of its own."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        applied = super(MovesStepItself, self).apply_gradients(grads_and_vars)
        with tf.control_dependencies([applied]):
            return tf.group(tf.assign(global_step, global_step + 1), name=name)


@each_way
@each_kind
@pytest.mark.parametrize("control_flow, step_dtype", [("v1", tf.int32), ("v2", tf.int64)],
                         ids=["cf_v1-step_int32", "cf_v2-step_int64"])
@pytest.mark.parametrize("make_optimizer", [lambda: tf.train.GradientDescentOptimizer(1.), IgnoresStep,
                                            MovesStepItself], ids=["stock", "ignores_step", "moves_step_itself"])
def test_case_016_one_increment_a_window(way, resource, control_flow, step_dtype, make_optimizer):
    with scalar_toy(way, resource, control_flow) as toy:
        step = toy.step_of(step_dtype)
        toy.train(make_optimizer(), toy.loss, steps=2, global_step=step)
        toy.start()
        assert run_micro_batches(toy, [1., 3., 5., 7., 9., 11.], step) == [0, 1, 1, 2, 2, 3]
        exactly(toy.run(toy.w), -18.)


# Case 18

@everywhere
@each_step_dtype
def test_case_018_rate_of_the_step_before_the_update(way, resource, control_flow, step_dtype):
    with scalar_toy(way, resource, control_flow) as toy:
        step = toy.step_of(step_dtype)
        toy.descend(2, learning_rate=tf.cast(step, tf.float32), global_step=step)
        exactly(run_micro_batches(toy, [1.] * 8), [0., 0., 0., -1., -1., -3., -3., -6.])
        exactly(toy.run(step), 4)


class StepIsRate(IgnoresStep):
    """Gradient descent that takes the step as its rate, and leaves counting to the caller."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        rate = tf.cast(global_step, tf.float32)
        return super(StepIsRate, self).apply_gradients([(rate * g, v) for g, v in grads_and_vars], name=name)


@each_way
@each_kind
@pytest.mark.parametrize("steps, stock, control_flow", [
    (1, False, "v1"), (2, False, "v2"), (2, True, "v1"), (2, True, "v2"),
], ids=["window_1_ignores_step-cf_v1", "window_2_ignores_step-cf_v2", "window_2_stock-cf_v1", "window_2_stock-cf_v2"])
def test_case_018_in_300_of_300(way, resource, control_flow, steps, stock):
    with scalar_toy(way, resource, control_flow) as toy:
        step = toy.step_of(tf.int32)
        optimizer = tf.train.GradientDescentOptimizer(tf.cast(step, tf.float32)) if stock else StepIsRate()
        toy.train(optimizer, toy.loss, steps=steps, global_step=step)
        toy.start()
        assert after_restarts(toy, 300, [1.] * 4 * steps) == {-6.}


# Case 21

SGD_WEIGHTS, SGD_STEPS = [1., -1., -1., -3.], [0, 1, 1, 2]
ADAM_WEIGHTS = [-.09999917, -.19177632]

KERAS_SCRIPT = textwrap.dedent("""
    import json
    import tensorflow as tf
    def trajectory(make_optimizer, start, gradients):
        optimizer = make_optimizer(gradient_accumulation_steps=2)
        w = tf.Variable(start)
        for gradient in gradients:
            optimizer.apply_gradients([(tf.constant(gradient), w)])
            yield float(w.numpy()), int(optimizer.iterations.numpy())
    try:
        seen = {
            "sgd": list(trajectory(lambda **steps: tf.keras.optimizers.SGD(0.5, **steps), 1., [2., 6., 2., 6.])),
            "adam": list(trajectory(lambda **steps: tf.keras.optimizers.Adam(0.1, **steps), 0., [1., 3., 5., 7.]))}
    except TypeError as error:
        seen = {"unsupported": str(error)}
    print(json.dumps(seen))
""")


def keras_trajectories():
    """Returns what tf.keras's own accumulation gives; skips where it has none.

    It runs in a process of its own, since Keras 3 needs eager execution.
    """
    printed = subprocess.check_output([sys.executable, "-c", KERAS_SCRIPT])
    seen = json.loads(printed.decode("utf-8").splitlines()[-1])
    if "gradient_accumulation_steps" in seen.get("unsupported", ""):
        pytest.skip("tf.keras accumulates from Keras 3 on: %s" % seen["unsupported"])
    return seen


@everywhere
def test_case_021_trajectory_that_keras_has_too(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow, initial=1.) as toy:
        training = toy.descend(2, learning_rate=.5)
        seen = run_micro_batches(toy, [2., 6., 2., 6.], [toy.w, training.updates])
        exactly([w for w, _ in seen], SGD_WEIGHTS)
        assert [updates for _, updates in seen] == SGD_STEPS


@pytest.mark.slow
def test_case_021_keras_accumulation_agrees():
    keras = keras_trajectories()
    exactly([w for w, _ in keras["sgd"]], SGD_WEIGHTS)
    assert [iterations for _, iterations in keras["sgd"]] == SGD_STEPS
    close([w for w, _ in keras["adam"]][1::2], ADAM_WEIGHTS)
    with scalar_toy() as toy:
        training = toy.train(tf.train.AdamOptimizer(.1, epsilon=1e-7), toy.loss, steps=2)
        toy.start()
        seen = run_micro_batches(toy, [1., 3., 5., 7.], [toy.w, training.updates])
    # The formula is the same; Keras computes the powers of beta anew each time, in float32.
    close([w for w, _ in seen], [w for w, _ in keras["adam"]], rtol=2e-5)
    assert [updates for _, updates in seen] == [iterations for _, iterations in keras["adam"]]


# Case 23

@everywhere
def test_case_023_each_count_has_its_unit(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        step = toy.step_of(tf.int64)
        training = toy.descend(4, global_step=step)
        run_micro_batches(toy, [1.] * 10)
        assert toy.run([training.micro_steps, training.updates, training.held, training.skipped]) == [10, 2, 2, 0]
        assert toy.run(step) == 2


@each_way
def test_case_023_counts_after_each_micro_batch(way):
    with scalar_toy(way) as toy:
        training = toy.descend(3)
        counts = [training.micro_steps, training.updates, training.held]
        assert run_micro_batches(toy, [1.] * 5, counts) == [[1, 0, 1], [2, 0, 2], [3, 1, 0], [4, 1, 1], [5, 1, 2]]
        assert {count.dtype for count in counts} == {tf.int64}


@each_way
@each_kind
def test_case_023_counts_beside_a_micro_step_are_those_before_it(way, resource):
    with scalar_toy(way, resource) as toy:
        training = toy.descend(2)
        counts = [training.micro_steps, training.updates, training.held]
        seen = [toy.micro_step({toy.x: 1.}, beside=counts) for _ in range(5)]
        assert seen == [[0, 0, 0], [1, 0, 1], [2, 1, 0], [3, 1, 1], [4, 2, 0]]


# Case 25

@everywhere
def test_case_025_reading_changes_nothing(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        training = toy.descend(2)
        if way == "wrapper":
            accumulator, = training.accumulating.accumulators
            mean, = [gradient for gradient, _ in accumulator.normalize_op()]
        else:
            mean, = [gradient for gradient, _ in training.normalized]
        toy.feed(toy.x, [1.])
        exactly(toy.run([toy.loss, mean, training.held, training.micro_steps], {toy.x: 99.}), [0., 1., 1, 1])
        exactly(toy.run(toy.loss, {toy.x: 5.}), 0.)
        exactly(toy.run(mean), 1.)
        toy.feed(toy.x, [3.])
        exactly(toy.run(toy.w), -2.)


@each_way
@each_kind
def test_case_025_micro_gradients_are_read_freely(way, resource):
    with scalar_toy(way, resource) as toy:
        optimizer = tf.train.GradientDescentOptimizer(1.)
        gradient, = [gradient for gradient, _ in optimizer.compute_gradients(toy.loss, [toy.w])]
        toy.train(optimizer, toy.loss, steps=2, var_list=[toy.w])
        toy.start()
        exactly([toy.micro_step({toy.x: value}, beside=gradient) for value in (1., 3.)], [1., 3.])
        exactly(toy.run(gradient, {toy.x: 99.}), 99.)
        exactly(run_micro_batches(toy, [5., 7.]), [-2., -8.])
