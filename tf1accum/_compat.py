"""The one place that imports TensorFlow, asks for its version, or touches its private names.

Exports `tf`, the TensorFlow 1 API, which is the same module in TensorFlow 1.15
and in every 2.x.
"""
from __future__ import absolute_import, division, print_function

import contextlib
import threading

import tensorflow
import tensorflow.compat.v1 as tf

# `tf.Variable` of the TensorFlow 1 API is no base class of resource variables in 2.x.
Variable = tensorflow.compat.v2.Variable

_KERAS_PACKAGES = ("keras", "tf_keras")
_SWITCH_TYPES = ("Switch", "RefSwitch")


def executes_eagerly():
    """Returns whether ops would be executed at once, or traced for eager execution."""
    with tf.init_scope():
        return tf.executing_eagerly()


def is_keras_optimizer(value):
    """Returns whether `value` is an optimizer of Keras, tf.keras or tf_keras."""
    for base in type(value).__mro__:
        module = base.__module__
        if module.split(".")[0] in _KERAS_PACKAGES or module.startswith("tensorflow.python.keras"):
            return True
    return False


def loss_scale_optimizer_class():
    """Returns TensorFlow's loss-scaling wrapper of `tf.train` optimizers."""
    return tf.train.experimental.MixedPrecisionLossScaleOptimizer


def is_partitioned(value):
    """Returns whether `value` is the container of a partitioned variable's shards.

    `PartitionedVariable` is exported by no public module (TensorFlow 1.15 to 2.21), so
    it is told by the two public methods that only it has together.
    """
    return hasattr(value, "as_tensor") and hasattr(value, "__iter__") and not isinstance(value, Variable)


def is_resource_variable(variable):
    """Returns whether `variable` is a resource variable, not a TensorFlow 1 reference."""
    return variable_handle(variable).dtype == tf.resource


def variable_handle(variable):
    """Returns the tensor that ops which change `variable` take as their first input."""
    # A distributed variable has no `handle`; the core does not place state on one.
    return variable.handle if hasattr(variable, "handle") else variable.op.outputs[0]


# Ops whose output may be the very buffer of their input.
_FORWARDING_TYPES = ("Identity", "RefIdentity", "Switch", "RefSwitch", "Merge", "RefMerge", "Reshape", "ExpandDims",
                     "Squeeze", "StopGradient", "PreventGradient", "EnsureShape", "Bitcast", "Enter", "RefEnter")


def may_change_later(tensor):
    """Returns whether the buffer of `tensor` may be written to after the tensor was made.

    So it is for a reference variable, which updates write to in place, and for what is
    fed: TensorFlow uses the memory of the NumPy array, which the caller may fill anew.
    """
    pending = [tensor]
    seen = set()
    while pending:
        tensor = pending.pop()
        if tensor.dtype != tensor.dtype.base_dtype or tensor.op.type.startswith("Placeholder"):
            return True
        if tensor.op.type in _FORWARDING_TYPES and tensor.op not in seen:
            seen.add(tensor.op)
            pending.extend(tensor.op.inputs)
    return False


@contextlib.contextmanager
def _control_flow_v2(on):
    before = tf.control_flow_v2_enabled()
    _switch_control_flow_v2(on)
    try:
        yield
    finally:
        _switch_control_flow_v2(before)


def _switch_control_flow_v2(on):
    if on:
        tf.enable_control_flow_v2()
    else:
        tf.disable_control_flow_v2()


def cond(pred, true_fn, false_fn):
    """Builds a conditional that may hold reference variables, whatever control flow is on.

    TensorFlow cannot build an update of a reference variable inside a conditional of
    control flow v2. A session graph runs conditionals of control flow v1 just as well, so
    that kind is always built there; inside a function's graph (the body of a conditional of
    control flow v2) TensorFlow's own choice stands. What the branches build themselves is
    built with the control flow that is on.
    """
    if tf.get_default_graph().building_function or not tf.control_flow_v2_enabled():
        return tf.cond(pred, true_fn, false_fn)

    def with_control_flow_v2(build):
        def branch():
            with _control_flow_v2(True):
                return build()
        return branch

    with _control_flow_v2(False):
        return tf.cond(pred, with_control_flow_v2(true_fn), with_control_flow_v2(false_fn))


