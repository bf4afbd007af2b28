"""Runs Python with the AddressSanitizer runtime in front, as extensions built with it need.

    python scripts/with_asan.py -m pytest tests/fuzz

The compiler is ``$CXX``, else ``c++``.
"""

from __future__ import annotations

import os
import subprocess
import sys


def library(name: str) -> str:
    """The compiler's own copy of a runtime library."""
    compiler = os.environ.get("CXX", "c++").split()
    done = subprocess.run(
        [*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True
    )
    path = done.stdout.strip()
    if not os.path.isabs(path):
        raise SystemExit(f"{' '.join(compiler)} has no {name}")
    return os.path.realpath(path)


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    environ = dict(os.environ)
    # libstdc++ beside it: the interceptor of C++ exceptions looks for it when the process starts.
    environ["LD_PRELOAD"] = f"{library('libasan.so')} {library('libstdc++.so')}"
    # The interpreter keeps memory to its end, which is no leak of ours; its arenas would hide
    # overruns of small objects.
    environ["ASAN_OPTIONS"] = ":".join(
        ("detect_leaks=0", "allocator_may_return_null=1", environ.get("ASAN_OPTIONS", ""))
    ).rstrip(":")
    environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    environ["PYTHONMALLOC"] = "malloc"
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environ)


if __name__ == "__main__":
    main()
