"""Loss scaling, around an accumulating optimizer and inside one.

One overflow in one micro-batch: with `nonfinite="skip"` that micro-batch is left out, the
cycle goes on, and the scale goes down.
"""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from ways import control_flow_of, each_control_flow

import tf1accum
from tf1accum._compat import tf

START = 16.


class Scaled(object):
    """`loss = w * x` and a table, plain descent with rate 1, N=2, and a dynamic loss scale.

    Args:
      order: "theirs_around_ours", "ours_around_theirs", or "bare", which does not accumulate.
      period: finite gradients before the scale doubles.
    """

    def __init__(self, order, control_flow="v1", period=1000, steps=2, optimizer=None, way="wrapper", fixed=False,
                 **config):
        self._graph = tf.Graph()
        self._control_flow = control_flow_of(control_flow)
        self._order, self._period, self._steps, self._config = order, period, steps, config
        self._optimizer, self._way, self._fixed = optimizer, way, fixed

    def __enter__(self):
        self._in_graph = self._graph.as_default()
        self._in_graph.__enter__()
        self._control_flow.__enter__()
        try:
            self._build()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _build(self):
        self.w = tf.Variable(0., name="w", use_resource=True)
        self.table = tf.Variable(np.zeros([3, 1], np.float32), name="table", use_resource=True)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, use_resource=True)
        self.x = tf.placeholder(tf.float32, [])
        loss = self.w * self.x + tf.reduce_sum(tf.gather(self.table, [1, 1]) * tf.identity(self.x))
        scale_class = tf.train.experimental.FixedLossScale if self._fixed else tf.train.experimental.DynamicLossScale
        scale = scale_class(START) if self._fixed else scale_class(initial_loss_scale=START,
                                                                   increment_period=self._period, multiplier=2.)
        self.inner = inner = self._optimizer() if self._optimizer else tf.train.GradientDescentOptimizer(1.)
        wrap = tf.train.experimental.MixedPrecisionLossScaleOptimizer
        if self._order == "bare":
            self.train = wrap(inner, scale).minimize(loss, self.step)
        elif self._order == "theirs_around_ours":
            self.accumulating = tf1accum.AccumulatingOptimizer(inner, steps=self._steps, **self._config)
            self.train = wrap(self.accumulating, scale).minimize(loss, self.step)
        elif self._way == "wrapper":
            self.accumulating = tf1accum.AccumulatingOptimizer(wrap(inner, scale), steps=self._steps, **self._config)
            self.train = self.accumulating.minimize(loss, self.step)
        else:
            self.accumulating = tf1accum.build(wrap(inner, scale), loss, steps=self._steps, global_step=self.step,
                                               **self._config)
            self.train = self.accumulating.accumulate
        self.scale = scale()
        self.session = tf.Session(graph=self._graph)
        self.session.run(tf.global_variables_initializer())

    def __exit__(self, *exception):
        if hasattr(self, "session"):
            self.session.close()
        self._control_flow.__exit__()
        return self._in_graph.__exit__(*exception)

    def feed(self, *values):
        """Runs a micro-step for each; returns the weight after each."""
        seen = []
        for value in values:
            self.session.run(self.train, {self.x: value})
            if self._way == "phases" and self.session.run(self.accumulating.held) >= self._steps:
                self.session.run(self.accumulating.apply)
            seen.append(float(self.session.run(self.w)))
        return seen

    def read(self, *names):
        made = self.accumulating
        return [float(value) for value in self.session.run([getattr(self, name) if hasattr(self, name) else
                                                            getattr(made, name) for name in names])]

    def rows(self):
        return self.session.run(self.table).ravel().tolist()


each_order = pytest.mark.parametrize("order", ["theirs_around_ours", "ours_around_theirs"])
each_bad = pytest.mark.parametrize("bad", [np.inf, np.nan], ids=["inf", "nan"])


@each_order
@each_control_flow
def test_without_overflow_it_is_as_without_a_scale(order, control_flow):
    with Scaled(order, control_flow) as scaled:
        assert scaled.feed(1., 3., 5., 7.) == [0., -2., -2., -8.]
        assert scaled.rows() == [0., -16., 0.]
        assert scaled.read("step", "updates", "held", "skipped", "scale") == [2., 2., 0., 0., START]


@each_order
def test_fixed_scale(order):
    with Scaled(order, fixed=True) as scaled:
        assert scaled.feed(1., 3.) == [0., -2.]
        assert scaled.read("step", "scale") == [1., START]


