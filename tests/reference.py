"""A float64 oracle in NumPy: what accumulation computes, and the rules of `tf.train` optimizers.

    oracle = Training(Momentum(0.1, 0.9), {"w": w}, Accumulation(steps=4))
    oracle.micro_step({"w": g}, weight=3.)
    oracle.weights["w"], oracle.optimizer.slots["w"]["momentum"], oracle.step

A gradient is an array, `Rows` (which may hold a row several times), or None. The rules are
those of TensorFlow's kernels, `core/kernels/training_ops.cc`, with every hyperparameter
rounded to float32 as `tf.train` rounds it. test_reference.py holds the oracle against the
real optimizers, and OPTIMIZERS pairs them.
"""
from __future__ import absolute_import, division, print_function

import collections

import numpy as np


class Rows(collections.namedtuple("Rows", ["indices", "values"])):
    """A sparse gradient: `values[n]` belongs to row `indices[n]`."""

    __slots__ = ()


def merged(rows):
    """Returns Rows with each row once, in ascending order; rows that are equal are added."""
    indices, position = np.unique(np.asarray(rows.indices, np.int64), return_inverse=True)
    values = np.zeros((len(indices),) + np.shape(rows.values)[1:])
    np.add.at(values, position.reshape(-1), np.asarray(rows.values, np.float64))
    return Rows(indices, values)


def densified(gradient, shape):
    """Returns a gradient as an array of `shape`."""
    if not isinstance(gradient, Rows):
        return np.array(gradient, np.float64)
    dense = np.zeros(shape)
    np.add.at(dense, np.asarray(gradient.indices, np.int64), np.asarray(gradient.values, np.float64))
    return dense


def _values(gradient):
    return gradient.values if isinstance(gradient, Rows) else np.asarray(gradient)


def _with_values(gradient, values):
    return Rows(gradient.indices, values) if isinstance(gradient, Rows) else values


class NotFinite(Exception):
    """What `nonfinite="error"` does; the message is the variable's name."""


class Accumulation(object):
    """The open cycle and the counts: `G = sum(w[k] * g[k]) / sum(w[k])`.

    Args:
      steps: int, or a function from the update count to an int.
      reduction: "mean" or "sum".
      clip_global_norm: float or None.
      sparse: "rows" or "dense".
      nonfinite: "propagate", "skip", "skip_cycle" or "error".
      shapes: dict from name to shape, for `sparse="dense"` and for gradients that are both.
    """

    def __init__(self, steps=1, reduction="mean", clip_global_norm=None, sparse="rows", nonfinite="propagate",
                 shapes=None):
        self._steps = steps
        self._reduction = reduction
        self._clip = clip_global_norm
        self._sparse = sparse
        self._nonfinite = nonfinite
        self._shapes = shapes
        self.micro_steps = self.updates = self.skipped = 0
        self._empty()

    def _empty(self):
        self.held = 0
        self.total_weight = 0.
        self._bad = 0
        self._cycle = []

    @property
    def counts(self):
        """(micro-steps, updates, held, skipped)."""
        return self.micro_steps, self.updates, self.held, self.skipped

    @property
    def is_due(self):
        """Whether the cycle is complete."""
        steps = self._steps(self.updates) if callable(self._steps) else self._steps
        return self.held >= steps

    @property
    def is_open(self):
        """Whether a micro-step was run since the last cycle ended."""
        return self.held + self._bad > 0

    def add(self, gradients, weight=1.):
        """One micro-step.

        Args:
          gradients: dict from name to gradient.
          weight: real number.
        """
        contributions = {}
        finite = True
        for name in sorted(gradients):
            if gradients[name] is None:
                continue
            values = np.asarray(_values(gradients[name]), np.float64)
            values = np.zeros_like(values) if weight == 0 else values * weight
            if not np.isfinite(values).all():
                finite = False
                if self._nonfinite == "error":
                    raise NotFinite(name)
            contributions[name] = _with_values(gradients[name], values)
        self.micro_steps += 1
        if not finite and self._nonfinite == "skip":
            self._bad += 1
            self.skipped += 1
            return
        if not finite and self._nonfinite == "skip_cycle":
            self._bad += 1
        self.held += 1
        self.total_weight += weight
        self._cycle.append(contributions)

    def gradient(self):
        """Returns G, a dict from name to gradient; Rows hold each row once."""
        result = {}
        for name in sorted({name for contributions in self._cycle for name in contributions}):
            parts = [contributions[name] for contributions in self._cycle if name in contributions]
            if self._sparse == "rows" and all(isinstance(part, Rows) for part in parts):
                total = merged(Rows(np.concatenate([part.indices for part in parts]),
                                    np.concatenate([part.values for part in parts])))
            else:
                total = sum(densified(part, self._shapes and self._shapes[name]) for part in parts)
            if self._reduction == "mean":
                total = _with_values(total, _values(total) / self.total_weight)
            result[name] = total
        if self._clip is not None:
            norm = np.sqrt(sum(np.sum(np.square(_values(total))) for total in result.values()))
            result = {name: _with_values(total, _values(total) * self._clip / max(norm, self._clip))
                      for name, total in result.items()}
        return result

    def end(self):
        """Ends the cycle. Returns G, or None for a cycle that makes no update."""
        spoiled = self._nonfinite == "skip_cycle" and self._bad
        if self.total_weight == 0 or spoiled:
            self.skipped += self.held if spoiled else 0
            self._empty()
            return None
        result = self.gradient()
        self.updates += 1
        self._empty()
        return result

    def drop(self):
        """Ends the cycle without an update."""
        self._empty()


