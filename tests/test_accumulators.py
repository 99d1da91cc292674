"""Sums: what they hold, what they cost, and that nothing outside can change them."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest

import tf1accum
from tf1accum._compat import tf


def _session():
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def _embedding(rows, width=2, **config):
    table = tf.Variable(np.zeros((rows, width), np.float32), name="table")
    indices = tf.placeholder(tf.int64, [None])
    values = tf.placeholder(tf.float32, [None, width])
    accumulator = tf1accum.GradientAccumulator([table], reduction="sum", **config)
    add = accumulator.accumulate_op([(tf.IndexedSlices(values, indices, tf.constant([rows, width])), table)])
    return accumulator, add, indices, values


def _room(session):
    handle = tf.get_default_graph().get_tensor_by_name("accumulation/table/rows:0")
    return session.run(tf.raw_ops.VariableShape(input=handle))[0]


def test_rows_equal_a_dense_sum_whatever_their_number():
    accumulator, add, indices, values = _embedding(rows=50)
    zero = accumulator.zero_op()
    (total, _), = accumulator.normalize_op()
    random = np.random.RandomState(0)
    with _session() as session:
        for _ in range(15):
            expected = np.zeros((50, 2))
            for _ in range(random.randint(1, 9)):
                count = random.randint(0, 40)
                ids, rows = random.randint(0, 50, count), random.randint(-8, 9, (count, 2))
                session.run(add, {indices: ids, values: rows})
                np.add.at(expected, ids, rows)
            got = session.run(total)
            assert len(set(got.indices)) == len(got.indices)
            dense = np.zeros((50, 2))
            dense[got.indices] = got.values
            assert (dense == expected).all()
            session.run(zero)


def test_room_follows_the_distinct_rows_of_a_cycle_not_the_table_nor_the_steps():
    _, add, indices, values = _embedding(rows=1000000)
    with _session() as session:
        for _ in range(100):
            session.run(add, {indices: np.arange(10) * 7, values: np.ones((10, 2))})
        assert _room(session) <= 2 * 10 + 10


def test_room_is_kept_for_the_next_cycle():
    accumulator, add, indices, values = _embedding(rows=1000)
    zero = accumulator.zero_op()
    with _session() as session:
        rooms = []
        for _ in range(3):
            for start in range(4):
                session.run(add, {indices: np.arange(10) + 10 * start, values: np.ones((10, 2))})
            rooms.append(_room(session))
            session.run(zero)
        assert rooms[1] == rooms[2]


@pytest.mark.parametrize("sparse", ["rows", "dense"])
def test_a_fed_array_may_be_filled_anew_after_the_run(sparse):
    accumulator, add, indices, values = _embedding(rows=4096, sparse=sparse)
    (total, _), = accumulator.normalize_op()
    ids, rows = np.arange(4096), np.ones((4096, 2), np.float32)
    with _session() as session:
        session.run(add, {indices: ids, values: rows})
        ids[:] = 0
        rows[:] = 100.
        got = session.run(total)
        assert (getattr(got, "values", got) == 1.).all()
        if sparse == "rows":
            assert (got.indices == np.arange(4096)).all()


def test_a_fed_dense_gradient_may_be_filled_anew_after_the_run():
    w = tf.Variable(np.zeros(4096, np.float32))
    gradient = tf.placeholder(tf.float32, [64, 64])
    accumulator = tf1accum.GradientAccumulator([w], reduction="sum")
    add = accumulator.accumulate_op([(tf.reshape(gradient, [4096]), w)])
    (total, _), = accumulator.normalize_op()
    fed = np.ones((64, 64), np.float32)
    with _session() as session:
        session.run(add, {gradient: fed})
        fed[:] = 100.
        assert (session.run(total) == 1.).all()


def test_a_reference_variable_given_as_gradient_may_change_after_the_run():
    w = tf.Variable(np.zeros(64, np.float32), use_resource=False)
    source = tf.Variable(np.ones(64, np.float32), use_resource=False)
    accumulator = tf1accum.GradientAccumulator([w], reduction="sum")
    add = accumulator.accumulate_op([(source, w)])
    (total, _), = accumulator.normalize_op()
    change = tf.assign_add(source, tf.fill([64], 99.))
    with _session() as session:
        session.run(add)
        session.run(change.op)
        assert (session.run(total) == 1.).all()


def test_an_embedding_that_is_also_read_whole_gets_both_gradients():
    table = tf.Variable(np.zeros((3, 1), np.float32))
    loss = tf.reduce_sum(tf.gather(table, [0, 0, 2])) + 10. * tf.reduce_sum(table)
    train = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=2).minimize(loss)
    with _session() as session:
        session.run(train)
        session.run(train)
        assert session.run(table).ravel().tolist() == [-12., -10., -11.]


def test_seventeen_sets_of_variables_are_refused():
    variables = [tf.Variable(0.) for _ in range(17)]
    accumulator = tf1accum.GradientAccumulator(variables)
    for variable in variables[:16]:
        accumulator.accumulate_op([(tf.constant(1.), variable)])
    with pytest.raises(tf1accum.AccumulationError, match="17th op"):
        accumulator.accumulate_op([(tf.constant(1.), variables[16])])


def test_weights_of_a_large_vocabulary_are_added_exactly():
    # 2**24 + 1 is no float32.
    w = tf.Variable(0.)
    weight = tf.placeholder(tf.int64, [])
    accumulator = tf1accum.GradientAccumulator([w])
    add = accumulator.accumulate_op([(tf.constant(1.), w)], weight=weight)
    with _session() as session:
        session.run(add, {weight: 2 ** 24})
        session.run(add, {weight: 1})
        assert session.run(accumulator.total_weight) == 2 ** 24 + 1
