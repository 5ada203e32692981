"""Rewrites of shapes: what reshapes, cuts and joins, and sizes that are computed at run time."""
