"""Calibration: what a model's values look like on sample inputs, and the precision plan drawn from that."""
