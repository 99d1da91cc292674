"""What accumulation does: one configuration for TensorFlow 1 and 2."""
from __future__ import absolute_import, division, print_function

from tf1accum import _checks
from tf1accum._compat import tf

REDUCTIONS = ("mean", "sum")
SPARSE = ("rows", "dense")
NONFINITE = ("propagate", "skip", "skip_cycle", "error")


class AccumulationConfig(object):
    """How micro-gradients become the gradient of one update. Immutable.

    Args:
      steps: micro-steps to an update: an int of at least 1, or a callable from the update
        count (int64 scalar tensor) to an integer scalar tensor, asked at every micro-step.
      reduction: "mean", `G = sum(w[k] * g[k]) / sum(w[k])`, or "sum", `G = sum(w[k] * g[k])`,
        where `w[k]` is the weight of micro-batch k, 1 unless given. The mean divides by what
        was counted in the cycle, not by `steps`.
      clip_global_norm: clips G to this global norm, once an update; None does not clip.
      accumulator_dtype: floating dtype (or its name) of the sums. None: float32 for float16
        and bfloat16 variables, otherwise the variable's dtype.
      sparse: "rows" keeps `IndexedSlices` as rows, so that memory and time follow the rows
        touched in a cycle, and the optimizer gets `IndexedSlices`; "dense" sums them into a
        dense tensor of the variable's shape, which the optimizer gets.
      nonfinite: what a micro-batch with an infinite or NaN gradient does. "propagate": it is
        added like any other. "skip": it is left out and counted as skipped, and the cycle goes
        on. "skip_cycle": its cycle ends without an update. "error": the run fails with
        InvalidArgumentError naming the variable, and nothing changes.
      save_accumulators: True puts sums and counters into GLOBAL_VARIABLES, and so into
        checkpoints: training resumes inside a cycle. False keeps them out of every
        collection: checkpoints are those of the bare optimizer.

    Raises:
      ArgumentTypeError, ArgumentValueError: when an argument is not accepted.
    """

    FIELDS = ("steps", "reduction", "clip_global_norm", "accumulator_dtype", "sparse", "nonfinite",
              "save_accumulators")
    __slots__ = tuple("_" + field for field in FIELDS)

    def __init__(self, steps=1, reduction="mean", clip_global_norm=None, accumulator_dtype=None, sparse="rows",
                 nonfinite="propagate", save_accumulators=False):
        name = "AccumulationConfig"
        values = dict(
            steps=_checks.steps(name, steps),
            reduction=_checks.one_of(name, "reduction", reduction, REDUCTIONS),
            clip_global_norm=None if clip_global_norm is None else _checks.positive_number(
                name, "clip_global_norm", clip_global_norm),
            accumulator_dtype=None if accumulator_dtype is None else _dtype_name(name, accumulator_dtype),
            sparse=_checks.one_of(name, "sparse", sparse, SPARSE),
            nonfinite=_checks.one_of(name, "nonfinite", nonfinite, NONFINITE),
            save_accumulators=_checks.boolean(name, "save_accumulators", save_accumulators))
        for field, value in values.items():
            object.__setattr__(self, "_" + field, value)

    def __setattr__(self, name, value):
        raise AttributeError("AccumulationConfig is immutable. Use config.replace(%s=...)." % name.lstrip("_"))

    def __delattr__(self, name):
        raise AttributeError("AccumulationConfig is immutable.")

    def replace(self, **changes):
        """Returns a configuration with some fields changed.

        Args:
          **changes: fields and their new values.

        Raises:
          ArgumentTypeError: for a keyword that is not a field.
        """
        _check_fields("AccumulationConfig.replace", changes)
        return AccumulationConfig(**dict(self._values(), **changes))

    def to_dict(self):
        """Returns the fields as a dict of numbers, strings, booleans and None.

        Raises:
          ArgumentTypeError: when `steps` is a callable, which no file can hold.
        """
        if callable(self.steps):
            _checks.fail_type("AccumulationConfig.to_dict", "steps", "an int to be serialised", self.steps,
                              advice="Use config.replace(steps=...) first, and hand the callable over in code.")
        return self._values()

    @classmethod
    def from_dict(cls, fields):
        """Returns the configuration that `to_dict` described.

        Args:
          fields: a dict; a field that is missing has its default.

        Raises:
          ArgumentTypeError: for a key that is not a field, or what is not a dict.
        """
        if not hasattr(fields, "keys"):
            _checks.fail_type("AccumulationConfig.from_dict", "fields", "a dict", fields)
        _check_fields("AccumulationConfig.from_dict", fields)
        return cls(**{str(key): fields[key] for key in fields})

    def sum_dtype(self, variable):
        """Returns the dtype in which gradients of `variable` are summed.

        Args:
          variable: a variable with a floating or complex dtype.
        """
        dtype = variable.dtype.base_dtype
        if dtype.is_complex:
            return dtype
        if self.accumulator_dtype is not None:
            return tf.as_dtype(self.accumulator_dtype)
        return tf.float32 if dtype.size < 4 else dtype

    def _values(self):
        return {field: getattr(self, field) for field in self.FIELDS}

    def __eq__(self, other):
        return self._values() == other._values() if isinstance(other, AccumulationConfig) else NotImplemented

    def __ne__(self, other):
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self):
        return hash(tuple(getattr(self, field) for field in self.FIELDS))

    def __reduce__(self):
        return AccumulationConfig, tuple(getattr(self, field) for field in self.FIELDS)

    def __repr__(self):
        fields = ", ".join("%s=%r" % (field, getattr(self, field)) for field in self.FIELDS)
        return "AccumulationConfig(%s)" % fields


def _field(name):
    return property(lambda self: getattr(self, "_" + name), doc="See the class's argument `%s`." % name)


for _name in AccumulationConfig.FIELDS:
    setattr(AccumulationConfig, _name, _field(_name))


def make_config(function, config, fields):
    """Returns the configuration that an entry point was given.

    Args:
      function: the entry point's name, for errors.
      config: an AccumulationConfig, or None.
      fields: a dict of configuration fields given as keywords.

    Raises:
      ArgumentTypeError: for an unknown keyword, a config of another type, or a config
        together with keywords.
    """
    _check_fields(function, fields)
    if config is None:
        return AccumulationConfig(**fields)
    if not isinstance(config, AccumulationConfig):
        _checks.fail_type(function, "config", "an AccumulationConfig, or None", config)
    if fields:
        _checks.fail_type(function, "config", "None when %s is given" % ", ".join(sorted(fields)), config,
                          advice="Use config.replace(%s=...)." % sorted(fields)[0])
    return config


def _check_fields(function, fields):
    for key in sorted(fields, key=str):
        if key not in AccumulationConfig.FIELDS:
            _checks.fail_type(function, "keyword", "one of " + ", ".join(AccumulationConfig.FIELDS), key)


def _dtype_name(function, dtype):
    rule = "a floating dtype or its name, or None"
    try:
        dtype = tf.as_dtype(dtype)
    except TypeError:
        _checks.fail_type(function, "accumulator_dtype", rule, dtype)
    if not dtype.is_floating:
        _checks.fail_value(function, "accumulator_dtype", rule, dtype)
    return str(dtype.base_dtype.name)
