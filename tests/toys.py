"""The toy of the cases: one scalar weight, whose micro-gradients are what is fed.

    with scalar_toy("phases", resource=False, control_flow="v2") as toy:
        toy.descend(steps=2)
        run_micro_batches(toy, [2., 6.])       # [0., -4.]: the weight after each

It is a `ways.Toy`, and has all that one has.
"""
from __future__ import absolute_import, division, print_function

import pytest
from ways import Toy, control_flow_of

from tf1accum._compat import tf

control_flow = control_flow_of  # a context manager: `with control_flow("v2"):`

each_step_dtype = pytest.mark.parametrize("step_dtype", [tf.int32, tf.int64], ids=["step_int32", "step_int64"])


class ScalarToy(Toy):
    """`loss = mean(w * x)` in a graph of its own.

    Attributes:
      w: the weight, a variable.
      x: what is fed: the micro-gradient, a scalar; with `examples`, a vector that holds one number an example.
      loss: the loss of a micro-batch.
    """

    def __init__(self, way="wrapper", resource=True, control_flow="v1", initial=0., dtype=tf.float32, examples=False,
                 seed=None):
        super(ScalarToy, self).__init__(way, resource, control_flow, seed)
        self._initial = initial
        self._dtype = dtype
        self._examples = examples

    def __enter__(self):
        super(ScalarToy, self).__enter__()
        self.w = self.variable("w", self._initial, self._dtype)
        self.x = tf.placeholder(self._dtype, [None] if self._examples else [], name="x")
        self.loss = tf.reduce_mean(self.w * self.x)
        return self

    def step_of(self, dtype):
        """Returns a new global step of the toy's kind and of an integer dtype."""
        return tf.Variable(0, dtype=dtype, trainable=False, name="global_step", use_resource=self.resource)

    def descend(self, steps, learning_rate=1., loss=None, **kwargs):
        """Builds gradient descent and starts the session."""
        if "pairs" not in kwargs:
            loss = self.loss if loss is None else loss
        self.train(tf.train.GradientDescentOptimizer(learning_rate), loss, steps, **kwargs)
        self.start()
        return self.training

    def micro_step(self, feed_dict=None, beside=None):
        """Runs one micro-step; returns what is fetched in the same run."""
        seen = self.run([self.training.accumulate] + ([] if beside is None else [beside]), feed_dict)
        if self.way != "wrapper" and self.run(self.training.held) >= self.training.steps:
            self.run(self.training.apply)
        return seen[-1]


scalar_toy = ScalarToy


def run_micro_batches(toy, gradients, read=None):
    """Runs a micro-step for each number (or list of examples); returns the weight, or `read`, after each."""
    return toy.feed(toy.x, gradients, toy.w if read is None else read)


def after_restarts(toy, repeats, gradients, read=None):
    """Returns the set of what a schedule of micro-batches ends in, when begun anew `repeats` times.

    The initialiser of the user's variables is all that is run in between.
    """
    init = tf.global_variables_initializer()
    ends = set()
    for _ in range(repeats):
        toy.run(init)
        for gradient in gradients:
            toy.training.micro_step(toy.session, None if gradient is None else {toy.x: gradient})
        ends.add(toy.run(toy.w if read is None else read))
    return ends


def variable_count(graph):
    """Returns how many variables of any kind a graph holds, in collections or not."""
    return sum(op.type in ("VarHandleOp", "Variable", "VariableV2") for op in graph.get_operations())


def bare_minimum(toy, optimizer, feeds, loss=None):
    """Returns the weight after plain updates by a bare optimizer; the toy is not trained before.

    Args:
      toy: a ScalarToy.
      optimizer: a `tf.train.Optimizer`.
      feeds: what is fed for each update.
      loss: the loss, or None for the toy's.
    """
    train_op = optimizer.minimize(toy.loss if loss is None else loss)
    toy.start()
    for value in feeds:
        toy.run(train_op, {toy.x: value})
    return toy.run(toy.w)
