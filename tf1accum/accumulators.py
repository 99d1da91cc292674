"""The state of an accumulation: its counters, and sums of gradients, dense or by rows.

All of it is kept in resource variables that need no initialiser. The counters read as
their start until something is written, and they tell of each sum whether it belongs to
the open cycle; one that does not is overwritten, never added to. So nothing is zeroed
between cycles, and whatever a sum held before (garbage, infinity, nothing) cannot
survive a cycle.
"""
from __future__ import absolute_import, division, print_function

import collections

from tf1accum import errors
from tf1accum._compat import cond, tf
from tf1accum.gradients import merge_rows, shape_tensor, to_dense

_COUNTERS = ("micro_steps", "updates", "held", "skipped", "nonfinite", "cycle", "weight")
# Accumulate ops that cover other variables than the ones before need a group of sums each.
_MOST_GROUPS = 16


class Counters(collections.namedtuple("Counters", _COUNTERS + ("groups",))):
    """What an accumulation has counted: float64 scalar tensors.

    They are kept in one float64 vector, so that they live, start and die together; it
    holds whole numbers exactly up to 2**53.

    Attributes:
      micro_steps: micro-steps run; changes at every micro-step.
      updates: updates made.
      held: micro-steps held in the open cycle; 0 after an update.
      skipped: micro-batches that were left out because one was not finite.
      nonfinite: micro-batches of the open cycle that were not finite, where that matters.
      cycle: number of the open cycle; changes whenever a cycle ends, by whatever cause.
      weight: sum of the weights held in the open cycle.
      groups: for each group of sums, the cycle that it belongs to.
    """

    __slots__ = ()

    @classmethod
    def unpack(cls, vector):
        """Returns the counters in a float64 vector."""
        scalars = tf.unstack(vector, num=len(_COUNTERS) + _MOST_GROUPS)
        return cls(*(scalars[:len(_COUNTERS)] + [scalars[len(_COUNTERS):]]))

    def pack(self):
        """Returns the float64 vector that holds these counters."""
        return tf.stack([tf.cast(scalar, tf.float64) for scalar in self[:-1]] + list(self.groups))

    def is_current(self, group):
        """Returns a bool scalar tensor: the group's sums belong to the open cycle."""
        return tf.equal(self.groups[group], self.cycle)

    def after_micro_step(self, weight, group_indices, counted=None, skips=False):
        """Returns the counters after a micro-step.

        Args:
          weight: float64 scalar tensor or number.
          group_indices: the groups of sums that the micro-step wrote to.
          counted: bool scalar tensor, or None for True: the micro-batch was finite.
          skips: whether one that was not is left out of the cycle.
        """
        if counted is None:
            counted = finite = 1.
            nonfinite = 0.
        else:
            finite = tf.cast(counted, tf.float64)
            nonfinite = 1. - finite
            weight = tf.where(counted, tf.cast(weight, tf.float64), tf.zeros([], tf.float64)) if skips else weight
        groups = list(self.groups)
        for index in group_indices:
            groups[index] = self.cycle if counted is finite else tf.where(counted, self.cycle, groups[index])
        return self._replace(
            micro_steps=self.micro_steps + 1.,
            held=self.held + (finite if skips else 1.),
            skipped=self.skipped + (nonfinite if skips else 0.),
            nonfinite=self.nonfinite + nonfinite,
            weight=self.weight + weight,
            groups=groups)

    def after_cycle(self, updates=0., skipped=0.):
        """Returns the counters with the open cycle ended.

        Args:
          updates: updates that ended it, 0 or 1.
          skipped: micro-batches that were left out with it.
        """
        zero = tf.zeros([], tf.float64)
        return self._replace(updates=self.updates + updates, skipped=self.skipped + skipped, held=zero,
                             nonfinite=zero, weight=zero, cycle=self.cycle + 1.)


