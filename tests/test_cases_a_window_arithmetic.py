"""Cases of group A: which number comes out of N micro-batches."""
from __future__ import absolute_import, division, print_function

import pytest
from toys import bare_minimum, run_micro_batches, scalar_toy
from ways import close, each_way, everywhere, exactly, named

import tf1accum
from tf1accum._compat import tf


def examples_toy(way="wrapper", resource=True, control_flow="v1", initial=0.):
    """loss = mean(w * x) over the examples of a micro-batch."""
    return scalar_toy(way, resource, control_flow, initial=initial, examples=True)


# Case 1

@everywhere
@pytest.mark.parametrize("reduction, expected", [("mean", 8.), ("sum", 6.)], ids=["mean", "sum"])
def test_case_001_mean_or_sum(way, resource, control_flow, reduction, expected):
    with examples_toy(way, resource, control_flow, initial=10.) as toy:
        toy.descend(2, learning_rate=.5, reduction=reduction)
        exactly(run_micro_batches(toy, [[1., 3.], [5., 7.]]), [10., expected])


def test_case_001_mean_is_the_default_and_the_big_batch():
    with examples_toy(initial=10.) as toy:
        exactly(bare_minimum(toy, tf.train.GradientDescentOptimizer(.5), [[1., 3., 5., 7.]]), 8.)
    assert tf1accum.AccumulationConfig(steps=2) == tf1accum.AccumulationConfig(steps=2, reduction="mean")
    assert tf1accum.AccumulationConfig(steps=2) != tf1accum.AccumulationConfig(steps=2, reduction="sum")


# Case 3

@everywhere
@pytest.mark.parametrize("tail, expected", [("flush", -17.), ("drop", -8.)], ids=["flush", "drop"])
def test_case_003_short_tail(way, resource, control_flow, tail, expected):
    with scalar_toy(way, resource, control_flow) as toy:
        training = toy.descend(2)
        exactly(run_micro_batches(toy, [1., 3., 5., 7., 9.]), [0., -2., -2., -8., -8.])
        if tail == "flush":
            training.flush(toy.session)
        else:
            toy.run(training.drop_op)
        exactly(toy.run(toy.w), expected)
        assert toy.run(training.held) == 0
        # Nothing of the tail is left in the cycle after it.
        exactly(run_micro_batches(toy, [2., 6.]), [expected, expected - 4.])


@each_way
def test_case_003_flush_of_an_empty_cycle_changes_nothing(way):
    with scalar_toy(way) as toy:
        training = toy.descend(2)
        training.flush(toy.session)
        run_micro_batches(toy, [1., 3., 5.])
        for _ in range(3):
            training.flush(toy.session)
        exactly(toy.run([toy.w, training.updates]), [-7., 2])


@pytest.mark.parametrize("tail, expected", [("flush", -17.), ("drop", -8.)], ids=["flush", "drop"])
def test_case_003_short_tail_of_a_runner(tail, expected):
    with scalar_toy() as toy:
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(1.), toy.loss, steps=2)
        runner = tf1accum.PhaseRunner(toy.start(), ops)
        feeds = [{toy.x: value} for value in (1., 3., 5., 7., 9.)]
        cycles = list(runner.run_cycles(feeds, fetches=toy.x, tail=tail))
        assert cycles == [[1., 3.], [5., 7.], [9.]]
        exactly(toy.run(toy.w), expected)
        assert toy.run(ops.held) == 0


@pytest.mark.parametrize("tail, expected", [("flush", -17.), ("drop", -8.)], ids=["flush", "drop"])
def test_case_003_short_tail_of_a_monitored_session(tmpdir, tail, expected):
    with scalar_toy() as toy:
        tf.train.create_global_step()
        optimizer = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=2)
        train_op = optimizer.minimize(toy.loss, global_step=tf.train.get_global_step())
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmpdir),
                                               chief_only_hooks=[tf1accum.TailHook(optimizer, tail=tail)]) as session:
            for value in (1., 3., 5., 7., 9.):
                session.run(train_op, {toy.x: value})
        exactly(tf.train.load_variable(str(tmpdir), "w"), expected)


# Case 5

@everywhere
@pytest.mark.parametrize("weighted, expected", [(False, -5.), (True, -3.5)], ids=["equal", "by_examples"])
def test_case_005_micro_batches_of_different_size(way, resource, control_flow, weighted, expected):
    with examples_toy(way, resource, control_flow) as toy:
        toy.descend(2, weight=tf.size(toy.x) if weighted else None)
        exactly(run_micro_batches(toy, [[8.], [1., 2., 3.]]), [0., expected])


