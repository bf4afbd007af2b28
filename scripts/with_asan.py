"""Runs Python with the AddressSanitizer runtime in front, as extensions built with it need.

    python scripts/with_asan.py -m pytest tests/fuzz

The compiler is ``$CXX``, else ``c++``. It has to be a GCC with shared libraries of its own: the
sanitizer stops without a word where C++ exceptions pass through a libstdc++ that it cannot replace
functions of. So libasan, libstdc++ and the built extension are looked at first.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path


def library(name: str) -> str:
    """The compiler's own copy of a shared runtime library; says what is wrong where it has none."""
    compiler = os.environ.get("CXX") or "c++"
    question = [*compiler.split(), f"-print-file-name={name}"]
    try:
        done = subprocess.run(question, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"with_asan: {' '.join(question)} failed: {error}") from error
    path = done.stdout.strip()
    fix = "install the compiler's shared runtime libraries, or name another GCC with CXX=..."
    if not os.path.isabs(path):
        raise SystemExit(f"with_asan: {compiler} has no {name}, only static ones or none: {fix}")
    path = os.path.realpath(path)
    if not is_elf(path):
        raise SystemExit(f"with_asan: {path}, the {name} of {compiler}, is no shared object: {fix}")
    return path


def is_elf(path: str) -> bool:
    """A shared object, and not a script for the linker that bears its name."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def check_extension() -> None:
    """The native core must load the shared libstdc++, not carry a copy of its own."""
    spec = importlib.util.find_spec("clika_runtime._native._core")
    if spec is None or spec.origin is None:
        raise SystemExit("with_asan: clika_runtime is not installed here")
    content = Path(spec.origin).read_bytes()
    for name in (b"libasan.so", b"libstdc++.so"):
        if name not in content:
            raise SystemExit(
                f"with_asan: {spec.origin} does not load {name.decode()}: build it with "
                "CXXFLAGS=-fsanitize=address and LDFLAGS=-fsanitize=address, without "
                "-static-libstdc++ (tox -e asan does)"
            )


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    environ = dict(os.environ)
    # libstdc++ beside it: the interceptor of C++ exceptions looks for it when the process starts.
    environ["LD_PRELOAD"] = f"{library('libasan.so')} {library('libstdc++.so')}"
    check_extension()
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
