"""PhaseRunner: whole cycles, short ones, streams."""
from __future__ import absolute_import, division, print_function

import itertools

import numpy as np
import pytest
from ways import Toy, each_kind, exactly

import tf1accum
from tf1accum._compat import tf


class Runner(object):
    """`loss = w * x`, plain descent with rate 1, a runner, and what it did."""

    def __init__(self, steps=2, resource=True, rate=1., **kwargs):
        self._toy = Toy("phases", resource)
        self._steps, self._rate, self._kwargs = steps, rate, kwargs

    def __enter__(self):
        toy = self._toy.__enter__()
        self.w = toy.variable("w", 0.)
        self.x = tf.placeholder(tf.float32, [])
        self.loss = (self.w + 1.) * self.x
        self.step = toy.step_variable()
        optimizer = tf.train.GradientDescentOptimizer(self._rate)
        self.ops = tf1accum.build(optimizer, self.loss, steps=self._steps, global_step=self.step, **self._kwargs)
        self.session = toy.start()
        self.runner = tf1accum.PhaseRunner(self.session, self.ops)
        return self

    def __exit__(self, *exception):
        return self._toy.__exit__(*exception)

    def feeds(self, *values):
        return [{self.x: value} for value in values]

    def read(self, *fetches):
        return self.session.run(list(fetches))


@each_kind
def test_run_cycle(resource):
    with Runner(resource=resource) as r:
        assert r.runner.run_cycle(r.feeds(1., 3.)) == [None, None]
        assert r.read(r.w, r.step, r.ops.updates, r.ops.held) == [-2., 1, 1, 0]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_run_cycle_uses_every_feed_whatever_steps_says(count):
    with Runner(steps=2) as r:
        losses = r.runner.run_cycle(r.feeds(*range(1, count + 1)), fetches=r.loss)
        assert losses == [float(value) for value in range(1, count + 1)]  # all on the weights before the update
        exactly(r.read(r.w)[0], -(count + 1) / 2.)
        assert r.read(r.step) == [1]


def test_run_cycle_takes_a_generator_and_reads_it_lazily():
    with Runner() as r:
        seen = []

        def feeds():
            for value in (1., 5.):
                seen.append(r.read(r.ops.held)[0])
                yield {r.x: value}

        r.runner.run_cycle(feeds())
        assert r.read(r.w) == [-3.]
        assert seen[1] == 1, "the second feed is made after the first micro-step"


@pytest.mark.parametrize("empty", [lambda: [], lambda: iter(()), lambda: (feed for feed in [])],
                         ids=["list", "iterator", "generator"])
def test_run_cycle_of_nothing_is_an_error_that_changes_nothing(empty):
    with Runner() as r:
        r.session.run(r.ops.accumulate, {r.x: 5.})
        with pytest.raises(ValueError, match="`feeds` must be an iterable of at least one feed_dict"):
            r.runner.run_cycle(empty())
        assert r.read(r.w, r.step, r.ops.held) == [0., 0, 1]


@pytest.mark.parametrize("structure", [
    lambda r: r.loss, lambda r: [r.loss, r.x], lambda r: {"loss": r.loss, "more": {"x": r.x}}, lambda r: (r.loss,)],
    ids=["tensor", "list", "dict", "tuple"])
def test_fetches_take_any_structure(structure):
    with Runner() as r:
        values = r.runner.run_cycle(r.feeds(2., 4.), fetches=structure(r))
        assert len(values) == 2
        flat = [tf.nest.flatten(value) for value in values]
        assert [value[0] for value in flat] == [2., 4.]
        tf.nest.assert_same_structure(values[0], structure(r))


def test_a_cycle_starts_with_an_empty_one():
    with Runner() as r:
        r.session.run(r.ops.accumulate, {r.x: 1000.})
        r.runner.run_cycle(r.feeds(1., 3.))
        assert r.read(r.w) == [-2.]


def test_weights_of_the_short_last_micro_batch():
    with Toy("phases") as toy:
        w, x = toy.variable("w", 0.), tf.placeholder(tf.float32, [None])
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(1.), tf.reduce_mean(w * x), steps=2, weight=tf.size(x))
        toy.start()
        tf1accum.PhaseRunner(toy.session, ops).run_cycle([{x: [8.]}, {x: [1., 2., 3.]}])
        assert toy.run(w) == -3.5


