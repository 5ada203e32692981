"""The machinery of passes: what a pass is, how a pipeline runs, how rules are matched and applied."""
