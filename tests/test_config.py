"""AccumulationConfig: a value."""
from __future__ import absolute_import, division, print_function

import copy
import json
import pickle

import numpy as np
import pytest

import tf1accum
from tf1accum._compat import tf

FULL = dict(steps=8, reduction="sum", clip_global_norm=1.5, accumulator_dtype="float64", sparse="dense",
            nonfinite="skip", save_accumulators=True)
DEFAULTS = dict(steps=1, reduction="mean", clip_global_norm=None, accumulator_dtype=None, sparse="rows",
                nonfinite="propagate", save_accumulators=False)


def test_defaults():
    assert tf1accum.AccumulationConfig().to_dict() == DEFAULTS


@pytest.mark.parametrize("field", sorted(FULL))
def test_each_field_is_kept_and_is_part_of_the_value(field):
    config = tf1accum.AccumulationConfig(**{field: FULL[field]})
    assert getattr(config, field) == FULL[field]
    assert config.to_dict() == dict(DEFAULTS, **{field: FULL[field]})
    assert config != tf1accum.AccumulationConfig()
    assert config == tf1accum.AccumulationConfig().replace(**{field: FULL[field]})
    assert repr(FULL[field]) in repr(config)


@pytest.mark.parametrize("fields", [DEFAULTS, FULL], ids=["defaults", "full"])
def test_goes_through_dict_and_json_and_pickle_and_repr(fields):
    config = tf1accum.AccumulationConfig(**fields)
    assert tf1accum.AccumulationConfig.from_dict(config.to_dict()) == config
    assert tf1accum.AccumulationConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert pickle.loads(pickle.dumps(config, protocol=2)) == config
    assert copy.deepcopy(config) == config
    assert eval(repr(config), {"AccumulationConfig": tf1accum.AccumulationConfig}) == config


def test_from_dict_fills_in_defaults():
    assert tf1accum.AccumulationConfig.from_dict({"steps": 3}) == tf1accum.AccumulationConfig(3)


def test_equal_values_hash_equal():
    assert hash(tf1accum.AccumulationConfig(**FULL)) == hash(tf1accum.AccumulationConfig(**FULL))
    assert len({tf1accum.AccumulationConfig(2), tf1accum.AccumulationConfig(2), tf1accum.AccumulationConfig(3)}) == 2
    assert tf1accum.AccumulationConfig(2) != 2
    assert not tf1accum.AccumulationConfig(2) != tf1accum.AccumulationConfig(2)


@pytest.mark.parametrize("field", sorted(FULL))
def test_is_immutable(field):
    config = tf1accum.AccumulationConfig()
    with pytest.raises(AttributeError, match="immutable"):
        setattr(config, field, FULL[field])
    with pytest.raises(AttributeError):
        delattr(config, field)
    with pytest.raises(AttributeError):
        config.something_new = 1
    assert config == tf1accum.AccumulationConfig()


def test_replace_leaves_the_original():
    config = tf1accum.AccumulationConfig(4, "sum")
    assert config.replace(steps=2).to_dict() == dict(DEFAULTS, steps=2, reduction="sum")
    assert config.steps == 4
    with pytest.raises(ValueError, match="steps"):
        config.replace(steps=0)
    with pytest.raises(TypeError, match="'step'"):
        config.replace(step=2)


@pytest.mark.parametrize("given", ["float64", tf.float64, "double", np.float64], ids=repr)
def test_accumulator_dtype_is_kept_as_its_name(given):
    assert tf1accum.AccumulationConfig(accumulator_dtype=given).accumulator_dtype == "float64"


def test_numbers_are_plain_python():
    config = tf1accum.AccumulationConfig(steps=2, clip_global_norm=1)
    assert type(config.clip_global_norm) is float and config.clip_global_norm == 1.


@pytest.mark.parametrize("dtype, config, expected", [
    (tf.float16, {}, tf.float32), (tf.bfloat16, {}, tf.float32), (tf.float32, {}, tf.float32),
    (tf.float64, {}, tf.float64), (tf.float32, {"accumulator_dtype": "float64"}, tf.float64),
    (tf.float16, {"accumulator_dtype": "float16"}, tf.float16), (tf.complex64, {}, tf.complex64),
    (tf.complex64, {"accumulator_dtype": "float64"}, tf.complex64),
], ids=lambda value: getattr(value, "name", "config"))
def test_sum_dtype(dtype, config, expected):
    variable = tf.Variable(tf.zeros([1], dtype))
    assert tf1accum.AccumulationConfig(**config).sum_dtype(variable) == expected


@pytest.mark.parametrize("accumulator_dtype, expected", [(None, 512.75), ("float16", 512.), ("float64", 512.75)],
                         ids=repr)
def test_accumulator_dtype_is_what_sums_are_kept_in(accumulator_dtype, expected):
    # 2048 + 1 + 1 + 1 is 2048 in float16, where 2049 does not exist; the mean is cast to the variable's dtype.
    w = tf.Variable(tf.zeros([], tf.float16))
    g = tf.placeholder(tf.float16, [])
    accumulator = tf1accum.GradientAccumulator([w], steps=4, accumulator_dtype=accumulator_dtype)
    accumulate = accumulator.accumulate_op([(g, w)])
    (mean, _), = accumulator.normalize_op()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in [2048., 1., 1., 1.]:
            session.run(accumulate, {g: value})
        assert session.run(mean) == tf.float16.as_numpy_dtype(expected)


def test_a_callable_is_kept_and_compared_by_identity():
    def steps(updates):
        return updates + 1
    assert tf1accum.AccumulationConfig(steps=steps).steps is steps
    assert tf1accum.AccumulationConfig(steps=steps) == tf1accum.AccumulationConfig(steps=steps)
    assert tf1accum.AccumulationConfig(steps=steps) != tf1accum.AccumulationConfig(steps=lambda updates: updates + 1)


def test_entry_points_show_the_configuration_they_were_given():
    config = tf1accum.AccumulationConfig(**FULL)
    w = tf.Variable(0.)
    optimizer = tf.train.GradientDescentOptimizer(1.)
    for made in (tf1accum.AccumulatingOptimizer(optimizer, config=config),
                 tf1accum.build(optimizer, w * 2., config=config), tf1accum.GradientAccumulator([w], config)):
        assert made.config == config
        assert repr(config) in repr(made)
    assert tf1accum.AccumulatingOptimizer(optimizer, **FULL).config == config