class TestRunCycles(object):
    """A stream, cut into cycles."""

    def test_flush(self):
        with Runner(steps=2) as r:
            cycles = list(r.runner.run_cycles(r.feeds(1., 3., 5., 7., 9.), fetches=r.x))
            assert cycles == [[1., 3.], [5., 7.], [9.]]
            assert r.read(r.w, r.step, r.ops.updates, r.ops.held) == [-17., 3, 3, 0]

    def test_drop(self):
        with Runner(steps=2) as r:
            cycles = list(r.runner.run_cycles(r.feeds(1., 3., 5., 7., 9.), tail="drop"))
            assert [len(cycle) for cycle in cycles] == [2, 2, 1]
            assert r.read(r.w, r.step, r.ops.updates, r.ops.held, r.ops.micro_steps) == [-8., 2, 2, 0, 5]

    @pytest.mark.parametrize("tail", ["flush", "drop"])
    def test_a_whole_number_of_cycles_has_no_tail(self, tail):
        with Runner(steps=2) as r:
            assert list(r.runner.run_cycles(r.feeds(1., 3., 5., 7.), tail=tail)) == [[None, None]] * 2
            assert r.read(r.w, r.step) == [-8., 2]

    @pytest.mark.parametrize("tail", ["flush", "drop"])
    def test_an_empty_stream(self, tail):
        with Runner() as r:
            assert list(r.runner.run_cycles([], tail=tail)) == []
            assert r.read(r.w, r.step) == [0., 0]

    def test_an_endless_stream_can_be_left(self):
        with Runner(steps=3) as r:
            stream = ({r.x: 3.} for _ in itertools.count())
            for _ in itertools.islice(r.runner.run_cycles(stream), 4):
                pass
            assert r.read(r.w, r.step, r.ops.held) == [-12., 4, 0]

    def test_updates_as_it_is_read(self):
        with Runner(steps=2) as r:
            weights = [float(r.read(r.w)[0]) for _ in r.runner.run_cycles(r.feeds(1., 3., 5., 7., 9.))]
            assert weights == [-2., -8., -17.]

    def test_a_stream_that_breaks_keeps_the_whole_updates(self):
        with Runner(steps=2) as r:
            def stream():
                for feed in r.feeds(1., 3., 100.):
                    yield feed
                raise OSError("gone")

            with pytest.raises(OSError, match="gone"):
                list(r.runner.run_cycles(stream()))
            assert r.read(r.w, r.step) == [-2., 1]
            list(r.runner.run_cycles(r.feeds(5., 7.)))
            assert r.read(r.w, r.step) == [-8., 2]

    def test_a_run_that_fails_keeps_the_whole_updates(self):
        with Runner(steps=3, nonfinite="error") as r:
            with pytest.raises(tf.errors.InvalidArgumentError, match="'w:0'"):
                list(r.runner.run_cycles(r.feeds(1., 2., 3., 4., np.nan, 5.)))
            assert r.read(r.w, r.step) == [-2., 1]
            list(r.runner.run_cycles(r.feeds(4., 4., 4.)))
            assert r.read(r.w, r.step) == [-6., 2]


class TestFedLearningRate(object):
    """A placeholder that only the optimizer needs."""

    @pytest.mark.parametrize("call", ["run_cycle", "run_cycles"])
    def test_is_fed_to_the_update(self, call):
        with tf.Graph().as_default() as graph:
            rate = tf.placeholder(tf.float32, [], name="rate")
            w, x = tf.Variable(0.), tf.placeholder(tf.float32, [])
            ops = tf1accum.build(tf.train.GradientDescentOptimizer(rate), w * x, steps=2)
            with tf.Session(graph=graph) as session:
                session.run(tf.global_variables_initializer())
                runner = tf1accum.PhaseRunner(session, ops)
                feeds = [{x: 1.}, {x: 3.}]
                if call == "run_cycle":
                    runner.run_cycle(feeds, apply_feed={ops.apply_placeholders[0]: 0.25})
                else:
                    list(runner.run_cycles(feeds + feeds[:1], tail="drop", apply_feed={rate: 0.25}))
                assert session.run(w) == -0.5


def test_in_a_monitored_session():
    with tf.Graph().as_default():
        w, x = tf.Variable(0.), tf.placeholder(tf.float32, [])
        step = tf.train.create_global_step()
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(1.), w * x, steps=2, global_step=step)
        with tf.train.MonitoredTrainingSession() as session:
            runner = tf1accum.PhaseRunner(session, ops)
            assert len(list(runner.run_cycles([{x: 1.}, {x: 3.}, {x: 5.}], fetches=w))) == 2
            assert session.run([w, step]) == [-7., 2]


def test_repr_names_the_ops():
    with Runner(steps=2) as r:
        assert "PhaseRunner" in repr(r.runner) and r.ops.apply.name in repr(r.runner)
