"""The errors of the package.

    AccumulationError
    +-- ArgumentValueError (ValueError)     an argument has a value that is not accepted
    +-- ArgumentTypeError (TypeError)       an argument has a type that is not accepted
    +-- PhaseLeakError (ValueError)         a phase depends on something that it must not depend on
    +-- NotBuiltError (RuntimeError)        asked for something that a later call builds
    +-- EagerModeError (RuntimeError)       called while TensorFlow executes eagerly

Each class also derives from the built-in error in parentheses, so code that
catches the built-in one goes on working. What goes wrong while a session runs is
raised by TensorFlow (`tf.errors.InvalidArgumentError`), and names the variable.
"""
from __future__ import absolute_import, division, print_function


class AccumulationError(Exception):
    """Base class of the errors that this package raises while ops are built."""


class ArgumentValueError(AccumulationError, ValueError):
    """An argument has the right type and a value that is not accepted."""


class ArgumentTypeError(AccumulationError, TypeError):
    """An argument has a type that is not accepted."""


class PhaseLeakError(AccumulationError, ValueError):
    """A phase depends on an op that would make it run another phase again.

    The message prints the path through the graph, from the phase's op down to the
    op that it must not reach.
    """


class NotBuiltError(AccumulationError, RuntimeError):
    """A tensor or op was asked for before the call that builds it."""


class EagerModeError(AccumulationError, RuntimeError):
    """The package was called while TensorFlow executes eagerly."""
