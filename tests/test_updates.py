"""One application of the wrapped optimizer: what it leaves as it would be without a wrapper."""
from __future__ import absolute_import, division, print_function

import pytest
from toys import control_flow

import tf1accum
from tf1accum._compat import tf


class StepIgnoringOptimizer(tf.train.GradientDescentOptimizer):
    """Takes a step and does not move it, as BERT's AdamWeightDecayOptimizer."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return super(StepIgnoringOptimizer, self).apply_gradients(grads_and_vars, name=name)


class StepAssigningOptimizer(StepIgnoringOptimizer):
    """Moves the step by an assign of its own."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        applied = super(StepAssigningOptimizer, self).apply_gradients(grads_and_vars, name=name)
        with tf.control_dependencies([applied]):
            return tf.group(tf.assign(global_step, global_step + 1))


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("wrapped", [tf.train.GradientDescentOptimizer, StepIgnoringOptimizer,
                                     StepAssigningOptimizer])
@pytest.mark.parametrize("steps", [1, 2])
def test_global_step_moves_by_one_an_update(wrapped, version, resource, steps):
    with control_flow(version):
        w = tf.Variable(0., use_resource=resource)
        step = tf.Variable(0, trainable=False, dtype=tf.int64, use_resource=resource)
        optimizer = tf1accum.AccumulatingOptimizer(wrapped(1.), steps=steps)
        train = optimizer.minimize(w * 1., global_step=step)
        flush = optimizer.flush()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        session.run(flush)
        assert session.run(step) == {1: 3, 2: 2}[steps]


@pytest.mark.parametrize("name, expected", [(None, "Adam"), ("train", "train")])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_train_op_has_the_name_and_collection_of_the_bare_one(name, expected, steps):
    w = tf.Variable(0.)
    train = tf1accum.AccumulatingOptimizer(tf.train.AdamOptimizer(), steps=steps).minimize(w * 1., name=name)
    assert train.name == expected
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]


def test_no_collection_but_the_train_op_changes():
    def collections(optimizer):
        with tf.Graph().as_default() as graph:
            w = tf.Variable(0., name="w")
            optimizer().minimize(w * 1.)
            return {key: [getattr(item, "name", None) for item in graph.get_collection(key)]
                    for key in graph.get_all_collection_keys() if key not in ("cond_context", "while_context")}

    bare = collections(tf.train.AdamOptimizer)
    wrapped = collections(lambda: tf1accum.AccumulatingOptimizer(tf.train.AdamOptimizer(), steps=2))
    assert wrapped == bare


def test_a_graph_trains_after_it_went_through_a_file():
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=0., use_resource=False)
        x = tf.placeholder(tf.float32, [], name="x")
        tf1accum.AccumulatingOptimizer(tf.train.AdamOptimizer(0.1), steps=2).minimize(w * x, name="train")
        meta_graph = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        session.run(tf.global_variables_initializer())
        for value in (1., 3., 5., 7.):
            session.run("train", {"x:0": value})
        assert session.run("w:0") == pytest.approx(-0.19177780, rel=2e-6)
