"""Rewrites from one opset to the next."""
