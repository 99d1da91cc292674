"""The examples give the numbers that they promise."""
from __future__ import absolute_import, division, print_function

import io
import os
import subprocess
import sys

import pytest

from examples import (
    embedding_text,
    estimator,
    explicit_phases,
    monitored_session,
    one_line,
    weighted_micro_batches,
)
from tf1accum._compat import tf

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def test_one_line():
    assert one_line.main() < 1e-5


def test_explicit_phases():
    assert explicit_phases.main() == (-2., -5.)


@pytest.mark.slow
def test_monitored_session():
    uninterrupted, resumed = monitored_session.main()
    # Means 2.5 and 6.5 of four, and 9.5 of the two that are left.
    assert uninterrupted == resumed == (-18.5, 3)


def test_weighted_micro_batches():
    assert weighted_micro_batches.main() == (-5., -3.5, -3.5)


def test_embedding_text():
    difference, loss, touched, rows = embedding_text.main(updates=20)
    assert difference < 1e-5
    assert loss < 0.7
    assert 0 < touched < rows / 2


@pytest.mark.slow
def test_estimator():
    result = estimator.main()
    if not hasattr(tf, "estimator"):
        assert result is None
    else:
        assert result[0] == pytest.approx(3., abs=1e-2)
        assert result[1] == 20


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 10), reason="the demo is for Python 3.10 and later")
def test_digits_demo(tmpdir):
    for needed in ("sklearn", "matplotlib", "rich"):
        pytest.importorskip(needed)
    run = subprocess.run([sys.executable, "-m", "examples.digits_demo", "--updates", "3", "--output", str(tmpdir)],
                         cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=250)
    printed = run.stdout.decode("utf-8")
    assert run.returncode == 0, printed
    for row in ("test accuracy", "peak memory of the process", "time", "largest weight difference"):
        assert row in printed
    with io.open(str(tmpdir.join("losses.png")), "rb") as picture:
        assert picture.read(8) == b"\x89PNG\r\n\x1a\n"


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the demo is for Python 3.10 and later")
def test_digits_demo_refuses_no_updates():
    run = subprocess.run([sys.executable, "-m", "examples.digits_demo", "--updates", "0"], cwd=ROOT,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    assert run.returncode == 2
    assert b"--updates must be at least 1. Received: 0" in run.stdout