def test_case_005_weighted_mean_is_the_big_batch():
    with examples_toy() as toy:
        exactly(bare_minimum(toy, tf.train.GradientDescentOptimizer(1.), [[8., 1., 2., 3.]]), -3.5)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.float64], ids=lambda dtype: dtype.name)
def test_case_005_fed_weights(dtype):
    with scalar_toy() as toy:
        weight = tf.placeholder(dtype, [])
        toy.descend(2, weight=weight)
        exactly(toy.feeds([{toy.x: 8., weight: 1}, {toy.x: 2., weight: 3}], toy.w), [0., -3.5])


# Case 7

@everywhere
@pytest.mark.parametrize("reduction, share, expected", [("mean", 1., 1.5), ("sum", 1., -1.), ("sum", .5, -.5)],
                         ids=["mean", "sum_counts_twice", "sum_of_halves"])
def test_case_007_penalty_in_each_loss(way, resource, control_flow, reduction, share, expected):
    with examples_toy(way, resource, control_flow, initial=4.) as toy:
        penalty = .25 * tf.square(toy.w) / 2.
        toy.descend(2, learning_rate=.5, loss=toy.loss + share * penalty, reduction=reduction)
        exactly(run_micro_batches(toy, [[1., 3.], [5., 7.]]), [4., expected])


# Case 8

@everywhere
def test_case_008_adam_of_the_mean(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        adam = tf.train.AdamOptimizer(.1)
        toy.train(adam, toy.loss, steps=2)
        toy.start()
        close(run_micro_batches(toy, [1., 3., 5., 7.])[1::2], [-.09999999, -.19177780])
        close(toy.run([adam.get_slot(toy.w, "m"), adam.get_slot(toy.w, "v")]), [.78, .03999548])
        close(toy.run([named("beta1_power"), named("beta2_power")]), [.729, .997003])


@everywhere
def test_case_008_adam_is_the_bare_one_bit_for_bit(way, resource, control_flow):
    def state(way, gradients):
        with scalar_toy(way, resource, control_flow) as toy:
            adam = tf.train.AdamOptimizer(.1)
            if way == "bare":
                bare_minimum(toy, adam, gradients)
            else:
                toy.train(adam, toy.loss, steps=2)
                toy.start()
                run_micro_batches(toy, gradients)
            return toy.run([toy.w, adam.get_slot(toy.w, "m"), adam.get_slot(toy.w, "v"), named("beta1_power"),
                            named("beta2_power")])

    exactly(state(way, [1., 3., 5., 7.]), state("bare", [2., 6.]))


# Case 10

@everywhere
@pytest.mark.parametrize("epsilon, gradients, mean, undivided", [
    (1., [2., 6.], -.11228707, -.20190305),
    (1e-8, [2e-8, 6e-8], -.11228706, -.20190303),
], ids=["large_epsilon", "small_gradients"])
def test_case_010_adam_feels_the_scale(way, resource, control_flow, epsilon, gradients, mean, undivided):
    for reduction, expected in (("mean", mean), ("sum", undivided)):
        with scalar_toy(way, resource, control_flow) as toy:
            toy.train(tf.train.AdamOptimizer(1., epsilon=epsilon), toy.loss, steps=2, reduction=reduction)
            toy.start()
            weights = run_micro_batches(toy, gradients)
            exactly(weights[0], 0.)
            close(weights[1], expected)


# Case 11

@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_case_011_pairs_in_another_order(resource, order):
    with scalar_toy(resource=resource) as toy:
        a, b = toy.variable("a", 1.), toy.variable("b", 1.)
        two, eight = tf.constant(2.), tf.constant(8.)
        accumulator = tf1accum.GradientAccumulator([a, b] if order == "ab" else [b, a], steps=2)
        first = accumulator.accumulate_op([(two, a), (eight, b)])
        second = accumulator.accumulate_op([(eight, b), (two, a)])
        apply_op = accumulator.apply_op(tf.train.GradientDescentOptimizer(1.))
        toy.start()
        toy.run(first)
        toy.run(second)
        exactly(toy.run([a, b]), [1., 1.])
        toy.run(apply_op)
        exactly(toy.run([a, b]), [-1., -7.])


@everywhere
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_case_011_variable_list_in_another_order(way, resource, control_flow, order):
    with scalar_toy(way, resource, control_flow) as toy:
        a, b = toy.variable("a", 1.), toy.variable("b", 1.)
        toy.descend(2, loss=2. * a + 8. * b, var_list=[a, b] if order == "ab" else [b, a])
        toy.feeds([None, None])
        exactly(toy.run([a, b]), [-1., -7.])
