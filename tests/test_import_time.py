"""What `import tf1accum` loads: TensorFlow, NumPy and six, and nothing that a user may not have."""
from __future__ import absolute_import, division, print_function

import json
import os
import subprocess
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

CODE = """
import json, sys
import tensorflow
import tensorflow.compat.v1
before = set(sys.modules)
import tf1accum
sys.stdout.write(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture(scope="module")
def loaded():
    """The modules that the import adds to those of TensorFlow, in a fresh process."""
    output = subprocess.check_output([sys.executable, "-c", CODE], cwd=TOP, env=dict(
        os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=TOP))
    # TensorFlow may print before.
    return json.loads(output.decode("utf-8").strip().splitlines()[-1])


@pytest.mark.slow
def test_import_loads_its_own_modules(loaded):
    assert "tf1accum" in loaded
    assert "tf1accum.optimizer" in loaded


@pytest.mark.slow
def test_import_loads_nothing_that_only_examples_or_tests_need(loaded):
    roots = {name.split(".")[0] for name in loaded}
    assert not roots & {"sklearn", "matplotlib", "rich", "tqdm", "scipy", "pandas", "pytest", "hypothesis", "examples",
                        "tests", "migration"}


@pytest.mark.slow
def test_import_does_not_start_keras(loaded):
    # TensorFlow loads Keras on first use; optimizers of Keras are told without it.
    roots = {name.split(".")[0] for name in loaded}
    assert not roots & {"keras", "tf_keras", "keras_applications", "keras_preprocessing"}
    assert not [name for name in loaded if ".keras" in name]


@pytest.mark.slow
def test_import_adds_few_modules(loaded):
    # What is not of this package is of the standard library, NumPy or six.
    foreign = {name.split(".")[0] for name in loaded} - {"tf1accum"}
    assert len(foreign) <= 10, foreign
