"""MonitoredTrainingSession with checkpoints: stop inside a cycle, resume, flush the tail."""

from __future__ import print_function

import shutil
import tempfile

import tensorflow.compat.v1 as tf

import tf1accum


def train(folder, values, tail=None):
    """Trains on a stream of gradients, from the checkpoint in `folder` when there is one."""
    with tf.Graph().as_default():
        x = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(values)).get_next()
        w = tf.get_variable("w", initializer=0.0)
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.0), steps=4)
        train_op = optimizer.minimize(w * x, global_step=global_step)
        # These hooks end before the one that saves the last checkpoint.
        hooks = [tf1accum.TailHook(optimizer, tail=tail)] if tail else []
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder,
            chief_only_hooks=hooks,
            save_checkpoint_steps=1,
            save_summaries_steps=None,
            log_step_count_steps=None,
        ) as sess:
            while not sess.should_stop():
                sess.run(train_op)
    return (float(tf.train.load_variable(folder, "w")), int(tf.train.load_variable(folder, "global_step")))


def main():
    """Returns (w, updates) of an uninterrupted run, and of one that stopped inside a cycle."""
    tf.disable_eager_execution()
    values = [float(value) for value in range(1, 11)]  # two cycles of four, and a tail of two
    folders = [tempfile.mkdtemp(), tempfile.mkdtemp()]
    try:
        uninterrupted = train(folders[0], values, tail="flush")
        # This one ends after the sixth micro-batch, as if killed. Its last checkpoint is that of the first
        # update: what the open cycle held is lost, so the data goes on from where that update was.
        train(folders[1], values[:6])
        resumed = train(folders[1], values[4:], tail="flush")
    finally:
        for folder in folders:
            shutil.rmtree(folder)
    print("uninterrupted: w = %.2f after %d updates" % uninterrupted)
    print("resumed:       w = %.2f after %d updates" % resumed)
    return uninterrupted, resumed


if __name__ == "__main__":
    main()
