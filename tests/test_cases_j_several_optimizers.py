"""Cases of group J: several optimizers, variable lists, shared weights."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from toys import after_restarts, each_step_dtype, run_micro_batches, scalar_toy, variable_count
from ways import Training, close, each_control_flow, each_kind, each_way, everywhere, exactly

import tf1accum
from tf1accum._compat import tf

# Case 117

def two_players(toy, way, step_dtype):
    """Returns (training, variable, step) of a discriminator with N=2 and of a generator with N=3."""
    players = []
    for name, steps in (("d", 2), ("g", 3)):
        variable, step = toy.variable(name, 0.), toy.step_of(step_dtype)
        training = Training(way, tf.train.GradientDescentOptimizer(1.), variable * toy.x, steps, var_list=[variable],
                            global_step=step)
        players.append((training, variable, step))
    return players


D_WEIGHTS = [0., -1.5, -1.5, -5., -5., -10.5]
G_WEIGHTS = [0., 0., -2., -2., -2., -7.]


@everywhere
@each_step_dtype
def test_case_117_own_windows_and_steps(way, resource, control_flow, step_dtype):
    with scalar_toy(way, resource, control_flow) as toy:
        (d_training, d, d_step), (g_training, g, g_step) = two_players(toy, way, step_dtype)
        toy.start()
        weights = []
        for gradient in range(1, 7):
            d_training.micro_step(toy.session, {toy.x: gradient})
            g_training.micro_step(toy.session, {toy.x: gradient})
            weights.append(toy.run([d, g]))
        exactly(weights, np.transpose([D_WEIGHTS, G_WEIGHTS]))
        assert toy.run([d_step, g_step]) == [3, 2]
        assert d_training.counts(toy.session) == (6, 3, 0, 0)
        assert g_training.counts(toy.session) == (6, 2, 0, 0)


@each_kind
@each_control_flow
def test_case_117_both_in_one_run(resource, control_flow):
    with scalar_toy("wrapper", resource, control_flow) as toy:
        (d_training, d, d_step), (g_training, g, g_step) = two_players(toy, "wrapper", tf.int64)
        toy.start()
        weights = []
        for gradient in range(1, 7):
            toy.run([d_training.accumulate, g_training.accumulate], {toy.x: gradient})
            weights.append(toy.run([d, g]))
        exactly(weights, np.transpose([D_WEIGHTS, G_WEIGHTS]))
        assert toy.run([d_step, g_step]) == [3, 2]


@each_way
def test_case_117_flush_of_one_leaves_the_other_open(way):
    with scalar_toy(way) as toy:
        (d_training, d, d_step), (g_training, g, g_step) = two_players(toy, way, tf.int64)
        toy.start()
        for training in (d_training, g_training):
            training.micro_step(toy.session, {toy.x: 4.})
        d_training.flush(toy.session)
        exactly(toy.run([d, g, d_step, g_step, d_training.held, g_training.held]), [-4., 0., 1, 0, 0, 1])


# Case 119

@everywhere
@pytest.mark.parametrize("how", ["var_list", "not_trainable"])
def test_case_119_frozen_variable(way, resource, control_flow, how):
    counts = {}
    for variables in ("a", "a and frozen b", "a and b"):
        with scalar_toy(way, resource, control_flow) as toy:
            frozen = variables == "a and frozen b"
            a = toy.variable("a", 0.)
            loss = a * toy.x
            if variables != "a":
                b = toy.variable("b", .1, trainable=not (frozen and how == "not_trainable"))
                loss += b * toy.x
            adam = tf.train.AdamOptimizer(.1)
            trained = None if how == "not_trainable" and frozen else [a, b] if variables == "a and b" else [a]
            if trained is None:
                tf.get_collection_ref(tf.GraphKeys.TRAINABLE_VARIABLES).remove(toy.w)
            toy.train(adam, loss, steps=2, var_list=trained)
            counts[variables] = variable_count(toy.graph)
            if frozen:
                toy.start()
                seen = run_micro_batches(toy, [2., 6.], [a, b])
                exactly(seen[0], [0., np.float32(.1)])
                close(seen[1][0], -.09999999)
                exactly(seen[1][1], np.float32(.1))
                assert adam.get_slot(a, "m") is not None
                assert adam.get_slot(b, "m") is None
                if way != "phases":
                    accumulator, = (toy.training.accumulating.accumulators if way == "wrapper"
                                    else [toy.training.accumulating])
                    assert accumulator.variables == [a]
    # The frozen variable is one more, and brings none of the package's or of Adam's with it.
    assert counts["a and frozen b"] == counts["a"] + 1
    assert counts["a and b"] > counts["a and frozen b"]


# Case 121

@pytest.mark.parametrize("way", ["wrapper", "low_level"])
@each_kind
@each_control_flow
@pytest.mark.parametrize("steps", [1, 2], ids=["window_1", "window_2"])
def test_case_121_variable_listed_twice(way, resource, control_flow, steps):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.train(tf.train.MomentumOptimizer(1., .5), pairs=[(tf.constant(1.), toy.w), (tf.constant(3.), toy.w)],
                  steps=steps)
        toy.start()
        assert after_restarts(toy, 200, [None] * steps) == {-4.}


@pytest.mark.parametrize("way", ["wrapper", "phases"])
@each_kind
def test_case_121_variable_twice_in_the_variable_list(way, resource):
    with scalar_toy(way, resource) as toy:
        # A loss has one gradient for a variable, however often it is listed.
        toy.train(tf.train.MomentumOptimizer(1., .5), toy.loss, steps=2, var_list=[toy.w, toy.w])
        toy.start()
        assert after_restarts(toy, 100, [2., 6.]) == {-4.}


# Case 122

@everywhere
def test_case_122_each_cycle_starts_empty(way, resource, control_flow):
    with scalar_toy(way, resource, control_flow) as toy:
        toy.descend(2)
        exactly(run_micro_batches(toy, [1., 3., 5., 7.]), [0., -2., -2., -8.])


@each_kind
def test_case_122_runner_empties_what_a_failed_cycle_left(resource):
    with scalar_toy(resource=resource) as toy:
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(1.), toy.loss, steps=2)
        runner = tf1accum.PhaseRunner(toy.start(), ops)

        def broken():
            yield {toy.x: 100.}
            raise RuntimeError("the data ends here")

        with pytest.raises(RuntimeError, match="the data ends here"):
            runner.run_cycle(broken())
        exactly(toy.run(toy.w), 0.)
        for feeds, expected in (([1., 3.], -2.), ([5., 7.], -8.)):
            runner.run_cycle([{toy.x: value} for value in feeds])
            exactly(toy.run(toy.w), expected)


# Case 123

@everywhere
def test_case_123_shared_weight(way, resource, control_flow):
    counts = []
    for branches in (1, 2):
        with scalar_toy(way, resource, control_flow) as toy:
            toy.descend(2, loss=5. * toy.w if branches == 1 else 2. * toy.w + 3. * toy.w)
            counts.append(variable_count(toy.graph))
            exactly(toy.feeds([None, None], toy.w), [0., -5.])
    assert counts[0] == counts[1]
