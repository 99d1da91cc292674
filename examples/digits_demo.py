"""Trains one network twice on handwritten digits: on batches of 256, and on micro-batches of 32.

    python -m examples.digits_demo [--updates 60] [--output out]

The second training accumulates eight micro-batches to an update, and should end in the
same weights with a fraction of the memory. Each training runs in a process of its own, so
that its peak memory is its own. Prints a table, and writes `losses.png` and `results.json`
to the output folder. The exit status is 0 only when the weights agree.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

BATCH = 256
MICRO_STEPS = 8
SIDE = 16
CHANNELS = 48
LAYERS = 3
LEARNING_RATE = 0.005
# Float32 rounds to 2**-24. A sum over a batch in another order differs by a few of these, and each
# update carries the difference on. A mistake in accumulating moves weights by 1e-2 or more.
BOUND_IN_ROUNDINGS = 100.0

TRAININGS = {
    "whole": "batches of %d" % BATCH,
    "accumulated": "%d x %d, accumulated" % (MICRO_STEPS, BATCH // MICRO_STEPS),
}


def load_digits():
    """Returns ((images, labels) to train on, (images, labels) to test on).

    1797 real images of 8 x 8, each pixel enlarged to 2 x 2, so that activations weigh something.
    """
    import numpy as np
    from sklearn import datasets

    digits = datasets.load_digits()
    images = np.kron(digits.images / 16.0, np.ones((2, 2))).astype(np.float32)[..., None]
    order = np.random.RandomState(0).permutation(len(images))
    train, test = order[:1536], order[1536:]
    return (images[train], digits.target[train]), (images[test], digits.target[test])


def build_model(tf):
    """Returns (images, labels, loss, accuracy, trainable variables) of a small convolutional network."""
    import numpy as np

    random = np.random.RandomState(1)

    def variable(name, *shape):
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        return tf.get_variable(name, initializer=(random.randn(*shape) * scale).astype(np.float32))

    images = tf.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    hidden = images
    for layer in range(LAYERS):
        depth = hidden.shape.as_list()[-1]
        kernel = variable("conv%d" % layer, 3, 3, depth, CHANNELS)
        hidden = tf.nn.elu(tf.nn.conv2d(hidden, kernel, strides=[1, 1, 1, 1], padding="SAME"))
    flat = tf.reshape(hidden, [-1, SIDE * SIDE * CHANNELS])
    logits = tf.matmul(flat, variable("logits", SIDE * SIDE * CHANNELS, 10))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    return images, labels, loss, accuracy, tf.trainable_variables()


def peak_memory():
    """Returns the process's peak resident memory in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def train(kind, updates, output):
    """Trains, prints a JSON line for each update, and writes weights and figures to `output`."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    import tf1accum

    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    (images, labels), (test_images, test_labels) = load_digits()
    image_feed, label_feed, loss, accuracy, weights = build_model(tf)

    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(LEARNING_RATE, step, decay_steps=20, decay_rate=0.7)
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    if kind == "accumulated":
        optimizer = tf1accum.AccumulatingOptimizer(optimizer, steps=MICRO_STEPS)  # the one line
    train_op = optimizer.minimize(loss, global_step=step)

    size = BATCH // MICRO_STEPS if kind == "accumulated" else BATCH
    losses = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = peak_memory()
        started = time.time()
        for update in range(updates):
            start = update * BATCH % len(images)
            parts = []
            for first in range(start, start + BATCH, size):
                feed = {image_feed: images[first : first + size], label_feed: labels[first : first + size]}
                parts.append(session.run([loss, train_op], feed)[0])
            losses.append(float(np.mean(parts)))
            print(json.dumps({"update": update + 1, "loss": losses[-1]}), flush=True)
        seconds = time.time() - started
        peak = peak_memory()
        correct = [
            session.run(accuracy, {image_feed: test_images[i : i + 32], label_feed: test_labels[i : i + 32]})
            * len(test_labels[i : i + 32])
            for i in range(0, len(test_labels), 32)
        ]
        figures = {
            "losses": losses,
            "accuracy": float(sum(correct) / len(test_labels)),
            "seconds": seconds,
            "peak_mib": peak,
            "before_mib": before,
            "global_step": int(session.run(step)),
        }
        np.savez(os.path.join(output, kind + ".npz"), *session.run(weights))
    with open(os.path.join(output, kind + ".json"), "w") as results:
        json.dump(figures, results)


def run_training(kind, updates, output, progress):
    """Runs `train` in a process of its own, and returns its figures and weights."""
    import numpy as np

    command = [sys.executable, "-m", "examples.digits_demo", "--train", kind]
    command += ["--updates", str(updates), "--output", output]
    task = progress.add_task(TRAININGS[kind], total=updates, loss=float("nan"))
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
    with open(os.path.join(output, kind + ".log"), "w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True)
        for line in process.stdout:
            if line.startswith("{"):
                report = json.loads(line)
                progress.update(task, completed=report["update"], loss=report["loss"])
    if process.wait():
        with open(os.path.join(output, kind + ".log")) as log:
            sys.stderr.write(log.read())
        raise SystemExit("The training on %s failed with status %d." % (TRAININGS[kind], process.returncode))
    with open(os.path.join(output, kind + ".json")) as results:
        figures = json.load(results)
    with np.load(os.path.join(output, kind + ".npz")) as weights:
        figures["weights"] = [weights[name] for name in weights.files]
    return figures


def compare(whole, accumulated):
    """Returns (largest difference of a weight, the bound that it must not exceed)."""
    import numpy as np

    largest = max(np.abs(a - b).max() for a, b in zip(whole["weights"], accumulated["weights"]))
    scale = max(np.abs(a).max() for a in whole["weights"])
    return float(largest), float(BOUND_IN_ROUNDINGS * 2.0**-24 * scale)


def draw(whole, accumulated, path):
    """Draws both loss curves, and their difference, into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    updates = range(1, len(whole["losses"]) + 1)
    differences = [max(abs(a - b), 1e-9) for a, b in zip(whole["losses"], accumulated["losses"])]
    figure, (curves, difference) = plt.subplots(
        2, 1, figsize=(8, 6), sharex=True, gridspec_kw={"height_ratios": [3, 1]}, constrained_layout=True
    )
    curves.plot(updates, whole["losses"], color="#9ecae1", linewidth=6, label=TRAININGS["whole"])
    curves.plot(updates, accumulated["losses"], color="#08519c", linewidth=1.5, label=TRAININGS["accumulated"])
    curves.set_title("Handwritten digits: the same training, in one eighth of the batch")
    curves.set_ylabel("training loss (log scale)")
    curves.set_yscale("log")
    curves.legend()
    difference.plot(updates, differences, color="#cb181d", linewidth=1.2)
    difference.set_yscale("log")
    difference.set_ylabel("difference")
    difference.set_xlabel("update")
    for axes in (curves, difference):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def report(console, whole, accumulated):
    """Prints the table; returns whether the weights agree."""
    from rich.table import Table

    largest, bound = compare(whole, accumulated)
    table = Table(title="%d updates of 256 images" % whole["global_step"])
    table.add_column("")
    for title in TRAININGS.values():
        table.add_column(title, justify="right")

    def row(label, form, figure):
        table.add_row(label, form % figure(whole), form % figure(accumulated))

    row("test accuracy", "%.2f %%", lambda figures: 100 * figures["accuracy"])
    row("last training loss", "%.6f", lambda figures: figures["losses"][-1])
    row("peak memory of the process", "%.0f MiB", lambda figures: figures["peak_mib"])
    row("peak memory, added by training", "%.0f MiB", lambda figures: figures["peak_mib"] - figures["before_mib"])
    row("time", "%.1f s", lambda figures: figures["seconds"])
    table.add_row("largest weight difference", "", "%.1e (bound %.1e)" % (largest, bound))
    console.print(table)
    return largest <= bound