class Training(object):
    """Weights that are trained, micro-step by micro-step.

    Args:
      optimizer: an Optimizer of this module.
      weights: dict from name to the start.
      accumulation: Accumulation.
    """

    def __init__(self, optimizer, weights, accumulation):
        self.optimizer = optimizer
        self.weights = {name: np.array(value, np.float64) for name, value in weights.items()}
        self.accumulation = accumulation
        self.step = 0

    def micro_step(self, gradients, weight=1.):
        """Adds a micro-batch, and updates when it completes the cycle."""
        self.accumulation.add(gradients, weight)
        if self.accumulation.is_due:
            self.end_cycle()

    def end_cycle(self):
        """Applies what is held."""
        gradient = self.accumulation.end()
        if gradient is not None:
            self.optimizer.apply(self.weights, gradient)
            self.step += 1

    def flush(self):
        """Applies an open cycle, if there is one."""
        if self.accumulation.is_open:
            self.end_cycle()


def _float32(value):
    return float(np.float32(value))


def soft(value, threshold):
    """Returns `sign(value) * max(abs(value) - threshold, 0)`."""
    return np.sign(value) * np.maximum(np.abs(value) - threshold, 0.)


class Optimizer(object):
    """A rule of `tf.train`, in float64.

    Takes the arguments of the optimizer of that name. Subclasses say which slots there are
    (`_start`, in TensorFlow's names), and how w and the slots change (`_update`).

    Attributes:
      slots: dict from a weight's name to a dict from a slot's name to an array.
      updates: updates made.
    """

    DEFAULTS = {}
    # Start values, which TensorFlow makes in the variable's own dtype.
    NOT_ROUNDED = ("initial_accumulator_value", "initial_gradient_squared_accumulator_value")

    def __init__(self, learning_rate, **hyperparameters):
        unknown = set(hyperparameters) - set(self.DEFAULTS)
        assert not unknown, "unknown: %s" % unknown
        values = dict(self.DEFAULTS, learning_rate=learning_rate)
        values.update(hyperparameters)
        self.h = {name: value if isinstance(value, bool) or name in self.NOT_ROUNDED else _float32(value)
                  for name, value in values.items()}
        self.slots = {}
        self.updates = 0

    def apply(self, weights, gradients, learning_rate=None):
        """One update, in place.

        Args:
          weights: dict from name to array.
          gradients: dict from name to gradient; None, and names that are missing, are left alone.
          learning_rate: in place of the constructor's.
        """
        rate = self.h["learning_rate"] if learning_rate is None else _float32(learning_rate)
        for name in sorted(gradients):
            gradient = gradients[name]
            if gradient is None:
                continue
            w = weights[name]
            if name not in self.slots:
                self.slots[name] = {slot: np.full(w.shape, start) for slot, start in self._start().items()}
            if isinstance(gradient, Rows):
                gradient = merged(gradient)
                rows, g = gradient.indices, gradient.values
            else:
                rows, g = Ellipsis, np.asarray(gradient, np.float64)
            self._update(w, self.slots[name], g, rows, rate)
        self.updates += 1
        self._after()

    def _start(self):
        return {}

    def _update(self, w, slots, g, rows, rate):
        raise NotImplementedError

    def _after(self):
        pass


