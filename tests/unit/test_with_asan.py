"""`scripts/with_asan.py` says what the toolchain lacks instead of starting what cannot work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "with_asan.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="preloads ELF libraries")


def run(compiler: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *(words or ("-c", "print('started')"))],
        env={**os.environ, "CXX": compiler},
        capture_output=True,
        text=True,
    )


def fake(folder: Path, answers: dict[str, str]) -> str:
    """A compiler that gives these answers to ``-print-file-name``; else it names the library."""
    cases = "".join(
        f"  -print-file-name={name}) echo '{text}';;\n" for name, text in answers.items()
    )
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}  *) echo "${{1#*=}}";;\nesac\n')
    path.chmod(0o755)
    return str(path)


def test_a_toolchain_without_a_shared_libstdcxx(tmp_path: Path) -> None:
    asan = tmp_path / "libasan.so"
    asan.write_bytes(b"\x7fELF rest")
    done = run(fake(tmp_path, {"libasan.so": str(asan)}))
    assert done.returncode == 1 and done.stdout == ""
    assert "compiler has no libstdc++.so, only static ones or none: install the" in done.stderr
    done = run(fake(tmp_path, {}))
    assert "compiler has no libasan.so" in done.stderr


def test_a_script_for_the_linker(tmp_path: Path) -> None:
    asan = tmp_path / "libasan.so"
    asan.write_text("INPUT ( /usr/lib/libasan.so.8.0.0 )")
    done = run(fake(tmp_path, {"libasan.so": str(asan)}))
    assert done.returncode == 1
    assert "libasan.so of" in done.stderr and "is no shared object" in done.stderr


def test_a_compiler_that_is_not_there() -> None:
    done = run("no-such-compiler-here")
    assert done.returncode == 1
    assert "no-such-compiler-here -print-file-name=libasan.so failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_extension_without_the_sanitizer(tmp_path: Path) -> None:
    """The extension of the ordinary tests is no instrumented one."""
    shared = tmp_path / "lib.so"
    shared.write_bytes(b"\x7fELF rest")
    done = run(fake(tmp_path, {"libasan.so": str(shared), "libstdc++.so": str(shared)}))
    assert done.returncode == 1 and done.stdout == ""
    assert "does not load libasan.so: build it with CXXFLAGS=-fsanitize=address" in done.stderr
