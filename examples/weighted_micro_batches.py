"""Micro-batches of different sizes: weighted by their examples, they are the whole batch."""

from __future__ import print_function

import numpy as np
import tensorflow.compat.v1 as tf

import tf1accum


def train(batches, weighted):
    """Returns w after one update of all batches."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        w = tf.get_variable("w", initializer=0.0)
        optimizer = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.0), steps=len(batches))
        # With a loss that averages over tokens, the number of tokens stands here.
        train_op = optimizer.minimize(tf.reduce_mean(w * x), weight=tf.size(x) if weighted else None)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for batch in batches:
                sess.run(train_op, {x: batch})
            return float(sess.run(w))


def main():
    """Returns w for equal weights, for weights by examples, and for one whole batch."""
    tf.disable_eager_execution()
    batches = [[8.0], [1.0, 2.0, 3.0]]
    results = (
        train(batches, weighted=False),
        train(batches, weighted=True),
        train([np.concatenate(batches)], weighted=False),
    )
    print(
        "each micro-batch counts the same: %.1f\neach example counts the same:     %.1f\n"
        "one batch of four:                %.1f" % results
    )
    return results


if __name__ == "__main__":
    main()
