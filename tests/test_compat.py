"""What is private in TensorFlow behaves as the package relies on."""
from __future__ import absolute_import, division, print_function

import pytest
from toys import control_flow

from tf1accum import _compat
from tf1accum._compat import tf


def _random_after(build):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        build()
        with tf.Session() as session:
            return session.run(tf.random_uniform([]))


def test_ops_built_seed_neutral_change_no_random_number():
    def build():
        for _ in range(2):
            with _compat.seed_neutral():
                [tf.constant(1.) for _ in range(5)]

    assert _random_after(build) == _random_after(lambda: None)


def test_counted_ops_change_random_numbers_as_if_built_plainly():
    def build():
        with _compat.seed_neutral() as ids:
            tf.constant(0.)
            ids.count(_compat.build_and_list(lambda: [tf.constant(1.) for _ in range(3)])[1])

    assert _random_after(build) == _random_after(lambda: [tf.constant(1.) for _ in range(3)])


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_cond_holds_an_update_of_a_reference_variable(version):
    with control_flow(version):
        w = tf.Variable(0., use_resource=False)
        taken = tf.placeholder(tf.bool, [])
        op = _compat.cond(taken, lambda: tf.assign_add(w, 1.).op, tf.no_op)
        assert tf.control_flow_v2_enabled() == (version == "v2")
    with tf.Session() as session:
        session.run(w.initializer)
        for value in (True, False, True):
            session.run(op, {taken: value})
        assert session.run(w) == 2.


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_assigns_sees_through_a_conditional(resource):
    a = tf.Variable(0., use_resource=resource)
    b = tf.Variable(0., use_resource=resource)
    with control_flow("v1"):
        _, ops = _compat.build_and_list(
            lambda: tf.cond(tf.placeholder(tf.bool, []), lambda: tf.group(tf.assign_add(a, 1.)), tf.no_op))
    assert any(_compat.assigns(op, _compat.variable_handle(a)) for op in ops)
    assert not any(_compat.assigns(op, _compat.variable_handle(b)) for op in ops)


def test_run_before_adds_a_control_input():
    first, op = tf.no_op(), tf.no_op()
    _compat.run_before(op, first)
    assert op.control_inputs == [first]
