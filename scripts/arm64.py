"""The kernel tests for arm64 on an x86-64 machine: the CPU kernels, built by each cross compiler,
run under qemu.

    python scripts/arm64.py [--compilers gcc,clang] [pytest arguments]

Needs qemu-aarch64, aarch64-linux-gnu-g++ (its libraries serve clang too) and clang++ 16 or newer;
on Debian: qemu-user, g++-aarch64-linux-gnu, clang-16. What is missing is refused by name.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = "/usr/aarch64-linux-gnu"
COMPILERS = {
    "gcc": ("aarch64-linux-gnu-g++",),
    # arm_neon.h declares an instruction's functions for a level from clang 16 on.
    "clang": ("clang++-16", "clang++-17", "clang++-18", "clang++-19", "clang++"),
}


def program(*names: str) -> str:
    """The first of these programs that is there."""
    for name in names:
        if shutil.which(name):
            return name
    raise SystemExit(f"none of these programs is installed: {', '.join(names)}")


def build(kind: str) -> Path:
    """The kernel server, built by one compiler."""
    folder = ROOT / "build" / f"arm64-{kind}"
    compiler = program(*COMPILERS[kind])
    configure = ["cmake", "-S", str(ROOT / "tests/backends/cpu"), "-B", str(folder), "-G", "Ninja"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_SYSTEM_NAME=Linux"]
    configure += ["-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={compiler}"]
    if kind == "clang":
        configure.append("-DCMAKE_CXX_COMPILER_TARGET=aarch64-linux-gnu")
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", str(folder)], check=True)
    return folder / "kernel_server"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compilers", default="gcc,clang")
    options, rest = parser.parse_known_args()
    emulator = program("qemu-aarch64")
    status = 0
    for kind in options.compilers.split(","):
        server = build(kind)
        command = f"{emulator} -cpu max -L {LIBRARIES} {server}"
        tests = [sys.executable, "-m", "pytest", "-n", "2", *(rest or ["tests/backends/cpu"])]
        environment = os.environ | {"CLIKA_KERNEL_SERVER": command}
        status |= subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