def main(arguments=None):
    """Runs both trainings; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=60, help="updates to make (default: 60)")
    parser.add_argument("--output", default="out", help="folder for the picture and results (default: out)")
    parser.add_argument("--train", choices=sorted(TRAININGS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.updates < 1:
        parser.error("--updates must be at least 1. Received: %d" % options.updates)
    os.makedirs(options.output, exist_ok=True)
    if options.train:
        train(options.train, options.updates, options.output)
        return 0

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console()
    columns = [TextColumn("{task.description:>22}"), BarColumn(), MofNCompleteColumn(), TextColumn("updates"),
               TextColumn("loss {task.fields[loss]:.4f}"), TimeElapsedColumn()]  # fmt: skip
    with Progress(*columns, console=console) as progress:
        whole, accumulated = [run_training(kind, options.updates, options.output, progress) for kind in TRAININGS]
    agree = report(console, whole, accumulated)
    picture = os.path.join(options.output, "losses.png")
    draw(whole, accumulated, picture)
    with open(os.path.join(options.output, "results.json"), "w") as results:
        largest, bound = compare(whole, accumulated)
        figures = {
            kind: {name: value for name, value in figures.items() if name != "weights"}
            for kind, figures in (("whole", whole), ("accumulated", accumulated))
        }
        json.dump(dict(figures, largest_difference=largest, bound=bound), results, indent=2)
    console.print("Loss curves: [bold]%s[/bold]" % picture)
    if not agree:
        console.print("[bold red]The weights differ by more than rounding explains.[/bold red]")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
