"""Comparing outputs with the original's: accumulators that are fed sample by sample and hold a few numbers.

What an output means decides how it is judged. `OutputError` holds one accumulator for each kind (class scores, shares,
directions), sees which the original's output is, and judges by that one; what is none of them is judged by its noise.
"""

from infer_opt.calibrate.metrics.class_scores import ClassScores
from infer_opt.calibrate.metrics.directions import Directions
from infer_opt.calibrate.metrics.kind import Kind
from infer_opt.calibrate.metrics.named import AUTO, METRICS, NOISE, TOLD, Metric
from infer_opt.calibrate.metrics.numbers import Numbers
from infer_opt.calibrate.metrics.output_error import OutputError
from infer_opt.calibrate.metrics.powers import EXACT_DB, sqnr_db
from infer_opt.calibrate.metrics.shares import Shares

__all__ = [
    "AUTO",
    "EXACT_DB",
    "METRICS",
    "NOISE",
    "TOLD",
    "ClassScores",
    "Directions",
    "Kind",
    "Metric",
    "Numbers",
    "OutputError",
    "Shares",
    "sqnr_db",
]
