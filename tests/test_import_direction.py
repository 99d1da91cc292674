"""Imports inside the package run one way, and one file alone knows TensorFlow's versions and insides."""
from __future__ import absolute_import, division, print_function

import ast
import io
import os
import re

import pytest

import tf1accum

PACKAGE = os.path.dirname(os.path.abspath(tf1accum.__file__))

# A module imports from the layers above its own; hooks alone may use its neighbour's words for the tail.
LAYERS = [
    ["errors", "_compat"],
    ["_checks"],
    ["config", "gradients"],
    ["counters", "micro_batch", "normalization", "phases", "updates"],
    ["sums"],
    ["accumulators"],
    ["accumulator"],
    ["ops"],
    ["optimizer"],
    ["runner"],
    ["hooks"],
    ["__init__"],
]
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}
MODULES = sorted(name[:-3] for name in os.listdir(PACKAGE) if name.endswith(".py"))


def read(module):
    with io.open(os.path.join(PACKAGE, module + ".py"), encoding="utf-8") as source:
        return source.read()


def parse(module):
    # A str to Python 2, which refuses a coding comment in unicode, and there is none.
    return ast.parse(read(module).encode("utf-8"), module + ".py")


def imported_names(tree):
    """Returns the dotted names that a module imports, at the top or inside of functions."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports inside the package are absolute"
            names.extend(node.module + "." + alias.name for alias in node.names)
    return names


def imported_modules(module):
    """Returns the modules of this package that `module` imports."""
    parts = [name.split(".") for name in imported_names(parse(module)) if name.split(".")[0] == "tf1accum"]
    return sorted({name[1] for name in parts if len(name) > 1})


def test_every_module_has_a_layer():
    assert MODULES == sorted(RANK)


@pytest.mark.parametrize("module", MODULES)
def test_imports_come_from_lower_layers(module):
    for imported in imported_modules(module):
        assert RANK[imported] < RANK[module], "%s imports %s" % (module, imported)


@pytest.mark.parametrize("module", [module for module in MODULES if module != "_compat"])
def test_only_compat_imports_tensorflow(module):
    roots = {name.split(".")[0] for name in imported_names(parse(module))}
    assert not roots & {"tensorflow", "tensorflow_core", "keras", "tf_keras"}


@pytest.mark.parametrize("module", [module for module in MODULES if module != "_compat"])
def test_only_compat_asks_for_versions_or_private_names_of_tensorflow(module):
    text = read(module)
    if module == "__init__":
        text = re.sub(r'^__version__ = "[^"]+"$', "", text, flags=re.MULTILINE)
    for word in ("__version__", "tf.VERSION", "GIT_VERSION", "version_info", "PY2", "PY3", "tensorflow.python"):
        assert word not in text


@pytest.mark.parametrize("module", [module for module in MODULES if module != "_compat"])
def test_no_private_name_of_the_tf_module_or_of_what_its_functions_return(module):
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            name = owner.id if isinstance(owner, ast.Name) else None
            assert name != "tf", "%s line %d: %s" % (module, node.lineno, node.attr)


def test_the_package_has_no_assert_on_what_a_user_passes():
    for module in MODULES:
        lines = [node.lineno for node in ast.walk(parse(module)) if isinstance(node, ast.Assert)]
        assert not lines, "%s: %r" % (module, lines)
