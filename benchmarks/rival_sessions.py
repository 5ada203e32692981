"""A model in a process of its own, so that one that crashes takes nothing with it, behind the calls of onnxruntime.

`Session` is what a benchmark holds. Run as a script this file is the process at the other end, under the Python that
has the model's runtime: onnxruntime, or OpenVINO for an .xml. One thread; nothing but the standard library and numpy is
imported before the runtime is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

__all__ = ["Port", "Session", "SessionError"]

Feed = Mapping[str, np.ndarray]
Shape = tuple[str, list[int | str | None]]  # what a Port holds
LONGEST_RUN = 300.0  # seconds


class SessionError(Exception):
    """The model does not load or run, or its process ended; the message is one line."""


@dataclass(frozen=True)
class Port:
    """An input or output; sizes that are not fixed are None or a name."""

    name: str
    shape: list[int | str | None]


class Session:
    """A model that runs in another process; use it in a `with`.

    Args:
        model: an .onnx file, or an .xml of OpenVINO with its .bin.
        python: the interpreter that has the runtime.

    Raises:
        SessionError: it does not load.
    """

    def __init__(self, model: Path, python: str = sys.executable) -> None:
        self._link, other = Pipe()
        words = [python, __file__, str(model), str(other.fileno())]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(words, stdout=quiet, stderr=quiet, pass_fds=[other.fileno()])
        other.close()
        try:
            self._inputs, self._outputs = ([Port(*port) for port in ports] for ports in self._answer())
        except SessionError:
            self.close()
            raise

    def __enter__(self) -> Session:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process: it stops when nobody can ask any more."""
        self._link.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def get_inputs(self) -> list[Port]:
        """In the model's order."""
        return self._inputs

    def get_outputs(self) -> list[Port]:
        """In the model's order."""
        return self._outputs

    def run(self, names: Sequence[str] | None, feed: Feed) -> list[np.ndarray]:
        """The outputs of these names, or all in the model's order.

        Raises:
            SessionError: it does not run.
        """
        return self._ask("run", names, feed)

    def seconds(self, feed: Feed) -> float:
        """Wall-clock seconds of one run right after another, taken in its own process: sending does not count."""
        return self._ask("seconds", feed)

    def _ask(self, what: str, *arguments: object) -> Any:
        try:
            self._link.send((what, arguments))
        except BrokenPipeError as error:
            raise SessionError(self._end()) from error
        return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._link.poll(LONGEST_RUN):
                self._process.kill()
                raise SessionError(f"gave no answer within {LONGEST_RUN:g} s")
            fault, result = self._link.recv()
        except (EOFError, ConnectionResetError) as error:
            raise SessionError(self._end()) from error
        if fault:
            raise SessionError(fault)
        return result

    def _end(self) -> str:
        return f"its process ended with code {self._process.wait()}"


class Runtime(Protocol):
    """A loaded model, at the other end."""

    def ports(self) -> list[list[Shape]]:
        """Inputs, and outputs."""

    def run(self, names: Sequence[str] | None, feed: Feed) -> list[np.ndarray]:
        """As `Session.run`."""


class OnnxRuntime:
    def __init__(self, model: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def ports(self) -> list[list[Shape]]:
        both = self._session.get_inputs(), self._session.get_outputs()
        return [[(port.name, port.shape) for port in ports] for ports in both]

    def run(self, names: Sequence[str] | None, feed: Feed) -> list[np.ndarray]:
        return self._session.run(names, feed)


class OpenVino:
    """In f32 where it is not quantized: its default on some CPUs is bf16, which FP32 is not to be compared with."""

    def __init__(self, model: str) -> None:
        import openvino

        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        self._request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()

    def ports(self) -> list[list[Shape]]:
        both = self._request.model_inputs, self._request.model_outputs
        return [[(port.any_name, [size_of(size) for size in port.partial_shape]) for port in ports] for ports in both]

    def run(self, names: Sequence[str] | None, feed: Feed) -> list[np.ndarray]:
        self._request.infer(feed)
        found = [self._request.get_tensor(name) for name in names] if names else self._request.output_tensors
        return [np.array(tensor.data) for tensor in found]


def size_of(dimension: Any) -> int | None:
    return dimension.get_length() if dimension.is_static else None


def answer(runtime: Runtime, what: str, arguments: tuple[Any, ...]) -> object:
    if what == "run":
        return runtime.run(*arguments)
    runtime.run(None, *arguments)  # brings back to the caches what the other model's turn drove out
    started = time.perf_counter()
    runtime.run(None, *arguments)
    return time.perf_counter() - started


def serve(model: str, link: Connection) -> None:
    """Load, tell the ports, and answer until nobody asks; faults are sent as one line, with an empty result."""
    runtime: Runtime | None = None
    try:
        while True:
            try:
                if runtime is None:
                    runtime = OpenVino(model) if model.endswith(".xml") else OnnxRuntime(model)
                    result: object = runtime.ports()
                else:
                    result = answer(runtime, *link.recv())
                fault = ""
            except EOFError:
                return
            except Exception as error:  # noqa: BLE001 - runtimes raise what they like; the other end is told
                result, fault = None, f"{type(error).__name__}: {' '.join(str(error).split())}"
            link.send((fault, result))
            if runtime is None:
                return
    finally:
        link.close()


def stay_on_one_core() -> None:
    """The same for every model: else one of two that are timed in turns may share its core with something else."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


if __name__ == "__main__":
    stay_on_one_core()
    serve(sys.argv[1], Connection(int(sys.argv[2])))
