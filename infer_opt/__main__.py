"""Runs the command line as `python -m infer_opt`."""

from infer_opt.cli.main import main

if __name__ == "__main__":
    main()
