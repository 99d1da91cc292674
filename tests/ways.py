"""One training, driven through each of the ways in: the wrapper, the phases, and the builders under them.

A test names the way, the kind of variable and the control flow, and gives micro-batches:

    with Toy("wrapper", resource=True, control_flow="v2") as toy:
        w = toy.variable("w", 0.)
        x = tf.placeholder(tf.float32, [])
        toy.train(tf.train.GradientDescentOptimizer(1.), w * x, steps=2)
        toy.start()
        toy.feed(x, [2., 6.])
"""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest

import tf1accum
from tf1accum._compat import tf

WAYS = ("wrapper", "phases", "low_level")

each_way = pytest.mark.parametrize("way", WAYS)
each_kind = pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
each_control_flow = pytest.mark.parametrize("control_flow", ["v1", "v2"], ids=["cf_v1", "cf_v2"])


# Each way, each kind, each control flow, and of the wrapper, which has conditionals, what TensorFlow cannot build
# by itself (references under v2). The tests of a promise about them name all combinations.
_PLACES = [("wrapper", False, "v2"), ("wrapper", True, "v1"), ("phases", True, "v2"), ("low_level", False, "v1")]


def everywhere(test):
    """Marks a test to run for the ways, kinds of variable and control flows that differ."""
    return pytest.mark.parametrize("way, resource, control_flow", _PLACES, ids=[
        "-".join([way, "resource" if resource else "ref", "cf_" + control_flow])
        for way, resource, control_flow in _PLACES])(test)


class control_flow_of(object):
    """Builds conditionals of control flow "v1" or "v2", and restores what was on before."""

    def __init__(self, version):
        self._version = version

    def __enter__(self):
        self._before = tf.control_flow_v2_enabled()
        self._switch(self._version == "v2")

    def __exit__(self, *unused):
        self._switch(self._before)

    @staticmethod
    def _switch(on):
        (tf.enable_control_flow_v2 if on else tf.disable_control_flow_v2)()


class Training(object):
    """One minimisation, through one of the ways.

    Attributes:
      held, updates, micro_steps, skipped: tensors.
      normalized: list of (G, variable); None for the wrapper.
      apply: the op that a completed cycle ends with; None for the wrapper.
      accumulating: the AccumulatingOptimizer, AccumulationOps or GradientAccumulator.
    """

    def __init__(self, way, optimizer, loss, steps, pairs=None, var_list=None, global_step=None, weight=None,
                 **config):
        self.way = way
        self.steps = steps
        self.normalized = self.apply = None
        if way == "wrapper":
            made = tf1accum.AccumulatingOptimizer(optimizer, steps=steps, **config)
            if pairs is None:
                self.accumulate = made.minimize(loss, global_step=global_step, var_list=var_list, weight=weight)
            else:
                self.accumulate = made.apply_gradients(pairs, global_step=global_step, weight=weight)
        elif way == "phases":
            if pairs is not None:
                raise ValueError("build() takes a loss")
            made = tf1accum.build(optimizer, loss, steps=steps, var_list=var_list, global_step=global_step,
                                  weight=weight, **config)
            self.accumulate = made.accumulate
            self.normalized = made.normalize
            self.apply = made.apply
        else:
            if pairs is None:
                pairs = optimizer.compute_gradients(loss, var_list=var_list)
            made = tf1accum.GradientAccumulator([variable for _, variable in pairs], steps=steps, **config)
            self.accumulate = made.accumulate_op(pairs, weight=weight)
            self.normalized = made.normalize_op()
            self.apply = made.apply_op(optimizer, global_step=global_step)
        self.accumulating = made
        self.held, self.updates = made.held, made.updates
        self.micro_steps, self.skipped = made.micro_steps, made.skipped
        self._drop = {"wrapper": lambda: made.drop(), "phases": lambda: made.zero, "low_level": lambda: made.zero_op()}
        self._made = {}

    @property
    def flush_op(self):
        """The wrapper's op that applies an open cycle; built when it is first asked for."""
        return self._once("flush", self.accumulating.flush)

    @property
    def drop_op(self):
        """The op that empties an open cycle; built when it is first asked for."""
        return self._once("drop", self._drop[self.way])

    def _once(self, name, make):
        if name not in self._made:
            with self.held.graph.as_default():
                self._made[name] = make()
        return self._made[name]

    def micro_step(self, session, feed_dict=None):
        """Runs one micro-step, and the update if it completes a cycle. `apply` is fed nothing."""
        session.run(self.accumulate, feed_dict)
        if self.way != "wrapper" and session.run(self.held) >= self.steps:
            session.run(self.apply)

    def flush(self, session):
        """Applies an open cycle."""
        if self.way == "wrapper":
            session.run(self.flush_op)
        elif session.run(self.held):
            session.run(self.apply)

    def counts(self, session):
        """Returns (micro-steps, updates, held, skipped)."""
        return tuple(int(count) for count in session.run(
            (self.micro_steps, self.updates, self.held, self.skipped)))