class GradientDescent(Optimizer):
    """w -= lr * g"""

    def _update(self, w, slots, g, rows, rate):
        w[rows] -= rate * g


class Momentum(Optimizer):
    """a = mu * a + g; w -= lr * a, or with Nesterov w -= lr * g + lr * mu * a"""

    DEFAULTS = dict(momentum=0., use_nesterov=False)

    def _start(self):
        return {"momentum": 0.}

    def _update(self, w, slots, g, rows, rate):
        a, mu = slots["momentum"], self.h["momentum"]
        a[rows] = mu * a[rows] + g
        w[rows] -= rate * g + rate * mu * a[rows] if self.h["use_nesterov"] else rate * a[rows]


class Adam(Optimizer):
    """Moves all rows, also for a sparse gradient. The powers are float32 variables."""

    DEFAULTS = dict(beta1=0.9, beta2=0.999, epsilon=1e-8)

    def __init__(self, *args, **kwargs):
        super(Adam, self).__init__(*args, **kwargs)
        self.beta1_power, self.beta2_power = np.float32(self.h["beta1"]), np.float32(self.h["beta2"])

    def _start(self):
        return {"m": 0., "v": 0.}

    def _update(self, w, slots, g, rows, rate):
        m, v = slots["m"], slots["v"]
        m *= self.h["beta1"]
        m[rows] += (1. - self.h["beta1"]) * g
        v *= self.h["beta2"]
        v[rows] += (1. - self.h["beta2"]) * g * g
        rate *= np.sqrt(1. - float(self.beta2_power)) / (1. - float(self.beta1_power))
        w -= rate * m / (np.sqrt(v) + self.h["epsilon"])

    def _after(self):
        self.beta1_power *= np.float32(self.h["beta1"])
        self.beta2_power *= np.float32(self.h["beta2"])


class RMSProp(Optimizer):
    """ms += (1 - rho) * (g**2 - ms); mom = mu * mom + lr * g / sqrt(ms [- mg**2] + eps); w -= mom"""

    DEFAULTS = dict(decay=0.9, momentum=0., epsilon=1e-10, centered=False)

    def _start(self):
        slots = {"rms": 1., "momentum": 0.}
        return dict(slots, mg=0.) if self.h["centered"] else slots

    def _update(self, w, slots, g, rows, rate):
        ms, mom, rho = slots["rms"], slots["momentum"], self.h["decay"]
        ms[rows] += (1. - rho) * (g * g - ms[rows])
        under_root = ms[rows] + self.h["epsilon"]
        if self.h["centered"]:
            mg = slots["mg"]
            mg[rows] += (1. - rho) * (g - mg[rows])
            under_root = under_root - np.square(mg[rows])
        mom[rows] = self.h["momentum"] * mom[rows] + rate * g / np.sqrt(under_root)
        w[rows] -= mom[rows]


