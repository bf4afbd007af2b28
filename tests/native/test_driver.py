"""Builds the C++ driver of the execution machinery and runs it.

``CLIKA_NATIVE_SANITIZER`` (``thread`` or ``address,undefined``) builds it with that sanitizer; a
report of the sanitizer fails the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = ["errors", "allocator", "storage", "lanes", "pool", "fork"]
SANITIZER = os.environ.get("CLIKA_NATIVE_SANITIZER", "")
SANITIZER_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1",
    "ASAN_OPTIONS": "detect_stack_use_after_return=1 strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1 halt_on_error=1",
}


def _compiler() -> str:
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and shutil.which(name.split()[0]):
            return name
    pytest.skip("no C++ compiler")


def _run(command: list[str]) -> None:
    built = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert built.returncode == 0, built.stderr


def _build(folder: Path) -> Path:
    core = HERE.parents[1] / "core" / "clika_runtime"
    compiler = [*_compiler().split(), "-std=c++17", "-O1", "-g1", "-pthread"]
    if SANITIZER:
        compiler += [f"-fsanitize={SANITIZER}", "-fno-omit-frame-pointer"]
        if "undefined" in SANITIZER:
            compiler.append("-fno-sanitize-recover=undefined")
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{core / 'include'}", f"-I{core / '_native'}"]
    # The driver takes longest: first, beside the others.
    sources = [HERE / "driver.cpp", *(core / "_native" / f"{name}.cpp" for name in SOURCES)]
    objects = [folder / f"{source.stem}.o" for source in sources]
    commands = [
        [*compiler, *flags, "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_run, commands))
    driver = folder / "driver"
    _run([*compiler, *map(str, objects), "-o", str(driver)])
    return driver


@pytest.mark.skipif(sys.platform == "win32", reason="the wrapper speaks to g++ and clang++")
def test_driver(tmp_path: Path) -> None:
    driver = _build(tmp_path)
    environment = {**os.environ, **SANITIZER_OPTIONS}
    command = [str(driver)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if "unexpected memory mapping" in ran.stderr and shutil.which("setarch"):
        # Older ThreadSanitizers do not know the address layouts of newer kernels.
        command = ["setarch", "-R", *command]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    output = ran.stdout + ran.stderr
    assert ran.returncode == 0, output
    assert not re.search(r"(ERROR|WARNING): \w+Sanitizer|runtime error:", output), output
    assert ran.stdout.splitlines()[-1].endswith(", 0 failed"), output
