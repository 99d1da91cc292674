"""The rules of grads_and_vars."""
from __future__ import absolute_import, division, print_function

import numpy as np
import pytest

from tf1accum import gradients
from tf1accum._compat import tf


def _run(fetches, feed=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


def _rows(indices, values):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([4, 1]))


@pytest.mark.parametrize("first, second", [("dense", "dense"), ("rows", "rows"), ("dense", "rows"), ("rows", "dense")])
def test_a_variable_listed_twice_gets_the_sum(first, second):
    table = tf.Variable(np.zeros((4, 1), np.float32))
    forms = {"dense": tf.constant([[1.], [0.], [2.], [0.]]), "rows": _rows([0, 2, 2], [[1.], [1.], [1.]])}
    pair, = gradients.normalize_pairs("f", [(forms[first], table), (None, table), (forms[second], table)])
    assert isinstance(pair[0], tf.IndexedSlices) == (first == second == "rows")
    assert _run(gradients.to_dense(pair[0], table)).ravel().tolist() == [2., 0., 4., 0.]


def test_merge_rows_adds_equal_indices_in_order_of_appearance():
    indices, values = _run(gradients.merge_rows(tf.constant([7, 2, 7]), tf.constant([[1.], [2.], [4.]])))
    assert indices.tolist() == [7, 2]
    assert values.tolist() == [[5.], [2.]]


def test_contribution_of_weight_zero_is_zero_for_nan():
    w = tf.Variable([1., 1.])
    value = gradients.contribution(tf.constant([np.nan, np.inf]), w, tf.constant(0., tf.float64), tf.float32)
    assert _run(value).tolist() == [0., 0.]


def test_contribution_of_a_wrong_shape_fails_when_run():
    w = tf.Variable([1., 1.])
    fed = tf.placeholder(tf.float32, None)
    value = gradients.contribution(fed, w, None, tf.float32)
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(value, {fed: np.ones(3)})


@pytest.mark.parametrize("values, expected", [([[3.], [4.]], [0.6, 0.8]), ([[.3], [.4]], [.3, .4])],
                         ids=["above the norm", "below"])
def test_clip_by_global_norm_counts_rows_and_dtypes_alike(values, expected):
    rows = tf.IndexedSlices(tf.constant([values[0]]), tf.constant([1]), tf.constant([4, 1]))
    dense = tf.constant(values[1], tf.float64)
    clipped = gradients.clip_by_global_norm([rows, dense], 1.)
    got = _run([clipped[0].values, clipped[1]])
    assert got[1].dtype == np.float64
    np.testing.assert_allclose([got[0].item(), got[1].item()], expected, rtol=1e-6)


def test_clip_by_global_norm_of_half_precision_does_not_overflow():
    clipped, = gradients.clip_by_global_norm([tf.fill([16], tf.constant(300., tf.float16))], 4.)
    np.testing.assert_allclose(_run(clipped), np.ones(16), rtol=1e-3)


def test_clip_by_global_norm_of_complex_numbers():
    clipped, = gradients.clip_by_global_norm([tf.constant([3. + 4.j], tf.complex64)], 1.)
    np.testing.assert_allclose(_run(clipped), [.6 + .8j], rtol=1e-6)


@pytest.mark.parametrize("bad, finite", [(np.nan, False), (np.inf, False), (1., True)])
def test_all_finite_looks_at_rows_and_complex_numbers(bad, finite):
    assert _run(gradients.all_finite([_rows([0], [[bad]]), tf.constant([1.])])) == finite
    assert _run(gradients.all_finite([tf.complex(tf.constant(1.), tf.constant(np.float32(bad)))])) == finite