class Adagrad(Optimizer):
    """a += g**2; w -= lr * g / sqrt(a)"""

    DEFAULTS = dict(initial_accumulator_value=0.1)

    def _start(self):
        return {"accumulator": self.h["initial_accumulator_value"]}

    def _update(self, w, slots, g, rows, rate):
        a = slots["accumulator"]
        a[rows] += g * g
        w[rows] -= rate * g / np.sqrt(a[rows])


class AdagradDA(Optimizer):
    """s += g; q += g**2; w = -lr * soft(s, l1 * T) / (l2 * T * lr + sqrt(q)), T = step + 1"""

    DEFAULTS = dict(initial_gradient_squared_accumulator_value=0.1, l1_regularization_strength=0.,
                    l2_regularization_strength=0.)

    def _start(self):
        return {"gradient_accumulator": 0.,
                "gradient_squared_accumulator": self.h["initial_gradient_squared_accumulator_value"]}

    def _update(self, w, slots, g, rows, rate):
        s, q = slots["gradient_accumulator"], slots["gradient_squared_accumulator"]
        s[rows] += g
        q[rows] += g * g
        T = self.updates + 1.
        w[rows] = -rate * soft(s[rows], self.h["l1_regularization_strength"] * T) / (
            self.h["l2_regularization_strength"] * T * rate + np.sqrt(q[rows]))


class Adadelta(Optimizer):
    """a = rho * a + (1 - rho) * g**2; u = g * sqrt(b + eps) / sqrt(a + eps); b likewise of u; w -= lr * u"""

    DEFAULTS = dict(rho=0.95, epsilon=1e-8)

    def _start(self):
        return {"accum": 0., "accum_update": 0.}

    def _update(self, w, slots, g, rows, rate):
        a, b, rho, epsilon = slots["accum"], slots["accum_update"], self.h["rho"], self.h["epsilon"]
        a[rows] = rho * a[rows] + (1. - rho) * g * g
        u = g * np.sqrt(b[rows] + epsilon) / np.sqrt(a[rows] + epsilon)
        b[rows] = rho * b[rows] + (1. - rho) * u * u
        w[rows] -= rate * u


class Ftrl(Optimizer):
    """a' = a + g**2; z += g + 2 * shrink * w - (a'**p - a**p) / lr * w; p = -learning_rate_power

    w = 0 if abs(z) <= l1, else (l1 * sign(z) - z) / (a'**p / lr + 2 * l2)
    """

    DEFAULTS = dict(learning_rate_power=-0.5, initial_accumulator_value=0.1, l1_regularization_strength=0.,
                    l2_regularization_strength=0., l2_shrinkage_regularization_strength=0.)

    def _start(self):
        return {"accum": self.h["initial_accumulator_value"], "linear": 0.}

    def _update(self, w, slots, g, rows, rate):
        a, z, p = slots["accum"], slots["linear"], -self.h["learning_rate_power"]
        l1 = self.h["l1_regularization_strength"]
        new = a[rows] + g * g
        z[rows] += (g + 2. * self.h["l2_shrinkage_regularization_strength"] * w[rows]
                    - (new ** p - a[rows] ** p) / rate * w[rows])
        w[rows] = np.where(np.abs(z[rows]) <= l1, 0., (l1 * np.sign(z[rows]) - z[rows]) / (
            new ** p / rate + 2. * self.h["l2_regularization_strength"]))
        a[rows] = new


class ProximalGradientDescent(Optimizer):
    """w = soft(w - lr * g, lr * l1) / (1 + l2 * lr)"""

    DEFAULTS = dict(l1_regularization_strength=0., l2_regularization_strength=0.)

    def _update(self, w, slots, g, rows, rate):
        w[rows] = soft(w[rows] - rate * g, rate * self.h["l1_regularization_strength"]) / (
            1. + self.h["l2_regularization_strength"] * rate)