class CountersVariable(object):
    """Keeps the counters. Reads as their start until it is written.

    Args:
      make_variable: a function (initial value, name, shape) -> resource variable.
    """

    def __init__(self, make_variable):
        self._start = [0.] * len(_COUNTERS) + [-1.] * _MOST_GROUPS
        self.variable = make_variable(lambda: tf.constant(self._start, tf.float64), "counters", None)

    def read(self):
        """Returns Counters. Not changed: anything."""
        return Counters.unpack(_read_or(self.variable, lambda: tf.constant(self._start, tf.float64)))

    def write(self, counters):
        """Returns an op. State changed: the counters."""
        return self.variable.assign(counters.pack(), read_value=False)


def _read_or(variable, default):
    return cond(variable.is_initialized(), variable.read_value, default)


class DenseSum(object):
    """The sum of a variable's gradients, as a tensor of its shape.

    Args:
      variable: the variable that is trained.
      dtype: dtype of the sum.
      make_variable: a function (initial value, name, shape) -> resource variable.
    """

    def __init__(self, variable, dtype, make_variable):
        known = variable.shape.is_fully_defined()
        self.target = variable
        self._dtype = dtype
        self._sum = make_variable(lambda: tf.zeros(variable.shape if known else [], dtype), "sum",
                                  None if known else variable.shape)

    def accepts(self, gradient):
        """Returns whether such a gradient can be added: any can."""
        del gradient
        return True

    def overwrite(self, gradient):
        """Returns an op. State changed: the sum is `gradient`, whatever it was."""
        if not isinstance(gradient, tf.IndexedSlices):
            return self._sum.assign(gradient, read_value=False)
        with tf.control_dependencies([self.clear()]):
            return self.add(gradient)

    def add(self, gradient):
        """Returns an op. State changed: `gradient` is added to the sum."""
        if isinstance(gradient, tf.IndexedSlices):
            return tf.raw_ops.ResourceScatterAdd(resource=self._sum.handle, indices=gradient.indices,
                                                 updates=gradient.values)
        return self._sum.assign_add(gradient, read_value=False)

    def clear(self):
        """Returns an op. State changed: the sum is zero, whatever it was."""
        return self._sum.assign(self.nothing(), read_value=False)

    def read(self):
        """Returns the sum, a tensor. Not changed: anything."""
        value = self._sum.read_value()
        value.set_shape(self.target.shape)
        return value

    def nothing(self):
        """Returns the sum of no gradients, a tensor of zeros."""
        return tf.zeros(shape_tensor(self.target), self._dtype)


