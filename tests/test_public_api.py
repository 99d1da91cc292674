"""The public names, their documentation, and what they print as."""
from __future__ import absolute_import, division, print_function

import inspect
import types

import pytest

import tf1accum
from tf1accum import _checks, errors
from tf1accum._compat import tf

# Fixed by the contract: the first six. The rest is what they take, return or raise.
NAMES = [
    "AccumulatingOptimizer",
    "AccumulationConfig",
    "AccumulationError",
    "GradientAccumulator",
    "PhaseRunner",
    "build",
] + [
    "AccumulationOps",
    "ArgumentTypeError",
    "ArgumentValueError",
    "EagerModeError",
    "NotBuiltError",
    "PhaseLeakError",
    "TailHook",
]

SIGNATURES = {
    "AccumulatingOptimizer.minimize": ["loss", "global_step", "var_list", "gate_gradients", "aggregation_method",
                                       "colocate_gradients_with_ops", "name", "grad_loss", "weight"],
    "AccumulatingOptimizer.apply_gradients": ["grads_and_vars", "global_step", "name", "weight"],
    "AccumulatingOptimizer.flush": ["name"],
    "AccumulatingOptimizer.drop": ["name"],
    "GradientAccumulator.zero_op": ["name"],
    "GradientAccumulator.accumulate_op": ["grads_and_vars", "weight", "name"],
    "GradientAccumulator.normalize_op": [],
    "GradientAccumulator.apply_op": ["optimizer", "global_step", "name"],
    "PhaseRunner.run_cycle": ["feeds", "fetches"],
    "PhaseRunner.run_cycles": ["feeds", "fetches", "tail"],
    "AccumulationConfig.to_dict": [],
    "AccumulationConfig.from_dict": ["fields"],
    "build": ["optimizer", "loss", "steps", "global_step"],
}
PROPERTIES = {
    "AccumulatingOptimizer": ["micro_steps", "updates", "held", "skipped", "config", "optimizer", "accumulators"],
    "AccumulationOps": ["zero", "accumulate", "normalize", "apply", "held", "updates"],
    "AccumulationConfig": ["steps", "reduction", "clip_global_norm", "accumulator_dtype", "sparse", "nonfinite",
                           "save_accumulators"],
}


def public_members(cls):
    """Yields the (name, member) pairs that a class of this package defines itself."""
    for name, member in sorted(vars(cls).items()):
        if not name.startswith("_") and isinstance(
                member, (types.FunctionType, property, classmethod, staticmethod)):
            yield name, member


def argument_names(function):
    function = getattr(function, "__func__", function)
    count = function.__code__.co_argcount
    names = list(function.__code__.co_varnames[:count])
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def same_as_tensorflows(cls, dotted):
    """Returns whether a method has the arguments that its base class in TensorFlow documents."""
    name = dotted.split(".")[-1]
    inherited = [vars(base)[name] for base in getattr(cls, "__mro__", ())[1:] if name in vars(base)]
    return any(argument_names(base) == argument_names(vars(cls)[name]) for base in inherited
               if isinstance(base, types.FunctionType))


def lookup(dotted):
    found = tf1accum
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


def test_all_is_sorted_and_holds_no_name_twice():
    assert tf1accum.__all__ == sorted(set(tf1accum.__all__))


def test_all_is_what_the_contract_fixes():
    assert tf1accum.__all__ == sorted(NAMES)


def test_all_equals_the_public_names():
    public = [name for name, value in vars(tf1accum).items()
              if not name.startswith("_") and not isinstance(value, types.ModuleType)
              and getattr(value, "__module__", None) != "__future__"]
    assert sorted(public) == tf1accum.__all__


