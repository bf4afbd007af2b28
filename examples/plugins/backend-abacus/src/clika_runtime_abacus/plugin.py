"""Registration data of the abacus backend; the kernels load on first need."""

from __future__ import annotations

from collections.abc import Callable

from clika_runtime.hooks import hookimpl
from clika_runtime.plugins import BackendSpec


@hookimpl
def clika_register_backends(register: Callable[..., None]) -> None:
    register(
        BackendSpec(
            name="abacus",
            contract=1,
            kinds=("abacus",),
            load="clika_runtime_abacus.kernels:Abacus",
            summary="NumPy kernels on the device abacus:0",
        )
    )
