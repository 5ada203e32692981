"""Rewrites of linear operators: what goes into their weights, and products of products."""
