"""What holds whatever is trained: micro-steps change nothing, errors change nothing, nothing is shared or left over."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from toys import each_step_dtype
from ways import Embedding, Toy, each_control_flow, each_kind, each_way, exactly

import tf1accum
from tf1accum._compat import tf


class Mixed(object):
    """A model with a dense variable, a table looked up, and one whose gradient needs no feed.

    The gradients of a micro-batch are x for `a`, c for rows ids of `table`, and 3 for `free`.
    """

    def __init__(self, toy, x=None):
        self.a = toy.variable("a", [1., 2.])
        self.free = toy.variable("free", 5.)
        self.embedding = Embedding(toy, rows=4, width=2, value=np.arange(8.).reshape(4, 2))
        self.x = tf.placeholder(tf.float32, [], name="x") if x is None else x
        self.loss = tf.reduce_sum(self.a) * self.x + 3. * self.free + self.embedding.loss
        self.variables = [self.a, self.free, self.embedding.table]

    def feed(self, x, ids=(0, 2), c=(1., 2.)):
        """Returns a feed_dict; without x when it is None."""
        feed = self.embedding.batch(list(ids), list(c))
        if x is not None:
            feed[self.x] = x
        return feed


def slots_of(optimizer, variables):
    """Returns the slots that there are, as a dict of variables."""
    found = {}
    for variable in variables:
        for name in optimizer.get_slot_names():
            found[variable.op.name, name] = optimizer.get_slot(variable, name)
    return found


class Snapshot(object):
    """Everything that a failed or reading run must leave as it is, and what it was."""

    def __init__(self, toy, model, optimizer, step, sums=True):
        training = toy.training
        accumulator = (training.accumulating.accumulators[0] if toy.way == "wrapper" else training.accumulating)
        self._toy = toy
        self._fetches = dict(
            weights={variable.op.name: variable for variable in model.variables},
            slots=slots_of(optimizer, model.variables),
            optimizer=list(optimizer.variables()),
            step=step, counts=[training.micro_steps, training.updates, training.held, training.skipped])
        if sums:
            pairs = accumulator.normalize_op() if toy.way == "wrapper" else training.normalized
            self._fetches["sums"] = {variable.op.name: gradient for gradient, variable in pairs}
            if hasattr(accumulator, "total_weight"):
                self._fetches["weight"] = accumulator.total_weight

    def read(self):
        """Returns the state, flat, as a list of arrays."""
        return tf.nest.flatten(self._toy.run(self._fetches))

    def take(self):
        """Remembers the state."""
        self._taken = self.read()

    def assert_unchanged(self):
        """Asserts that the state is what it was, bit for bit."""
        now = self.read()
        assert len(now) == len(self._taken)
        for value, before in zip(now, self._taken):
            np.testing.assert_array_equal(value, before)


OPTIMIZERS = {
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.9, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}
wrapper_and_phases = pytest.mark.parametrize("way", ["wrapper", "phases"])


@each_way
@each_kind
@pytest.mark.parametrize("optimizer, control_flow", [
    ("adam", "v1"), ("adam", "v2"), ("momentum", "v1"), ("rmsprop", "v2"), ("ftrl", "v1")])
def test_weights_and_slots_are_bit_unchanged_inside_a_cycle(way, resource, control_flow, optimizer):
    with Toy(way, resource, control_flow) as toy:
        model = Mixed(toy)
        wrapped = OPTIMIZERS[optimizer]()
        step = toy.step_variable()
        toy.train(wrapped, model.loss, steps=5, global_step=step)
        toy.start()
        state = [model.variables, slots_of(wrapped, model.variables), wrapped.variables(), step]
        before = tf.nest.flatten(toy.run(state))
        for micro_step in range(1, 11):
            toy.feeds([model.feed(float(micro_step), ids=(micro_step % 4, 1))])
            after = tf.nest.flatten(toy.run(state))
            if micro_step % 5:
                for value, old in zip(after, before):
                    np.testing.assert_array_equal(value, old)
            else:
                moved = toy.run(model.variables)
                assert all((new != old).any() for new, old in zip(moved, before[:3]))
            before = after
        assert toy.run(step) == 2


@each_way
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_equals_the_big_batch(way, optimizer, k):
    # Two updates of k micro-batches of one example each, and the same with one batch of k.
    random = np.random.RandomState(k)
    examples = [(random.randn(k), random.randint(0, 4, (k, 2)), random.randn(k, 2)) for _ in range(2)]
    ends = []
    for size in (1, k):
        with Toy(way) as toy:
            a, table = toy.variable("a", [1., 2.]), toy.variable("table", np.ones([4, 2]))
            x, ids = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [None, 2])
            c = tf.placeholder(tf.float32, [None, 2])
            loss = tf.reduce_mean(x * tf.reduce_sum(a) + tf.reduce_sum(
                tf.nn.embedding_lookup(table, ids) * c[:, :, None], [1, 2]))
            if size == k:
                train = OPTIMIZERS[optimizer]().minimize(loss)
                toy.start()
                for batch in examples:
                    toy.run(train, dict(zip((x, ids, c), batch)))
            else:
                toy.train(OPTIMIZERS[optimizer](), loss, steps=k)
                toy.start()
                toy.feeds([{x: batch[0][i:i + 1], ids: batch[1][i:i + 1], c: batch[2][i:i + 1]}
                           for batch in examples for i in range(k)])
                assert toy.counts == (2 * k, 2, 0, 0)
            ends.append(toy.run([a, table]))
    for accumulated, big in zip(ends[0], ends[-1]):
        np.testing.assert_allclose(accumulated, big, rtol=2e-5, atol=2e-6)


class Failing(object):
    """A run that fails at a chosen micro-batch, and how to go on."""

    def __init__(self, kind, toy):
        self.kind = kind
        self.x = None
        self._iterator = None
        if kind == "forward":
            fed = tf.placeholder(tf.float32, [], name="x")
            with tf.control_dependencies([tf.debugging.Assert(fed < 100., ["too large:", fed])]):
                self.x = tf.identity(fed)
            self.fed = fed
        elif kind == "exhausted":
            self.values = tf.placeholder(tf.float32, [None])
            self._iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(self.values))
            self.x = self._iterator.get_next()
        self.config = dict(nonfinite="error") if kind == "nonfinite" else {}
        self.error = {"forward": tf.errors.InvalidArgumentError, "nonfinite": tf.errors.InvalidArgumentError,
                      "exhausted": tf.errors.OutOfRangeError}[kind]

    def begin(self, toy, values):
        """Gives the values that the next micro-batches get."""
        self._queue = list(values)
        if self._iterator is not None:
            toy.run(self._iterator.initializer, {self.values: self._queue})

    def feed(self, model):
        """Returns the feed_dict of the next micro-batch."""
        value = self._queue.pop(0) if self._queue else None
        if self.kind == "exhausted":
            return model.feed(None)
        feed = model.feed(None)
        feed[self.fed if self.kind == "forward" else model.x] = value
        return feed

    def failing_feed(self, model):
        """Returns the feed_dict of a micro-batch that fails."""
        feed = model.feed(None, ids=(1, 1, 3), c=(100., 100., 100.))
        if self.kind == "forward":
            feed[self.fed] = 1000.
        elif self.kind == "nonfinite":
            feed[model.x] = np.nan
        return feed


@wrapper_and_phases
@pytest.mark.parametrize("resource, control_flow", [(False, "v1"), (True, "v1"), (True, "v2")],
                         ids=["ref-cf_v1", "resource-cf_v1", "resource-cf_v2"])
@pytest.mark.parametrize("kind", ["forward", "exhausted", "nonfinite"])
@pytest.mark.parametrize("at", [0, 1, 2], ids=["first", "second", "completing"])
def test_an_error_inside_a_cycle_changes_nothing(way, resource, control_flow, kind, at):
    # N=3: x=1,2,3 | 4,5,6; the run fails 10 times before micro-batch `at` of the second cycle.
    # `free` and `table` need nothing of what fails: neither may have been added.
    with Toy(way, resource, control_flow) as toy:
        failing = Failing(kind, toy)
        model = Mixed(toy, failing.x)
        optimizer = tf.train.MomentumOptimizer(0.125, 0.5)
        step = toy.step_variable()
        toy.train(optimizer, model.loss, steps=3, global_step=step, **failing.config)
        toy.start()
        snapshot = Snapshot(toy, model, optimizer, step, sums=at > 0)
        failing.begin(toy, [1., 2., 3., 4., 5., 6.][:3 + at])
        for _ in range(3 + at):
            toy.training.micro_step(toy.session, failing.feed(model))
        snapshot.take()
        for _ in range(10):
            with pytest.raises(failing.error) as caught:
                toy.training.micro_step(toy.session, failing.failing_feed(model))
            snapshot.assert_unchanged()
        if kind == "nonfinite":
            assert "'a:0'" in str(caught.value)
        failing.begin(toy, [4., 5., 6.][at:])
        for _ in range(3 - at):
            toy.training.micro_step(toy.session, failing.feed(model))
        assert toy.counts == (6, 2, 0, 0)
        # Momentum(1/8, 1/2): updates with 2, then 5: slots 2 and 6.
        exactly(toy.run(model.a), [1. - 8. / 8, 2. - 8. / 8])
        # 3 each time: slots 3 and 4.5.
        exactly(toy.run(model.free), 5. - 7.5 / 8)
        table = np.arange(8.).reshape(4, 2)
        table[0] -= 2.5 / 8
        table[2] -= 5. / 8
        exactly(toy.run(model.embedding.table), table)
        assert toy.run(step) == 2


@wrapper_and_phases
def test_nonfinite_error_names_the_variable(way):
    with Toy(way) as toy:
        model = Mixed(toy)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, steps=1, nonfinite="error")
        toy.start()
        with pytest.raises(tf.errors.InvalidArgumentError, match="table"):
            toy.training.micro_step(toy.session, model.feed(1., c=(np.inf, 1.)))
        exactly(toy.run(model.free), 5.)
        assert toy.counts == (0, 0, 0, 0)


def test_an_exception_in_a_feed_generator_changes_no_weight():
    with Toy("phases") as toy:
        model = Mixed(toy)
        optimizer = tf.train.AdamOptimizer(0.1)
        step = toy.step_variable()
        ops = tf1accum.build(optimizer, model.loss, steps=3, global_step=step)
        toy.start()
        runner = tf1accum.PhaseRunner(toy.session, ops)
        runner.run_cycle([model.feed(1.)])
        state = [model.variables, slots_of(optimizer, model.variables), step, ops.updates]
        before = tf.nest.flatten(toy.run(state))

        def feeds():
            yield model.feed(100.)
            yield model.feed(1000.)
            raise KeyError("the data is broken")

        with pytest.raises(KeyError, match="the data is broken"):
            runner.run_cycle(feeds())
        for value, old in zip(tf.nest.flatten(toy.run(state)), before):
            np.testing.assert_array_equal(value, old)
        runner.run_cycle([model.feed(1.), model.feed(3.)])
        interrupted = toy.run([model.variables, slots_of(optimizer, model.variables)])
        toy.run(tf.global_variables_initializer())
        runner.run_cycle([model.feed(1.)])
        runner.run_cycle([model.feed(1.), model.feed(3.)])
        for value, smooth in zip(tf.nest.flatten(interrupted), tf.nest.flatten(
                toy.run([model.variables, slots_of(optimizer, model.variables)]))):
            np.testing.assert_array_equal(value, smooth)


def test_an_error_of_the_update_itself_leaves_the_whole_cycle_held():
    # The transform's check fails at the completing micro-step: no variable has moved.
    with Toy("wrapper") as toy:
        model = Mixed(toy)
        allowed = toy.variable("allowed", False, tf.bool, trainable=False)

        def transform(pairs):
            check = tf.debugging.Assert(allowed, ["not allowed"])
            with tf.control_dependencies([check]):
                first = tf.identity(pairs[0][0])
            return [(first, pairs[0][1])] + list(pairs[1:])

        step = toy.step_variable()
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, steps=2, global_step=step,
                  var_list=model.variables, gradient_transform=transform)
        toy.start()
        weights = toy.run(model.variables)
        toy.feeds([model.feed(2.)])
        for _ in range(5):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not allowed"):
                toy.run(toy.training.flush_op)
            for value, old in zip(toy.run(model.variables), weights):
                np.testing.assert_array_equal(value, old)
        assert toy.run([step, toy.training.held]) == [0, 1]
        toy.run(allowed.assign(True))
        toy.run(toy.training.flush_op)
        exactly(toy.run(model.a), [-1., 0.])


@each_way
@each_kind
def test_the_graph_does_not_grow(way, resource):
    with Toy(way, resource) as toy:
        model = Mixed(toy)
        step = toy.step_variable()
        toy.train(tf.train.AdamOptimizer(0.1), model.loss, steps=2, global_step=step)
        toy.start()
        built = toy.training.drop_op, toy.training.flush_op if way == "wrapper" else toy.training.apply
        toy.graph.finalize()
        count = len(toy.graph.get_operations())
        feeds = [model.feed(float(value)) for value in range(5)]
        toy.feeds(feeds, read=[toy.training.held, toy.training.updates])
        toy.training.flush(toy.session)
        toy.run(built[0])
        if way == "wrapper":
            wrapper = toy.training.accumulating
            assert toy.run([wrapper.held, wrapper.skipped, wrapper.micro_steps, wrapper.updates]) == [0, 0, 5, 3]
            wrapper.flush(), wrapper.drop(), wrapper.variables(), wrapper.get_slot(model.a, "m"), repr(wrapper)
        elif way == "phases":
            runner = tf1accum.PhaseRunner(toy.session, toy.training.accumulating)
            assert len(list(runner.run_cycles(feeds, fetches=model.loss))) == 3
        assert len(toy.graph.get_operations()) == count


@each_way
@each_kind
@each_control_flow
def test_reading_changes_nothing(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        model = Mixed(toy)
        optimizer = tf.train.AdamOptimizer(0.1)
        step = toy.step_variable()
        training = toy.train(optimizer, model.loss, steps=3, global_step=step)
        snapshot = Snapshot(toy, model, optimizer, step)
        toy.start()
        toy.feeds([model.feed(1.), model.feed(2.)])
        snapshot.take()
        for _ in range(20):
            toy.run([model.loss, training.held, training.updates, training.micro_steps, training.skipped],
                    model.feed(99.))
            snapshot.assert_unchanged()
        assert toy.counts == (2, 0, 2, 0)


@each_way
def test_two_accumulations_share_nothing(way):
    # Each over a variable of its own, N=2 and N=3; one is dropped, flushed and run out of turn.
    with Toy(way) as toy:
        x = tf.placeholder(tf.float32, [])
        v, w = toy.variable("v", 0.), toy.variable("w", 0.)
        first = toy.train(tf.train.GradientDescentOptimizer(1.), v * x, steps=2, var_list=[v])
        second = toy.train(tf.train.GradientDescentOptimizer(1.), w * x, steps=3, var_list=[w])
        toy.start()
        first.micro_step(toy.session, {x: 1.})
        second.micro_step(toy.session, {x: 10.})
        second.micro_step(toy.session, {x: 20.})
        toy.run(second.drop_op)
        assert first.counts(toy.session) == (1, 0, 1, 0)
        assert second.counts(toy.session) == (2, 0, 0, 0)
        first.micro_step(toy.session, {x: 3.})
        assert toy.run([v, w]) == [-2., 0.]
        second.micro_step(toy.session, {x: 5.})
        second.flush(toy.session)
        assert toy.run([v, w]) == [-2., -5.]
        assert first.counts(toy.session) == (2, 1, 0, 0)
        # Both in one run: each from the same state as alone.
        toy.run([first.accumulate, second.accumulate], {x: 4.})
        assert (first.counts(toy.session), second.counts(toy.session)) == ((3, 1, 1, 0), (4, 1, 1, 0))


@each_way
@each_kind
def test_the_initializer_empties_the_open_cycle(way, resource):
    with Toy(way, resource) as toy:
        x = tf.placeholder(tf.float32, [])
        w, table = toy.variable("w", 0.), toy.variable("table", np.zeros([3, 1]))
        toy.train(tf.train.GradientDescentOptimizer(1.), w * x + tf.reduce_sum(tf.gather(table, [1]) * x), steps=2)
        toy.start()
        init = tf.global_variables_initializer()
        toy.feed(x, [1., 3., 100.])
        assert toy.run(toy.training.held) == 1
        toy.run(init)
        assert toy.counts == (0, 0, 0, 0)
        toy.feed(x, [5., 7.])
        exactly(toy.run(w), -6.)
        exactly(toy.run(table), [[0.], [-6.], [0.]])


@pytest.mark.slow
@each_kind
@each_control_flow
@each_step_dtype
@pytest.mark.parametrize("way", ["wrapper", "phases"])
def test_200_runs_are_exact(way, resource, control_flow, step_dtype):
    # 1,3 | 5,7 with the learning rate 1/(1 + step): -2 - 6/2 = -5, and rows likewise. A race shows as another number.
    with Toy(way, resource, control_flow) as toy:
        x = tf.placeholder(tf.float32, [])
        w, table = toy.variable("w", 0.), toy.variable("table", np.zeros([3, 1]))
        step = tf.Variable(0, dtype=step_dtype, trainable=False, use_resource=resource)
        optimizer = tf.train.GradientDescentOptimizer(1. / (1. + tf.cast(tf.identity(step), tf.float32)))
        toy.train(optimizer, w * x + tf.reduce_sum(tf.gather(table, [1, 1]) * x), steps=2, global_step=step)
        init = tf.global_variables_initializer()
        toy.start()
        ends = set()
        for _ in range(200):
            toy.run(init)
            toy.feed(x, [1., 3., 5., 7.])
            end = toy.run([w, table, step])
            ends.add((float(end[0]),) + tuple(end[1].ravel()) + (int(end[2]),))
        assert ends == {(-5., 0., -10., 0., 2)}


class TestSeveralAccumulateOps(object):
    """One GradientAccumulator, and ops that reach different variables."""

    @staticmethod
    def _cycle(toy, made, runs):
        for op, feed in runs:
            toy.run(op, feed)
        toy.run(made[1])

    @each_kind
    @each_control_flow
    def test_op_a_reaches_a_and_op_b_reaches_b(self, resource, control_flow):
        with Toy("low_level", resource, control_flow) as toy:
            a, b, x = toy.variable("a", 0.), toy.variable("b", 0.), tf.placeholder(tf.float32, [])
            accumulator = tf1accum.GradientAccumulator([a, b])
            only_a = accumulator.accumulate_op([(x, a)])
            only_b = accumulator.accumulate_op([(2. * x, b)])
            both = accumulator.accumulate_op([(x, a), (x, b)])
            made = accumulator, accumulator.apply_op(tf.train.GradientDescentOptimizer(1.))
            toy.start()
            # Both divide by the cycle's two micro-steps.
            self._cycle(toy, made, [(only_a, {x: 2.}), (only_b, {x: 4.})])
            assert toy.run([a, b]) == [-1., -4.]
            # What `a` was given in the cycle before is gone, though nothing overwrites it.
            self._cycle(toy, made, [(only_b, {x: 1.}), (only_b, {x: 3.})])
            assert toy.run([a, b]) == [-1., -8.]
            self._cycle(toy, made, [(only_b, {x: 3.}), (both, {x: 3.}), (only_a, {x: 3.})])
            assert toy.run([a, b]) == [-3., -11.]
            assert toy.run([accumulator.held, accumulator.updates, accumulator.micro_steps]) == [0, 3, 7]

    @each_kind
    @pytest.mark.parametrize("sparse", ["rows", "dense"])
    @pytest.mark.parametrize("order", ["dense_first", "rows_first"])
    def test_dense_in_one_op_and_rows_in_another(self, resource, sparse, order):
        with Toy("low_level", resource) as toy:
            t = toy.variable("t", np.zeros([3, 1]))
            x = tf.placeholder(tf.float32, [])
            accumulator = tf1accum.GradientAccumulator([t], sparse=sparse)
            rows = tf.IndexedSlices(x * tf.ones([2, 1]), tf.constant([1, 1]), tf.constant([3, 1]))
            builders = {"dense": lambda: accumulator.accumulate_op([(x * tf.constant([[1.], [2.], [3.]]), t)]),
                        "rows": lambda: accumulator.accumulate_op([(rows, t)])}
            ops = {kind: builders[kind]() for kind in
                   (["dense", "rows"] if order == "dense_first" else ["rows", "dense"])}
            made = accumulator, accumulator.apply_op(tf.train.GradientDescentOptimizer(1.))
            toy.start()
            self._cycle(toy, made, [(ops["dense"], {x: 2.}), (ops["rows"], {x: 4.})])
            exactly(toy.run(t), [[-1.], [-6.], [-3.]])
            self._cycle(toy, made, [(ops["rows"], {x: 1.}), (ops["rows"], {x: 1.})])
            exactly(toy.run(t), [[-1.], [-8.], [-3.]])
            self._cycle(toy, made, [(ops["dense"], {x: 1.})])
            exactly(toy.run(t), [[-2.], [-10.], [-6.]])

    def test_weights_and_zero_cover_all_ops(self):
        with Toy("low_level") as toy:
            a, b, x = toy.variable("a", 0.), toy.variable("b", 0.), tf.placeholder(tf.float32, [])
            accumulator = tf1accum.GradientAccumulator([a, b])
            only_a = accumulator.accumulate_op([(x, a)], weight=3.)
            only_b = accumulator.accumulate_op([(x, b)], weight=tf.constant(1, tf.int32))
            made = accumulator, accumulator.apply_op(tf.train.GradientDescentOptimizer(1.))
            zero = accumulator.zero_op()
            toy.start()
            toy.run(only_a, {x: 100.})
            toy.run(zero)
            self._cycle(toy, made, [(only_a, {x: 4.}), (only_b, {x: 8.})])
            assert toy.run([a, b]) == [-3., -2.]


class TestStepsAsACallable(object):
    """`steps` from the update count."""

    @staticmethod
    def _weights(toy, steps, gradients, **kwargs):
        w, x = toy.variable("w", 0.), tf.placeholder(tf.float32, [])
        toy.train(tf.train.GradientDescentOptimizer(1.), w * x, steps=steps, **kwargs)
        toy.start()
        return toy.feed(x, gradients, w)

    @each_kind
    @each_control_flow
    def test_growing(self, resource, control_flow):
        # 1 | 2,4 | 1,2,6
        with Toy("wrapper", resource, control_flow) as toy:
            assert self._weights(toy, lambda updates: updates + 1, [1., 2., 4., 1., 2., 6.]) == [
                -1., -1., -4., -4., -4., -7.]
            assert toy.counts == (6, 3, 0, 0)

    @each_kind
    def test_asked_with_an_int64_scalar_that_counts_updates(self, resource):
        asked = []

        def steps(updates):
            asked.append(updates)
            return tf.cast(tf.maximum(3 - updates, 1), tf.int32)

        with Toy("wrapper", resource) as toy:
            # 1,2,3 | 4,6 | 7 | 8
            assert self._weights(toy, steps, [1., 2., 3., 4., 6., 7., 8.]) == [0., 0., -2., -2., -7., -14., -22.]
        assert asked and all(updates.dtype == tf.int64 and updates.shape.ndims == 0 for updates in asked)

    def test_goes_on_from_a_restored_global_step(self):
        with Toy("wrapper") as toy:
            step = toy.step_variable()
            w, x = toy.variable("w", 0.), tf.placeholder(tf.float32, [])
            toy.train(tf.train.GradientDescentOptimizer(1.), w * x, steps=lambda updates: updates + 1,
                      global_step=step)
            toy.start()
            toy.run(step.assign(2))
            assert toy.feed(x, [3., 6., 9., 1.], w) == [0., 0., -6., -6.]
            assert toy.run(step) == 3

    @each_kind
    def test_of_a_variable_and_below_the_held_count(self, resource):
        # 5 micro-steps, but at the 3rd the variable says 2: the 4th completes the cycle, and the mean is of 4.
        with Toy("wrapper", resource) as toy:
            length = tf.Variable(5, trainable=False, use_resource=resource)
            shrink = length.assign(2)
            w, x = toy.variable("w", 0.), tf.placeholder(tf.float32, [])
            toy.train(tf.train.GradientDescentOptimizer(1.), w * x, steps=lambda updates: length + 0)
            toy.start()
            assert toy.feed(x, [1., 2., 3.], w) == [0., 0., 0.]
            toy.run(shrink)
            assert toy.feed(x, [6., 5., 7.], w) == [-3., -3., -9.]
            assert toy.counts == (6, 2, 0, 0)


@each_way
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("config", [{}, {"clip_global_norm": 2.5}], ids=["", "clip"])
def test_a_row_reaches_the_transform_once(way, steps, config):
    # Ids 1,1,2 with 1,2,4 in each micro-batch: G is 3 and 4 (norm 5), squared by the transform. A row that came
    # twice would give 1 + 4 in place of 9, and a smaller norm.
    with Toy(way) as toy:
        embedding = Embedding(toy)
        seen = []

        def squared(pairs):
            seen.append(pairs[0][0])
            (rows, variable), = pairs
            return [(tf.IndexedSlices(tf.square(rows.values), rows.indices, rows.dense_shape), variable)]

        toy.train(tf.train.GradientDescentOptimizer(1.), embedding.loss, steps=steps, gradient_transform=squared,
                  **config)
        toy.start()
        toy.feeds([embedding.batch([1, 1, 2], [1., 2., 4.])] * steps)
        scale = 0.25 if config else 1.
        exactly(toy.run(embedding.table), [[0.], [-9. * scale], [-16. * scale], [0.]])
        assert all(isinstance(rows, tf.IndexedSlices) for rows in seen)
