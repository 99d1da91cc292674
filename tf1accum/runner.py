"""PhaseRunner: runs the phases of a cycle in order, for any number of micro-batches."""
from __future__ import absolute_import, division, print_function

import itertools

from tf1accum import _checks
from tf1accum.ops import AccumulationOps

TAILS = ("flush", "drop")


class PhaseRunner(object):
    """Runs zero, accumulate for each feed, and apply, in a session.

    Args:
      sess: a session, of `tf.compat.v1.Session` or the monitored kind.
      ops: what `build` returned.

    Raises:
      ArgumentTypeError: when one of them is something else.
    """

    def __init__(self, sess, ops):
        if not callable(getattr(sess, "run", None)):
            _checks.fail_type("PhaseRunner", "sess", "a session", sess)
        if not isinstance(ops, AccumulationOps):
            _checks.fail_type("PhaseRunner", "ops", "the AccumulationOps that build returned", ops)
        self._sess = sess
        self._ops = ops

    def run_cycle(self, feeds, fetches=None, apply_feed=None):
        """Makes one update of all micro-batches in `feeds`, however many there are.

        State changed: as by one update. When a run or the iterable fails, the cycle is left
        open and the next one begins with an empty one: weights, slots and step stay.

        Args:
          feeds: iterable of feed_dicts, one a micro-batch; at least one.
          fetches: what to fetch with each micro-batch, anything `Session.run` takes; computed
            by the same run as its gradients.
          apply_feed: feed_dict for the update, such as a learning rate; see
            `AccumulationOps.apply_placeholders`.

        Returns:
          A list of the fetched values, one for each micro-batch, in order.

        Raises:
          ArgumentValueError: when there is no feed.
        """
        feeds = iter(feeds)
        first = list(itertools.islice(feeds, 1))
        if not first:
            _checks.fail_value("run_cycle", "feeds", "an iterable of at least one feed_dict", first)
        return self._run(itertools.chain(first, feeds), fetches, apply_feed)

    def run_cycles(self, feeds, fetches=None, tail="flush", apply_feed=None):
        """Cuts a stream of micro-batches into cycles of `steps`, and makes an update of each.

        Args:
          feeds: iterable of feed_dicts, one a micro-batch; it may be endless.
          fetches: as for `run_cycle`.
          tail: what becomes of a last cycle that is short: "flush" makes an update of it,
            divided by what it holds; "drop" computes it (its fetches are yielded), and makes none.
          apply_feed: as for `run_cycle`.

        Yields:
          For each cycle, the list that `run_cycle` returns.

        Raises:
          ArgumentTypeError, ArgumentValueError: for another `tail`; when `steps` is a callable.
        """
        _checks.one_of("run_cycles", "tail", tail, TAILS)
        steps = self._ops.config.steps
        if callable(steps):
            _checks.fail_type("run_cycles", "steps", "an int", steps,
                              advice="Cut the stream yourself and call run_cycle for each cycle.")
        return self._run_cycles(iter(feeds), fetches, tail, apply_feed, steps)

    def _run_cycles(self, feeds, fetches, tail, apply_feed, steps):
        while True:
            cycle = list(itertools.islice(feeds, steps))
            if cycle:
                yield self._run(cycle, fetches, apply_feed, applies=len(cycle) == steps or tail == "flush")
            if len(cycle) < steps:
                return

    def _run(self, feeds, fetches, apply_feed, applies=True):
        values = []
        self._sess.run(self._ops.zero)
        for feed in feeds:
            fetched = {"accumulate": self._ops.accumulate}
            if fetches is not None:
                fetched["fetches"] = fetches
            values.append(self._sess.run(fetched, feed_dict=feed).get("fetches"))
        self._sess.run(self._ops.apply if applies else self._ops.zero, feed_dict=apply_feed if applies else None)
        return values

    def __repr__(self):
        return "<PhaseRunner of %r>" % (self._ops,)
