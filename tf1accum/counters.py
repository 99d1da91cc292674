"""What an accumulation counts, and where it keeps it."""
from __future__ import absolute_import, division, print_function

import collections

from tf1accum._compat import cond, tf

_COUNTERS = ("micro_steps", "updates", "held", "skipped", "nonfinite", "cycle", "weight")
# Accumulate ops that cover other variables than the ones before need a group of sums each.
MOST_GROUPS = 16


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
        scalars = tf.unstack(vector, num=len(_COUNTERS) + MOST_GROUPS)
        return cls(*(scalars[:len(_COUNTERS)] + [scalars[len(_COUNTERS):]]))

    def pack(self):
        """Returns the float64 vector that holds these counters."""
        return tf.stack(list(self[:-1]) + list(self.groups))

    def is_current(self, group):
        """Returns a bool scalar tensor: the group's sums belong to the open cycle."""
        return tf.equal(self.groups[group], self.cycle)

    def after_micro_step(self, weight, group_indices, counted=None, skips=False):
        """Returns the counters after a micro-step.

        Args:
          weight: float64 scalar tensor.
          group_indices: the groups of sums that the micro-step wrote to.
          counted: bool scalar tensor, or None for True: the micro-batch was finite.
          skips: whether one that was not is left out of the cycle.
        """
        finite = 1. if counted is None else tf.cast(counted, tf.float64)
        nonfinite = 1. - finite
        groups = list(self.groups)
        for index in group_indices:
            groups[index] = self.cycle if counted is None else tf.where(counted, self.cycle, groups[index])
        if skips and counted is not None:
            weight = tf.where(counted, weight, tf.zeros([], tf.float64))
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
        self._start = [0.] * len(_COUNTERS) + [-1.] * MOST_GROUPS
        self.variable = make_variable(lambda: tf.constant(self._start, tf.float64), "counters", None)

    def read(self):
        """Returns Counters. Not changed: anything."""
        return Counters.unpack(read_or(self.variable, lambda: tf.constant(self._start, tf.float64)))

    def write(self, counters):
        """Returns an op. State changed: the counters."""
        return self.variable.assign(counters.pack(), read_value=False)


def read_or(variable, default):
    """Returns the value of a resource variable, or `default()` while it has none."""
    return cond(variable.is_initialized(), variable.read_value, default)
