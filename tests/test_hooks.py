"""TailHook: the open cycle when a session ends."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from ways import each_kind

import tf1accum
from tf1accum._compat import tf

# Micro-gradients 1,3 | 5,7 | 9 with N=2 and rate 1: -2, -8, and -17 when 9 is flushed.
GRADIENTS = [1., 3., 5., 7., 9.]


class Model(object):
    """`loss = w * x` in the default graph, accumulated."""

    def __init__(self, resource=True, x=None, steps=2, name="w"):
        self.w = tf.Variable(0., name=name, use_resource=resource)
        self.x = tf.placeholder(tf.float32, []) if x is None else x
        self.step = tf.train.get_or_create_global_step()
        self.optimizer = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=steps)
        self.train = self.optimizer.minimize(self.w * self.x, global_step=self.step)


class ReadAtEnd(tf.train.SessionRunHook):
    """Reads tensors when the session ends; hooks end in the order in which they are given."""

    def __init__(self, tensors):
        self._tensors = tensors

    def end(self, session):
        self.values = session.run(self._tensors)


def last_checkpoint(folder):
    """Returns the values of w and the step in the last checkpoint."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))
    return float(reader.get_tensor("w")), int(reader.get_tensor("global_step"))


@each_kind
@pytest.mark.parametrize("tail, gradients, expected", [
    ("flush", GRADIENTS, [-17., 3, 0, 3]), ("drop", GRADIENTS, [-8., 2, 0, 2]),
    ("flush", GRADIENTS[:4], [-8., 2, 0, 2]), ("drop", GRADIENTS[:4], [-8., 2, 0, 2]), ("flush", [], [0., 0, 0, 0]),
], ids=["flush", "drop", "flush_nothing", "drop_nothing", "no_data"])
def test_tail(resource, tail, gradients, expected):
    model = Model(resource)
    reader = ReadAtEnd([model.w, model.step, model.optimizer.held, model.optimizer.updates])
    with tf.train.MonitoredTrainingSession(hooks=[tf1accum.TailHook(model.optimizer, tail), reader]) as session:
        for gradient in gradients:
            session.run(model.train, {model.x: gradient})
    assert reader.values == expected


def test_flush_is_the_default():
    model = Model()
    reader = ReadAtEnd(model.w)
    with tf.train.MonitoredTrainingSession(hooks=[tf1accum.TailHook(model.optimizer), reader]) as session:
        session.run(model.train, {model.x: 4.})
    assert reader.values == -4.


@pytest.mark.parametrize("tail, expected", [("flush", (-17., 3)), ("drop", (-8., 2))])
def test_when_the_data_is_exhausted(tmpdir, tail, expected):
    x = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(np.float32(GRADIENTS))).get_next()
    model = Model(x=x)
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmpdir), chief_only_hooks=[
            tf1accum.TailHook(model.optimizer, tail)]) as session:
        while not session.should_stop():
            session.run(model.train)
    assert last_checkpoint(tmpdir) == expected


@each_kind
@pytest.mark.parametrize("place", ["chief_only_hooks", "hooks_with_checkpoint_dir"])
def test_the_last_checkpoint_holds_the_flushed_weights(tmpdir, place, resource):
    model = Model(resource)
    if place == "chief_only_hooks":
        hooks = dict(chief_only_hooks=[tf1accum.TailHook(model.optimizer)])
    else:
        hooks = dict(hooks=[tf1accum.TailHook(model.optimizer, checkpoint_dir=str(tmpdir))])
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmpdir), **hooks) as session:
        for gradient in GRADIENTS:
            session.run(model.train, {model.x: gradient})
    assert last_checkpoint(tmpdir) == (-17., 3)
    # The next session goes on from there, with an empty cycle.
    with tf.Graph().as_default():
        model = Model(resource)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmpdir)) as session:
            assert session.run([model.w, model.step, model.optimizer.held]) == [-17., 3, 0]
            session.run(model.train, {model.x: 1.})
            session.run(model.train, {model.x: 1.})
            assert session.run([model.w, model.step]) == [-18., 4]


def test_without_an_open_cycle_no_other_checkpoint_is_saved(tmpdir):
    model = Model()
    hook = tf1accum.TailHook(model.optimizer, checkpoint_dir=str(tmpdir))
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for gradient in GRADIENTS[:4]:
            session.run(model.train, {model.x: gradient})
    assert tf.train.latest_checkpoint(str(tmpdir)) is None


def test_an_exception_is_no_end_of_the_data(tmpdir):
    model = Model()
    with pytest.raises(KeyError):
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmpdir), chief_only_hooks=[
                tf1accum.TailHook(model.optimizer)]) as session:
            for gradient in GRADIENTS[:3]:
                session.run(model.train, {model.x: gradient})
            raise KeyError("stop")
    assert last_checkpoint(tmpdir) in [(0., 0), (-2., 1)]  # a whole update, or the start; 5 is not in it


def test_stop_at_step_counts_updates():
    model = Model()
    reader = ReadAtEnd([model.w, model.step, model.optimizer.micro_steps])
    hooks = [tf.train.StopAtStepHook(last_step=3), tf1accum.TailHook(model.optimizer), reader]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(model.train, {model.x: 1.})
    assert reader.values == [-3., 3, 6]


def test_all_accumulations_of_a_wrapper_are_flushed():
    a, b, x = tf.Variable(0.), tf.Variable(0.), tf.placeholder(tf.float32, [])
    wrapper = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=2)
    train = [wrapper.apply_gradients([(x, a)]), wrapper.apply_gradients([(2. * x, b)])]
    tf.train.get_or_create_global_step()
    reader = ReadAtEnd([a, b])
    with tf.train.MonitoredTrainingSession(hooks=[tf1accum.TailHook(wrapper), reader]) as session:
        session.run(train, {x: 3.})
        session.run(train[0], {x: 5.})
        assert session.run([a, b]) == [-4., 0.]
    assert reader.values == [-4., -6.]


def test_repr_shows_the_choice():
    model = Model()
    assert "drop" in repr(tf1accum.TailHook(model.optimizer, "drop"))