class RowSum(object):
    """The sum of an embedding's gradients, kept as the rows that were touched.

    The rows of each micro-batch are appended to a buffer, at the cost of copying them. When
    it is full, rows with the same index are added up, and the buffer becomes twice as large
    as what is left. So the memory is at most twice that of the distinct rows touched in a
    cycle, and of one micro-batch; and the cost of a row does not depend on how many are held.

    Args:
      variable: the variable that is trained.
      dtype: dtype of the sums.
      index_dtype: dtype of the indices.
      make_variable: a function (initial value, name, shape) -> resource variable.
    """

    def __init__(self, variable, dtype, index_dtype, make_variable):
        self.target = variable
        self._dtype = dtype
        self._index_dtype = index_dtype
        self._row_shape = variable.shape[1:] if variable.shape.ndims else tf.TensorShape(None)
        row = self._row_shape.as_list() if self._row_shape.is_fully_defined() else None
        self._indices = make_variable(lambda: tf.zeros([0], index_dtype), "indices", tf.TensorShape([None]))
        self._rows = make_variable(
            lambda: tf.zeros([0] + (row or []), dtype), "rows",
            tf.TensorShape([None]).concatenate(self._row_shape) if row is not None else tf.TensorShape(None))
        # Rows held, and rows that there is room for.
        self._extent = make_variable(lambda: tf.zeros([2], tf.int64), "extent", None)

    def accepts(self, gradient):
        """Returns whether such a gradient can be added: only rows can."""
        return isinstance(gradient, tf.IndexedSlices)

    def overwrite(self, gradient):
        """Returns an op. State changed: only the rows of `gradient` are held."""
        _, room = self._read_extent()
        count = tf.size(gradient.indices, out_type=tf.int64)

        def take_over():
            return self._replace(tf.cast(gradient.indices, self._index_dtype), gradient.values, count, count)

        # There is no buffer yet where there is no room, even for a micro-batch without rows.
        fits = tf.logical_and(count <= room, room > 0)
        return cond(fits, lambda: self._append(gradient, tf.zeros([], tf.int64), room), take_over)

    def add(self, gradient):
        """Returns an op. State changed: the rows of `gradient` are added."""
        held, room = self._read_extent()
        count = tf.size(gradient.indices, out_type=tf.int64)

        def compact():
            indices, rows = self._gather(held)
            indices, rows = merge_rows(tf.concat([indices, tf.cast(gradient.indices, self._index_dtype)], 0),
                                       tf.concat([rows, gradient.values], 0))
            distinct = tf.size(indices, out_type=tf.int64)
            spare = tf.concat([[distinct], tf.shape(rows, out_type=tf.int64)[1:]], 0)
            return self._replace(tf.concat([indices, tf.zeros([distinct], self._index_dtype)], 0),
                                 tf.concat([rows, tf.zeros(spare, self._dtype)], 0), distinct, 2 * distinct)

        return cond(held + count <= room, lambda: self._append(gradient, held, room), compact)

    def clear(self):
        """Returns an op. State changed: no row is held."""
        return self._extent.assign(tf.stack([tf.zeros([], tf.int64), self._read_extent()[1]]), read_value=False)

    def read(self):
        """Returns the sum, `IndexedSlices` with each row once. Not changed: anything."""
        indices, rows = merge_rows(*self._gather(self._read_extent()[0]))
        rows.set_shape(tf.TensorShape([None]).concatenate(self._row_shape))
        return self._slices(indices, rows)

    def nothing(self):
        """Returns the sum of no gradients, `IndexedSlices` without rows."""
        shape = tf.concat([[0], shape_tensor(self.target)[1:]], 0)
        return self._slices(tf.zeros([0], self._index_dtype), tf.zeros(shape, self._dtype))

    def _slices(self, indices, rows):
        return tf.IndexedSlices(rows, indices, shape_tensor(self.target))

    def _read_extent(self):
        return tf.unstack(_read_or(self._extent, lambda: tf.zeros([2], tf.int64)), num=2)

    def _gather(self, held):
        positions = tf.range(held)
        return (tf.raw_ops.ResourceGather(resource=self._indices.handle, indices=positions, dtype=self._index_dtype),
                tf.raw_ops.ResourceGather(resource=self._rows.handle, indices=positions, dtype=self._dtype))

    def _append(self, gradient, held, room):
        end = held + tf.size(gradient.indices, out_type=tf.int64)
        positions = tf.range(held, end)
        indices = tf.cast(gradient.indices, self._index_dtype)
        return tf.group(
            tf.raw_ops.ResourceScatterUpdate(resource=self._indices.handle, indices=positions, updates=indices),
            tf.raw_ops.ResourceScatterUpdate(resource=self._rows.handle, indices=positions, updates=gradient.values),
            self._extent.assign(tf.stack([end, room]), read_value=False))

    def _replace(self, indices, rows, held, room):
        return tf.group(self._indices.assign(indices, read_value=False), self._rows.assign(rows, read_value=False),
                        self._extent.assign(tf.stack([held, room]), read_value=False))


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
            if len(self._groups) == _MOST_GROUPS:
                raise errors.AccumulationError(
                    "accumulate_op: this is the %dth op that reaches other variables than the ones before. Use a "
                    "GradientAccumulator for each set of variables." % (_MOST_GROUPS + 1))
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
