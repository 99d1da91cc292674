"""The walk through the graph, and what it forbids."""
from __future__ import absolute_import, division, print_function

import pytest

import tf1accum
from tf1accum import phases
from tf1accum._compat import tf


def test_ancestors_follow_data_and_control():
    a, b = tf.constant(1.), tf.constant(2.)
    with tf.control_dependencies([b]):
        c = tf.identity(a)
    assert set(phases.ancestors([c.op])) == {a.op, b.op, c.op}


def test_path_runs_from_the_phase_down_to_the_op():
    a = tf.constant(1., name="a")
    b = tf.identity(a, name="b")
    c = tf.identity(b, name="c")
    assert phases.path(phases.ancestors([c.op]), a.op).split("\n") == [
        "c (Identity)", "  <- b (Identity)", "    <- a (Const)"]


def _check(phase_tensor, gradient, accumulate=()):
    return phases.check_phase("f", "apply", [phase_tensor.op], list(accumulate), [gradient.op])


def test_a_placeholder_of_the_model_is_refused_with_the_path():
    x = tf.placeholder(tf.float32, name="x")
    with pytest.raises(tf1accum.PhaseLeakError) as error:
        _check(tf.identity(x, name="reads"), x * 2.)
    assert "reads (Identity)\n  <- x (Placeholder)" in str(error.value)


def test_a_placeholder_that_only_the_phase_needs_is_returned():
    x, rate = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    assert _check(rate * 2., x * 2.) == [rate]


def test_an_iterator_of_the_model_is_refused():
    batch = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    with pytest.raises(tf1accum.PhaseLeakError, match="would take a micro-batch"):
        _check(tf.identity(batch), batch * 2)


def test_an_accumulate_op_is_refused():
    x = tf.constant(1.)
    accumulate = tf.identity(x, name="accumulate")
    with pytest.raises(tf1accum.PhaseLeakError, match="add the last micro-batch again"):
        _check(accumulate * 2., x, [accumulate.op])


def test_phases_are_free_of_the_control_dependencies_that_they_are_built_under():
    x = tf.placeholder(tf.float32, [])
    moving = tf.Variable(0., trainable=False)
    w = tf.Variable(0.)
    with tf.control_dependencies([tf.assign(moving, x)]):
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(1.), w * x, steps=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(ops.zero)
        session.run(ops.accumulate, {x: 2.})
        session.run(ops.normalize)
        session.run(ops.apply)
        assert session.run([w, moving]) == [-2., 2.]
