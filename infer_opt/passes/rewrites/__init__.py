"""The rewrites that passes are made of: each file one kind, a table of rules or one walk."""
