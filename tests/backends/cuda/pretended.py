"""A machine with pretended GPUs: a driver and a compiler of our own (`fake`); kernels really run.

With ``FAKE_CUDA_IDLE`` they do not: nothing is compiled, and what is asked is which operators have
one. A driver is opened once per process, so whoever asks does it in a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAKE = HERE / "fake"
LIBRARIES = {
    "libfakecuda.so": "driver.cpp",
    "libfakenvrtc.so": "nvrtc.cpp",
    "libfakecublaslt.so": "cublaslt.cpp",
}
HEADER = "emulation.hpp"
START = """
import ctypes, json, os
from clika_runtime import plugins
if not any(entry.name == "cuda" for entry in plugins.entries()):
    entry = plugins.Entry("clika_runtime.backends", "cuda", "clika_runtime_cuda.plugin",
                          "clika-runtime-cuda", "0.1.0")
    plugins._registry = plugins.Registry(installed=[*plugins.entries(), entry])
import clika_runtime as crt
if os.environ["CLIKA_RT_CUDA_DRIVER"].endswith("libfakecuda.so"):
    fake = ctypes.CDLL(os.environ["CLIKA_RT_CUDA_DRIVER"])
    fake.fake_launches.restype = ctypes.c_char_p
    fake.fake_used.restype = ctypes.c_longlong

def said(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return [type(error).__name__, getattr(error, "code_name", ""), str(error)]
    return []

answer = None
"""


class NoCompiler(Exception):
    """The pretended machine cannot be built here."""


def build(folder: Path) -> None:
    """The fake driver and compiler; a lock file makes workers share one build."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise NoCompiler("no C++ compiler to build the fake driver with")
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, source in LIBRARIES.items():
            if not (folder / name).exists():
                command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", str(FAKE / source)]
                subprocess.run([*command, "-o", str(folder / name), "-ldl"], check=True)
        compile_header(compiler, folder)


def compile_header(compiler: str, folder: Path) -> None:
    """The header of all programs, ahead for those whose threads run together and for others: most
    of what a small program costs. Where the compiler takes none it reads the header as it is."""
    header = folder / HEADER
    if header.exists():
        return
    flags = ctypes.CDLL(str(folder / "libfakenvrtc.so")).fake_flags
    flags.restype = ctypes.c_char_p
    common = [flag for flag in flags().decode().split() if flag != "-shared"]
    made = folder / f"{HEADER}.gch"
    made.mkdir(exist_ok=True)
    shutil.copy(FAKE / HEADER, folder / "new.hpp")
    (folder / "new.hpp").rename(header)
    for name, more in (("alone", []), ("together", ["-DEMULATED_TOGETHER=1"])):
        command = [compiler, *common, *more, "-x", "c++-header", str(header)]
        subprocess.run([*command, "-o", str(made / name)], check=False)


class Machine:
    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.cache = cache

    def environment(self, **given: str) -> dict[str, str]:
        return {
            **os.environ,
            "CLIKA_RT_CUDA_DRIVER": str(self.folder / "libfakecuda.so"),
            "CLIKA_RT_CUDA_NVRTC": str(self.folder / "libfakenvrtc.so"),
            "CLIKA_RT_CUDA_CUBLASLT": str(self.folder / "libfakecublaslt.so"),
            "CLIKA_RT_CUDA_CACHE": str(self.cache),
            "FAKE_CUDA_EMULATION": str(self.folder / HEADER),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            **given,
        }

    def start(self, code: str, **environ: str) -> subprocess.Popen[str]:
        text = START + code + "\nprint('\\n' + json.dumps(answer))\n"
        return subprocess.Popen(
            [sys.executable, "-c", text],
            env=self.environment(**environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Any:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err[-4000:]
        return json.loads(out.splitlines()[-1])

    def ask(self, code: str, **environ: str) -> Any:
        """What the code leaves in ``answer``."""
        return self.finish(self.start(code, **environ))
