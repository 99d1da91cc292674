"""AccumulatingOptimizer: one line makes an optimizer update every few micro-batches."""
from __future__ import absolute_import, division, print_function

from tf1accum import _checks, errors, gradients
from tf1accum._compat import tf
from tf1accum.accumulator import GradientAccumulator
from tf1accum.config import make_config
from tf1accum.updates import name_of


class AccumulatingOptimizer(tf.train.Optimizer):
    """Wraps an optimizer, which then sees the mean gradient of `steps` micro-batches, once.

    `G = sum(w[k] * g[k]) / sum(w[k])` over the micro-steps k of a cycle. `minimize` returns
    one op, to be run for each micro-batch as before. Its last run of a cycle also updates:
    weights, slots and `global_step` change there, and nowhere else.

    Args:
      optimizer: a `tf.compat.v1.train.Optimizer`.
      steps: micro-steps to an update: an int of at least 1, or a callable from the update count
        (`global_step` where one is given, an int64 scalar tensor) to an integer tensor.
      config: AccumulationConfig, in place of `steps` and `fields`.
      gradient_transform: function from a list of (gradient, variable) to such a list, which
        changes G once an update, after the clipping; or None.
      name: name scope of ops and state, "accumulation" when None.
      **fields: fields of AccumulationConfig.

    Raises:
      EagerModeError, ArgumentTypeError, ArgumentValueError: at build.
    """

    def __init__(self, optimizer, steps=None, config=None, gradient_transform=None, name=None, **fields):
        function = "AccumulatingOptimizer"
        _checks.graph_mode(function)
        self._optimizer = _checks.optimizer(function, optimizer)
        self._config = make_config(function, config, dict(fields, **({} if steps is None else {"steps": steps})))
        self._transform = _checks.optional_callable(
            function, "gradient_transform", gradient_transform,
            "a function from a list of (gradient, variable) pairs to such a list, or None")
        self._accumulator_name = name
        self._accumulations = []
        super(AccumulatingOptimizer, self).__init__(use_locking=False, name=name_of(optimizer))

    @property
    def optimizer(self):
        """The wrapped optimizer."""
        return self._optimizer

    @property
    def config(self):
        """The AccumulationConfig."""
        return self._config

    @property
    def accumulators(self):
        """The GradientAccumulators in the default graph, one for each `apply_gradients` call."""
        return [accumulation.accumulator for accumulation in self._here()]

    @property
    def micro_steps(self):
        """Micro-steps run, an int64 scalar tensor; its value before the run's micro-step."""
        return self._only("micro_steps").micro_steps

    @property
    def updates(self):
        """Updates made, an int64 scalar tensor; its value before the run's micro-step."""
        return self._only("updates").updates

    @property
    def held(self):
        """Micro-steps held in the open cycle, an int64 scalar; its value before the run's micro-step."""
        return self._only("held").held

    @property
    def skipped(self):
        """Micro-batches left out because one was not finite, an int64 scalar tensor."""
        return self._only("skipped").skipped

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=tf.train.Optimizer.GATE_OP,
                 aggregation_method=None, colocate_gradients_with_ops=False, name=None, grad_loss=None, weight=None):
        """Returns an op that adds the gradients of `loss`, and updates at the end of a cycle.

        State changed: as by `apply_gradients`.

        Args:
          loss: the loss of one micro-batch, a tensor.
          global_step: integer scalar variable; it counts updates.
          var_list: variables to train; None for those in TRAINABLE_VARIABLES.
          gate_gradients: as for `tf.train.Optimizer.minimize`.
          aggregation_method: as there.
          colocate_gradients_with_ops: as there.
          name: name of the op.
          grad_loss: as there.
          weight: how much the micro-batch counts, a real scalar (tensor) such as its number of
            examples; 1 when None.

        Raises:
          EagerModeError, ArgumentTypeError, ArgumentValueError: at build.
        """
        grads_and_vars = self.compute_gradients(
            loss, var_list=var_list, gate_gradients=gate_gradients, aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops, grad_loss=grad_loss)
        return self.apply_gradients(grads_and_vars, global_step=global_step, name=name, weight=weight)

    def compute_gradients(self, loss, var_list=None, *args, **kwargs):
        """Returns the micro-batch's gradients, as the wrapped optimizer computes them.

        What is done to them before `apply_gradients` is done to each micro-batch. To clip or
        change the gradient of the update, use `clip_global_norm` or `gradient_transform`.

        Args:
          loss: the loss of one micro-batch, a tensor.
          var_list: variables; None for those in TRAINABLE_VARIABLES.
          *args: as for `tf.train.Optimizer.compute_gradients`.
          **kwargs: as there.
        """
        _checks.graph_mode("compute_gradients")
        var_list = _checks.variable_list("compute_gradients", var_list)
        return self._optimizer.compute_gradients(loss, var_list, *args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, weight=None):
        """Returns an op that adds gradients, and updates at the end of a cycle.

        State changed: the sums, held count and micro-steps at every run; variables, slots,
        `global_step` and updates at the last run of a cycle. A second call is a second
        accumulation, with sums and counters of its own.

        Args:
          grads_and_vars: list of (gradient, variable); a gradient may be None.
          global_step: integer scalar variable; it counts updates.
          name: name of the op.
          weight: how much the micro-batch counts, a real scalar (tensor); 1 when None.

        Raises:
          EagerModeError, ArgumentTypeError, ArgumentValueError: at build.
          tf.errors.InvalidArgumentError: at run, with `nonfinite="error"`, naming the variable.
        """
        function = "apply_gradients"
        _checks.graph_mode(function)
        global_step = _checks.global_step(function, global_step)
        pairs = gradients.normalize_pairs(function, grads_and_vars)
        accumulator = GradientAccumulator(
            [variable for _, variable in pairs], config=self._config, gradient_transform=self._transform,
            name=self._accumulator_name)
        op = accumulator.micro_step_op(pairs, self._optimizer, global_step=global_step, weight=weight, name=name)
        self._accumulations.append(_Accumulation(accumulator, global_step))
        train_ops = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
        if op not in train_ops:
            train_ops.append(op)
        return op

    def flush(self, name=None):
        """Returns an op that applies an open cycle, and does nothing when none is open.

        G is divided by what was counted. It needs no feed but what the wrapped optimizer
        itself needs. State changed: variables, slots, `global_step` (by 1), updates; the
        cycle is empty afterwards.

        Args:
          name: name of the op.

        Raises:
          NotBuiltError: before `minimize` or `apply_gradients`.
          PhaseLeakError: when the optimizer or gradient_transform uses the model's inputs.
        """
        return self._each("flush", name, lambda accumulation: accumulation.accumulator.flush_op(
            self._optimizer, global_step=accumulation.global_step))

    def drop(self, name=None):
        """Returns an op that empties the open cycle, without an update.

        State changed: held count and weight are 0. Not changed: variables, slots, steps.

        Args:
          name: name of the op.

        Raises:
          NotBuiltError: before `minimize` or `apply_gradients`.
        """
        return self._each("drop", name, lambda accumulation: accumulation.accumulator.zero_op())

    def get_slot(self, var, name):
        """Returns the wrapped optimizer's slot `name` of a variable, or None."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self):
        """Returns the names of the wrapped optimizer's slots."""
        return self._optimizer.get_slot_names()

    def variables(self):
        """Returns the wrapped optimizer's variables; sums and counters are not among them."""
        return self._optimizer.variables()

    def get_name(self):
        """Returns the wrapped optimizer's name."""
        return name_of(self._optimizer)

    def _here(self):
        with tf.init_scope():
            graph = tf.get_default_graph()
        return [accumulation for accumulation in self._accumulations if accumulation.accumulator.graph is graph]

    def _built(self, function):
        accumulations = self._here()
        if not accumulations:
            raise errors.NotBuiltError(
                "AccumulatingOptimizer.%s: nothing accumulates in the default graph yet. Call minimize or "
                "apply_gradients first, inside `with graph.as_default():`." % function)
        return accumulations

    def _only(self, function):
        accumulations = self._built(function)
        if len(accumulations) > 1:
            raise errors.AccumulationError(
                "AccumulatingOptimizer.%s: there are %d accumulations, one for each call of apply_gradients. Use "
                "optimizer.accumulators[i].%s." % (function, len(accumulations), function))
        return accumulations[0].accumulator

    def _each(self, function, name, make_op):
        accumulations = self._built(function)
        for accumulation in accumulations:
            if function not in accumulation.ops:
                if accumulation.accumulator.graph.finalized:
                    raise errors.NotBuiltError(
                        "AccumulatingOptimizer.%s: the graph is finalized, so its op cannot be built any more. Call "
                        "optimizer.%s() once before the session is made, or use a TailHook." % (function, function))
                accumulation.ops[function] = make_op(accumulation)
        ops = [accumulation.ops[function] for accumulation in accumulations]
        return ops[0] if len(ops) == 1 and name is None else tf.group(*ops, name=name)

    def __getattr__(self, name):
        # Existing code reads attributes of its optimizer, such as a learning rate.
        if name.startswith("__") or "_optimizer" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __repr__(self):
        return "<AccumulatingOptimizer around %s, %r>" % (type(self._optimizer).__name__, self._config)


class _Accumulation(object):
    """One call of `apply_gradients`, and the ops made for it later."""

    def __init__(self, accumulator, global_step):
        self.accumulator = accumulator
        self.global_step = global_step
        self.ops = {}
