"""From the sums of a cycle to G, the gradient that the optimizer is given."""
from __future__ import absolute_import, division, print_function

from tf1accum import gradients
from tf1accum._compat import tf


def normalize(sums, weight, config, transform):
    """Returns the list of (G, variable).

    `G = sum / weight` for the mean; then it is clipped to the global norm, cast to the
    variable's dtype, and transformed, in this order.

    Args:
      sums: list of (sum, variable): tensors, or `IndexedSlices` with each row once where the
        configuration clips or `transform` is given.
      weight: total weight, a float64 scalar tensor; None divides by nothing.
      config: AccumulationConfig.
      transform: function from a list of (gradient, variable) to such a list, or None.

    Raises:
      ArgumentTypeError, ArgumentValueError: when `transform` returns something else.
    """
    pairs = sums
    if config.reduction == "mean" and weight is not None:
        pairs = [(gradients.map_values(total, lambda values: values / tf.cast(weight, values.dtype)), variable)
                 for total, variable in pairs]
    if config.clip_global_norm is not None:
        clipped = gradients.clip_by_global_norm([gradient for gradient, _ in pairs], config.clip_global_norm)
        pairs = [(gradient, variable) for gradient, (_, variable) in zip(clipped, pairs)]
    pairs = gradients.in_variable_dtype(pairs)
    return pairs if transform is None else _transform(pairs, transform)


def _transform(pairs, transform):
    function = "gradient_transform"
    transformed = gradients.normalize_pairs(function, transform(list(pairs)))
    gradients.check_known(function, transformed, [variable for _, variable in pairs])
    # A transform may hold checks, and none may fail when half of the variables have moved.
    with tf.control_dependencies([tensor.op for gradient, _ in transformed
                                  for tensor in gradients.tensors_of(gradient)]):
        return [(gradients.map_values(gradient, tf.identity), variable) for gradient, variable in transformed
                if gradient is not None]
