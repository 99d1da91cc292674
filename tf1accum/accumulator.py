"""GradientAccumulator: the builders of the four phases, and of a micro-step that is all of them."""
from __future__ import absolute_import, division, print_function

from tf1accum import _checks, errors, gradients, phases
from tf1accum._compat import cond, in_control_flow, loss_scale_optimizer_class, run_before, seed_neutral, tf
from tf1accum.accumulators import Accumulators
from tf1accum.config import make_config
from tf1accum.micro_batch import MicroBatch
from tf1accum.normalization import normalize
from tf1accum.updates import Update, name_of

_TRANSFORM_RULE = "a function from a list of (gradient, variable) pairs to such a list, or None"


class GradientAccumulator(object):
    """Sums gradients that come from anywhere, and gives their mean to an optimizer.

    `G = sum(w[k] * g[k]) / sum(w[k])` over the micro-steps k of a cycle, or the sum alone
    with `reduction="sum"`. Build the accumulate ops first, then `normalize_op` and `apply_op`;
    in one session run, run one phase of an accumulator once.

    Args:
      variables: the variables that gradients may come for; partitioned ones stand for their
        shards.
      config: AccumulationConfig, or None for its fields as keywords.
      gradient_transform: function from a list of (gradient, variable) to such a list, which
        changes G once an update, after the clipping; or None.
      name: name scope of ops and state, "accumulation" when None.
      **fields: fields of AccumulationConfig.

    Raises:
      EagerModeError, ArgumentTypeError, ArgumentValueError: at build.
    """

    def __init__(self, variables, config=None, gradient_transform=None, name=None, **fields):
        function = "GradientAccumulator"
        _checks.graph_mode(function)
        self._config = make_config(function, config, fields)
        self._variables = _checks.variables(function, "variables", variables)
        self._transform = _checks.optional_callable(function, "gradient_transform", gradient_transform,
                                                    _TRANSFORM_RULE)
        self._name = name or "accumulation"
        self._graph = self._variables[0].graph
        self._gradient_ops = []
        self._accumulate_ops = []
        self._has_weights = False
        self._normalized = None
        self.apply_placeholders = []
        with tf.init_scope(), seed_neutral(), self._graph.name_scope(None):
            self._accumulators = Accumulators(self._name, self._config, self._variables[0])
            with tf.name_scope(self._accumulators.scope):
                self._counters = self._accumulators.counters.read()
                self._public = {field: tf.cast(getattr(self._counters, field), tf.int64, name=field)
                                for field in ("micro_steps", "updates", "held", "skipped")}
                # Training that starts anew must not begin with what an open cycle holds.
                run_before(self._variables[0].initializer, self._accumulators.counters.variable.initializer)

    @property
    def config(self):
        """The AccumulationConfig."""
        return self._config

    @property
    def graph(self):
        """The graph that holds the state."""
        return self._graph

    @property
    def variables(self):
        """The variables that gradients may come for, a list."""
        return list(self._variables)

    @property
    def micro_steps(self):
        """Micro-steps run, an int64 scalar tensor."""
        return self._public["micro_steps"]

    @property
    def updates(self):
        """Updates made, an int64 scalar tensor."""
        return self._public["updates"]

    @property
    def held(self):
        """Micro-steps held in the open cycle, an int64 scalar tensor."""
        return self._public["held"]

    @property
    def skipped(self):
        """Micro-batches left out because one was not finite, an int64 scalar tensor."""
        return self._public["skipped"]

    @property
    def total_weight(self):
        """Sum of the weights held in the open cycle, a float64 scalar tensor."""
        return self._counters.weight

    def zero_op(self, name=None):
        """Returns an op that empties the open cycle, without an update.

        State changed: held count, weight and sums are those of an empty cycle. Not changed:
        variables, slots, steps, and the counts of micro-steps and updates.

        Args:
          name: name of the op.
        """
        with tf.init_scope(), seed_neutral(), tf.name_scope(name, self._name + "_zero") as scope:
            counters = self._counters.after_cycle()
            op = tf.group(self._accumulators.counters.write(counters), name=scope)
            self._check_phase("zero", [op])
            return op

    def accumulate_op(self, grads_and_vars, weight=None, name=None):
        """Returns an op that adds one micro-batch's gradients to the open cycle.

        Gradients are paired with sums by variable, not by position. All of them are computed
        before the first is added: a run that fails adds none.

        State changed: sums, weight, held count, micro-steps. Not changed: variables, slots,
        steps.

        Args:
          grads_and_vars: list of (gradient, variable); a gradient is a tensor,
            `IndexedSlices`, or None, which adds nothing.
          weight: how much the micro-batch counts: a real scalar (tensor), 1 when None.
          name: name of the op.

        Raises:
          ArgumentTypeError, ArgumentValueError: at build.
          tf.errors.InvalidArgumentError: at run, with `nonfinite="error"`, naming the variable.
        """
        return self.accumulate_for(None, grads_and_vars, weight, name)

    def normalize_op(self):
        """Returns a list of (G, variable): what the optimizer is given.

        A sum of rows comes as `IndexedSlices` in which each row stands once. Reading changes
        nothing.

        Raises:
          NotBuiltError: before the first accumulate op.
          PhaseLeakError: when gradient_transform uses the model's inputs.
          tf.errors.InvalidArgumentError: at run, when the cycle is empty.
        """
        if not self._accumulate_ops:
            raise errors.NotBuiltError("normalize_op: there is no accumulate op yet. Call accumulate_op first.")
        if self._normalized is None:
            with tf.init_scope(), seed_neutral(), tf.name_scope(self._name + "_normalize"):
                with tf.control_dependencies([self._fail_unless(
                        self._has_gradient(), "There is no gradient to read: the cycle is empty, or is to end without "
                        "an update because a micro-batch was not finite. Held micro-steps:")]):
                    self._normalized = self._normalize(self._counters)
                self._check_phase("normalize", [tensor.op for gradient, _ in self._normalized
                                                for tensor in gradients.tensors_of(gradient)])
        return list(self._normalized)

    def apply_op(self, optimizer, global_step=None, name=None):
        """Returns an op that gives G to the optimizer once, and ends the cycle.

        It needs no feed but what the optimizer itself needs (`apply_placeholders`), and runs
        neither the forward pass nor an accumulate op.

        State changed: variables, slots, `global_step` (by 1), updates; the cycle is empty
        afterwards. When its total weight is zero (or, with `nonfinite="skip_cycle"`, when one
        micro-batch was not finite), the cycle ends and nothing else changes.

        Args:
          optimizer: a `tf.compat.v1.train.Optimizer`.
          global_step: integer scalar variable that counts updates, or None.
          name: name of the op.

        Raises:
          NotBuiltError: before the first accumulate op.
          PhaseLeakError: when the optimizer or gradient_transform uses the model's inputs.
          tf.errors.InvalidArgumentError: at run, when the cycle is empty.
        """
        function = "apply_op"
        _checks.optimizer(function, optimizer)
        update = Update(optimizer, _checks.global_step(function, global_step))
        pairs = self.normalize_op()
        with tf.init_scope(), seed_neutral() as ids, tf.name_scope(name, self._name + "_apply") as scope:
            with tf.control_dependencies([self._fail_unless(
                    self._is_open(), "The cycle is empty: no micro-batch was accumulated since the last update or "
                    "zero. Run the accumulate op first. Held micro-steps:")]):
                counters = self._counters._replace(weight=tf.identity(self._counters.weight))
            # A cycle that makes no update may have no sums to read.
            make_pairs = (lambda: self._normalize(counters)) if self._may_make_no_update else (lambda: pairs)
            op = tf.group(self._end_cycle(counters, make_pairs, update, ids), name=scope)
            self.apply_placeholders = self._check_phase("apply", [op])
            return op

    def micro_step_op(self, grads_and_vars, optimizer, global_step=None, weight=None, name=None):
        """Returns an op that adds a micro-batch, and updates when that completes the cycle.

        State changed: what `accumulate_op` changes; at the end of a cycle, what `apply_op`
        changes.

        Args:
          grads_and_vars: as for `accumulate_op`.
          optimizer: a `tf.compat.v1.train.Optimizer`.
          global_step: integer scalar variable that counts updates, or None.
          weight: as for `accumulate_op`.
          name: name of the op.

        Raises:
          ArgumentTypeError, ArgumentValueError: at build.
        """
        function = "apply_gradients"
        pairs = self._normalize_pairs(function, grads_and_vars)
        _checks.updatable_here(function, [variable for _, variable in pairs] + [global_step])
        weight = self._take_weight(function, weight)
        update = Update(optimizer, global_step)
        # The op has the name that the optimizer's would have: it may be looked up by it.
        with seed_neutral() as ids, tf.name_scope(name, name_of(optimizer)) as scope:
            counters = self._read_counters()
            build = self._single_step if self._config.steps == 1 else self._micro_step
            op = tf.group(build(counters, pairs, weight, update, ids), name=scope)
        self._remember(op, pairs)
        return op

    def flush_op(self, optimizer, global_step=None, name=None):
        """Returns an op that applies an open cycle, and does nothing when none is open.

        State changed: as by `apply_op`.

        Args:
          optimizer: a `tf.compat.v1.train.Optimizer`.
          global_step: integer scalar variable that counts updates, or None.
          name: name of the op.

        Raises:
          PhaseLeakError: when the optimizer or gradient_transform uses the model's inputs.
        """
        with tf.init_scope(), seed_neutral(), tf.name_scope(name, self._name + "_flush") as scope:
            if not self._accumulators.has_sums:
                return tf.no_op(name=scope)
            update = Update(optimizer, global_step)
            counters = self._counters
            op = cond(self._is_open(),
                      lambda: self._end_cycle(counters, lambda: self._normalize(counters), update, None),
                      tf.no_op)
            op = tf.group(op, name=scope)
            self.apply_placeholders = self._check_phase("apply", [op])
            return op

    def accumulate_for(self, optimizer, grads_and_vars, weight=None, name=None):
        """Returns what `accumulate_op` returns, and tells a loss-scaling optimizer of overflows.

        Args:
          optimizer: the `tf.compat.v1.train.Optimizer` that will apply, or None.
          grads_and_vars: as for `accumulate_op`.
          weight: as for `accumulate_op`.
          name: as for `accumulate_op`.
        """
        function = "accumulate_op"
        pairs = self._normalize_pairs(function, grads_and_vars)
        weight = self._take_weight(function, weight)
        update = Update(optimizer, None)
        with seed_neutral() as ids, tf.name_scope(name, self._name + "_accumulate") as scope:
            _, held = self._hold(self._read_counters(), MicroBatch(pairs, weight, self._config), update, ids)
            op = tf.group(held, name=scope)
        self._remember(op, pairs)
        return op

    def _micro_step(self, counters, pairs, weight, update, ids):
        # The micro-batch is held before there is an update, so that it is counted once whatever
        # becomes of the update.
        counters, held = self._hold(counters, MicroBatch(pairs, weight, self._config), update, ids)
        with tf.control_dependencies([held]):
            due = tf.greater_equal(counters.held, self._steps(counters, update.global_step))
        return cond(due, lambda: self._end_cycle(counters, lambda: self._normalize(counters), update, ids), tf.no_op)

    def _single_step(self, counters, pairs, weight, update, ids):
        config = self._config
        if weight is None and config.nonfinite == "propagate":
            finite, sums = None, [pair for pair in pairs if pair[0] is not None]
        else:
            batch = MicroBatch(pairs, weight, config)
            finite, sums = batch.finite, batch.once_ready()
        if self._transform is not None or config.clip_global_norm is not None:
            sums = [(gradients.unique_rows(gradient), variable) for gradient, variable in sums]
        counters = counters.after_micro_step(tf.ones([], tf.float64) if weight is None else weight, [], finite,
                                             skips=config.nonfinite == "skip")

        def end_cycle():
            return self._end_cycle(counters, lambda: normalize(sums, weight, config, self._transform), update, ids)

        def leave_out():
            skipped = 1. if config.nonfinite == "skip_cycle" else 0.
            return tf.group(self._accumulators.counters.write(counters.after_cycle(skipped=skipped)),
                            self._tell_loss_scale(sums, update, ids))

        return end_cycle() if finite is None else cond(finite, end_cycle, leave_out)

    def _hold(self, counters, batch, update, ids):
        """Returns the counters after a micro-batch, and the op that adds it and then writes them."""
        groups = self._accumulators.groups_for(batch.pairs)
        with tf.control_dependencies(batch.ready):
            current = [tf.identity(counters.is_current(group)) for group, _ in groups]
            finite = None if batch.finite is None else tf.identity(batch.finite)

        def write():
            return tf.group(*[
                cond(is_current,
                     lambda sums=sums: tf.group(*[total.add(gradient) for total, gradient in sums
                                                  if gradient is not None]),
                     lambda sums=sums: tf.group(*[total.clear() if gradient is None else total.overwrite(gradient)
                                                  for total, gradient in sums]))
                for is_current, (_, sums) in zip(current, groups)])

        written = write() if finite is None else cond(
            finite, write, lambda: self._tell_loss_scale(batch.pairs, update, ids))
        counters = counters.after_micro_step(batch.weight, [group for group, _ in groups], finite,
                                             skips=self._config.nonfinite == "skip")
        with tf.control_dependencies([written]):
            return counters, self._accumulators.counters.write(counters)

    def _tell_loss_scale(self, pairs, update, ids):
        # A loss scale goes down only when its optimizer is shown what has overflowed. It makes
        # no update of that. Without this, a scale that is too large would skip for ever.
        if not isinstance(update.optimizer, loss_scale_optimizer_class()):
            return tf.no_op()
        return update.build(gradients.in_variable_dtype(pairs), ids, moves_step=False)

    def _end_cycle(self, counters, make_pairs, update, ids):
        write = self._accumulators.counters.write

        def apply():
            with tf.control_dependencies([update.build(make_pairs(), ids)]):
                return write(counters.after_cycle(updates=1.))

        if not self._may_make_no_update:
            return apply()
        makes_update = tf.not_equal(counters.weight, 0.)
        skipped = tf.zeros([], tf.float64)
        if self._config.nonfinite == "skip_cycle":
            all_finite = tf.equal(counters.nonfinite, 0.)
            makes_update = tf.logical_and(makes_update, all_finite)
            skipped = tf.where(all_finite, skipped, counters.held)
        return cond(makes_update, apply, lambda: write(counters.after_cycle(skipped=skipped)))

    def _normalize(self, counters):
        sums = [(self._accumulators.read(variable, counters), variable) for variable in self._variables]
        return normalize([pair for pair in sums if pair[0] is not None], counters.weight, self._config,
                         self._transform)

    def _steps(self, counters, global_step):
        if not callable(self._config.steps):
            return tf.constant(self._config.steps, tf.float64)
        # The step is in every checkpoint, the counters are not: a schedule goes on after a restart.
        count = counters.updates if global_step is None else global_step
        steps = tf.convert_to_tensor(self._config.steps(tf.cast(count, tf.int64)))
        rule = "a callable that returns an integer scalar of at least 1"
        if not steps.dtype.is_integer:
            _checks.fail_type("apply_gradients", "steps", rule, steps)
        constant = tf.get_static_value(steps)
        if not steps.shape.is_compatible_with([]) or (constant is not None and constant < 1):
            _checks.fail_value("apply_gradients", "steps", rule, steps)
        return tf.cast(steps, tf.float64)

    def _read_counters(self):
        # One read for all ops of the graph: what is fetched beside a micro-step is the value
        # before it. A loop needs its own read each time round.
        return self._accumulators.counters.read() if in_control_flow() else self._counters

    def _is_open(self):
        return tf.greater(self._counters.held + self._counters.nonfinite, 0.)

    def _has_gradient(self):
        held = tf.greater(self._counters.held, 0.)
        if self._config.nonfinite != "skip_cycle":
            return held
        return tf.logical_and(held, tf.equal(self._counters.nonfinite, 0.))

    def _fail_unless(self, condition, message):
        return tf.debugging.Assert(condition, [message, self._counters.held])

    @property
    def _may_make_no_update(self):
        return self._has_weights or self._config.nonfinite in ("skip", "skip_cycle")

    def _normalize_pairs(self, function, grads_and_vars):
        pairs = gradients.normalize_pairs(function, grads_and_vars)
        gradients.check_known(function, pairs, self._variables)
        if self._normalized is not None and not self._accumulators.covers(
                [pair for pair in pairs if pair[0] is not None]):
            raise errors.AccumulationError(
                "%s: reaches variables that the ops of normalize and apply, which are built already, do not know. "
                "Build every accumulate op before them." % function)
        return pairs

    def _take_weight(self, function, weight):
        with seed_neutral():
            weight = _checks.weight(function, weight)
        if weight is not None and not self._has_weights:
            if self._normalized is not None:
                raise errors.AccumulationError(
                    "%s: the first weight comes after normalize and apply were built. Build every accumulate op "
                    "before them." % function)
            self._has_weights = True
        return weight

    def _remember(self, op, pairs):
        self._accumulate_ops.append(op)
        self._gradient_ops.extend(tensor.op for gradient, _ in pairs if gradient is not None
                                  for tensor in gradients.tensors_of(gradient))

    def _check_phase(self, phase, ops):
        here = [op for op in self._accumulate_ops if op.graph is self._graph]
        model = [op for op in self._gradient_ops if op.graph is self._graph]
        return phases.check_phase(phase + "_op", phase, ops, here, model)

    def __repr__(self):
        return "<GradientAccumulator %r: %d variables, %r>" % (self._name, len(self._variables), self._config)
