# make demo    train on handwritten digits, accumulating and not, and compare
# make test    run the tests
# make check   lint, format, Python 2.7 syntax, version and changelog
# make clean   remove what the others made
#
# The first three set up an environment on first use. What can be chosen:
#   PYTHON=/path/to/python3       what to make it with; otherwise found, 3.10 to 3.13
#   VENV=folder                   where it goes; otherwise .venv
#   PYTEST_ARGS="-k sparse"       passed to pytest; otherwise -n 2, two processes
#   PYTHON27=/path/to/python2.7   for the syntax check; otherwise looked for

VENV ?= .venv
PYTHON ?=
PYTHON27 ?= $(shell sh .ci/find-python 2.7)
PYTEST_ARGS ?= -n 2

BIN = $(VENV)/bin
STAMP = $(VENV)/.set-up
PYTHON2_CODE = setup.py conftest.py tf1accum tests
# Files that Python 2.7 cannot parse, and need not.
PYTHON3_TESTS = _py3

export OMP_NUM_THREADS ?= 2
export TF_CPP_MIN_LOG_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.PHONY: help demo test check clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: $(STAMP)
	$(BIN)/python -m examples.digits_demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(if $(PYTHON27),$(PYTHON27) -m compileall -q -f -x '$(PYTHON3_TESTS)' $(PYTHON2_CODE),@echo "NO PYTHON 2.7: ITS SYNTAX WAS NOT CHECKED")
	$(BIN)/python .ci/check-version

# Made again only when what it is made from has changed. One that was cut short has no stamp, and is made again.
$(STAMP): setup.py pyproject.toml
	@python="$(PYTHON)"; \
	[ -n "$$python" ] || python=$$(sh .ci/find-python $(VERSIONS)) || { \
		echo "No Python of 3.10 to 3.13 with venv was found. Name one with PYTHON=/path/to/python3;" >&2; \
		echo "on Debian and Ubuntu: apt-get install python3 python3-venv" >&2; exit 1; }; \
	echo "Setting up $(VENV) with $$python; TensorFlow is large, this takes minutes on first use"; \
	"$$python" -m venv --clear "$(VENV)"
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -e ".[tf,demo,test,check]"
	@touch $@

VERSIONS = $(shell python3 -c "import sys; print('%d.%d' % sys.version_info[:2])" 2>/dev/null \
	| grep -x '3\.1[0-3]') 3.13 3.12 3.11 3.10

clean:
	rm -rf $(VENV) .ci/envs .ci/results build dist out *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.pyc' -type f -exec rm -f {} +
