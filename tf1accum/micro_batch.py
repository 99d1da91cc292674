"""What one micro-batch adds to the sums."""
from __future__ import absolute_import, division, print_function

from tf1accum import gradients
from tf1accum._compat import tf


class MicroBatch(object):
    """The contributions of a micro-batch: `weight * gradient` for each variable.

    Args:
      pairs: list of (gradient, variable) with each variable once; gradients may be None.
      weight: float64 scalar tensor, or None for 1.
      config: AccumulationConfig.

    Attributes:
      pairs: list of (contribution, variable), without those that have none.
      weight: the weight; a float64 scalar tensor.
      finite: bool scalar tensor: every number is finite; None when that does not matter.
      ready: ops that have run once everything is computed and checked; none of them changes
        state.
    """

    def __init__(self, pairs, weight, config):
        self.pairs = [(gradients.contribution(gradient, variable, weight, config.sum_dtype(variable)), variable)
                      for gradient, variable in pairs if gradient is not None]
        self.weight = tf.ones([], tf.float64) if weight is None else weight
        self.finite = None
        self.ready = [tensor.op for gradient, _ in self.pairs for tensor in gradients.tensors_of(gradient)]
        self.ready.append(self.weight.op)
        if config.nonfinite == "error":
            self.ready += gradients.check_finite(self.pairs)
        elif config.nonfinite != "propagate":
            self.finite = gradients.all_finite([gradient for gradient, _ in self.pairs])

    def once_ready(self):
        """Returns the pairs as tensors that are there only when all of them are computed and checked."""
        with tf.control_dependencies(self.ready):
            return [(gradients.map_values(gradient, tf.identity), variable) for gradient, variable in self.pairs]
