"""Rewrites of layout: orders of axes, and what only moves elements."""
