"""TailHook: what becomes of an open cycle when a session ends."""
from __future__ import absolute_import, division, print_function

import os

from tf1accum import _checks
from tf1accum._compat import tf
from tf1accum.optimizer import AccumulatingOptimizer
from tf1accum.runner import TAILS


class TailHook(tf.train.SessionRunHook):
    """Flushes or drops an open cycle at the end of a monitored session.

    A session ends when its data is exhausted, its steps are done or its block is left; not
    when an exception leaves it. Hooks end in the order in which they were given, and the
    CheckpointSaverHook of `MonitoredTrainingSession` comes before those in `hooks`. So give
    this one as one of `chief_only_hooks`, which come first: then the last checkpoint holds
    the flushed weights. Or, as in an Estimator, give `checkpoint_dir`.

    Args:
      optimizer: the AccumulatingOptimizer.
      tail: "flush" makes an update of the open cycle; "drop" empties it.
      checkpoint_dir: folder into which another checkpoint is saved when a flush has changed
        the weights; None saves none.

    Raises:
      ArgumentTypeError, ArgumentValueError: when an argument is not accepted.
    """

    def __init__(self, optimizer, tail="flush", checkpoint_dir=None):
        if not isinstance(optimizer, AccumulatingOptimizer):
            _checks.fail_type("TailHook", "optimizer", "an AccumulatingOptimizer", optimizer)
        self._optimizer = optimizer
        self._tail = _checks.one_of("TailHook", "tail", tail, TAILS)
        self._checkpoint_dir = checkpoint_dir
        self._op = None
        self._held = None
        self._saver = None

    def begin(self):
        """Builds the op that is run at the end."""
        self._op = self._optimizer.flush() if self._tail == "flush" else self._optimizer.drop()
        self._held = [accumulator.held for accumulator in self._optimizer.accumulators]
        if self._checkpoint_dir is not None:
            savers = tf.get_collection(tf.GraphKeys.SAVERS)
            self._saver = savers[0] if savers else tf.train.Saver(sharded=True)

    def end(self, session):
        """Runs it. State changed: as by `AccumulatingOptimizer.flush` or `drop`."""
        open_cycle = any(session.run(self._held))
        session.run(self._op)
        if self._saver is not None and open_cycle and self._tail == "flush":
            self._saver.save(session, os.path.join(self._checkpoint_dir, "model.ckpt"),
                             global_step=tf.train.get_global_step(session.graph), write_meta_graph=False)

    def __repr__(self):
        return "<TailHook: %s, %r>" % (self._tail, self._optimizer)
