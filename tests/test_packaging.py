"""The wheel and the sdist: what they hold, and that they install and work away from the checkout."""
from __future__ import absolute_import, division, print_function

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
import six

import tf1accum

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What a build reads. The rest of the checkout (environments, caches) is large, and no business of it.
SOURCES = ["setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md", "CHANGELOG.md", "Makefile",
           "conftest.py", "tf1accum", "tests", "examples", "docs", ".ci"]
PYTHON2_OR_3 = "tf1accum-%s-py2.py3-none-any.whl" % tf1accum.__version__

pytestmark = pytest.mark.slow


def run(command, cwd, **environment):
    """Runs a command; its output goes into the failure's message."""
    env = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", TF_CPP_MIN_LOG_LEVEL="3", **environment)
    if "PYTHONPATH" not in environment:
        env.pop("PYTHONPATH", None)
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8", "replace")
    assert process.returncode == 0, "%s\n%s" % (" ".join(command), output)
    return output


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the checkout without what builds and environments left in it."""
    target = str(tmp_path_factory.mktemp("source").joinpath("tf1accum"))
    os.mkdir(target)
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "envs", "results", "*.egg-info", "out")
    for name in SOURCES:
        origin = os.path.join(TOP, name)
        if os.path.isdir(origin):
            shutil.copytree(origin, os.path.join(target, name), ignore=ignore)
        elif os.path.exists(origin):
            shutil.copy(origin, target)
    return target


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """The path of a wheel that pip built with what is installed here."""
    target = str(tmp_path_factory.mktemp("wheel"))
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", target, source], target)
    names = os.listdir(target)
    assert names == [PYTHON2_OR_3]
    return os.path.join(target, names[0])


@pytest.fixture(scope="module")
def sdist(source, tmp_path_factory):
    """The path of an sdist."""
    target = str(tmp_path_factory.mktemp("sdist"))
    run([sys.executable, "setup.py", "-q", "sdist", "--formats=gztar", "-d", target], source)
    names = os.listdir(target)
    assert names == ["tf1accum-%s.tar.gz" % tf1accum.__version__]
    return os.path.join(target, names[0])


def names_in(path):
    """Returns the files in an archive."""
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as archive:
            return sorted(archive.namelist())
    with tarfile.open(path) as archive:
        return sorted(member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile())


def metadata(path):
    with zipfile.ZipFile(path) as archive:
        name = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")][0]
        return archive.read(name).decode("utf-8").splitlines()


def test_wheel_has_one_top_level_name(wheel):
    tops = {name.split("/")[0] for name in names_in(wheel)}
    assert tops == {"tf1accum", "tf1accum-%s.dist-info" % tf1accum.__version__}
    with zipfile.ZipFile(wheel) as archive:
        top_level = [name for name in archive.namelist() if name.endswith("top_level.txt")]
        assert archive.read(top_level[0]).split() == [b"tf1accum"]


def test_wheel_holds_every_module(wheel):
    modules = sorted("tf1accum/" + name for name in os.listdir(os.path.join(TOP, "tf1accum"))
                     if name.endswith(".py"))
    assert sorted(name for name in names_in(wheel) if name.startswith("tf1accum/")) == modules


def test_wheel_holds_the_licence_and_leaves_tensorflow_to_the_user(wheel):
    assert [name for name in names_in(wheel) if name.split("/")[-1] == "LICENSE"]
    lines = metadata(wheel)
    needed = [line for line in lines if line.startswith("Requires-Dist:") and "extra" not in line]
    assert sorted(line.split()[1] for line in needed) == ["numpy", "six"]
    extras = [line.split()[1] for line in lines if line.startswith("Provides-Extra:")]
    assert sorted(extras) == ["check", "cpu", "demo", "gpu", "test", "tf"]
    assert "Version: " + tf1accum.__version__ in lines
    assert [line for line in lines if line.startswith("Requires-Python: ") and ">=2.7" in line]


def test_sdist_holds_what_is_needed_to_build_test_and_read(sdist):
    names = names_in(sdist)
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "setup.py", "pyproject.toml", "Makefile", "conftest.py",
                 "tests/conftest.py", "tests/test_packaging.py", "docs/decisions.md", ".ci/run",
                 "tf1accum/__init__.py"):
        assert name in names, name
    tests = [name for name in os.listdir(os.path.join(TOP, "tests")) if name.endswith(".py")]
    assert sorted(name for name in names if name.startswith("tests/") and name.count("/") == 1
                  and name.endswith(".py")) == sorted("tests/" + name for name in tests)
    assert not [name for name in names if name.endswith(".pyc")]


def test_wheel_of_the_sdist_is_the_same(sdist, wheel, tmp_path):
    target = str(tmp_path)
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", target, sdist], target)
    assert names_in(os.path.join(target, PYTHON2_OR_3)) == names_in(wheel)


def test_installed_wheel_trains_from_another_directory(wheel, tmp_path):
    # Installed to a folder of its own, beside the TensorFlow that is here.
    installed = str(tmp_path.joinpath("installed"))
    elsewhere = str(tmp_path.joinpath("elsewhere"))
    os.mkdir(elsewhere)
    run([sys.executable, "-m", "pip", "install", "--no-deps", "--target", installed, wheel], elsewhere)
    script = os.path.join(elsewhere, "train.py")
    with io.open(script, "w", encoding="utf-8") as source:
        source.write(
            u"import tensorflow.compat.v1 as tf, tf1accum\n"
            u"tf.disable_eager_execution()\n"
            u"w = tf.Variable(0.); x = tf.placeholder(tf.float32)\n"
            u"opt = tf1accum.AccumulatingOptimizer(tf.train.GradientDescentOptimizer(1.), steps=2)\n"
            u"op = opt.minimize(w * x)\n"
            u"with tf.Session() as sess:\n"
            u"    sess.run(tf.global_variables_initializer())\n"
            u"    for value in (2., 6.): sess.run(op, {x: value})\n"
            u"    print('%s|%s|%s' % (tf1accum.__version__, sess.run(w), tf1accum.__file__))\n")
    output = run([sys.executable, script], elsewhere, PYTHONPATH=installed)
    version, weight, place = output.strip().splitlines()[-1].split("|")
    assert (version, weight) == (tf1accum.__version__, "-4.0")
    assert os.path.realpath(place).startswith(os.path.realpath(installed))


@pytest.mark.skipif(six.PY2, reason="Python 2.7 has no venv module")
def test_installs_into_a_clean_environment_without_dependencies(wheel, tmp_path):
    env = str(tmp_path.joinpath("env"))
    run([sys.executable, "-m", "venv", env], str(tmp_path))
    python = os.path.join(env, "Scripts" if os.name == "nt" else "bin", "python")
    run([python, "-m", "pip", "install", "--no-deps", "--no-index", wheel], str(tmp_path))
    assert "Version: " + tf1accum.__version__ in run([python, "-m", "pip", "show", "tf1accum"], str(tmp_path))
    code = "import importlib.util as u; print(u.find_spec('tf1accum').origin)"
    origin = run([python, "-c", code], str(tmp_path)).strip().splitlines()[-1]
    assert os.path.realpath(origin).startswith(os.path.realpath(env))


def test_version_is_that_of_the_changelog():
    process = subprocess.Popen([sys.executable, os.path.join(TOP, ".ci", "check-version")], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8")
    assert process.returncode == 0, output
