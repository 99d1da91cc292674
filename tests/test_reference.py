"""The oracle against the real optimizers, and its sums against sums written out."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest
import reference
from reference import OPTIMIZERS, Accumulation, NotFinite, Rows, Training
from ways import each_kind

from tf1accum._compat import tf

each_optimizer = pytest.mark.parametrize("name", sorted(OPTIMIZERS))


def _batches(rng, count):
    """Gradients of a table: 3 rows a step, one of them twice; row 4 is never touched."""
    for _ in range(count):
        first, second = rng.choice(4, 2, replace=False)
        yield Rows(np.array([first, second, first]), rng.randn(3, 2))


@each_optimizer
@each_kind
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=["float32", "float64"])
def test_rule_is_that_of_the_real_optimizer(name, resource, dtype):
    # 8 updates of a scalar, a matrix, and a table with sparse gradients; the learning rate changes.
    pair = OPTIMIZERS[name]
    rng = np.random.RandomState(0)
    start = {"matrix": rng.randn(3, 2), "scalar": rng.randn(), "table": rng.randn(5, 2)}
    real_type = dtype.as_numpy_dtype
    weights = {key: np.array(value, real_type).astype(np.float64) for key, value in start.items()}
    oracle = pair.oracle()
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {key: tf.Variable(np.array(value, real_type), name=key, use_resource=resource)
                     for key, value in start.items()}
        step = tf.Variable(0, dtype=tf.int64, trainable=False, use_resource=resource)
        fed = {key: tf.placeholder(dtype, np.shape(start[key]) if key != "table" else [None, 2]) for key in start}
        ids = tf.placeholder(tf.int64, [None])
        rate = tf.placeholder(dtype if pair.takes_variable_dtype else tf.float32, [])
        optimizer = pair.real(tf.train, global_step=step, dtype=real_type, learning_rate=rate)
        train = optimizer.apply_gradients(
            [(fed["matrix"], variables["matrix"]), (fed["scalar"], variables["scalar"]),
             (tf.IndexedSlices(fed["table"], ids, tf.constant([5, 2], tf.int64)), variables["table"])],
            global_step=step)
        session.run(tf.global_variables_initializer())
        for update, rows in enumerate(_batches(rng, 8)):
            gradients = {"matrix": rng.randn(3, 2), "scalar": rng.randn(), "table": rows}
            learning_rate = pair.arguments["learning_rate"] * (1. if update < 4 else 0.3)
            session.run(train, {fed["matrix"]: gradients["matrix"], fed["scalar"]: gradients["scalar"],
                                fed["table"]: rows.values, ids: rows.indices, rate: np.float32(learning_rate)})
            rounded = {key: Rows(value.indices, value.values.astype(real_type)) if key == "table" else
                       np.asarray(value, real_type) for key, value in gradients.items()}
            oracle.apply(weights, rounded, learning_rate=learning_rate)
        tolerance = dict(rtol=1e-12, atol=1e-13) if dtype == tf.float64 else dict(rtol=2e-4, atol=2e-5)
        for key in sorted(start):
            np.testing.assert_allclose(session.run(variables[key]), weights[key], err_msg=key, **tolerance)
            for slot in optimizer.get_slot_names():
                np.testing.assert_allclose(session.run(optimizer.get_slot(variables[key], slot)),
                                           oracle.slots[key][slot], err_msg=key + "/" + slot, **tolerance)
        assert sorted(optimizer.get_slot_names()) == sorted(oracle.slots["scalar"])
        # Only Adam moves a row that no gradient has come for; its first moment is zero there, so none does.
        np.testing.assert_array_equal(session.run(variables["table"])[4], np.array(start["table"], real_type)[4])


@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_rows_that_are_absent_move_with_adam_only(name):
    optimizer = OPTIMIZERS[name].oracle()
    weights = {"table": np.zeros([2, 1])}
    optimizer.apply(weights, {"table": Rows(np.array([0]), np.ones([1, 1]))})
    before = weights["table"].copy()
    optimizer.apply(weights, {"table": Rows(np.array([1]), np.ones([1, 1]))})
    assert (weights["table"][0, 0] != before[0, 0]) == (name == "adam")


def test_equal_rows_are_added_before_they_are_squared():
    optimizer = OPTIMIZERS["adagrad"].oracle()
    weights = {"table": np.zeros([2, 1])}
    optimizer.apply(weights, {"table": Rows(np.array([0, 0]), np.array([[1.], [2.]]))})
    np.testing.assert_allclose(optimizer.slots["table"]["accumulator"], [[9.1], [0.1]])


def _trained(gradients, steps, weights=None, tail="flush", **config):
    training = Training(reference.GradientDescent(1.), {"w": 0.}, Accumulation(steps, **config))
    for index, gradient in enumerate(gradients):
        training.micro_step({"w": gradient}, 1. if weights is None else weights[index])
    training.flush() if tail == "flush" else training.accumulation.drop()
    return float(training.weights["w"]), training.accumulation.counts


@pytest.mark.parametrize("config, expected", [
    (dict(gradients=[1., 3., 5., 7., 9.], steps=2), (-17., (5, 3, 0, 0))),
    (dict(gradients=[1., 3., 5., 7., 9.], steps=2, tail="drop"), (-8., (5, 2, 0, 0))),
    (dict(gradients=[1., 3., 5., 7.], steps=2, reduction="sum"), (-16., (4, 2, 0, 0))),
    (dict(gradients=[8., 2.], steps=2, weights=[1., 3.]), (-3.5, (2, 1, 0, 0))),
    (dict(gradients=[8., 2., 1., 1.], steps=2, weights=[0., 0., 1., 1.]), (-1., (4, 1, 0, 0))),
    (dict(gradients=[np.nan, 2.], steps=2, weights=[0., 1.]), (-2., (2, 1, 0, 0))),
    (dict(gradients=[1., np.inf, 3.], steps=2, nonfinite="skip"), (-2., (3, 1, 0, 1))),
    (dict(gradients=[1., np.nan, 3., 5.], steps=2, nonfinite="skip_cycle"), (-4., (4, 1, 0, 2))),
    (dict(gradients=[np.inf], steps=2, nonfinite="skip"), (0., (1, 0, 0, 1))),
    (dict(gradients=[6., 2.], steps=2, clip_global_norm=1.), (-1., (2, 1, 0, 0))),
    (dict(gradients=[1., 2., 3., 4., 5., 6.], steps=lambda updates: updates + 1), (-1. - 2.5 - 5., (6, 3, 0, 0))),
], ids=["flush", "drop", "sum", "weights", "zero_cycle", "zero_weight_nan", "skip", "skip_cycle", "skip_all", "clip",
        "schedule"])
def test_accumulation_written_out(config, expected):
    assert _trained(**config) == expected


def test_propagate_lets_nan_through():
    assert np.isnan(_trained([1., np.nan], 2)[0])


def test_error_names_the_variable_and_changes_nothing():
    accumulation = Accumulation(2, nonfinite="error")
    accumulation.add({"a": 1., "b": 1.})
    with pytest.raises(NotFinite, match="b"):
        accumulation.add({"a": 1., "b": np.nan})
    assert accumulation.counts == (1, 0, 1, 0)
    assert accumulation.gradient() == {"a": 1., "b": 1.}


def test_rows_divide_by_the_weight_of_the_cycle_and_stay_rows():
    accumulation = Accumulation(2)
    accumulation.add({"t": Rows(np.array([0]), np.array([[2.]]))})
    accumulation.add({"t": Rows(np.array([0, 3]), np.array([[4.], [8.]]))})
    rows = accumulation.gradient()["t"]
    np.testing.assert_array_equal(rows.indices, [0, 3])
    np.testing.assert_array_equal(rows.values, [[3.], [4.]])


def test_rows_and_dense_of_one_variable_are_dense():
    accumulation = Accumulation(2, shapes={"t": (2, 1)})
    accumulation.add({"t": Rows(np.array([1, 1]), np.array([[2.], [2.]]))})
    accumulation.add({"t": np.array([[6.], [8.]])})
    np.testing.assert_array_equal(accumulation.gradient()["t"], [[3.], [6.]])