class ProximalAdagrad(Optimizer):
    """a += g**2; e = lr / sqrt(a); w = soft(w - e * g, e * l1) / (1 + l2 * e)"""

    DEFAULTS = dict(initial_accumulator_value=0.1, l1_regularization_strength=0., l2_regularization_strength=0.)

    def _start(self):
        return {"accumulator": self.h["initial_accumulator_value"]}

    def _update(self, w, slots, g, rows, rate):
        a = slots["accumulator"]
        a[rows] += g * g
        e = rate / np.sqrt(a[rows])
        w[rows] = soft(w[rows] - e * g, e * self.h["l1_regularization_strength"]) / (
            1. + self.h["l2_regularization_strength"] * e)


class Pair(collections.namedtuple("Pair", ["rule", "arguments"])):
    """An optimizer of this module and of `tf.train`, with the same arguments."""

    __slots__ = ()

    @property
    def takes_variable_dtype(self):
        """Whether the real one wants its numbers in the variable's dtype: float64 fails or is not rounded otherwise."""
        return self.rule in (GradientDescent, ProximalGradientDescent, ProximalAdagrad)

    def oracle(self, **changes):
        """Returns the Optimizer of this module."""
        return self.rule(**dict(self.arguments, **changes))

    def real(self, train, global_step=None, dtype=np.float32, **changes):
        """Returns the optimizer of `tf.train`.

        Args:
          train: the module `tf.train`.
          global_step: the step variable, which AdagradDA is made with.
          dtype: dtype of the variables.
          **changes: arguments in place of the pair's.
        """
        arguments = dict(self.arguments, **changes)
        if self.takes_variable_dtype:
            arguments = {name: np.dtype(dtype).type(np.float32(value))
                         if isinstance(value, float) and name not in Optimizer.NOT_ROUNDED else value
                         for name, value in arguments.items()}
        if self.rule is AdagradDA:
            arguments["global_step"] = global_step
        return getattr(train, self.rule.__name__ + "Optimizer")(**arguments)


OPTIMIZERS = collections.OrderedDict([
    ("sgd", Pair(GradientDescent, dict(learning_rate=0.1))),
    ("momentum", Pair(Momentum, dict(learning_rate=0.1, momentum=0.9))),
    ("nesterov", Pair(Momentum, dict(learning_rate=0.1, momentum=0.9, use_nesterov=True))),
    ("adam", Pair(Adam, dict(learning_rate=0.1))),
    ("adam_large_epsilon", Pair(Adam, dict(learning_rate=0.1, beta1=0.8, beta2=0.99, epsilon=0.5))),
    ("rmsprop", Pair(RMSProp, dict(learning_rate=0.1))),
    ("rmsprop_momentum", Pair(RMSProp, dict(learning_rate=0.1, momentum=0.9, decay=0.8))),
    ("rmsprop_centered", Pair(RMSProp, dict(learning_rate=0.1, momentum=0.5, centered=True, epsilon=1e-3))),
    ("adagrad", Pair(Adagrad, dict(learning_rate=0.1))),
    ("adagrad_da", Pair(AdagradDA, dict(learning_rate=0.1, l1_regularization_strength=0.05,
                                        l2_regularization_strength=0.02))),
    ("adadelta", Pair(Adadelta, dict(learning_rate=1., rho=0.9, epsilon=1e-3))),
    ("ftrl", Pair(Ftrl, dict(learning_rate=0.1))),
    ("ftrl_regularized", Pair(Ftrl, dict(learning_rate=0.1, l1_regularization_strength=0.05,
                                         l2_regularization_strength=0.02,
                                         l2_shrinkage_regularization_strength=0.01))),
    ("proximal_sgd", Pair(ProximalGradientDescent, dict(learning_rate=0.1, l1_regularization_strength=0.05,
                                                        l2_regularization_strength=0.02))),
    ("proximal_adagrad", Pair(ProximalAdagrad, dict(learning_rate=0.1, l1_regularization_strength=0.05,
                                                    l2_regularization_strength=0.02))),
])
