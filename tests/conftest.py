"""TensorFlow as the tests need it: graph mode, quiet, and nothing left over from the test before."""
from __future__ import absolute_import, division, print_function

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402  (the C++ log level is read when TensorFlow is loaded)
import six  # noqa: E402

from tf1accum._compat import tf  # noqa: E402

# Python 2.7 cannot parse them.
collect_ignore_glob = ["*_py3*.py"] if six.PY2 else []

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)


def pytest_configure(config):
    """Registers the marker; pytest 4.6, of Python 2.7, does not read pyproject.toml."""
    config.addinivalue_line("markers", "slow: takes more than 5 seconds, or starts processes")


def _switch_control_flow_v2(on):
    (tf.enable_control_flow_v2 if on else tf.disable_control_flow_v2)()


@pytest.fixture(autouse=True)
def fresh_tensorflow():
    """Gives each test an empty default graph and the control flow that TensorFlow started with."""
    tf.reset_default_graph()
    control_flow_v2 = tf.control_flow_v2_enabled()
    yield
    _switch_control_flow_v2(control_flow_v2)