class Toy(object):
    """A graph, its session, and one training in it."""

    def __init__(self, way="wrapper", resource=True, control_flow="v1", seed=None):
        self.way = way
        self.resource = resource
        self._control_flow = control_flow_of(control_flow)
        self._seed = seed
        self.session = self.training = None

    def __enter__(self):
        self.graph = tf.Graph()
        self._in_graph = self.graph.as_default()
        self._in_graph.__enter__()
        self._control_flow.__enter__()
        return self

    def __exit__(self, *exception):
        if self.session is not None:
            self.session.close()
        self._control_flow.__exit__()
        return self._in_graph.__exit__(*exception)

    def variable(self, name, value, dtype=tf.float32, **kwargs):
        """Returns a variable of the toy's kind."""
        kwargs.setdefault("use_resource", self.resource)
        return tf.Variable(np.asarray(value, dtype.as_numpy_dtype), name=name, dtype=dtype, **kwargs)

    def step_variable(self):
        """Returns a new global step of the toy's kind."""
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="global_step", use_resource=self.resource,
                           collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP])
        return step

    def train(self, optimizer, loss=None, steps=2, **kwargs):
        """Builds the training."""
        self.training = Training(self.way, optimizer, loss, steps, **kwargs)
        return self.training

    def start(self, initialize=True):
        """Starts a session; runs the usual initialiser, and nothing else."""
        init = tf.global_variables_initializer()
        self.session = tf.Session(graph=self.graph)
        if initialize:
            self.session.run(init)
        return self.session

    def feed(self, placeholder, values, read=None):
        """Runs one micro-step for each value; returns `read` after each."""
        return self.feeds([{placeholder: value} for value in values], read)

    def feeds(self, feed_dicts, read=None):
        """Runs one micro-step for each feed_dict; returns `read` after each."""
        seen = []
        for feed_dict in feed_dicts:
            self.training.micro_step(self.session, feed_dict)
            if read is not None:
                seen.append(self.session.run(read))
        return seen

    def run(self, fetches, feed_dict=None):
        """Runs fetches in the session."""
        return self.session.run(fetches, feed_dict)

    @property
    def counts(self):
        """(micro-steps, updates, held, skipped)."""
        return self.training.counts(self.session)


class Embedding(object):
    """A table, and a loss whose gradient of row `ids[k]` is `c[k]`, as IndexedSlices."""

    def __init__(self, toy, rows=4, width=1, name="table", value=None, dtype=tf.float32):
        if value is None:
            value = np.zeros([rows, width])
        self.table = toy.variable(name, value, dtype)
        self.ids = tf.placeholder(tf.int32, [None], name=name + "_ids")
        self.c = tf.placeholder(dtype, [None], name=name + "_c")
        self.loss = tf.reduce_sum(tf.nn.embedding_lookup(self.table, self.ids) * self.c[:, None])

    def batch(self, ids, c):
        """Returns the feed_dict of one micro-batch."""
        return {self.ids: ids, self.c: c}


def dense(gradient, rows):
    """Returns a gradient that a session returned, as an array; rows must be there once."""
    if hasattr(gradient, "indices"):
        indices = list(gradient.indices)
        assert len(set(indices)) == len(indices), "row ids are not unique: %s" % indices
        result = np.zeros((rows,) + gradient.values.shape[1:], gradient.values.dtype)
        result[indices] = gradient.values
        return result
    return gradient


def named(name):
    """Returns the global variable of that name in the default graph."""
    found = [variable for variable in tf.global_variables() if variable.op.name == name]
    assert len(found) == 1, "no such variable: %s among %s" % (name, [v.op.name for v in tf.global_variables()])
    return found[0]


def exactly(actual, expected):
    """Asserts that numbers are equal, bit for bit."""
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected, dtype=np.asarray(actual).dtype))


def close(actual, expected, rtol=2e-6):
    """Asserts that eight-digit numbers are equal."""
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=0)
