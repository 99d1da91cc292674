"""One application of the wrapped optimizer: names, step and collections as without a wrapper."""
from __future__ import absolute_import, division, print_function

from tf1accum._compat import assigns, build_and_list, tf, variable_handle


def name_of(optimizer):
    """Returns an optimizer's name; its class's where it never was given one."""
    try:
        return optimizer.get_name()
    except AttributeError:
        # `tf.contrib.opt.MovingAverageOptimizer` does not call the constructor of its base class.
        return type(optimizer).__name__


class Update(object):
    """Builds applications of an optimizer, as if it stood where the caller called.

    Args:
      optimizer: a `tf.compat.v1.train.Optimizer`.
      global_step: integer scalar variable that counts updates, or None.
    """

    def __init__(self, optimizer, global_step):
        self.optimizer = optimizer
        self.global_step = global_step
        # Variables that the optimizer makes get the names that they would get here.
        self._scope = tf.get_default_graph().get_name_scope()

    def build(self, grads_and_vars, ids=None, moves_step=True):
        """Returns an op that applies the optimizer once, and then moves `global_step` by 1.

        State changed: variables, slots, `global_step`.

        Args:
          grads_and_vars: list of (gradient, variable).
          ids: what `seed_neutral` yielded, when the bare optimizer would build these ops too.
          moves_step: whether the step belongs to it.
        """
        graph = tf.get_default_graph()
        step = self.global_step if moves_step else None
        train_ops = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
        known_train_ops = list(train_ops)
        with graph.name_scope(self._scope + "/" if self._scope else None):
            applied, built = build_and_list(lambda: self.optimizer.apply_gradients(
                grads_and_vars, global_step=step))
        if ids is not None:
            ids.count(built)
        # What the optimizer registered is one part of a conditional, of no use by itself.
        train_ops[:] = known_train_ops
        if step is None or any(assigns(op, variable_handle(step)) for op in built):
            return tf.group(applied)
        # Some optimizers leave the step to their caller.
        with tf.control_dependencies([applied]):
            return tf.group(tf.assign_add(step, 1))
