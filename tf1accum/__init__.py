"""Gradient accumulation for TensorFlow 1 sessions (`tf.compat.v1`)."""
from __future__ import absolute_import, division, print_function

from tf1accum.accumulator import GradientAccumulator
from tf1accum.config import AccumulationConfig
from tf1accum.errors import (
                             AccumulationError,
                             ArgumentTypeError,
                             ArgumentValueError,
                             EagerModeError,
                             NotBuiltError,
                             PhaseLeakError,
)
from tf1accum.hooks import TailHook
from tf1accum.ops import AccumulationOps, build
from tf1accum.optimizer import AccumulatingOptimizer
from tf1accum.runner import PhaseRunner

__version__ = "0.1.0"

__all__ = [
    "AccumulatingOptimizer",
    "AccumulationConfig",
    "AccumulationError",
    "AccumulationOps",
    "ArgumentTypeError",
    "ArgumentValueError",
    "EagerModeError",
    "GradientAccumulator",
    "NotBuiltError",
    "PhaseLeakError",
    "PhaseRunner",
    "TailHook",
    "build",
]
