"""Repairs: changes of an INT8 plan that lower its noise, each kept only where the noise at the outputs falls."""

from infer_opt.calibrate.repairs.constants import with_constants
from infer_opt.calibrate.repairs.equalisation import equalised
from infer_opt.calibrate.repairs.range_choice import choose_ranges
from infer_opt.calibrate.repairs.weights import repair_weights

__all__ = ["choose_ranges", "equalised", "repair_weights", "with_constants"]
