"""Finds NVIDIA's libraries and starts the backend.

The driver comes with the machine; the compiler of the kernels (NVRTC) and the matrix products
(cuBLASLt) come from NVIDIA's wheels, wherever Python finds them, or from the system.

- ``CLIKA_RT_CUDA_DRIVER``, ``CLIKA_RT_CUDA_NVRTC``, ``CLIKA_RT_CUDA_CUBLASLT``: the path of a
  library, instead of the one that is found;
- ``CLIKA_RT_CUDA_CACHE``: the folder of compiled kernels, instead of one in the user's cache.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from clika_runtime.errors import InternalError, InvalidArgumentError

__all__ = ["backend", "cache_folder", "libraries", "prepare", "probe"]

DEVICE_SOURCES = Path(__file__).parent / "device"
#: Majors of the toolkit whose libraries serve, newest first.
_MAJORS = (13, 12)
#: How the reason begins where the machine has no driver (driver.cpp).
_NO_DRIVER = "no NVIDIA driver: "
_OVERRIDES = {
    "driver": "CLIKA_RT_CUDA_DRIVER",
    "nvrtc": "CLIKA_RT_CUDA_NVRTC",
    "cublaslt": "CLIKA_RT_CUDA_CUBLASLT",
}


def _wheel_folders() -> list[Path]:
    """The folders of NVIDIA's wheels that hold shared libraries."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    parts = ("lib", "bin", "bin/x86_64") if sys.platform == "win32" else ("lib",)
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    names = [f"cu{major}" for major in _MAJORS] + ["cuda_nvrtc", "cublas"]
    places = [root / name / part for root in roots for name in names for part in parts]
    return [place for place in places if place.is_dir()]


def _names(library: str) -> list[str]:
    if sys.platform == "win32":
        if library == "driver":
            return ["nvcuda.dll"]
        if library == "nvrtc":
            return ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
        return [f"cublasLt64_{major}.dll" for major in _MAJORS]
    if library == "driver":
        return ["libcuda.so.1"]
    stem = "libnvrtc" if library == "nvrtc" else "libcublasLt"
    return [f"{stem}.so.{major}" for major in _MAJORS]


def libraries(library: str) -> list[str]:
    """Where to look for ``driver``, ``nvrtc`` or ``cublaslt``, best first: paths, then bare names
    for the system's search. A path given in the environment stands alone."""
    given = os.environ.get(_OVERRIDES[library])
    if given:
        return [given]
    names = _names(library)
    found: list[str] = []
    if library != "driver":
        folders = _wheel_folders()
        found = [str(f / n) for n in names for f in folders if (f / n).is_file()]
    return [*found, *names]


def cache_folder() -> Path:
    """The folder of compiled kernels."""
    given = os.environ.get("CLIKA_RT_CUDA_CACHE")
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("clika-runtime", appauthor=False)) / "cuda"


def _configure() -> Any:
    native: Any = importlib.import_module("clika_runtime_cuda._backend")
    native.configure(
        libraries("driver"),
        libraries("nvrtc"),
        libraries("cublaslt"),
        str(DEVICE_SOURCES),
        str(cache_folder()),
    )
    return native


def probe() -> str | None:
    """None where the backend can work, else the reason why it cannot. No device is opened.
    Without a driver: `InternalError` with ``BACKEND_DRIVER_ABSENT``."""
    reason: str | None = _configure().probe()
    if reason is not None and reason.startswith(_NO_DRIVER):
        raise InternalError(reason, "BACKEND_DRIVER_ABSENT")
    return reason


def backend() -> Any:
    """The capsule ``clika_runtime.backend`` with the backend's table."""
    return _configure().backend()


def prepare(device: Any = "cuda", threads: int | None = None) -> int:
    """Compiles every kernel for a device before it is first needed, several at once; returns how
    many there are. The code lies in `cache_folder` then, where later processes find it.

    ``threads`` is how many compile at a time, by default one for each processor.
    Raises `InternalError` with the compiler's text for what does not compile.

        from clika_runtime_cuda.start import prepare
        prepare("cuda:0")
    """
    from concurrent.futures import ThreadPoolExecutor

    import clika_runtime as crt

    capability = crt.get_device_properties(device).compute_capability
    if capability is None:
        raise InvalidArgumentError(f"prepare: {device} is no CUDA device")
    native = _configure()
    programs = native.programs()
    try:
        arch = native.architecture(10 * capability[0] + capability[1])
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            for _ in pool.map(lambda program: native.compile(*program, arch), programs):
                pass
    except RuntimeError as error:
        raise InternalError(f"prepare: {error}") from error
    return len(programs)
