"""The null backend: every operator has a kernel, and no kernel computes anything.

Shapes, dtypes, placement, recording and planning run on it as on any other backend, without a
device and without arithmetic. It is a pure-Python backend and comes in as a plugin does::

    from clika_runtime.testing import null_backend
    null_backend.install()
    x = crt.zeros(2, 3, device="null")
    (x @ x.transpose(0, 1)).shape  # (2, 2); the values are whatever the memory holds

``composed=True`` leaves out the kernels of operators that have a composed form, so that those run.
"""

from __future__ import annotations

from typing import Any

from .. import ops, plugins
from .._version import __version__
from ..hooks import hookimpl

__all__ = ["NullBackend", "clika_register_backends", "install"]


class _Kernels:
    """Looks like the dict of kernels that a backend gives; counts the calls of each operator."""

    def __init__(self, composed: bool) -> None:
        self.composed = composed
        self.calls: dict[str, int] = {}
        self.kernel = self.run  # one object, kept: the core borrows it

    def get(self, name: str) -> Any:
        if self.composed and ops.record(name).compose is not None:
            return None
        return self.kernel

    def run(self, call: Any) -> None:
        self.calls[call.op] = self.calls.get(call.op, 0) + 1
        for i, out in enumerate(call.outputs):
            if out is None:  # its shape depends on data, of which there is none
                call.allocate(i, [size or 0 for size in call.output_shapes[i]])


class NullBackend:
    """A backend object as `clika_runtime.plugins.BackendSpec` asks for."""

    name = "null"
    device_count = 2

    def __init__(self, *, composed: bool = False) -> None:
        self.kernels = _Kernels(composed)

    @property
    def calls(self) -> dict[str, int]:
        """How often each operator's kernel ran."""
        return self.kernels.calls


@hookimpl
def clika_register_backends(register: Any) -> None:
    register(
        plugins.BackendSpec(
            name="null",
            contract=plugins.CONTRACTS["clika_runtime.backends"],
            kinds=("null",),
            load=f"{__name__}:NullBackend",
            summary="Computes nothing; for tests of shapes, placement and graphs.",
        )
    )


def install(module: str = __name__, name: str = "null") -> None:
    """Adds a backend module to the plugins of this process, as if a distribution brought it."""
    entry = plugins.Entry("clika_runtime.backends", name, module, "clika-runtime", __version__)
    if entry not in plugins.entries():
        plugins._registry = plugins.Registry(installed=[*plugins.entries(), entry])
