"""The state of an accumulation: its counters, and sums of gradients, dense or by rows.

All of it is kept in resource variables that need no initialiser. The counters read as
their start until something is written, and they tell of each sum whether it belongs to
the open cycle; one that does not is overwritten, never added to. So nothing is zeroed
between cycles, and whatever a sum held before (garbage, infinity, nothing) cannot
survive a cycle.
"""
from __future__ import absolute_import, division, print_function

from tf1accum import errors
from tf1accum._compat import cond, tf
from tf1accum.counters import MOST_GROUPS, CountersVariable
from tf1accum.gradients import to_dense
from tf1accum.sums import DenseSum, RowSum


class Accumulators(object):
    """The counters and sums of one accumulation.

    Sums are made in groups, one for each set of variables that an accumulate op is the
    first to reach. The counters say which cycle a group belongs to.

    Args:
      name: name scope of the variables.
      config: AccumulationConfig.
      first_variable: the variable beside which the counters are placed.

    Attributes:
      scope: name scope of the variables, which no other op has.
    """

    def __init__(self, name, config, first_variable):
        self._config = config
        with tf.init_scope(), tf.get_default_graph().name_scope(None), tf.name_scope(name) as scope:
            self.scope = scope
        self._groups = []
        with tf.init_scope(), tf.device(None), tf.device(first_variable.device), tf.device("/cpu:0"):
            self.counters = CountersVariable(self._maker(self.scope))

    def groups_for(self, gradients_and_variables):
        """Returns where to add the gradients; makes the sums that are missing.

        Args:
          gradients_and_variables: list of (tensor or `IndexedSlices`, variable).

        Returns:
          A list of (group, list of (sum, gradient or None)): each sum of each group that is
          reached, None for a sum that gets nothing.

        Raises:
          AccumulationError: after 16 groups.
        """
        found = {}
        missing = []
        for gradient, variable in gradients_and_variables:
            place = self._find(gradient, variable)
            if place is None:
                missing.append((gradient, variable))
            else:
                found[place] = gradient
        if missing:
            if len(self._groups) == MOST_GROUPS:
                raise errors.AccumulationError(
                    "accumulate_op: this is the %dth op that reaches other variables than the ones before. Use a "
                    "GradientAccumulator for each set of variables." % (MOST_GROUPS + 1))
            self._groups.append([self._make_sum(gradient, variable) for gradient, variable in missing])
            for index, (gradient, _) in enumerate(missing):
                found[len(self._groups) - 1, index] = gradient
        return [(group, [(total, found.get((group, index))) for index, total in enumerate(self._groups[group])])
                for group in sorted({group for group, _ in found})]

    @property
    def has_sums(self):
        """Whether an accumulate op has made a sum."""
        return bool(self._groups)

    def covers(self, gradients_and_variables):
        """Returns whether the gradients can be added without making a sum."""
        return all(self._find(gradient, variable) is not None for gradient, variable in gradients_and_variables)

    def read(self, variable, counters):
        """Returns the sum of a variable's gradients in the open cycle.

        Args:
          variable: a variable.
          counters: Counters, read before.

        Returns:
          A tensor, `IndexedSlices` with each row once, or None when no accumulate op reaches
          the variable.
        """
        parts = []
        for group, sums in enumerate(self._groups):
            for total in sums:
                if total.target is variable:
                    # All groups are current as soon as there is only one and it holds something.
                    parts.append(total.read() if len(self._groups) == 1 else
                                 cond(counters.is_current(group), total.read, total.nothing))
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        return tf.add_n([to_dense(part, variable) for part in parts])

    def _find(self, gradient, variable):
        for group, sums in enumerate(self._groups):
            for index, total in enumerate(sums):
                if total.target is variable and total.accepts(gradient):
                    return group, index
        return None

    def _make_sum(self, gradient, variable):
        dtype = self._config.sum_dtype(variable)
        with tf.init_scope(), tf.device(None), tf.device(variable.device):
            make_variable = self._maker(self.scope + variable.op.name + "/")
            if isinstance(gradient, tf.IndexedSlices) and self._config.sparse == "rows":
                return RowSum(variable, dtype, gradient.indices.dtype, make_variable)
            return DenseSum(variable, dtype, make_variable)

    def _maker(self, scope):
        collection = [tf.GraphKeys.GLOBAL_VARIABLES] if self._config.save_accumulators else []

        def make_variable(initial_value, name, shape):
            with tf.init_scope(), tf.name_scope(scope):
                return tf.Variable(initial_value, trainable=False, collections=collection, name=name, shape=shape,
                                   use_resource=True)
        return make_variable
