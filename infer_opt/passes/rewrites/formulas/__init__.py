"""Rewrites of formulas: activations and normalisations that are written out."""
