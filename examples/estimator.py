"""An Estimator whose optimizer accumulates. Estimators ended with TensorFlow 2.15."""

from __future__ import print_function

import shutil
import tempfile

import tensorflow.compat.v1 as tf

import tf1accum


def model_fn(features, labels, mode):
    """A linear model; the one line is in here."""
    w = tf.get_variable("w", initializer=0.0)
    loss = tf.reduce_mean(tf.square(w * features - labels))
    if mode != tf.estimator.ModeKeys.TRAIN:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    optimizer = tf.train.GradientDescentOptimizer(0.25)
    optimizer = tf1accum.AccumulatingOptimizer(optimizer, steps=2)  # the line
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    """Yields one example at a time: y = 3 x."""
    examples = tf.data.Dataset.from_tensor_slices(([1.0, 2.0], [3.0, 6.0]))
    return examples.repeat().batch(1)


def main():
    """Returns (w, global_step) after 20 updates; None where there is no Estimator."""
    if not hasattr(tf, "estimator") or not hasattr(tf.estimator, "Estimator"):
        print("This TensorFlow has no Estimator: they ended with 2.15.")
        return None
    folder = tempfile.mkdtemp()
    try:
        estimator = tf.estimator.Estimator(model_fn, model_dir=folder)
        estimator.train(input_fn, max_steps=20)  # counts updates: 40 examples are read
        result = float(estimator.get_variable_value("w")), int(estimator.get_variable_value("global_step"))
    finally:
        shutil.rmtree(folder)
    print("w = %.3f after %d updates" % result)
    return result


if __name__ == "__main__":
    main()
