"""Entry point of the group ``clika_runtime.backends``: data only, the kernels load when first
needed."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import BackendSpec

__all__ = ["clika_register_backends"]


@hookimpl
def clika_register_backends(register: Callable[..., None]) -> None:
    """Declare the backend ``cpu``."""
    register(
        BackendSpec(
            name="cpu",
            contract=1,
            kinds=("cpu",),
            load="clika_runtime_cpu._kernels:backend",
            probe="clika_runtime_cpu._kernels:probe",
            summary="CPU kernels: portable, AVX2 and AVX-512, chosen at run time",
        )
    )
