"""The phases by hand, and with PhaseRunner, when the program knows where a batch ends."""

from __future__ import print_function

import tensorflow.compat.v1 as tf

import tf1accum


def main():
    """Makes an update of five micro-batches by hand, then one of three; returns w after each."""
    tf.disable_eager_execution()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        learning_rate = tf.placeholder(tf.float32, [])
        w = tf.get_variable("w", initializer=0.0)
        loss = w * x
        ops = tf1accum.build(tf.train.GradientDescentOptimizer(learning_rate), loss, steps=5)
        norm = tf.global_norm([gradient for gradient, _ in ops.normalize])
        print("apply needs to be fed:", [placeholder.op.name for placeholder in ops.apply_placeholders])

        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())

            sess.run(ops.zero)
            for value in (1.0, 2.0, 3.0, 2.0, 2.0):
                sess.run(ops.accumulate, {x: value})
            print("micro-steps held: %d, norm of the mean: %.1f" % tuple(sess.run([ops.held, norm])))
            sess.run(ops.apply, {learning_rate: 1.0})  # 10 / 5, and not 12 / 5
            by_hand = sess.run(w)

            runner = tf1accum.PhaseRunner(sess, ops)
            losses = runner.run_cycle(
                [{x: value} for value in (3.0, 6.0, 9.0)], fetches=loss, apply_feed={learning_rate: 0.5}
            )
            by_runner = sess.run(w)
    print("by hand: w = %.1f; by the runner: w = %.1f, losses %s" % (by_hand, by_runner, losses))
    return by_hand, by_runner


if __name__ == "__main__":
    main()
