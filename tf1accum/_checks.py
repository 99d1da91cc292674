"""Checks of arguments: the one place that words "must be ... Received: ..."."""
from __future__ import absolute_import, division, print_function

import numbers

import numpy as np
import six

from tf1accum import errors
from tf1accum._compat import Variable, executes_eagerly, is_keras_optimizer, is_partitioned, is_resource_variable, tf


def message(function, parameter, rule, value, variable=None, advice=""):
    """Returns the text of an error about an argument."""
    where = "" if variable is None else " for variable '%s'" % variable.name
    text = "%s: `%s` must be %s. Received: %s=%r%s." % (function, parameter, rule, parameter, value, where)
    return text + (" " + advice if advice else "")


def fail_value(*args, **kwargs):
    """Raises ArgumentValueError; takes what `message` takes."""
    raise errors.ArgumentValueError(message(*args, **kwargs))


def fail_type(*args, **kwargs):
    """Raises ArgumentTypeError; takes what `message` takes."""
    raise errors.ArgumentTypeError(message(*args, **kwargs))


def graph_mode(function):
    """Raises EagerModeError unless ops go into a graph that a session will run."""
    if executes_eagerly():
        raise errors.EagerModeError(
            "%s: builds ops for a session, and TensorFlow is executing eagerly. Call "
            "tf.compat.v1.disable_eager_execution() first, or build inside `with tf.Graph().as_default():`. "
            "Code that is to stay eager needs a Keras optimizer." % function)


def one_of(function, parameter, value, accepted):
    """Returns `value` if it is one of the strings `accepted`."""
    rule = "one of " + ", ".join(repr(choice) for choice in accepted)
    if not isinstance(value, six.string_types):
        fail_type(function, parameter, rule, value)
    if value not in accepted:
        fail_value(function, parameter, rule, value)
    return str(value)


def boolean(function, parameter, value):
    """Returns `value` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        fail_type(function, parameter, "True or False", value)
    return bool(value)


def steps(function, value):
    """Returns `value` as an int of at least 1, or the callable that it is."""
    rule = "an int of at least 1, or a callable from the update count to an integer tensor"
    if callable(value) and not isinstance(value, type):
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        advice = ""
        if isinstance(value, (tf.Tensor, Variable)):
            advice = "Give a tensor as `steps=lambda updates: tensor`."
        fail_type(function, "steps", rule, value, advice=advice)
    if value < 1:
        fail_value(function, "steps", rule, value)
    return int(value)


def positive_number(function, parameter, value):
    """Returns `value` as a finite float above 0."""
    rule = "a finite number above 0, or None"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        fail_type(function, parameter, rule, value)
    if not (value > 0 and np.isfinite(value)):
        fail_value(function, parameter, rule, value)
    return float(value)


def optimizer(function, value):
    """Returns `value` if it is an optimizer of `tf.compat.v1.train`."""
    if not isinstance(value, tf.train.Optimizer):
        advice = "Give an instance, such as tf.compat.v1.train.AdamOptimizer(1e-3)."
        if is_keras_optimizer(value):
            advice = "A Keras optimizer does not run in a session; tf.compat.v1.train has its counterpart."
        fail_type(function, "optimizer", "a tf.compat.v1.train.Optimizer (any of TensorFlow's or of your own)",
                  value, advice=advice)
    return value


def optional_callable(function, parameter, value, rule):
    """Returns `value` if it is None or callable."""
    if value is not None and not callable(value):
        fail_type(function, parameter, rule, value)
    return value


def variables(function, parameter, values):
    """Returns a list of the variables in `values`, partitioned ones as their shards."""
    if isinstance(values, Variable) or is_partitioned(values):
        values = [values]
    rule = "a list of variables"
    try:
        values = list(values)
    except TypeError:
        fail_type(function, parameter, rule, values)
    result = []
    for value in values:
        shards = list(value) if is_partitioned(value) else [value]
        for shard in shards:
            variable(function, parameter, shard)
            if not any(shard is known for known in result):
                result.append(shard)
    if not result:
        fail_value(function, parameter, "a list of at least one variable", values)
    return result


def variable_list(function, value):
    """Returns `value`, a `var_list` or None, as a list in which partitioned variables are shards."""
    return None if value is None else variables(function, "var_list", value)


def variable(function, parameter, value):
    """Returns `value` if it is a variable of the graph that ops are being built in."""
    if not isinstance(value, Variable):
        fail_type(function, parameter, "tf.Variable objects", value)
    with tf.init_scope():
        here = tf.get_default_graph()
    if value.graph is not here:
        fail_value(function, parameter, "variables of the default graph", value, variable=value,
                   advice="Call inside `with variable.graph.as_default():`.")
    return value


def updatable_here(function, values):
    """Checks that the variables among `values` can be updated where ops are being built."""
    if not tf.get_default_graph().building_function:
        return
    for value in values:
        if value is not None and not is_resource_variable(value):
            fail_type(function, "variables", "resource variables inside a conditional or loop of control flow v2",
                      value, variable=value, advice=(
                          "TensorFlow cannot update a reference variable there. Create variables with "
                          "use_resource=True, call tf.compat.v1.disable_control_flow_v2(), or build outside."))


def global_step(function, value):
    """Returns `value` if it is None or an integer scalar variable of the default graph."""
    if value is None:
        return None
    rule = "an integer scalar variable, or None"
    if not isinstance(value, Variable):
        fail_type(function, "global_step", rule, value)
    if not value.dtype.base_dtype.is_integer or not value.shape.is_compatible_with([]):
        fail_type(function, "global_step", rule, value)
    return variable(function, "global_step", value)


def weight(function, value):
    """Returns `value` as a float64 scalar tensor, or None."""
    if value is None:
        return None
    rule = "a real scalar (such as the number of examples in the micro-batch)"
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        fail_type(function, "weight", rule, value)
    dtype = tensor.dtype.base_dtype
    if not (dtype.is_floating or dtype.is_integer):
        fail_type(function, "weight", rule, value)
    if not tensor.shape.is_compatible_with([]):
        fail_value(function, "weight", rule, value)
    if tensor.shape.ndims is None:
        tensor = tf.ensure_shape(tensor, [])
    return tf.cast(tensor, tf.float64)
