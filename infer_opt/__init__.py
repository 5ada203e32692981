"""infer-opt compiles a trained ONNX model into the fastest artifact for a device that is still right.

The command line is in `infer_opt.cli`, the compiler in `infer_opt.compile`. Nothing is imported here, so that
every start is fast.
"""

__version__ = "0.1.0"
