"""Properties: any accumulation is the oracle's, and that of the concatenated batch.

One example is a random model in a graph of its own, trained through one of the ways in,
and compared after every micro-step (weights, slots, step, counts) with reference.py; where
the two must be the same, also with the bare optimizer on each cycle's concatenated batch.
"""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from reference import OPTIMIZERS, Accumulation, GradientDescent, Rows, Training
from ways import control_flow_of

import tf1accum
from tf1accum._compat import tf

CURVATURE = 0.25
ROWS, WIDTH, IDS = 5, 2, 3
SHAPES = {"scalar": (), "vector": (3,), "matrix": (2, 3), "embedding": (ROWS, WIDTH), "both": (ROWS, WIDTH),
          "partitioned": (ROWS, WIDTH)}
SPARSE = ("embedding", "both", "partitioned")
SHARDS = 2


def bounded(examples):
    """Settings of a property: the same examples in every run, and no hundreds of graphs to shrink one."""
    return settings(max_examples=examples, deadline=None, derandomize=True, database=None,
                    phases=[Phase.explicit, Phase.generate],
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _start_with(value):
    def initializer(shape, dtype=None, partition_info=None):
        first = partition_info.var_offset[0] if partition_info is not None and len(shape) else 0
        return tf.constant(value[first:first + shape[0]] if len(shape) else value, dtype)
    return initializer


class Model(object):
    """`loss = mean over examples of the sum over variables of c * v + curvature / 2 * v**2`.

    Embeddings have the same of the rows that an example looks up; "both" has the square of
    the whole table too. The gradient is known, and depends on the weights.
    """

    def __init__(self, kinds, dtype, seed):
        self.kinds = kinds
        self.dtype = dtype
        self.random = np.random.RandomState(seed)
        self.names = ["%s_%d" % (kind, index) for index, kind in enumerate(kinds)]
        self.start = {}
        for name, kind in zip(self.names, kinds):
            self.start[name] = self.random.randn(*SHAPES[kind]) if SHAPES[kind] else np.array(self.random.randn())
            self.start[name] = np.asarray(self.start[name], dtype.as_numpy_dtype).astype(np.float64)

    def batch(self, size, poison=None):
        """Returns one micro-batch: dict from a name to (c,) or (ids, c)."""
        numbers = {}
        for name, kind in zip(self.names, self.kinds):
            if kind in SPARSE:
                numbers[name] = (self.random.randint(0, ROWS - 1, (size, IDS)),
                                 self._numbers(size, IDS, WIDTH))
            else:
                numbers[name] = (self._numbers(size, *SHAPES[kind]),)
        if poison is not None and size:
            numbers[self.names[-1]][-1].flat[0] = poison
        return numbers

    def _numbers(self, *shape):
        return self.random.randn(*shape).astype(self.dtype.as_numpy_dtype)

    def gradients(self, weights, batch):
        """Returns the gradients of a micro-batch by hand, for the oracle."""
        result = {}
        for name, kind in zip(self.names, self.kinds):
            size = max(len(batch[name][-1]), 1)
            if kind not in SPARSE:
                c = np.asarray(batch[name][0], np.float64)
                square = CURVATURE * weights[name] if len(c) else np.zeros(SHAPES[kind])
                result[name] = np.sum(c, 0) / size + square
                continue
            ids, c = batch[name]
            ids, c = ids.reshape(-1), np.asarray(c, np.float64).reshape(-1, WIDTH)
            if kind == "partitioned":
                for shard in range(SHARDS):
                    here = ids % SHARDS == shard
                    key, rows = "%s/%d" % (name, shard), ids[here] // SHARDS
                    result[key] = Rows(rows, (c[here] + CURVATURE * weights[key][rows]) / size)
                continue
            values = (c + CURVATURE * weights[name][ids]) / size
            if kind == "both":
                ids = np.concatenate([ids, np.arange(ROWS)])
                square = CURVATURE * weights[name] if len(batch[name][-1]) else np.zeros((ROWS, WIDTH))
                values = np.concatenate([values, square])
            result[name] = Rows(ids, values)
        return result

    def oracle_weights(self):
        """Returns the start as the oracle keeps it: shards are weights of their own."""
        weights = {}
        for name, kind in zip(self.names, self.kinds):
            if kind == "partitioned":
                # Shards hold consecutive rows of the start; a lookup's ids go to them in turn.
                sizes = [(ROWS + SHARDS - 1 - shard) // SHARDS for shard in range(SHARDS)]
                ends = np.cumsum(sizes)
                for shard in range(SHARDS):
                    weights["%s/%d" % (name, shard)] = self.start[name][ends[shard] - sizes[shard]:ends[shard]]
            else:
                weights[name] = self.start[name]
        return weights

    def placeholders(self):
        """Makes what a micro-batch is fed to."""
        self.examples = tf.placeholder(self.dtype, [None])
        self.fed = {}
        for name, kind in zip(self.names, self.kinds):
            if kind in SPARSE:
                self.fed[name] = (tf.placeholder(tf.int64, [None, IDS]), tf.placeholder(self.dtype, [None, IDS, WIDTH]))
            else:
                self.fed[name] = (tf.placeholder(self.dtype, (None,) + SHAPES[kind]),)

    def feed(self, batches):
        """Returns the feed_dict of the concatenation of micro-batches."""
        feed = {self.examples: np.zeros(sum(len(batch[self.names[0]][-1]) for batch in batches))}
        for name in self.names:
            for position, placeholder in enumerate(self.fed[name]):
                feed[placeholder] = np.concatenate([batch[name][position] for batch in batches])
        return feed

    def build(self, scope, resource):
        """Returns (loss, variables by the oracle's names)."""
        terms = tf.zeros_like(self.examples)
        variables = {}
        for name, kind in zip(self.names, self.kinds):
            partitioner = tf.fixed_size_partitioner(SHARDS) if kind == "partitioned" else None
            with tf.variable_scope(scope, use_resource=resource):
                v = tf.get_variable(name, SHAPES[kind], self.dtype, partitioner=partitioner,
                                    initializer=_start_with(self.start[name]))
            if kind not in SPARSE:
                variables[name] = v
                products = tf.reshape(self.fed[name][0] * v, [tf.size(self.examples), v.shape.num_elements()])
                terms += tf.reduce_sum(products, 1)
                terms += CURVATURE / 2 * tf.reduce_sum(tf.square(v))
                continue
            ids, c = self.fed[name]
            looked_up = tf.nn.embedding_lookup(v, ids)
            terms += tf.reduce_sum(looked_up * c + CURVATURE / 2 * tf.square(looked_up), [1, 2])
            if kind == "partitioned":
                for shard, variable in enumerate(v):
                    variables["%s/%d" % (name, shard)] = variable
            else:
                variables[name] = v
            if kind == "both":
                terms += CURVATURE / 2 * tf.reduce_sum(tf.square(v))
        return tf.reduce_mean(terms), variables


class Case(object):
    """What one example is, drawn by hypothesis."""

    def __init__(self, data, **fixed):
        def draw(name, strategy):
            setattr(self, name, fixed[name] if name in fixed else data.draw(strategy, label=name))

        draw("kinds", st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=3))
        draw("optimizer", st.sampled_from(sorted(OPTIMIZERS)))
        draw("way", st.sampled_from(["wrapper", "phases", "runner", "accumulator"]))
        draw("steps", st.integers(1, 6))
        draw("dtype", st.sampled_from([tf.float64, tf.float32]))
        draw("resource", st.booleans())
        draw("control_flow", st.sampled_from(["v1", "v2"]))
        draw("step_dtype", st.sampled_from([tf.int64, tf.int32]))
        draw("reduction", st.sampled_from(["mean", "sum"]))
        draw("clip", st.sampled_from([None, 0.5]))
        draw("sparse", st.sampled_from(["rows", "rows", "dense"]))
        draw("weights", st.sampled_from(["none", "examples", "random"]))
        draw("nonfinite", st.sampled_from(["propagate", "skip", "skip_cycle"]))
        draw("accumulator_dtype", st.sampled_from([None, "float64"]))
        draw("tail", st.sampled_from(["flush", "drop"]))
        smallest = 0 if self.weights == "examples" else 1
        draw("sizes", st.lists(st.integers(smallest, 3), min_size=1, max_size=10))
        draw("seed", st.integers(0, 2 ** 16))
        if self.weights == "none":
            self.sizes = [self.sizes[0]] * len(self.sizes)
        if self.optimizer == "adagrad_da":
            self.step_dtype = tf.int64  # its kernels take no other
        if self.nonfinite != "propagate":
            draw("bad", st.sets(st.integers(0, len(self.sizes) - 1), max_size=2))
        else:
            self.bad = set()

    @property
    def equals_big_batch(self):
        """Whether the mean is that of the concatenated batch, which a bare optimizer can be given."""
        return (self.reduction == "mean" and self.clip is None and self.sparse == "rows" and not self.bad
                and self.weights != "random")

    @property
    def tolerance(self):
        """Rounding of the dtype, and what some optimizers make of it."""
        return dict(rtol=1e-8, atol=1e-9) if self.dtype == tf.float64 else dict(rtol=2e-3, atol=2e-4)


class Run(object):
    """A case, built."""

    def __init__(self, case):
        self.case = case
        self.model = model = Model(case.kinds, case.dtype, case.seed)
        pair = OPTIMIZERS[case.optimizer]
        shapes = {name: np.shape(value) for name, value in model.oracle_weights().items()}
        self.oracle = Training(pair.oracle(), model.oracle_weights(), Accumulation(
            case.steps, case.reduction, case.clip, case.sparse, case.nonfinite, shapes))
        model.placeholders()
        self.weight = {"none": None, "examples": tf.size(model.examples), "random": tf.placeholder(tf.float32, [])}[
            case.weights]
        self.step = tf.Variable(0, dtype=case.step_dtype, trainable=False, use_resource=case.resource)
        self.loss, self.variables = model.build("model", case.resource)
        self.optimizer = pair.real(tf.train, self.step, case.dtype.as_numpy_dtype)
        self._build()
        self.bare = None
        if case.equals_big_batch:
            loss, self.bare_variables = model.build("bare", case.resource)
            step = tf.Variable(0, dtype=case.step_dtype, trainable=False, use_resource=case.resource)
            bare_optimizer = pair.real(tf.train, step, case.dtype.as_numpy_dtype)
            self.bare = bare_optimizer.minimize(loss, step, var_list=[self.bare_variables[name]
                                                                      for name in sorted(self.bare_variables)])
        self.slots = {(name, slot): self.optimizer.get_slot(self.variables[name], slot)
                      for name in self.variables for slot in self.optimizer.get_slot_names()}
        self.cycle = []

    def _build(self):
        case = self.case
        config = tf1accum.AccumulationConfig(
            steps=case.steps, reduction=case.reduction, clip_global_norm=case.clip, sparse=case.sparse,
            nonfinite=case.nonfinite, accumulator_dtype=case.accumulator_dtype)
        var_list = [self.variables[name] for name in sorted(self.variables)]
        if case.way == "wrapper":
            made = tf1accum.AccumulatingOptimizer(self.optimizer, config=config)
            self.accumulate = made.minimize(self.loss, self.step, var_list=var_list, weight=self.weight)
            self.flush, self.drop = made.flush(), made.drop()
        elif case.way == "accumulator":
            made = tf1accum.GradientAccumulator(var_list, config)
            self.accumulate = made.accumulate_op(self.optimizer.compute_gradients(self.loss, var_list), self.weight)
            self.apply, self.drop = made.apply_op(self.optimizer, self.step), made.zero_op()
        else:
            self.ops = made = tf1accum.build(self.optimizer, self.loss, global_step=self.step, var_list=var_list,
                                             weight=self.weight, config=config)
            self.accumulate, self.apply, self.drop = made.accumulate, made.apply, made.zero
        self.counts = made.micro_steps, made.updates, made.held, made.skipped

    def batches(self):
        """Yields (micro-batch, weight for the oracle, feed_dict)."""
        for index, size in enumerate(self.case.sizes):
            poison = None
            if index in self.case.bad:
                poison = [np.nan, np.inf][index % 2]
            batch = self.model.batch(size, poison)
            feed = self.model.feed([batch])
            weight = {"none": 1., "examples": float(size)}.get(self.case.weights)
            if weight is None:
                weight = float(np.float32(self.model.random.choice([0., 0.5, 1., 3.7])))
                feed[self.weight] = weight
            yield batch, weight, feed

    def train(self, session):
        """Runs all micro-batches, comparing after each."""
        if self.case.way == "runner":
            return self._train_by_runner(session)
        for batch, weight, feed in self.batches():
            session.run(self.accumulate, feed)
            self.add(batch, weight)
            if self.oracle.accumulation.is_due:
                if self.case.way != "wrapper":
                    self.compare(session)
                    session.run(self.apply)
                self.end_cycle(session)
            self.compare(session)
        if self.case.tail == "drop":
            session.run(self.drop)
            self.drop_cycle()
        elif self.case.way == "wrapper":
            session.run(self.flush)
            self.end_cycle(session)
        elif self.oracle.accumulation.is_open:
            session.run(self.apply)
            self.end_cycle(session)
        self.compare(session)

    def _train_by_runner(self, session):
        runner = tf1accum.PhaseRunner(session, self.ops)
        batches = list(self.batches())
        losses = runner.run_cycles((feed for _, _, feed in batches), fetches=self.loss, tail=self.case.tail)
        for start in range(0, len(batches), self.case.steps):
            chunk = batches[start:start + self.case.steps]
            assert len(next(losses)) == len(chunk)
            for batch, weight, _ in chunk:
                self.add(batch, weight)
            if len(chunk) == self.case.steps or self.case.tail == "flush":
                self.end_cycle(session)
            else:
                self.drop_cycle()
            self.compare(session)
        assert next(losses, None) is None

    def add(self, batch, weight):
        """Adds a micro-batch to the oracle's cycle, and to the big batch."""
        self.oracle.accumulation.add(self.model.gradients(self.oracle.weights, batch), weight)
        self.cycle.append(batch)

    def end_cycle(self, session):
        """Ends the oracle's cycle, if one is open; the bare optimizer gets the big batch."""
        examples = sum(len(batch[self.model.names[0]][-1]) for batch in self.cycle)
        if self.bare is not None and examples:
            session.run(self.bare, self.model.feed(self.cycle))
        self.oracle.flush()
        self.cycle = []

    def drop_cycle(self):
        """Empties the oracle's cycle, and the big batch."""
        self.oracle.accumulation.drop()
        self.cycle = []

    def compare(self, session):
        """Compares everything that there is."""
        oracle = self.oracle
        found = session.run(dict(weights=self.variables, slots=self.slots, step=self.step, counts=self.counts))
        assert tuple(found["counts"]) == oracle.accumulation.counts
        assert found["step"] == oracle.step
        for name in sorted(found["weights"]):
            np.testing.assert_allclose(found["weights"][name], oracle.weights[name], err_msg=name,
                                       **self.case.tolerance)
            if name in oracle.optimizer.slots:
                for slot in oracle.optimizer.slots[name]:
                    np.testing.assert_allclose(found["slots"][name, slot], oracle.optimizer.slots[name][slot],
                                               err_msg="%s/%s" % (name, slot), **self.case.tolerance)
        if self.bare is not None and not self.cycle:
            bare = session.run(self.bare_variables)
            for name in sorted(bare):
                np.testing.assert_allclose(found["weights"][name], bare[name], err_msg="big batch: " + name,
                                           **self.case.tolerance)


def check(case):
    """Builds and runs one case."""
    with tf.Graph().as_default(), control_flow_of(case.control_flow):
        run = Run(case)
        initialize = tf.global_variables_initializer()
        tf.get_default_graph().finalize()
        with tf.Session() as session:
            session.run(initialize)
            run.train(session)


@bounded(24)
@given(st.data())
def test_any_training_is_that_of_the_oracle(data):
    check(Case(data))


@bounded(12)
@given(st.data())
def test_weighted_by_examples_it_is_the_big_batch(data):
    check(Case(data, weights="examples", reduction="mean", clip=None, sparse="rows", nonfinite="propagate"))


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_big_batch_for_each_optimizer(optimizer):
    @bounded(1)
    @given(st.data())
    def property_of(data):
        check(Case(data, optimizer=optimizer, kinds=["matrix", "embedding", "partitioned"], weights="examples",
                   reduction="mean", clip=None, sparse="rows", nonfinite="propagate", dtype=tf.float64,
                   sizes=[2, 1, 3, 0, 1, 2, 2]))
    property_of()


@bounded(10)
@given(st.data())
def test_micro_batches_that_are_not_finite(data):
    check(Case(data, nonfinite=data.draw(st.sampled_from(["skip", "skip_cycle"])), kinds=["embedding", "vector"],
               bad={1, 4}, sizes=[1, 2, 2, 1, 3, 1, 2]))


@pytest.mark.parametrize("way", ["wrapper", "phases", "runner", "accumulator"])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("nonfinite", ["skip", "skip_cycle"])
@pytest.mark.parametrize("zero_weight", [False, True], ids=["bad_first", "zero_weight_first"])
def test_a_first_cycle_that_makes_no_update(way, steps, nonfinite, zero_weight):
    # Nothing has been written to a sum when the cycle ends; and a finite one of no weight is not "skipped".
    fixed = dict(way=way, steps=steps, nonfinite=nonfinite, kinds=["embedding", "vector", "partitioned"],
                 optimizer="momentum", dtype=tf.float64, resource=True, control_flow="v1", step_dtype=tf.int64,
                 reduction="mean", clip=0.5, sparse="rows", accumulator_dtype=None, tail="flush", seed=7,
                 weights="examples", sizes=[0, 0, 2, 1, 1] if zero_weight else [2, 1, 2, 1, 1],
                 bad=set() if zero_weight else {0, 1})
    check(Case(None, **fixed))


HALVES = [tf.float16, tf.bfloat16]


@pytest.mark.parametrize("dtype", HALVES, ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_half_precision_is_summed_in_float32(name, dtype):
    # The mean of the micro-gradients in float32, cast, is what a bare optimizer is given: bit for bit.
    random = np.random.RandomState(1)
    half = dtype.as_numpy_dtype
    start = random.randn(4).astype(half)
    micro_gradients = (random.randn(3, 4, 4) * [[[1.], [0.01], [0.01], [30.]]]).astype(half)
    # Without a device, TensorFlow 1.15 would look for a kernel that only XLA has.
    with tf.Graph().as_default(), tf.Session() as session, tf.device("/cpu:0"):
        g = tf.placeholder(dtype, [4])
        steps = [tf.Variable(0, dtype=tf.int64, trainable=False) for _ in range(2)]
        variables = [tf.Variable(start, name=key, use_resource=True) for key in ("w", "bare")]
        try:
            bare = OPTIMIZERS[name].real(tf.train, steps[1], half).apply_gradients([(g, variables[1])], steps[1])
            session.run(tf.global_variables_initializer())
            session.run(bare, {g: np.zeros(4, half)})
        except (TypeError, ValueError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
            pytest.skip("the bare optimizer has no such kernel: %s" % str(error).splitlines()[0])
        wrapper = tf1accum.AccumulatingOptimizer(OPTIMIZERS[name].real(tf.train, steps[0], half), steps=4)
        train = wrapper.apply_gradients([(g, variables[0])], steps[0])
        session.run(tf.global_variables_initializer())
        for cycle in micro_gradients:
            total = np.zeros(4, np.float32)
            for gradient in cycle:
                session.run(train, {g: gradient})
                total = total + gradient.astype(np.float32)
            session.run(bare, {g: (total / np.float32(4)).astype(half)})
        w, expected = session.run(variables)
        np.testing.assert_array_equal(w.astype(np.float32), expected.astype(np.float32))
        assert (w.astype(np.float32) != start.astype(np.float32)).any()


@bounded(6)
@given(st.data())
def test_float16_model_follows_the_oracle(data):
    # Three updates of plain descent: float16 keeps three digits.
    random = np.random.RandomState(data.draw(st.integers(0, 1000)))
    steps = data.draw(st.integers(1, 6))
    weights = random.randint(1, 4, 3 * steps).astype(np.float64)
    gradients = random.randn(3 * steps, 3).astype(np.float16)
    oracle = Training(GradientDescent(0.125), {"w": np.zeros(3)}, Accumulation(steps))
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(np.zeros(3, np.float16), use_resource=data.draw(st.booleans()))
        g, weight = tf.placeholder(tf.float16, [3]), tf.placeholder(tf.int32, [])
        wrapper = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(0.125), steps=steps)
        train = wrapper.apply_gradients([(g, w)], weight=weight)
        session.run(tf.global_variables_initializer())
        for index in range(3 * steps):
            session.run(train, {g: gradients[index], weight: weights[index]})
            oracle.micro_step({"w": gradients[index]}, weights[index])
        np.testing.assert_allclose(session.run(w), oracle.weights["w"], atol=2e-3)
        assert session.run(wrapper.updates) == 3


@bounded(10)
@given(st.data())
def test_steps_as_a_schedule(data):
    # The same function of the update count for the wrapper and the oracle, growing and shrinking.
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    count = data.draw(st.integers(1, 14))
    resource = data.draw(st.booleans())
    oracle = Training(OPTIMIZERS["adam"].oracle(), {"w": np.zeros(2)}, Accumulation(
        lambda updates: lengths[updates % len(lengths)]))
    gradients = np.random.RandomState(count).randn(count, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(np.zeros(2), use_resource=resource)
        g = tf.placeholder(tf.float64, [2])
        wrapper = tf1accum.AccumulatingOptimizer(
            OPTIMIZERS["adam"].real(tf.train), steps=lambda updates: tf.gather(lengths, updates % len(lengths)))
        train = wrapper.apply_gradients([(g, w)])
        session.run(tf.global_variables_initializer())
        for gradient in gradients:
            session.run(train, {g: gradient})
            oracle.micro_step({"w": gradient})
            np.testing.assert_allclose(session.run(w), oracle.weights["w"], rtol=1e-9, atol=1e-12)
            assert session.run(wrapper.held) == oracle.accumulation.held
