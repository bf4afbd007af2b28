"""``--memory-stages FILE``: the counters of the memory pools at the stages of a model's life."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ..sources import ResolvedSource
from .arguments import UsageError

__all__ = ["STAGES", "Stages", "check_file", "peak_memory"]

#: The version of a line of the file.
SCHEMA = 1
#: After the weights are bound, after the first forward pass, after the first generation.
STAGES = ("weights", "forward", "generation")


def check_file(path: str) -> None:
    """A usage error for a file that cannot be appended to."""
    try:
        # A pipe that nobody reads is refused, not awaited.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        os.close(os.open(path, flags, 0o666))
    except (OSError, ValueError) as error:
        raise UsageError(f"argument --memory-stages: {path}: cannot be written: {error}") from error


class Stages:
    """Appends a line of JSON at the first arrival at each stage; without a file, nothing."""

    def __init__(self, path: str | None, source: ResolvedSource) -> None:
        self._path = path
        self._source = source
        self._seen: set[str] = set()

    def record(self, stage: str, model: Any) -> None:
        """The model has arrived at one of ``STAGES``."""
        if self._path is None or stage in self._seen:
            return
        self._seen.add(stage)
        import clika_runtime as crt

        device = crt.Device(model.loaded.options.device)
        line = {
            "schema": SCHEMA,
            "stage": stage,
            "source": self._source.spec,
            "checkpoint_bytes": self._source.weight_bytes,
            "devices": [{"device": f"{device.api}:{device.index}", **crt.memory_stats(device)}],
            "process_peak_bytes": peak_memory(),
        }
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def peak_memory() -> int | None:
    """The most memory that this process has had resident, in bytes; None where the system does not
    say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
