"""Sums of a variable's gradients in the open cycle: dense, or by rows."""
from __future__ import absolute_import, division, print_function

from tf1accum._compat import cond, tf
from tf1accum.counters import read_or
from tf1accum.gradients import merge_rows, shape_tensor


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
        return tf.unstack(read_or(self._extent, lambda: tf.zeros([2], tf.int64)), num=2)

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
