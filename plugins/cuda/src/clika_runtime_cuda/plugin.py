"""Entry point of the group ``clika_runtime.backends``: data only, everything else loads when first
needed."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import BackendSpec

__all__ = ["clika_register_backends"]


@hookimpl
def clika_register_backends(register: Callable[..., None]) -> None:
    """Declare the backend ``cuda``."""
    register(
        BackendSpec(
            name="cuda",
            contract=1,
            kinds=("cuda",),
            load="clika_runtime_cuda.start:backend",
            probe="clika_runtime_cuda.start:probe",
            summary="NVIDIA GPUs of compute capability 8.0 and newer",
        )
    )
