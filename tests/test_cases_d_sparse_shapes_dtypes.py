"""Cases of group D: sparse gradients, missing gradients, shapes, dtypes, partitions."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
from ways import Embedding, Toy, close, dense, each_control_flow, each_kind, each_way, everywhere, exactly, named

import tf1accum
from tf1accum._compat import tf

each_sparse = pytest.mark.parametrize("sparse", ["rows", "dense"])
wrapper_and_low_level = pytest.mark.parametrize("way", ["wrapper", "low_level"])
VARIABLE_OPS = ("VarHandleOp", "Variable", "VariableV2")


class Recorder(tf.train.GradientDescentOptimizer):
    """Gradient descent that remembers what it was given."""

    def __init__(self, learning_rate=1.):
        super(Recorder, self).__init__(learning_rate)
        self.given = []

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads_and_vars = list(grads_and_vars)
        self.given.append({variable.op.name: gradient for gradient, variable in grads_and_vars})
        return super(Recorder, self).apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def always_rows(self, name):
        """Whether a variable was given rows in all applications built (True), in none (False), or in some."""
        kinds = {isinstance(given[name], tf.IndexedSlices) for given in self.given}
        return kinds.pop() if len(kinds) == 1 else "sometimes"


def column(toy, variable):
    return toy.run(variable)[:, 0]


def state_variables(graph):
    """Shapes of all variables of a graph, as (name, tuple or None)."""
    found = []
    for op in graph.get_operations():
        if op.type in VARIABLE_OPS:
            shape = tf.TensorShape(op.get_attr("shape"))
            found.append((op.name, tuple(shape.as_list()) if shape.ndims is not None else None))
    return found


# Case 44

@everywhere
@each_sparse
def test_case_044_duplicate_rows_add_up(way, resource, control_flow, sparse):
    with Toy(way, resource, control_flow) as toy:
        model = Embedding(toy)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, sparse=sparse)
        toy.start()
        rows = toy.feeds([model.batch([0, 2, 2], [1., 2., 4.]), model.batch([2, 3], [8., 16.])], model.table)
        exactly(rows[0][:, 0], [0., 0., 0., 0.])
        exactly(rows[1][:, 0], [-.5, 0., -7., -8.])
        # Nothing of it is left in the next cycle.
        toy.feeds([model.batch([1], [2.]), model.batch([1, 1], [2., 4.])])
        exactly(column(toy, model.table), [-.5, -4., -7., -8.])


@pytest.mark.parametrize("way", ["phases", "low_level"])
@each_kind
@each_sparse
def test_case_044_accumulated_mean_by_row(way, resource, sparse):
    with Toy(way, resource) as toy:
        model = Embedding(toy)
        training = toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, sparse=sparse)
        toy.start()
        toy.run(training.accumulate, model.batch([0, 2, 2], [1., 2., 4.]))
        toy.run(training.accumulate, model.batch([2, 3], [8., 16.]))
        (mean, variable), = training.normalized
        assert variable is model.table
        assert isinstance(mean, tf.IndexedSlices) == (sparse == "rows")
        exactly(dense(toy.run(mean), 4), [[.5], [0.], [7.], [8.]])
        exactly(dense(toy.run(mean), 4), [[.5], [0.], [7.], [8.]])
        toy.run(training.apply)
        exactly(column(toy, model.table), [-.5, 0., -7., -8.])


@each_way
def test_case_044_rows_touched_many_times_over_many_micro_steps(way):
    random = np.random.RandomState(0)
    with Toy(way) as toy:
        model = Embedding(toy, rows=7)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, steps=16)
        toy.start()
        expected = np.zeros(7)
        for _ in range(3):
            total = np.zeros(7)
            for _ in range(16):
                ids = random.randint(0, 7, size=random.randint(0, 9))
                c = random.randint(-8, 9, size=len(ids)).astype(np.float32)
                np.add.at(total, ids, c)
                toy.feeds([model.batch(ids, c)])
            expected -= total / 16
            exactly(column(toy, model.table), expected)


@everywhere
@each_sparse
def test_case_044_micro_batches_without_rows(way, resource, control_flow, sparse):
    """The first of a session, the first of a cycle, and all of a cycle."""
    with Toy(way, resource, control_flow) as toy:
        model = Embedding(toy)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, sparse=sparse)
        toy.start()
        nothing = model.batch(np.zeros([0], np.int32), [])
        rows = toy.feeds([nothing, nothing, nothing, model.batch([1], [2.]), model.batch([1], [4.]), nothing,
                          nothing, nothing, nothing, model.batch([0], [2.])], model.table)
        exactly([row[:, 0] for row in rows[1::2]],
                [[0., 0., 0., 0.], [0., -1., 0., 0.], [0., -3., 0., 0.], [0., -3., 0., 0.], [-1., -3., 0., 0.]])
        assert toy.counts == (10, 5, 0, 0)


# Case 46

def absent_rows(toy, optimizer, **config):
    """Window 1: row 0 twice with gradient 1; window 2: row 1 twice. Returns the rows and slots."""
    model = Embedding(toy, rows=2)
    toy.train(optimizer, model.loss, **config)
    toy.start()
    toy.feeds([model.batch([0], [1.])] * 2 + [model.batch([1], [1.])] * 2)
    return column(toy, model.table), {
        variable.op.name: toy.run(variable) for variable in tf.global_variables()}


def bare_on_the_big_batch(resource, optimizer):
    with Toy(resource=resource) as toy:
        model = Embedding(toy, rows=2)
        op = optimizer.minimize(model.loss)
        toy.start()
        for row in (0, 1):
            toy.run(op, model.batch([row, row], [.5, .5]))
        return {variable.op.name: toy.run(variable) for variable in tf.global_variables()}


ABSENT_ROWS = [
    ("Momentum", lambda: tf.train.MomentumOptimizer(1., .5), [-1., -1.], [-1.5, -1.]),
    ("Adam", lambda: tf.train.AdamOptimizer(.1), [-.16700554, -.07441341], [-.16700554, -.07441341]),
    ("RMSProp", lambda: tf.train.RMSPropOptimizer(.1, momentum=.5), [-.1, -.1], [-.15, -.10482848]),
    ("Adagrad", lambda: tf.train.AdagradOptimizer(.1), [-.09534626, -.09534626], [-.09534626, -.09534626]),
]
each_optimizer = pytest.mark.parametrize(
    "make_optimizer,by_rows,by_table", [case[1:] for case in ABSENT_ROWS], ids=[case[0] for case in ABSENT_ROWS])


@each_way
@each_kind
@each_optimizer
def test_case_046_absent_rows_as_on_the_big_sparse_batch(way, resource, make_optimizer, by_rows, by_table):
    del by_table
    with Toy(way, resource) as toy:
        rows, variables = absent_rows(toy, make_optimizer())
        close(rows, by_rows)
    bare = bare_on_the_big_batch(resource, make_optimizer())
    assert set(variables) == set(bare)
    for name in bare:
        exactly(variables[name], bare[name])


@each_way
@each_optimizer
def test_case_046_absent_rows_move_when_dense_is_asked_for(way, make_optimizer, by_rows, by_table):
    del by_rows
    with Toy(way) as toy:
        close(absent_rows(toy, make_optimizer(), sparse="dense")[0], by_table)


@each_kind
@each_optimizer
def test_case_046_absent_rows_and_control_flow_v2(resource, make_optimizer, by_rows, by_table):
    del by_table
    with Toy("wrapper", resource, "v2") as toy:
        close(absent_rows(toy, make_optimizer())[0], by_rows)


# Case 47

def lazy_adam(learning_rate):
    try:
        from tensorflow.contrib.opt import LazyAdamOptimizer
    except ImportError:
        pytest.skip("LazyAdamOptimizer is in tf.contrib, which TensorFlow 2 does not have")
    return LazyAdamOptimizer(learning_rate)


@everywhere
@pytest.mark.parametrize("sparse,expected", [
    ("rows", [-.09999996, -.07441341]), ("dense", [-.16700554, -.07441341])], ids=["rows", "dense"])
def test_case_047_lazy_adam_leaves_absent_rows_alone(way, resource, control_flow, sparse, expected):
    optimizer = lazy_adam(.1)
    with Toy(way, resource, control_flow) as toy:
        rows, variables = absent_rows(toy, optimizer, sparse=sparse)
        close(rows, expected)
        if sparse == "rows":
            # The moments of row 0 are those of the first update: 1 - beta1, 1 - beta2.
            close(variables["table/Adam"][0], [.1])
            close(variables["table/Adam_1"][0], [.001], rtol=2e-5)


# Case 49

@everywhere
@each_sparse
def test_case_049_embedding_and_dense_layer_together(way, resource, control_flow, sparse):
    with Toy(way, resource, control_flow) as toy:
        table = toy.variable("table", [[1.], [2.], [3.]])
        w = toy.variable("w", 2.)
        ids = tf.placeholder(tf.int32, [None])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * w)
        optimizer = Recorder(.5)
        toy.train(optimizer, loss, sparse=sparse)
        toy.start()
        toy.feed(ids, [[0, 1], [1]])
        exactly(column(toy, table), [.5, 1., 3.])
        exactly(toy.run(w), .75)
        assert optimizer.always_rows("table") is (sparse == "rows")
        assert optimizer.always_rows("w") is False
        toy.feed(ids, [[2], [2]])
        exactly(column(toy, table), [.5, 1., 3. - .5 * .75])
        exactly(toy.run(w), .75 - .5 * 3.)


@each_way
@each_kind
def test_case_049_one_variable_with_rows_and_dense_gradients(way, resource):
    """A tied embedding: looked up, and multiplied with. TensorFlow adds both into one gradient."""
    with Toy(way, resource) as toy:
        table = toy.variable("table", [[1.], [2.]])
        ids = tf.placeholder(tf.int32, [None])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids)) + 4. * tf.reduce_sum(table)
        toy.train(tf.train.GradientDescentOptimizer(1.), loss)
        toy.start()
        toy.feed(ids, [[0], [0, 1]])
        exactly(column(toy, table), [1. - 5., 2. - 4.5])


# Case 52

@everywhere
@each_sparse
def test_case_052_row_mean_divides_by_micro_batches(way, resource, control_flow, sparse):
    with Toy(way, resource, control_flow) as toy:
        model = Embedding(toy)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, sparse=sparse)
        toy.start()
        toy.feeds([model.batch([0], [2.]), model.batch([0, 3], [4., 8.])])
        exactly(column(toy, model.table), [-3., 0., 0., -4.])


@each_way
@each_sparse
def test_case_052_row_mean_divides_by_the_weight_of_the_cycle(way, sparse):
    with Toy(way) as toy:
        model = Embedding(toy)
        weight = tf.placeholder(tf.float32, [])
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, sparse=sparse, weight=weight)
        toy.start()
        first, second = model.batch([0], [2.]), model.batch([0, 3], [4., 8.])
        first[weight], second[weight] = 1., 3.
        toy.feeds([first, second])
        exactly(column(toy, model.table), [-(2. + 12.) / 4., 0., 0., -24. / 4.])


def test_case_052_trap_of_sparse_conditional_accumulator():
    with Toy() as toy:
        accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 1])
        rows = [([0], [[2.]]), ([0, 3], [[4.], [8.]])]
        adds = [accumulator.apply_grad(tf.constant(ids, tf.int64), tf.constant(values)) for ids, values in rows]
        taken = accumulator.take_indexed_slices_grad(2)
        toy.start()
        for add in adds:
            toy.run(add)
        exactly(dense(toy.run(taken), 4), [[3.], [0.], [0.], [8.]])


# Case 53

@everywhere
@pytest.mark.parametrize("steps", [1, 2])
def test_case_053_variable_without_gradient_is_left_alone(way, resource, control_flow, steps):
    with Toy(way, resource, control_flow) as toy:
        a, b = toy.variable("a", 1.), toy.variable("b", 1.)
        optimizer = tf.train.MomentumOptimizer(1., .5)
        toy.train(optimizer, 2. * a, steps=steps, var_list=[a, b])
        toy.start()
        toy.feeds([{}] * steps)
        exactly(toy.run((a, b)), [-1., 1.])
        assert optimizer.get_slot(b, "momentum") is None
        assert [variable.op.name for variable in tf.global_variables()] == ["a", "b", "a/Momentum"]


@each_way
@each_kind
@pytest.mark.parametrize("steps", [1, 2])
def test_case_053_variable_without_gradient_does_not_drift_on(way, resource, steps):
    with Toy(way, resource) as toy:
        a, b = toy.variable("a", 1.), toy.variable("b", 1.)
        optimizer = tf.train.MomentumOptimizer(1., .5)
        both = toy.train(optimizer, 2. * a + b, steps=steps, var_list=[a, b])
        only_a = toy.train(optimizer, 2. * a, steps=steps, var_list=[a, b])
        toy.start()
        for _ in range(steps):
            both.micro_step(toy.session)
        exactly(toy.run((a, b)), [-1., 0.])
        for _ in range(steps):
            only_a.micro_step(toy.session)
        # Momentum 0.5 * 2 + 2 moves a by 3; zeros for b would have moved it by 0.5.
        exactly(toy.run((a, b)), [-4., 0.])
        exactly(toy.run(optimizer.get_slot(b, "momentum")), 1.)


@each_way
@pytest.mark.parametrize("steps", [1, 2])
def test_case_053_no_gradient_at_all_is_the_error_of_the_bare_optimizer(way, steps):
    with Toy(way) as toy:
        b = toy.variable("b", 1.)
        loss = tf.constant(1.) * tf.placeholder_with_default(1., [])
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            tf.train.MomentumOptimizer(1., .5).minimize(loss, var_list=[b])
        with pytest.raises(ValueError, match="No gradients provided for any variable.*b") as raised:
            toy.train(tf.train.MomentumOptimizer(1., .5), loss, steps=steps, var_list=[b])
        assert isinstance(raised.value, tf1accum.AccumulationError)


# Case 55

@wrapper_and_low_level
@each_kind
@each_control_flow
@pytest.mark.parametrize("steps", [1, 2])
def test_case_055_gradient_of_unknown_shape(way, resource, control_flow, steps):
    with Toy(way, resource, control_flow) as toy:
        w = toy.variable("w", np.ones([2, 2]))
        gradient = tf.placeholder(tf.float32, None)
        toy.train(tf.train.GradientDescentOptimizer(1.), steps=steps, pairs=[(gradient, w)])
        toy.start()
        toy.feed(gradient, [[[1., 2.], [3., 4.]]] * steps)
        exactly(toy.run(w), [[0., -1.], [-2., -3.]])


@wrapper_and_low_level
def test_case_055_gradient_of_unknown_rows(way):
    with Toy(way) as toy:
        table = toy.variable("table", np.ones([3, 2]))
        values, ids = tf.placeholder(tf.float32, None), tf.placeholder(tf.int64, None)
        toy.train(tf.train.GradientDescentOptimizer(1.), pairs=[(tf.IndexedSlices(values, ids), table)])
        toy.start()
        toy.feeds([{values: [[2., 4.]], ids: [1]}, {values: [[2., 2.], [2., 2.]], ids: [0, 0]}])
        exactly(toy.run(table), [[-1., -1.], [0., -1.], [1., 1.]])


@wrapper_and_low_level
@each_kind
def test_case_055_a_fed_gradient_of_another_shape_fails_and_adds_nothing(way, resource):
    with Toy(way, resource) as toy:
        w = toy.variable("w", np.ones([2, 2]))
        gradient = tf.placeholder(tf.float32, None)
        toy.train(tf.train.GradientDescentOptimizer(1.), pairs=[(gradient, w)])
        toy.start()
        toy.feed(gradient, [[[1., 2.], [3., 4.]]])
        for wrong in (1., [1., 2.], [[1., 2.]], np.ones([2, 2, 1])):
            with pytest.raises(tf.errors.InvalidArgumentError):
                toy.feed(gradient, [wrong])
        assert toy.counts == (1, 0, 1, 0)
        toy.feed(gradient, [[[1., 2.], [3., 4.]]])
        exactly(toy.run(w), [[0., -1.], [-2., -3.]])


# Case 56

@everywhere
def test_case_056_variable_of_unknown_static_shape(way, resource, control_flow):
    with Toy(way, resource, control_flow) as toy:
        initial = tf.placeholder_with_default(np.ones(3, np.float32), None)
        w = tf.Variable(initial, name="w", validate_shape=False, use_resource=resource)
        assert w.shape.ndims is None
        x = tf.placeholder(tf.float32, [3])
        toy.train(tf.train.GradientDescentOptimizer(1.), tf.reduce_sum(w * x))
        toy.start()
        toy.feed(x, [[1., 2., 3.], [3., 2., 1.]])
        exactly(toy.run(w), [-1., -1., -1.])
        toy.feed(x, [[1., 2., 3.], [1., 2., 3.]])
        exactly(toy.run(w), [-2., -3., -4.])


@each_kind
def test_case_056_variable_of_unknown_first_dimension_with_rows(resource):
    with Toy("wrapper", resource) as toy:
        initial = tf.placeholder_with_default(np.zeros([3, 1], np.float32), [None, 1])
        table = tf.Variable(initial, name="table", validate_shape=False, use_resource=resource)
        ids, c = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
        loss = tf.reduce_sum(tf.reshape(tf.gather(table, ids), [-1]) * c)
        toy.train(tf.train.GradientDescentOptimizer(1.), loss)
        toy.start()
        toy.feeds([{ids: [0, 2], c: [1., 2.]}, {ids: [2, 2], c: [4., 8.]}])
        exactly(column(toy, table), [-.5, 0., -7.])


# Case 57

HALVES = [
    # Micro-gradients, mean, and what a sum in the variable's own dtype would give.
    ("float16", [2048., 1., 1., 1.], 513., 512.),
    ("bfloat16", [256., 1., 1., 1.], 65., 64.),
]
each_half = pytest.mark.parametrize("dtype,gradients,right,wrong", HALVES, ids=[half[0] for half in HALVES])


def half_sgd(toy, dtype, gradients, **config):
    dtype = tf.as_dtype(dtype)
    w = tf.Variable(tf.zeros([], dtype), name="w", use_resource=toy.resource)
    x = tf.placeholder(dtype, [])
    training = toy.train(tf.train.GradientDescentOptimizer(1.), w * x, steps=len(gradients), **config)
    toy.start()
    toy.feed(x, gradients)
    return float(toy.run(tf.cast(w, tf.float32))), training


@everywhere
@each_half
def test_case_057_half_precision_accumulates_in_float32(way, resource, control_flow, dtype, gradients, right, wrong):
    with Toy(way, resource, control_flow) as toy:
        w, _ = half_sgd(toy, dtype, gradients)
        assert w == -right != -wrong


@each_way
@each_half
def test_case_057_accumulator_dtype_can_be_half(way, dtype, gradients, right, wrong):
    with Toy(way) as toy:
        w, _ = half_sgd(toy, dtype, gradients, accumulator_dtype=dtype)
        assert w == -wrong != -right


@each_way
def test_case_057_the_optimizer_gets_the_dtype_of_the_variable(way):
    with Toy(way) as toy:
        optimizer = Recorder()
        seen = []
        w = tf.Variable(tf.zeros([], tf.float16), name="w")
        x = tf.placeholder(tf.float16, [])
        toy.train(optimizer, w * x, gradient_transform=lambda pairs: seen.extend(g.dtype for g, _ in pairs) or pairs)
        assert set(seen) == {tf.float16}
        assert {given["w"].dtype for given in optimizer.given} == {tf.float16}


@each_way
def test_case_057_a_sum_in_float32_is_rounded_once(way):
    with Toy(way) as toy:
        w, _ = half_sgd(toy, "float16", [2048., 1., 1., 1.], reduction="sum")
        assert w == -2052.  # 2051 rounds to even, 2052; a float16 sum would stay at 2048


@each_way
@each_sparse
def test_case_057_half_precision_rows_accumulate_in_float32(way, sparse):
    with Toy(way) as toy:
        model = Embedding(toy, rows=3, dtype=tf.float16)
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, steps=4, sparse=sparse)
        toy.start()
        toy.feeds([model.batch([1], [2048.])] + [model.batch([1, 0], [1., 2.])] * 3)
        exactly(column(toy, model.table), [-1.5, -513., 0.])


@each_way
def test_case_057_float64_stays_float64(way):
    with Toy(way) as toy:
        w = toy.variable("w", 0., tf.float64)
        x = tf.placeholder(tf.float64, [])
        toy.train(tf.train.GradientDescentOptimizer(tf.constant(1., tf.float64)), w * x)
        toy.start()
        toy.feed(x, [2. ** 40, 2. ** -10])
        assert toy.run(w) == -(2. ** 39 + 2. ** -11)


# Case 59

def partitioned_table(resource, scope=""):
    with tf.variable_scope(scope, partitioner=tf.fixed_size_partitioner(2), use_resource=resource,
                           reuse=tf.AUTO_REUSE):
        return tf.get_variable("t", [4, 1], initializer=tf.zeros_initializer())


def stored_rows(toy):
    return np.concatenate([toy.run(named("t/part_%d" % part)) for part in (0, 1)])[:, 0]


def train_partitioned(way, resource, control_flow, steps, container=False):
    with Toy(way, resource, control_flow) as toy:
        table = partitioned_table(resource)
        dense_loss = tf.reduce_sum(tf.convert_to_tensor(table)[:, 0] * [1., 2., 3., 4.])
        sparse_loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3, 3]))
        listed = tf.trainable_variables()
        assert len(listed) == 2
        if container:
            listed = [table]
        optimizer = tf.train.GradientDescentOptimizer(1.)
        on_dense = toy.train(optimizer, dense_loss, steps=steps, var_list=listed)
        on_rows = toy.train(optimizer, sparse_loss, steps=steps, var_list=listed)
        toy.start()
        for _ in range(steps):
            on_dense.micro_step(toy.session)
        exactly(stored_rows(toy), [-1., -2., -3., -4.])
        for _ in range(steps):
            on_rows.micro_step(toy.session)
        exactly(stored_rows(toy), [-1., -2., -4., -6.])


@everywhere
def test_case_059_partitioned_table(way, resource, control_flow):
    train_partitioned(way, resource, control_flow, steps=2)


@each_way
@each_kind
def test_case_059_partitioned_table_with_steps_1(way, resource):
    train_partitioned(way, resource, "v1", steps=1)


@pytest.mark.parametrize("way", ["wrapper", "phases"])
@each_kind
@pytest.mark.parametrize("steps", [1, 2])
def test_case_059_partitioned_table_as_a_container(way, resource, steps):
    train_partitioned(way, resource, "v2", steps, container=True)


def test_case_059_low_level_takes_the_container():
    with Toy("low_level") as toy:
        table = partitioned_table(True)
        shards = tf.trainable_variables()
        loss = tf.reduce_sum(tf.convert_to_tensor(table)[:, 0] * [1., 2., 3., 4.])
        optimizer = tf.train.GradientDescentOptimizer(1.)
        accumulator = tf1accum.GradientAccumulator([table], steps=1)
        accumulate = accumulator.accumulate_op(optimizer.compute_gradients(loss, shards))
        apply_op = accumulator.apply_op(optimizer)
        toy.start()
        toy.run(accumulate)
        toy.run(apply_op)
        exactly(stored_rows(toy), [-1., -2., -3., -4.])


@each_way
@each_kind
def test_case_059_accumulators_are_not_partitioned_again(way, resource):
    with Toy(way, resource) as toy:
        table = partitioned_table(resource)
        loss = tf.reduce_sum(tf.convert_to_tensor(table)[:, 0] * [1., 2., 3., 4.])
        with tf.variable_scope("inner", partitioner=tf.fixed_size_partitioner(2), use_resource=resource):
            toy.train(tf.train.GradientDescentOptimizer(1.), loss, save_accumulators=True)
        toy.start()
        toy.feeds([{}] * 2)
        exactly(stored_rows(toy), [-1., -2., -3., -4.])
        sums = [shape for _, shape in state_variables(toy.graph) if shape == (2, 1)]
        assert len(sums) == 4, "two shards, and a sum for each"
        assert not [name for name, _ in state_variables(toy.graph) if "part_0/part_" in name or "sum/part_" in name]


# Case 61

def three_layers(toy):
    a = toy.variable("a", np.ones([5, 4]))
    b = toy.variable("b", np.ones([4]))
    c = toy.variable("c", np.ones([4, 3]))
    x = tf.placeholder(tf.float32, [None, 5])
    return x, tf.reduce_sum(tf.matmul(tf.matmul(x, a) + b, c))


@each_way
@each_kind
def test_case_061_one_sum_a_variable_and_counters(way, resource):
    with Toy(way, resource) as toy:
        _, loss = three_layers(toy)
        before = state_variables(toy.graph)
        toy.train(tf.train.GradientDescentOptimizer(.125), loss, steps=2)
        shapes = sorted(set(state_variables(toy.graph)) - set(before))
        sums = sorted(shape for _, shape in shapes if shape in [(5, 4), (4,), (4, 3)])
        assert sums == [(4,), (4, 3), (5, 4)]
        counters = [shape for _, shape in shapes if shape not in sums]
        assert counters and all(np.prod(shape or [1]) <= 64 for shape in counters)


@pytest.mark.parametrize("way", ["wrapper"])
@each_kind
@each_control_flow
def test_case_061_one_step_adds_no_accumulator_and_equals_the_bare_optimizer(way, resource, control_flow):
    random = np.random.RandomState(3)
    batches = [random.normal(size=[2, 5]) for _ in range(5)]

    def trained(make_train_op):
        with Toy(way, resource, control_flow) as toy:
            x, loss = three_layers(toy)
            op = make_train_op(loss)
            toy.start()
            for batch in batches:
                toy.run(op, {x: batch})
            return [toy.run(v) for v in tf.global_variables()], [
                shape for _, shape in state_variables(toy.graph)]

    bare, bare_shapes = trained(tf.train.AdamOptimizer(.01).minimize)
    ours, our_shapes = trained(tf1accum.AccumulatingOptimizer(tf.train.AdamOptimizer(.01), steps=1).minimize)
    for expected, actual in zip(bare, ours):
        exactly(actual, expected)
    for shape in [(5, 4), (4,), (4, 3)]:
        assert our_shapes.count(shape) == bare_shapes.count(shape), "an accumulator of shape %s" % (shape,)


@each_way
def test_case_061_memory_of_an_embedding_follows_the_rows_touched(way):
    with Toy(way) as toy:
        model = Embedding(toy, rows=10000, width=4)
        known = set(tf.global_variables())
        toy.train(tf.train.GradientDescentOptimizer(1.), model.loss, steps=8, save_accumulators=True)
        held = [variable for variable in tf.global_variables() if variable not in known]
        toy.start()
        toy.feeds([model.batch([7, 7, 9], [1., 1., 1.])] * 7)
        numbers = sum(np.size(value) for value in toy.run(held))
        # Two rows of 4 numbers and an index; twice that, and a micro-batch of 3 more, is allowed.
        assert 0 < numbers <= 2 * (2 + 3) * 5 + 64, numbers
