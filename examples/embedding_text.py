"""An embedding trained on real text: Python's own help pages, sorted by their kind of topic.

A bag of words predicts whether a page documents syntax ("statement", "expression", ...) or
something else. Only rows of words that occur in a cycle are summed and updated.
"""

from __future__ import print_function

import re
from pydoc_data.topics import topics

import numpy as np
import tensorflow.compat.v1 as tf

import tf1accum

WIDTH = 16
WORDS = 40  # words of a page that are looked at
STEPS = 4
BATCH = 2


def load_pages():
    """Returns word ids [pages, 40], labels [pages] and the number of words."""
    texts = [re.findall("[a-z]{3,}", topics[name].lower())[:WORDS] for name in sorted(topics)]
    texts = [words for words in texts if len(words) == WORDS]
    vocabulary = {word: i for i, word in enumerate(sorted({word for words in texts for word in words}))}
    ids = np.array([[vocabulary[word] for word in words] for words in texts])
    labels = np.array([float("statement" in words or "expression" in words) for words in texts])
    return ids, labels, len(vocabulary)


def train(steps, batch, updates):
    """Returns the table, the last loss of an update, and the rows held at the end of a cycle."""
    ids, labels, words = load_pages()
    with tf.Graph().as_default():
        id_feed = tf.placeholder(tf.int64, [None, WORDS])
        label_feed = tf.placeholder(tf.float32, [None])
        start = np.random.RandomState(0).uniform(-0.1, 0.1, [words, WIDTH]).astype(np.float32)
        table = tf.get_variable("table", initializer=start)
        output = tf.get_variable("output", initializer=np.full([WIDTH], 0.1, np.float32))
        logits = tf.reduce_sum(tf.reduce_mean(tf.nn.embedding_lookup(table, id_feed), 1) * output, 1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label_feed, logits=logits))
        ops = tf1accum.build(tf.train.AdagradOptimizer(0.5), loss, steps=steps)
        table_gradient = next(gradient for gradient, variable in ops.normalize if variable is table)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for update in range(updates):
                losses = []
                sess.run(ops.zero)
                for step in range(steps):
                    rows = np.arange(batch) + (update * steps + step) * batch
                    feed = {id_feed: ids[rows % len(ids)], label_feed: labels[rows % len(ids)]}
                    losses.append(sess.run([loss, ops.accumulate], feed)[0])
                touched = len(sess.run(table_gradient).indices)
                sess.run(ops.apply)
            return sess.run(table), np.mean(losses), touched


def main(updates=200):
    """Returns (largest difference from whole batches, last loss, rows touched, rows of the table)."""
    tf.disable_eager_execution()
    whole, _, _ = train(1, STEPS * BATCH, updates)
    table, loss, touched = train(STEPS, BATCH, updates)
    difference = np.abs(whole - table).max()
    print("loss after %d updates: %.4f" % (updates, loss))
    print("rows summed in the last cycle: %d of %d" % (touched, len(table)))
    print("largest difference from whole batches: %.1e" % difference)
    return difference, loss, touched, len(table)


if __name__ == "__main__":
    main()
