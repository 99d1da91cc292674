"""The four phases of a loss: `build`, and what it returns."""
from __future__ import absolute_import, division, print_function

import collections

from tf1accum import _checks
from tf1accum._compat import tf
from tf1accum.accumulator import GradientAccumulator
from tf1accum.config import make_config


class AccumulationOps(collections.namedtuple("AccumulationOps", (
        "zero", "accumulate", "normalize", "apply", "held", "updates", "micro_steps", "skipped", "config",
        "apply_placeholders"))):
    """The phases of one accumulation, to be run in a session, one in a run.

    Attributes:
      zero: op that empties the open cycle.
      accumulate: op that computes a micro-batch's gradients and adds them; the only one that
        needs the model's feeds.
      normalize: list of (G, variable); reading it changes nothing.
      apply: op that gives G to the optimizer once and ends the cycle. An error on an empty one.
      held: micro-steps held in the open cycle, an int64 scalar tensor.
      updates: updates made, an int64 scalar tensor.
      micro_steps: micro-steps run, an int64 scalar tensor.
      skipped: micro-batches left out because one was not finite, an int64 scalar tensor.
      config: the AccumulationConfig.
      apply_placeholders: placeholders to feed when `apply` is run: those that only the
        optimizer needs, such as a learning rate. Mostly empty.
    """

    __slots__ = ()

    def __repr__(self):
        return "<AccumulationOps: zero=%r, accumulate=%r, apply=%r, %d gradients, %r>" % (
            self.zero.name, self.accumulate.name, self.apply.name, len(self.normalize), self.config)


def build(optimizer, loss, steps=None, global_step=None, var_list=None, weight=None, config=None,
          gradient_transform=None, gate_gradients=tf.train.Optimizer.GATE_OP, aggregation_method=None,
          colocate_gradients_with_ops=False, grad_loss=None, name=None, **fields):
    """Builds the phases zero, accumulate, normalize and apply of a loss.

    Args:
      optimizer: a `tf.compat.v1.train.Optimizer`.
      loss: the loss of one micro-batch, a tensor.
      steps: micro-steps to an update, for `PhaseRunner.run_cycles`; the phases themselves take
        any number.
      global_step: integer scalar variable that counts updates, or None.
      var_list: variables to train; None for those in TRAINABLE_VARIABLES.
      weight: how much the micro-batch counts, a real scalar (tensor); 1 when None.
      config: AccumulationConfig, in place of `steps` and `fields`.
      gradient_transform: function from a list of (gradient, variable) to such a list, which
        changes G once an update, after the clipping; or None.
      gate_gradients: as for `tf.train.Optimizer.compute_gradients`.
      aggregation_method: as there.
      colocate_gradients_with_ops: as there.
      grad_loss: as there.
      name: name scope of ops and state.
      **fields: fields of AccumulationConfig.

    Returns:
      AccumulationOps.

    Raises:
      EagerModeError, ArgumentTypeError, ArgumentValueError: at build.
      PhaseLeakError: at build, when a phase depends on what only accumulate may depend on.
    """
    function = "build"
    _checks.graph_mode(function)
    _checks.optimizer(function, optimizer)
    _checks.global_step(function, global_step)
    config = make_config(function, config, dict(fields, **({} if steps is None else {"steps": steps})))
    grads_and_vars = optimizer.compute_gradients(
        loss, var_list=_checks.variable_list(function, var_list), gate_gradients=gate_gradients,
        aggregation_method=aggregation_method, colocate_gradients_with_ops=colocate_gradients_with_ops,
        grad_loss=grad_loss)
    accumulator = GradientAccumulator([variable for _, variable in grads_and_vars], config=config,
                                      gradient_transform=gradient_transform, name=name)
    accumulate = accumulator.accumulate_for(optimizer, grads_and_vars, weight)
    return AccumulationOps(
        zero=accumulator.zero_op(), accumulate=accumulate, normalize=accumulator.normalize_op(),
        apply=accumulator.apply_op(optimizer, global_step=global_step), held=accumulator.held,
        updates=accumulator.updates, micro_steps=accumulator.micro_steps, skipped=accumulator.skipped, config=config,
        apply_placeholders=accumulator.apply_placeholders)
