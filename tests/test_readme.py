"""Every Python block of README.md runs, in order, as one reader would type them; what it says it prints, it prints."""
from __future__ import absolute_import, division, print_function

import io
import json
import os
import re
import subprocess
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A block starts like this. The text block after it, if there is one, is what it prints.
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "=====block %d====="

# Run one after the other in one process, each printing under its own mark. The future imports are
# for Python 2.7, where the README's print() and division mean the same with them.
RUNNER = u'''from __future__ import absolute_import, division, print_function
import io, json, sys
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
flags = print_function.compiler_flag | division.compiler_flag | absolute_import.compiler_flag
namespace = {"__name__": "readme"}
with io.open(sys.argv[1], encoding="utf-8") as source:
    blocks = json.load(source)
for number, line, code in blocks:
    sys.stdout.write("%s\\n" % (sys.argv[2] % number))
    sys.stdout.flush()
    padded = "\\n" * line + code
    exec(compile(padded.encode("utf-8") if sys.version_info[0] == 2 else padded, "README.md", "exec", flags, True),
         namespace)
    sys.stdout.flush()
'''


def blocks():
    """Returns a list of (number, line, code, expected output or None)."""
    with io.open(os.path.join(TOP, "README.md"), encoding="utf-8") as source:
        text = source.read()
    result = []
    end = None
    for match in BLOCK.finditer(text):
        if match.group(1) == "python":
            line = text.count("\n", 0, match.start()) + 1
            result.append([len(result), line, match.group(2), None])
            end = match.end()
        elif end is not None and "\n#" not in text[end:match.start()]:
            # A text block in the same section shows what the Python block before it prints.
            result[-1][3] = match.group(2)
            end = None
    return result


BLOCKS = blocks()


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each block prints, run in one fresh process, in an empty folder."""
    folder = tmp_path_factory.mktemp("readme")
    source = folder.joinpath("blocks.json")
    source.write_text(json.dumps([block[:3] for block in BLOCKS], ensure_ascii=True).encode("ascii").decode("ascii"))
    runner = folder.joinpath("runner.py")
    runner.write_text(RUNNER)
    process = subprocess.Popen(
        [sys.executable, str(runner), str(source), MARK], cwd=str(folder), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=TOP, TF_CPP_MIN_LOG_LEVEL="3",
                                         PYTHONIOENCODING="utf-8"))
    output, errors = [stream.decode("utf-8") for stream in process.communicate()]
    assert process.returncode == 0, output[-2000:] + errors[-5000:]
    parts = re.split(r"^=====block \d+=====\n", output, flags=re.MULTILINE)
    return parts[1:]


def test_the_readme_has_blocks_and_some_show_what_they_print():
    assert len(BLOCKS) >= 8
    assert sum(expected is not None for _, _, _, expected in BLOCKS) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("number", [block[0] for block in BLOCKS], ids=lambda n: "line%d" % BLOCKS[n][1])
def test_block_runs_and_prints_what_it_shows(printed, number):
    assert len(printed) == len(BLOCKS)
    expected = BLOCKS[number][3]
    if expected is not None:
        assert printed[number].strip() == expected.strip()


def test_decisions_name_tests_that_exist():
    with io.open(os.path.join(TOP, "docs", "decisions.md"), encoding="utf-8") as source:
        text = source.read()
    named = set(re.findall(r"`(test_\w+)`", text))
    defined = set()
    for name in os.listdir(os.path.join(TOP, "tests")):
        if name.endswith(".py"):
            with io.open(os.path.join(TOP, "tests", name), encoding="utf-8") as source:
                defined.update(re.findall(r"def (test_\w+)", source.read()))
    assert named
    assert sorted(named - defined) == []
