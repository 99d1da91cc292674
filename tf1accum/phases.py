"""What an op depends on, and the check that one phase never runs another.

A session runs everything that a fetched op depends on, by data or by control. So
`apply` re-runs the forward pass, and adds the last micro-batch a second time, as soon
as there is any path from it to an accumulate op or to the model's inputs.
"""
from __future__ import absolute_import, division, print_function

import collections

from tf1accum import errors

PLACEHOLDER_TYPES = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
# Ops that take something away from a data source each time they run.
INPUT_TYPES = ("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional", "OneShotIterator",
               "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "ReaderReadV2", "ReaderReadUpToV2",
               "Unstage", "RecvTPUEmbeddingActivations", "PyFunc", "EagerPyFunc")


def _inputs(op):
    for tensor in op.inputs:
        yield tensor.op
    for control in op.control_inputs:
        yield control


def ancestors(ops):
    """Returns a dict from each op that `ops` depend on to the op it was reached from.

    Args:
      ops: the ops to start from; they are in the dict too, reached from None.
    """
    reached_from = collections.OrderedDict((op, None) for op in ops)
    pending = collections.deque(reached_from)
    while pending:
        op = pending.popleft()
        for source in _inputs(op):
            if source not in reached_from:
                reached_from[source] = op
                pending.append(source)
    return reached_from


def path(reached_from, op):
    """Returns the path from a starting op down to `op`, one op a line.

    Args:
      reached_from: what `ancestors` returned.
      op: one of its keys.
    """
    lines = []
    while op is not None:
        lines.append("%s (%s)" % (op.name, op.type))
        op = reached_from[op]
    return "\n".join("  " * depth + ("<- " if depth else "") + line for depth, line in enumerate(reversed(lines)))


def check_phase(function, phase, phase_ops, accumulate_ops, gradients):
    """Checks that a phase depends on no accumulate op and on no input of the model.

    Args:
      function: the entry point's name, for errors.
      phase: "zero", "normalize" or "apply", for errors.
      phase_ops: the ops that are run in the phase.
      accumulate_ops: the accumulate ops that exist.
      gradients: the ops that compute the micro-gradients; what they depend on is the model.

    Returns:
      The placeholders that only the phase needs, such as a fed learning rate.

    Raises:
      PhaseLeakError: with the path through the graph.
    """
    reached = ancestors(phase_ops)
    model = ancestors(gradients)
    accumulating = set(accumulate_ops)
    placeholders = []
    for op in reached:
        if op in accumulating:
            _fail(function, phase, "an accumulate op, and would add the last micro-batch again", reached, op)
        if op.type in INPUT_TYPES and op in model:
            _fail(function, phase, "an input of the model, and would take a micro-batch from it", reached, op)
        if op.type in PLACEHOLDER_TYPES:
            if op in model:
                _fail(function, phase, "a placeholder of the model, and would run the forward pass again",
                      reached, op)
            placeholders.append(op.outputs[0])
    return placeholders


def _fail(function, phase, what, reached, op):
    raise errors.PhaseLeakError(
        "%s: `%s` depends on %s. The path through the graph:\n%s\nBuild what the optimizer or gradient_transform "
        "uses from variables, constants, or placeholders that the loss does not use." % (
            function, phase, what, path(reached, op)))
