"""A machine with pretended GPUs: a driver and a compiler of our own (`fake`); kernels really run.

Every test asks in a process of its own: a driver is opened once per process, and no other test is
to see the devices.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FAKE = HERE / "fake"
LIBRARIES = {
    "libfakecuda.so": "driver.cpp",
    "libfakenvrtc.so": "nvrtc.cpp",
    "libfakecublaslt.so": "cublaslt.cpp",
}
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


def build(folder: Path) -> None:
    """The fake driver and compiler; a lock file makes workers share one build."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler to build the fake driver with")
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, source in LIBRARIES.items():
            if not (folder / name).exists():
                command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", str(FAKE / source)]
                subprocess.run([*command, "-o", str(folder / name), "-ldl"], check=True)


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
            "FAKE_CUDA_EMULATION": str(FAKE / "emulation.hpp"),
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


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


@pytest.fixture(scope="session")
def machine(shared: Path) -> Machine:
    pytest.importorskip("clika_runtime_cuda._backend", reason="the CUDA backend is not built here")
    build(shared / "fake-cuda")
    return Machine(shared / "fake-cuda", shared / "fake-cubins")


@pytest.fixture
def fresh(machine: Machine, tmp_path: Path) -> Callable[[], Machine]:
    """A machine whose cache of kernels is empty."""
    return lambda: Machine(machine.folder, tmp_path / "cubins")
