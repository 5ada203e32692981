"""Rewrites that remove: constants computed at run time, no-ops, duplicates, dead code, branches never taken."""