def in_control_flow():
    """Returns whether ops are being built inside a conditional, a loop or a function.

    `_get_control_flow_context` is private, and the only way to know (seen in 1.15.0 to
    2.21.0): a tensor that is shared by all ops of a graph must not be built in a branch.
    """
    graph = tf.get_default_graph()
    return graph.building_function or graph._get_control_flow_context() is not None


def run_before(op, first):
    """Makes `op`, which exists already, run only after `first`.

    `Operation._add_control_input` is private, and the only way to hang something on an op
    that TensorFlow has built (seen in 1.15.0 to 2.21.0). A session that has already run a
    part of the graph does not see the change.
    """
    if op.graph is first.graph:
        op._add_control_input(first)


def assigns(op, variable_tensor):
    """Returns whether `op` assigns to the variable behind `variable_tensor`, or may.

    An op that holds a function (a conditional of control flow v2, say) and takes the
    variable's handle counts as one that assigns.
    """
    def source(tensor):
        while tensor.op.type in _SWITCH_TYPES + ("Identity", "RefIdentity", "Enter", "RefEnter"):
            if tensor is variable_tensor:
                break
            tensor = tensor.op.inputs[0]
        return tensor

    graph = op.graph
    if graph is not variable_tensor.graph:
        variable_tensor = graph.capture(variable_tensor)
    if op.type.startswith("Assign"):
        return source(op.inputs[0]) is variable_tensor
    if op.type in ("If", "StatelessIf", "While", "Case", "PartitionedCall", "StatefulPartitionedCall"):
        return any(source(tensor) is variable_tensor for tensor in op.inputs)
    return False


def build_and_list(build):
    """Calls `build()`; returns its result and the ops that it added to the default graph."""
    graph = tf.get_default_graph()
    # Python 2.7 does not list the ops of a graph in the order in which they were made.
    before = set(graph.get_operations())
    result = build()
    return result, [op for op in graph.get_operations() if op not in before]


class _OpIds(object):
    """Takes the ids of ops out of the numbers that TensorFlow 1 seeds random ops with."""

    def __init__(self):
        self.counted = 0

    def count(self, ops):
        """Counts ops that the bare optimizer builds too.

        Those that a conditional adds for each tensor that enters a branch are left out: the
        bare optimizer has none.
        """
        self.counted += sum(op.type not in _SWITCH_TYPES for op in ops)


# Where ids of the package's own ops start. A graph has at most 2^31 nodes, and a user's
# part of it never comes near this number.
_OWN_IDS_START = 10 ** 9
_OWN_IDS = "_tf1accum_next_own_id"
_own_ids_lock = threading.RLock()


def _seeds_follow_op_ids(graph):
    # TensorFlow 1.15 derives the seed of an op without one from the number of ops in the
    # graph; later versions count such ops in a table of their own (2.15 and 2.21 do).
    from tensorflow.python.framework import random_seed
    return not hasattr(random_seed, "_graph_to_seed_dict") and hasattr(graph, "_next_id_counter")


@contextlib.contextmanager
def seed_neutral():
    """Builds ops that change no random number of ops built later.

    With a graph seed, TensorFlow 1.15 seeds each random op by the number of ops built
    before it, so an op more would change initial weights and dropout masks. Ops built in
    this context take their ids from a range of their own. The `count` method of the object
    that it yields counts ops which the bare optimizer would have built too.

    `Graph._next_id_counter` is private, and the only way (seen in 1.15.0 and 1.15.5; other
    versions need nothing).
    """
    graph = tf.get_default_graph()
    ids = _OpIds()
    if not _seeds_follow_op_ids(graph) or graph._next_id_counter >= _OWN_IDS_START:
        yield ids
        return
    with _own_ids_lock:
        usual = graph._next_id_counter
        graph._next_id_counter = getattr(graph, _OWN_IDS, _OWN_IDS_START)
        try:
            yield ids
        finally:
            setattr(graph, _OWN_IDS, graph._next_id_counter)
            graph._next_id_counter = usual + ids.counted
