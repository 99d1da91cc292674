"""One line makes an optimizer update every four micro-batches."""

from __future__ import print_function

import numpy as np
import tensorflow.compat.v1 as tf

import tf1accum

EXAMPLES = 512
UPDATES = 30


def make_data():
    """Returns features [512, 8] and targets [512] of a noisy linear law."""
    random = np.random.RandomState(0)
    features = random.randn(EXAMPLES, 8)
    return features, features.dot(np.arange(8.0)) + 0.1 * random.randn(EXAMPLES)


def train(steps, batch):
    """Returns the weights after 30 updates of `steps` times `batch` examples."""
    features, targets = make_data()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8])
        y = tf.placeholder(tf.float32, [None])
        w = tf.get_variable("w", [8], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * w, 1) - y))
        global_step = tf.train.get_or_create_global_step()

        optimizer = tf.train.AdamOptimizer(0.5)
        optimizer = tf1accum.AccumulatingOptimizer(optimizer, steps=steps)  # the line
        train_op = optimizer.minimize(loss, global_step=global_step)

        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for micro_step in range(UPDATES * steps):
                rows = np.arange(micro_step * batch, (micro_step + 1) * batch) % EXAMPLES
                sess.run(train_op, {x: features[rows], y: targets[rows]})
            assert sess.run(global_step) == UPDATES
            return sess.run(w)


def main():
    """Trains with batches of 128 and with 4 x 32; returns the largest difference of a weight."""
    tf.disable_eager_execution()
    whole, accumulated = train(1, 128), train(4, 32)
    difference = np.abs(whole - accumulated).max()
    print("weights, batches of 128:     ", np.round(whole, 3))
    print("weights, 4 x 32, accumulated:", np.round(accumulated, 3))
    print("largest difference: %.1e" % difference)
    return difference


if __name__ == "__main__":
    main()