def test_version_is_three_numbers():
    numbers = tf1accum.__version__.split(".")
    assert len(numbers) == 3
    assert all(number.isdigit() for number in numbers)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_arguments_keep_their_names_and_order(name):
    function = lookup(name)
    names = argument_names(function)
    assert names[:len(SIGNATURES[name])] == SIGNATURES[name]


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_attributes_are_there(name):
    missing = [attribute for attribute in PROPERTIES[name] if not hasattr(getattr(tf1accum, name), attribute)]
    assert not missing


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_object_and_method_is_documented(name):
    value = getattr(tf1accum, name)
    # Not inherited: `vars` of a class holds its own docstring only.
    undocumented = [] if (vars(value) if inspect.isclass(value) else {"__doc__": value.__doc__}).get(
        "__doc__") else [name]
    if inspect.isclass(value):
        for member_name, member in public_members(value):
            if not (getattr(member, "__func__", member).__doc__ or "").strip():
                undocumented.append(name + "." + member_name)
    assert not undocumented


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_argument_is_named_in_the_docstring(name):
    value = getattr(tf1accum, name)
    functions = [(name, value, value)]
    if inspect.isclass(value):
        functions = [(name + "." + member_name, getattr(member, "__func__", member), member)
                     for member_name, member in public_members(value) if not isinstance(member, property)]
        if "__init__" in vars(value) and isinstance(vars(value)["__init__"], types.FunctionType):
            functions.append((name, vars(value)["__init__"], value))
    missing = [
        "%s: %s" % (dotted, argument) for dotted, function, documented in functions
        if not same_as_tensorflows(value, dotted)
        for argument in argument_names(function)
        if "%s:" % argument not in (getattr(documented, "__func__", documented).__doc__ or "")]
    assert not missing


def test_errors_are_one_tree():
    for name in tf1accum.__all__:
        if name.endswith("Error"):
            error = getattr(tf1accum, name)
            assert issubclass(error, tf1accum.AccumulationError)
            assert name in errors.__doc__
            if error is not tf1accum.AccumulationError:
                builtin = error.__mro__[2]
                assert builtin.__name__ in errors.__doc__


@pytest.fixture
def things():
    """One of each public class, around one variable named model/w."""
    with tf.variable_scope("model"):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    optimizer = tf1accum.AccumulatingOptimizer(tf.train.AdamOptimizer(0.1), steps=8)
    optimizer.minimize(2. * w)
    ops = tf1accum.build(tf.train.GradientDescentOptimizer(0.1), 2. * w, steps=4)
    with tf.Session() as session:
        yield {
            "AccumulatingOptimizer": optimizer,
            "AccumulationConfig": tf1accum.AccumulationConfig(steps=8),
            "AccumulationOps": ops,
            "GradientAccumulator": tf1accum.GradientAccumulator([w], steps=3),
            "PhaseRunner": tf1accum.PhaseRunner(session, ops),
            "TailHook": tf1accum.TailHook(optimizer, tail="drop"),
        }


@pytest.mark.parametrize("name, fragments", [
    ("AccumulatingOptimizer", ["AdamOptimizer", "steps=8"]),
    ("AccumulationConfig", ["steps=8", "reduction='mean'", "clip_global_norm=None", "nonfinite='propagate'"]),
    ("AccumulationOps", ["accumulate", "apply", "1 gradient", "steps=4"]),
    ("GradientAccumulator", ["1 variable", "steps=3"]),
    ("PhaseRunner", ["steps=4"]),
    ("TailHook", ["drop", "steps=8"]),
], ids=lambda value: value if isinstance(value, str) else "")
def test_repr_says_what_it_is(things, name, fragments):
    text = repr(things[name])
    assert name in text
    assert "object at 0x" not in text
    for fragment in fragments:
        assert fragment in text


def test_repr_of_a_config_makes_an_equal_one():
    config = tf1accum.AccumulationConfig(steps=3, clip_global_norm=1.5, accumulator_dtype=tf.float32, sparse="dense")
    assert eval(repr(config), {"AccumulationConfig": tf1accum.AccumulationConfig}) == config


def test_messages_about_arguments_have_one_form():
    text = _checks.message("build", "steps", "an int of at least 1", 0, advice="Leave it out.")
    assert text == "build: `steps` must be an int of at least 1. Received: steps=0. Leave it out."
