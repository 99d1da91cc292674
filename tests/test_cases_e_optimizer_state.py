"""Cases of group E: optimizer state, clipping, loss scale, weight averages."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from ways import Embedding, Toy, close, each_kind, each_way, everywhere, exactly, named

from tf1accum._compat import tf

INFINITE = [np.inf, -np.inf, np.nan]
each_infinite = pytest.mark.parametrize("bad", INFINITE, ids=["inf", "minus_inf", "nan"])
MODES = ("propagate", "skip", "skip_cycle", "error")
each_mode = pytest.mark.parametrize("nonfinite", MODES)
each_sparse = pytest.mark.parametrize("sparse", ["rows", "dense"])


def scalar_toy(toy, optimizer, **kwargs):
    """`w` starting at 0, with loss `w * x`; returns (w, x, training)."""
    w = toy.variable("w", 0.)
    x = tf.placeholder(tf.float32, [], name="x")
    return w, x, toy.train(optimizer, w * x, **kwargs)


def momentum_slot(optimizer, variable):
    return optimizer.get_slot(variable, "momentum")


# Case 62

@everywhere
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_case_062_clips_the_result_once(way, resource, control_flow, reduction):
    with Toy(way, resource, control_flow) as toy:
        w = toy.variable("w", [0., 0.])
        x = tf.placeholder(tf.float32, [2])
        toy.train(tf.train.GradientDescentOptimizer(1.), tf.reduce_sum(w * x), clip_global_norm=1.,
                  reduction=reduction)
        toy.start()
        after = toy.feed(x, [[6., 0.], [0., 8.]], w)
        exactly(after[0], [0., 0.])
        # [3, 4] and [6, 8] have the same direction. Clipping each would give -[0.5, 0.5] or -[1, 1].
        close(after[1], [-.6, -.8])


@each_way
def test_case_062_the_norm_is_that_of_all_variables(way):
    with Toy(way) as toy:
        a, b = toy.variable("a", 0.), toy.variable("b", 0.)
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        toy.train(tf.train.GradientDescentOptimizer(1.), a * x + b * y, clip_global_norm=1.)
        toy.start()
        toy.feeds([{x: 6., y: 0.}, {x: 0., y: 8.}])
        close(toy.run((a, b)), [-.6, -.8])


@each_way
@each_kind
@each_sparse
def test_case_062_clips_rows(way, resource, sparse):
    with Toy(way, resource) as toy:
        model = Embedding(toy, rows=3)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, clip_global_norm=1., sparse=sparse)
        toy.start()
        # Row 2 comes as 3 + 3 and as 5 + 3: the norm is that of the added rows, not of the parts.
        toy.feeds([model.batch([0, 0], [3., 3.]), model.batch([2, 2], [5., 3.])])
        close(toy.run(model.table)[[0, 2], 0], [-.6, -.8])
        exactly(toy.run(model.table)[1, 0], 0.)


@each_way
def test_case_062_a_smaller_norm_is_left_alone(way):
    with Toy(way) as toy:
        w, x, _ = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.), clip_global_norm=5.)
        toy.start()
        # Each micro-gradient is longer than 5, their mean is not.
        toy.feed(x, [10., -7.])
        exactly(toy.run(w), -1.5)


@each_way
def test_case_062_clipping_as_a_gradient_transform(way):
    def clip(pairs):
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 1.)
        return [(gradient, variable) for gradient, (_, variable) in zip(clipped, pairs)]

    with Toy(way) as toy:
        w = toy.variable("w", [0., 0.])
        x = tf.placeholder(tf.float32, [2])
        toy.train(tf.train.GradientDescentOptimizer(1.), tf.reduce_sum(w * x), gradient_transform=clip)
        toy.start()
        toy.feed(x, [[6., 0.], [0., 8.]])
        close(toy.run(w), [-.6, -.8])


@each_way
def test_case_062_clips_the_flushed_mean(way):
    with Toy(way) as toy:
        w = toy.variable("w", [0., 0.])
        x = tf.placeholder(tf.float32, [2])
        training = toy.train(tf.train.GradientDescentOptimizer(1.), tf.reduce_sum(w * x), steps=4,
                             clip_global_norm=1.)
        toy.start()
        toy.feed(x, [[6., 0.], [0., 8.]])
        exactly(toy.run(w), [0., 0.])
        training.flush(toy.session)
        close(toy.run(w), [-.6, -.8])


# Case 64

@everywhere
def test_case_064_momentum_rests_between_updates(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        optimizer = tf.train.MomentumOptimizer(1., .5)
        w, x, _ = scalar_toy(toy, optimizer)
        toy.start()
        seen = toy.feed(x, [2., 2., 2., 2.], (w, momentum_slot(optimizer, w)))
        exactly(seen, [(0., 0.), (-2., 2.), (-2., 2.), (-5., 3.)])


@everywhere
def test_case_064_adam_rests_between_updates(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        w, x, _ = scalar_toy(toy, tf.train.AdamOptimizer(.1))
        toy.start()
        state = [named(name) for name in ("w", "w/Adam", "w/Adam_1", "beta1_power", "beta2_power")]
        start = toy.run(state)
        seen = toy.feed(x, [2., 2., 2., 2.], state)
        exactly(seen[0], start)
        exactly(seen[2], seen[1])
        close([seen[1][0], seen[3][0]], [-.09999999, -.19999965])


@each_way
def test_case_064_the_bare_optimizer_with_the_mean_is_bitwise_the_same(way):
    def run(train):
        with Toy(way) as toy:
            w, x, op = train(toy)
            toy.start()
            seen = []
            for _ in range(6):
                if op is None:
                    toy.feed(x, [2., 2.])
                else:
                    toy.run(op, {x: 2.})
                seen.append(toy.run(tf.global_variables()))
            return seen

    def bare(toy):
        w = toy.variable("w", 0.)
        x = tf.placeholder(tf.float32, [])
        return w, x, tf.train.AdamOptimizer(.1).minimize(w * x)

    exactly(run(lambda toy: scalar_toy(toy, tf.train.AdamOptimizer(.1))[:2] + (None,)), run(bare))


# Case 65

@everywhere
def test_case_065_slots_equal_one_update_with_the_mean(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        optimizer = tf.train.AdamOptimizer(.1)
        w, x, _ = scalar_toy(toy, optimizer)
        toy.start()
        toy.feed(x, [2., 6.])
        m, v = optimizer.get_slot(w, "m"), optimizer.get_slot(w, "v")
        powers = named("beta1_power"), named("beta2_power")
        # 0.016 is (1 - 0.999) * 16 in float32, where 1 - 0.999 has an error of 1.3e-5.
        close(toy.run((w, m)), [-.09999999, .4])
        close(toy.run(v), .016, rtol=2e-5)
        close(toy.run(powers), [.81, .998001])


@pytest.mark.parametrize("way", ["wrapper"])
@each_kind
def test_case_065_the_wrapper_passes_slots_through(way, resource):
    with Toy(way, resource) as toy:
        optimizer = tf.train.AdamOptimizer(.1)
        w, x, training = scalar_toy(toy, optimizer)
        toy.start()
        toy.feed(x, [2., 6.])
        wrapper = training.accumulating
        assert wrapper.get_slot_names() == optimizer.get_slot_names() == ["m", "v"]
        assert wrapper.get_slot(w, "m") is optimizer.get_slot(w, "m")
        assert [v.name for v in wrapper.variables()] == [v.name for v in optimizer.variables()]
        assert wrapper.get_name() == optimizer.get_name() == "Adam"
        close(toy.run(wrapper.get_slot(w, "m")), .4)


# Case 66

def nesterov():
    return tf.train.MomentumOptimizer(.1, .9, use_nesterov=True)


@everywhere
@pytest.mark.parametrize("steps", [1, 2])
def test_case_066_constant_gradients_equal_the_bare_optimizer_bitwise(way, resource, control_flow, steps):
    constant_gradients(way, resource, control_flow, steps)


@each_way
@pytest.mark.parametrize("steps", [3, 5, 7])
def test_case_066_any_number_of_constant_gradients(way, steps):
    constant_gradients(way, True, "v1", steps)


def constant_gradients(way, resource, control_flow, steps):
    with Toy(way, resource, control_flow) as toy:
        w = toy.variable("w", 0.)
        x = tf.placeholder(tf.float32, [])
        bare = nesterov().minimize(w * x)
        toy.start()
        expected = []
        for _ in range(5):
            toy.run(bare, {x: 1.})
            expected.append(toy.run((w, named("w/Momentum"))))
    with Toy(way, resource, control_flow) as toy:
        w, x, _ = scalar_toy(toy, nesterov(), steps=steps)
        toy.start()
        seen = toy.feed(x, [1.] * (5 * steps), (w, named("w/Momentum")))[steps - 1::steps]
    exactly(seen, expected)
    close([seen[0][0], seen[1][0]], [-.19, -.461])
    assert ["%.10f" % seen[k][0] for k in (0, 1)] == ["-0.1899999976", "-0.4609999955"]


# Case 67

@everywhere
def test_case_067_propagated_micro_batch_does_not_survive_its_cycle(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        w, x, _ = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.))
        mend = tf.assign(w, 0.)
        toy.start()
        for bad in INFINITE:
            toy.run(mend)
            toy.feed(x, [bad, 1.])
            exactly(toy.run(w), -bad)  # what the bare optimizer would have done
            toy.run(mend)
            toy.feed(x, [2., 6.])
            exactly(toy.run(w), -4.)
        assert toy.counts == (12, 6, 0, 0)


@everywhere
def test_case_067_dropped_micro_batch_is_gone(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        w, x, training = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.))
        toy.start()
        for cycle, bad in enumerate(INFINITE):
            toy.feed(x, [bad])
            toy.run(training.drop_op)
            assert toy.counts[1:3] == (cycle, 0)
            toy.feed(x, [2., 6.])
            exactly(toy.run(w), -4. * (cycle + 1))


@each_way
@each_sparse
@each_infinite
def test_case_067_propagated_rows_do_not_survive_their_cycle(way, sparse, bad):
    with Toy(way) as toy:
        model = Embedding(toy)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, sparse=sparse)
        mend = tf.assign(model.table, np.zeros([4, 1], np.float32))
        toy.start()
        toy.feeds([model.batch([0, 1], [1., bad]), model.batch([0], [1.])])
        exactly(toy.run(model.table)[:, 0], [-1., -bad, 0., 0.])
        toy.run(mend)
        toy.feeds([model.batch([1, 2], [2., 2.]), model.batch([1, 3], [6., 4.])])
        exactly(toy.run(model.table)[:, 0], [0., -4., -1., -2.])


@everywhere
def test_case_067_skip_leaves_the_micro_batch_out(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        optimizer = tf.train.MomentumOptimizer(1., .5)
        step = toy.step_variable()
        w, x, training = scalar_toy(toy, optimizer, nonfinite="skip", global_step=step)
        toy.start()
        seen = toy.feed(x, [2., np.nan, 6.],
                        (w, momentum_slot(optimizer, w), step, training.held, training.skipped))
        exactly(seen, [(0., 0., 0, 1, 0), (0., 0., 0, 1, 1), (-4., 4., 1, 0, 1)])
        assert toy.counts == (3, 1, 0, 1)
        # The first of a cycle, and several in a row.
        seen = toy.feed(x, INFINITE[:2] + [1.] + INFINITE[2:] + [3.], w)
        exactly(seen, [-4., -4., -4., -4., -8.])
        assert toy.counts == (8, 2, 0, 4)


@each_way
@each_kind
def test_case_067_skip_leaves_out_all_variables_of_the_micro_batch(way, resource):
    with Toy(way, resource) as toy:
        a, b = toy.variable("a", 0.), toy.variable("b", [0., 0.])
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [2])
        toy.train(tf.train.GradientDescentOptimizer(1.), a * x + tf.reduce_sum(b * y), nonfinite="skip")
        toy.start()
        toy.feeds([{x: 2., y: [2., 4.]}, {x: 100., y: [100., np.nan]}, {x: np.inf, y: [100., 100.]},
                   {x: 6., y: [6., 4.]}])
        exactly(toy.run(a), -4.)
        exactly(toy.run(b), [-4., -4.])
        assert toy.counts == (4, 1, 0, 2)


@each_way
@pytest.mark.parametrize("sparse", ["rows", "dense"])
@each_infinite
def test_case_067_skip_leaves_out_rows(way, sparse, bad):
    with Toy(way) as toy:
        model = Embedding(toy)
        optimizer = tf.train.MomentumOptimizer(1., .5)
        toy.train(optimizer, model.loss, nonfinite="skip", sparse=sparse)
        toy.start()
        toy.feeds([model.batch([1], [1.])] * 2)
        toy.feeds([model.batch([0], [2.]), model.batch([1, 0], [bad, 1.]), model.batch([0], [6.])])
        # A row of the skipped micro-batch alone is absent: its momentum does not move it by another 0.5.
        exactly(toy.run(model.table)[:2, 0], [-4., -1. if sparse == "rows" else -1.5])
        assert toy.counts == (5, 2, 0, 1)


@each_way
def test_case_067_the_weight_of_a_skipped_micro_batch_does_not_count(way):
    with Toy(way) as toy:
        weight = tf.placeholder(tf.float32, [])
        w, x, _ = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.), nonfinite="skip", weight=weight)
        toy.start()
        toy.feeds([{x: 2., weight: 1.}, {x: np.nan, weight: 5.}, {x: 6., weight: 3.}])
        exactly(toy.run(w), -5.)
        assert toy.counts == (3, 1, 0, 1)


@everywhere
def test_case_067_skip_cycle_makes_no_update(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        optimizer = tf.train.MomentumOptimizer(1., .5)
        step = toy.step_variable()
        w, x, _ = scalar_toy(toy, optimizer, nonfinite="skip_cycle", global_step=step)
        toy.start()
        state = (w, momentum_slot(optimizer, w), step)
        toy.feed(x, [2., 6.])
        before = toy.run(state)
        exactly(before, (-4., 4., 1))
        for number, poisoned in enumerate([[np.nan, 1.], [1., np.nan], [np.inf, -np.inf], [1., -np.inf]], 1):
            toy.feed(x, poisoned)
            exactly(toy.run(state), before)
            assert toy.counts == (2 + 2 * number, 1, 0, 2 * number)
        toy.feed(x, [1., 3.])
        exactly(toy.run(state), (-8., 4., 2))
        assert toy.counts == (12, 2, 0, 8)


@each_way
@each_sparse
def test_case_067_skip_cycle_with_rows(way, sparse):
    with Toy(way) as toy:
        model = Embedding(toy)
        toy.train(tf.train.AdamOptimizer(.1), model.loss, nonfinite="skip_cycle", sparse=sparse)
        toy.start()
        start = toy.run(tf.global_variables())
        toy.feeds([model.batch([0, 1], [1., np.inf]), model.batch([2], [1.])])
        for before, after in zip(start, toy.run(tf.global_variables())):
            exactly(after, before)
        assert toy.counts == (2, 0, 0, 2)
        toy.feeds([model.batch([0], [1.]), model.batch([3], [1.])])
        close(toy.run(model.table)[[0, 3], 0], [-.1, -.1], rtol=2e-6)
        exactly(toy.run(model.table)[1:3, 0], [0., 0.])


@each_way
def test_case_067_skip_cycle_flushes_to_nothing(way):
    with Toy(way) as toy:
        w, x, training = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.), steps=4, nonfinite="skip_cycle")
        toy.start()
        toy.feed(x, [2., np.inf])
        training.flush(toy.session)
        exactly(toy.run(w), 0.)
        assert toy.counts == (2, 0, 0, 2)
        toy.feed(x, [2., 6.])
        training.flush(toy.session)
        exactly(toy.run(w), -4.)


@each_way
def test_case_067_skip_flushes_what_is_finite(way):
    with Toy(way) as toy:
        w, x, training = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.), steps=4, nonfinite="skip")
        toy.start()
        toy.feed(x, [2., np.inf, 6.])
        training.flush(toy.session)
        exactly(toy.run(w), -4.)
        assert toy.counts == (3, 1, 0, 1)


@everywhere
def test_case_067_error_names_the_variable_and_changes_nothing(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        good, guilty = toy.variable("good", 0.), toy.variable("guilty", 0.)
        x = tf.placeholder(tf.float32, [])
        y = tf.placeholder(tf.float32, [])
        step = toy.step_variable()
        toy.train(tf.train.MomentumOptimizer(1., .5), good * x + guilty * y, nonfinite="error", global_step=step)
        toy.start()
        everything = tf.global_variables()
        toy.feeds([{x: 2., y: 2.}])
        before = toy.run(everything), toy.counts
        for bad in INFINITE:
            with pytest.raises(tf.errors.InvalidArgumentError, match="guilty"):
                toy.feeds([{x: 100., y: bad}])
            assert (toy.run(everything), toy.counts) == before
        toy.feeds([{x: 6., y: 6.}])
        exactly(toy.run((good, guilty, step)), (-4., -4., 1))
        assert toy.counts == (2, 1, 0, 0)


@each_way
@each_sparse
def test_case_067_error_with_rows(way, sparse):
    with Toy(way) as toy:
        model = Embedding(toy, name="guilty")
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, nonfinite="error", sparse=sparse)
        toy.start()
        toy.feeds([model.batch([0], [2.])])
        with pytest.raises(tf.errors.InvalidArgumentError, match="guilty"):
            toy.feeds([model.batch([0, 1], [1., np.nan])])
        toy.feeds([model.batch([0], [6.])])
        exactly(toy.run(model.table)[:, 0], [-4., 0., 0., 0.])


@everywhere
def test_case_067_zero_weight_ignores_what_is_not_finite(way, resource, control_flow):
    zero_weight(way, resource, control_flow, "propagate")


@each_way
@each_kind
@pytest.mark.parametrize("nonfinite", MODES[1:])
def test_case_067_zero_weight_is_neither_skipped_nor_an_error(way, resource, nonfinite):
    zero_weight(way, resource, "v2", nonfinite)


def zero_weight(way, resource, control_flow, nonfinite):
    with Toy(way, resource, control_flow) as toy:
        weight = tf.placeholder(tf.float32, [])
        w, x, _ = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.), steps=3, nonfinite=nonfinite, weight=weight)
        toy.start()
        for cycle, bad in enumerate(INFINITE):
            toy.feeds([{x: 2., weight: 1.}, {x: bad, weight: 0.}, {x: 6., weight: 1.}])
            exactly(toy.run(w), -4. * (cycle + 1))
            assert toy.counts == (3 * (cycle + 1), cycle + 1, 0, 0)
        # As the first of a cycle, too.
        toy.feeds([{x: np.nan, weight: 0.}, {x: 2., weight: 1.}, {x: 4., weight: 3.}])
        exactly(toy.run(w), -15.5)


@each_way
@each_mode
@each_sparse
def test_case_067_zero_weight_ignores_rows_that_are_not_finite(way, nonfinite, sparse):
    with Toy(way) as toy:
        model = Embedding(toy)
        weight = tf.placeholder(tf.float32, [])
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, steps=3, nonfinite=nonfinite, weight=weight,
                  sparse=sparse)
        toy.start()
        for ids, c, number in [([0], [2.], 1.), ([0, 1], [np.nan, np.inf], 0.), ([0], [6.], 1.)]:
            feed = model.batch(ids, c)
            feed[weight] = number
            toy.feeds([feed])
        exactly(toy.run(model.table)[:, 0], [-4., 0., 0., 0.])
        assert toy.counts == (3, 1, 0, 0)


@everywhere
def test_case_067_a_cycle_of_zero_weight_is_no_update(way, resource, control_flow):
    zero_cycle(way, resource, control_flow, "propagate")


@each_way
@pytest.mark.parametrize("nonfinite", MODES[1:])
def test_case_067_a_cycle_of_zero_weight_is_no_update_in_other_modes(way, nonfinite):
    zero_cycle(way, True, "v2", nonfinite)


def zero_cycle(way, resource, control_flow, nonfinite):
    with Toy(way, resource, control_flow) as toy:
        weight = tf.placeholder(tf.float32, [])
        optimizer = tf.train.MomentumOptimizer(1., .5)
        step = toy.step_variable()
        w, x, _ = scalar_toy(toy, optimizer, nonfinite=nonfinite, weight=weight, global_step=step)
        toy.start()
        toy.feeds([{x: 2., weight: 1.}, {x: 6., weight: 1.}, {x: np.nan, weight: 0.}, {x: 1., weight: 0.}])
        exactly(toy.run((w, momentum_slot(optimizer, w), step)), (-4., 4., 1))
        assert toy.counts[:3] == (4, 1, 0)
        toy.feeds([{x: 2., weight: 1.}, {x: 2., weight: 1.}])
        exactly(toy.run((w, momentum_slot(optimizer, w), step)), (-8., 4., 2))


@each_way
@each_kind
@pytest.mark.parametrize("nonfinite,w_after,counts", [
    ("propagate", np.nan, (3, 3, 0, 0)), ("skip", -8., (3, 2, 0, 1)), ("skip_cycle", -8., (3, 2, 0, 1)),
    ("error", -8., (2, 2, 0, 0))], ids=MODES)
def test_case_067_with_steps_1(way, resource, nonfinite, w_after, counts):
    with Toy(way, resource, "v2") as toy:
        step = toy.step_variable()
        w, x, _ = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.), steps=1, nonfinite=nonfinite,
                             global_step=step)
        toy.start()
        toy.feed(x, [2.])
        if nonfinite == "error":
            with pytest.raises(tf.errors.InvalidArgumentError, match="w:0"):
                toy.feed(x, [np.nan])
        else:
            toy.feed(x, [np.nan])
        toy.feed(x, [6.])
        exactly(toy.run(w), w_after)
        assert toy.counts == counts
        assert toy.run(step) == counts[1]


@each_way
def test_case_067_float16_overflow_is_skipped(way):
    with Toy(way) as toy:
        w = toy.variable("w", 0., tf.float16)
        x = tf.placeholder(tf.float16, [])
        toy.train(tf.train.GradientDescentOptimizer(1.), w * x * 2., nonfinite="skip")
        toy.start()
        toy.feed(x, [1., 60000., 3.])
        exactly(toy.run(w), -4.)
        assert toy.counts == (3, 1, 0, 1)


# Case 70

class AveragingOptimizer(tf.train.GradientDescentOptimizer):
    """Gradient descent, and a moving average of the weights after each update."""

    def __init__(self, learning_rate, average):
        super(AveragingOptimizer, self).__init__(learning_rate)
        self._average = average

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads_and_vars = list(grads_and_vars)
        applied = super(AveragingOptimizer, self).apply_gradients(grads_and_vars, global_step=global_step, name=name)
        with tf.control_dependencies([applied]):
            return self._average.apply([variable for _, variable in grads_and_vars])


@everywhere
def test_case_070_average_inside_the_wrapped_optimizer(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        average = tf.train.ExponentialMovingAverage(.5)
        w, x, training = scalar_toy(toy, AveragingOptimizer(1., average))
        # The average starts as the weight, and TensorFlow may initialise it first: with or without accumulation,
        # that fails now and then for reference variables under control flow v2.
        initialize_weight = w.initializer
        toy.start(initialize=False)
        toy.run(initialize_weight)
        toy.run(tf.global_variables_initializer())
        if way == "wrapper":
            toy.run(training.flush_op)  # nothing is held: no update, and no average of it
        seen = toy.feed(x, [2., 6., 2., 6.], (w, average.average(w)))
        exactly(seen, [(0., 0.), (-4., -2.), (-4., -2.), (-8., -5.)])


@pytest.mark.parametrize("way", ["phases", "low_level"])
@each_kind
def test_case_070_average_after_the_apply_op(way, resource):
    with Toy(way, resource) as toy:
        average = tf.train.ExponentialMovingAverage(.5)
        w, x, training = scalar_toy(toy, tf.train.GradientDescentOptimizer(1.))
        with tf.control_dependencies([training.apply]):
            training.apply = average.apply([w])
        toy.start()
        toy.feed(x, [2., 6., 2., 6.])
        exactly(toy.run((w, average.average(w))), (-8., -5.))


@pytest.mark.parametrize("way", ["wrapper", "low_level"])
@each_kind
def test_case_070_contrib_moving_average_optimizer(way, resource):
    try:
        from tensorflow.contrib.opt import MovingAverageOptimizer
    except ImportError:
        pytest.skip("MovingAverageOptimizer is in tf.contrib, which TensorFlow 2 does not have")
    with Toy(way, resource) as toy:
        optimizer = MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.), average_decay=.5,
                                           sequential_update=True)
        w, x, _ = scalar_toy(toy, optimizer)
        toy.start()
        toy.feed(x, [2., 6., 2., 6.])
        exactly(toy.run((w, named("w/ExponentialMovingAverage"))), (-8., -5.))