@each_order
@each_control_flow
@each_bad
@pytest.mark.parametrize("at", [0, 1, 2], ids=["first", "completing", "next_cycle"])
def test_skip_drops_one_micro_batch_and_the_scale_goes_down(order, control_flow, bad, at):
    values = [2., 6.]
    values.insert(at, bad)
    with Scaled(order, control_flow, nonfinite="skip") as scaled:
        scaled.feed(*values)
        assert scaled.read("w", "step", "held") == [-4., 1., 0.]
        assert scaled.rows() == [0., -8., 0.]
        assert scaled.read("scale") == [START / 2]
        scaled.feed(1., 3.)
        assert scaled.read("w", "step", "updates", "scale") == [-6., 2., 2., START / 2]


@each_control_flow
@each_bad
def test_skipped_is_counted_by_ours_around_theirs(control_flow, bad):
    with Scaled("ours_around_theirs", control_flow, nonfinite="skip") as scaled:
        assert scaled.feed(2., bad, bad, 6., bad) == [0., 0., 0., -4., -4.]
        assert scaled.read("micro_steps", "updates", "held", "skipped", "scale", "step") == [5., 1., 0., 3.,
                                                                                             START / 8, 1.]


@each_order
def test_a_scale_that_is_too_large_comes_down_by_itself(order):
    # Gradients overflow as long as scale * x is above float32's largest number.
    with Scaled(order, nonfinite="skip", steps=1) as scaled:
        large = np.float32(3e38) / np.float32(START) * 4
        scaled.feed(large)
        scaled.feed(large)
        assert scaled.read("step", "scale") == [0., START / 4]
        scaled.feed(large)
        assert scaled.read("step", "scale") == [1., START / 4]
        np.testing.assert_allclose(scaled.read("w"), [-large], rtol=1e-6)


@pytest.mark.parametrize("way", ["wrapper", "phases"])
def test_ours_around_theirs_propagating_skips_the_cycle(way):
    # The mean overflows, so the loss-scale optimizer makes no update of it: scale down, step and weights stay.
    with Scaled("ours_around_theirs", way=way) as scaled:
        scaled.feed(np.inf, 6.)
        assert scaled.read("w", "step", "held", "scale") == [0., 0., 0., START / 2]
        scaled.feed(2., 6.)
        assert scaled.read("w", "step", "held", "scale") == [-4., 1., 0., START / 2]


@each_bad
def test_skip_cycle_makes_no_update_and_the_scale_goes_down(bad):
    with Scaled("ours_around_theirs", nonfinite="skip_cycle") as scaled:
        assert scaled.feed(2., bad, 1., 3.) == [0., 0., 0., -2.]
        assert scaled.read("step", "updates", "held", "skipped") == [1., 1., 0., 2.]
        assert scaled.read("scale") == [START / 2]


@pytest.mark.parametrize("nonfinite", ["skip", "skip_cycle"])
def test_phases(nonfinite):
    with Scaled("ours_around_theirs", way="phases", nonfinite=nonfinite) as scaled:
        scaled.feed(2., 6.)
        assert scaled.read("w", "scale") == [-4., START]
        scaled.feed(np.inf)
        assert scaled.read("w", "step", "scale") == [-4., 1., START / 2]
        scaled.feed(1., 3.)
        expected = {"skip": [-6., 2., 0.], "skip_cycle": [-4., 1., 1.]}[nonfinite]
        assert scaled.read("w", "step", "held") == expected


@each_order
def test_the_scale_grows_again(order):
    with Scaled(order, period=2, nonfinite="skip") as scaled:
        scaled.feed(np.inf)
        assert scaled.read("scale") == [START / 2]
        scaled.feed(*[1.] * 8)
        assert scaled.read("scale")[0] >= START
        assert scaled.read("w", "step") == [-4., 4.]


def test_slots_move_once_an_update():
    # Momentum 1/2: updates with 2, then 6: slot 7; the overflow moves nothing.
    with Scaled("ours_around_theirs", nonfinite="skip",
                optimizer=lambda: tf.train.MomentumOptimizer(1., 0.5)) as scaled:
        scaled.feed(1., np.inf, 3., 5., np.inf, 7.)
        assert scaled.read("w", "step") == [-2. - 7., 2.]
        assert scaled.session.run(scaled.inner.get_slot(scaled.w, "momentum")) == 7.


@each_order
@each_control_flow
def test_variables_have_the_names_that_they_have_without_accumulation(order, control_flow):
    names = []
    for each in ("bare", order):
        with Scaled(each, control_flow, nonfinite="skip", optimizer=lambda: tf.train.AdamOptimizer(0.1)):
            names.append(sorted(variable.op.name for variable in tf.global_variables()))
    assert names[0] == names[1]
