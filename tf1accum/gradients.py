"""The rules of `grads_and_vars`: pairing, None, rows, duplicates, dtypes, finiteness.

Whatever reaches an accumulator or an optimizer passes through here first.
"""
from __future__ import absolute_import, division, print_function

from tf1accum import _checks, errors
from tf1accum._compat import may_change_later, tf


def normalize_pairs(function, grads_and_vars):
    """Returns a list of (gradient, variable) with each variable once.

    Gradients become tensors or `IndexedSlices`, or stay None. A variable that is listed
    several times gets the sum of its gradients, as if its loss terms had been one loss.

    Args:
      function: the entry point's name, for errors.
      grads_and_vars: an iterable of (gradient, variable) pairs, as
        `tf.train.Optimizer.compute_gradients` returns it.

    Raises:
      ArgumentTypeError: for what is not a list of pairs, a variable or a gradient.
      ArgumentValueError: for a variable of another graph, or a gradient of another shape.
      ArgumentValueError: (a ValueError) when there is no pair, or each gradient is None.
    """
    rule = "a list of (gradient, variable) pairs"
    try:
        pairs = [tuple(pair) for pair in grads_and_vars]
    except TypeError:
        _checks.fail_type(function, "grads_and_vars", rule, grads_and_vars)
    if not pairs:
        raise errors.ArgumentValueError("%s: No variables provided: `grads_and_vars` is empty." % function)
    if any(len(pair) != 2 for pair in pairs):
        _checks.fail_type(function, "grads_and_vars", rule, grads_and_vars)
    merged = []
    position = {}
    for gradient, variable in pairs:
        _checks.variable(function, "grads_and_vars", variable)
        gradient = _as_gradient(function, gradient, variable)
        if id(variable) in position:
            index = position[id(variable)]
            merged[index] = (_add(merged[index][0], gradient, variable), variable)
        else:
            position[id(variable)] = len(merged)
            merged.append((gradient, variable))
    if all(gradient is None for gradient, _ in merged):
        raise errors.ArgumentValueError(
            "No gradients provided for any variable: %s (%s). Check that the loss depends on them through "
            "ops that have gradients." % (", ".join(variable.name for _, variable in merged), function))
    return merged


def check_known(function, pairs, known):
    """Raises ArgumentValueError for a pair whose variable is not one of `known`."""
    for _, variable in pairs:
        if not any(variable is other for other in known):
            _checks.fail_value(function, "grads_and_vars", "pairs for known variables", variable.name,
                               variable=variable, advice="Known: %s." % ", ".join(other.name for other in known))


def _as_gradient(function, gradient, variable):
    if gradient is None:
        return None
    rule = "pairs whose gradient is a tensor, IndexedSlices or None"
    if not isinstance(gradient, tf.IndexedSlices):
        try:
            gradient = tf.convert_to_tensor(gradient)
        except (TypeError, ValueError):
            _checks.fail_type(function, "grads_and_vars", rule, gradient, variable=variable)
    dtype = gradient.dtype.base_dtype
    if not (dtype.is_floating or dtype.is_complex):
        _checks.fail_type(function, "grads_and_vars", "pairs whose gradient is floating or complex", gradient,
                          variable=variable)
    shape = variable.shape
    if isinstance(gradient, tf.IndexedSlices):
        fits = shape.ndims is None or (
            shape.ndims > 0 and gradient.values.shape[1:].is_compatible_with(shape[1:]))
    else:
        fits = gradient.shape.is_compatible_with(shape)
    if not fits:
        _checks.fail_value(function, "grads_and_vars", "pairs whose gradient has the variable's shape %s" % shape,
                           gradient, variable=variable)
    return gradient


def _add(first, second, variable):
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, tf.IndexedSlices) and isinstance(second, tf.IndexedSlices):
        return tf.IndexedSlices(tf.concat([first.values, second.values], 0),
                                tf.concat([first.indices, tf.cast(second.indices, first.indices.dtype)], 0),
                                first.dense_shape)
    return tf.add(to_dense(first, variable), to_dense(second, variable))


def shape_tensor(variable):
    """Returns the variable's shape as an int32 tensor, a constant where it is known."""
    if variable.shape.is_fully_defined():
        return tf.constant(variable.shape.as_list(), tf.int32)
    return tf.shape(variable)


def to_dense(gradient, variable):
    """Returns `gradient` as a tensor of the variable's shape; equal rows are added up."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    dense = tf.math.unsorted_segment_sum(gradient.values, gradient.indices, shape_tensor(variable)[0])
    dense.set_shape(variable.shape)
    return dense


def merge_rows(indices, values):
    """Adds up rows that have the same index.

    Args:
      indices: integer tensor [n].
      values: tensor [n, ...].

    Returns:
      (indices, values) with each index once, in the order in which they first appear.
    """
    unique, position = tf.unique(indices)
    return unique, tf.math.unsorted_segment_sum(values, position, tf.size(unique))


def unique_rows(gradient):
    """Returns `gradient`; if it holds rows, with each index once."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, values = merge_rows(gradient.indices, gradient.values)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def contribution(gradient, variable, weight, dtype):
    """Returns what a micro-gradient adds to its sum: `weight * gradient`, in the sum's dtype.

    A weight of zero gives zeros, also for a gradient that is not finite: the mean loss of
    an empty micro-batch is 0/0, and it counts for nothing.

    Args:
      gradient: tensor or `IndexedSlices`.
      variable: its variable.
      weight: float64 scalar tensor, or None for 1.
      dtype: dtype of the sum.

    Raises:
      tf.errors.InvalidArgumentError: (at run) for a gradient of another shape.
    """
    sparse = isinstance(gradient, tf.IndexedSlices)
    values = gradient.values if sparse else gradient
    if not sparse and not values.shape.is_fully_defined() and variable.shape.ndims is not None:
        values = tf.ensure_shape(values, variable.shape)
    values = tf.cast(values, dtype)
    if weight is not None:
        values = tf.math.multiply_no_nan(values, tf.cast(weight, dtype))
    values = _own(values)
    return tf.IndexedSlices(values, _own(gradient.indices), gradient.dense_shape) if sparse else values


def _own(tensor):
    # A sum keeps the buffer of its first contribution, which must not change afterwards.
    return tf.raw_ops.DeepCopy(x=tensor) if may_change_later(tensor) else tensor


def tensors_of(gradient):
    """Returns the tensors that a gradient consists of, a list; an empty one for None."""
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values, gradient.indices]
    return [] if gradient is None else [gradient]


def map_values(gradient, function):
    """Returns a gradient whose numbers are `function(numbers)`, of the same form."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def in_variable_dtype(pairs):
    """Returns the pairs with each gradient in the dtype of its variable."""
    def cast(gradient, dtype):
        return map_values(gradient, lambda values: tf.cast(values, dtype))

    return [(cast(gradient, variable.dtype.base_dtype), variable) for gradient, variable in pairs]


def values_of(gradient):
    """Returns the tensor that holds the numbers of a gradient."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def all_finite(gradients):
    """Returns a bool scalar tensor: no gradient holds an infinite or NaN number."""
    finite = [tf.reduce_all(tf.math.is_finite(_real_parts(values_of(gradient)))) for gradient in gradients]
    return tf.reduce_all(tf.stack(finite))


def check_finite(gradients_and_variables):
    """Returns ops that fail, naming the variable, when its gradient is not finite."""
    return [tf.debugging.check_numerics(
        _real_parts(values_of(gradient)),
        "The micro-batch's gradient of variable '%s' is not finite" % variable.name).op
            for gradient, variable in gradients_and_variables]


def _real_parts(values):
    if values.dtype.is_complex:
        return tf.stack([tf.math.real(values), tf.math.imag(values)])
    return values


def clip_by_global_norm(gradients, clip_norm):
    """Returns `[g * clip_norm / max(norm, clip_norm) for g in gradients]`.

    `norm = sqrt(sum(sum(abs(g)**2) for g in gradients))`. As `tf.clip_by_global_norm`,
    whose formula it is (Pascanu et al. 2012), for gradients of different dtypes too.

    Args:
      gradients: list of tensors and `IndexedSlices` without equal indices.
      clip_norm: float above 0.
    """
    squares = [_sum_of_squares(values_of(gradient)) for gradient in gradients]
    widest = tf.float64 if any(square.dtype == tf.float64 for square in squares) else tf.float32
    norm = tf.sqrt(tf.add_n([tf.cast(square, widest) for square in squares]))
    clipped = []
    for gradient in gradients:
        values = values_of(gradient)
        if values.dtype.is_complex:
            scale = clip_norm / tf.maximum(norm, tf.cast(clip_norm, widest))
            values = values * tf.cast(scale, values.dtype)
        else:
            values = tf.clip_by_global_norm([values], clip_norm, use_norm=tf.cast(norm, values.dtype))[0][0]
        if isinstance(gradient, tf.IndexedSlices):
            values = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        clipped.append(values)
    return clipped


def _sum_of_squares(values):
    values = tf.abs(values)
    return tf.reduce_sum(tf.math.square(tf.cast(values, tf.float32) if values.dtype.size < 4 else values))
