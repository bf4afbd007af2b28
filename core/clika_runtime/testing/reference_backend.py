"""The references as a backend in pure Python: slow, and right by definition.

It shows how small a backend can be, and it has no kernel for an operator with a composed form, so
that composed forms are checked apart from any real backend. Packed weights are declined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops, plugins
from ..errors import UnsupportedError
from ..hooks import hookimpl
from . import null_backend
from ._kit import OPERATORS, _load
from ._numpy import FLOAT8, FLOATS, bfloat16_bits, float8_bits, from_bfloat16, round_to

__all__ = ["ReferenceBackend", "clika_register_backends", "install"]


def _exact(value: Any, dtype: Any) -> Any:
    """An operand as a reference takes it: float64, or integers and bools as they are."""
    if isinstance(value, list):
        return [_exact(item, of) for item, of in zip(value, dtype, strict=True)]
    if value is None:
        return None
    if value.dtype == np.uint16:  # bfloat16 comes as its bits
        return from_bfloat16(value).astype(np.float64)
    if dtype.name == "float8_e4m3":
        return FLOAT8[value].astype(np.float64)
    return value.astype(np.float64) if value.dtype.name in FLOATS else value


class _Kernels:
    def __init__(self) -> None:
        self.kernel = self.run  # one object, kept: the core borrows it

    def get(self, name: str) -> Any:
        if name not in OPERATORS or ops.record(name).compose is not None:
            return None
        return self.kernel

    def run(self, call: Any) -> None:
        tensors = iter(zip(call.inputs, call.input_dtypes, strict=True))
        given: list[Any] = []
        for arg in ops.record(call.op).args:
            if arg.kind == "tensor":
                value, dtype = next(tensors)
                if arg.packed and not isinstance(value, np.ndarray):
                    raise UnsupportedError(
                        f"{call.op}: the reference backend takes dense weights",
                        "NOT_IMPLEMENTED_FOR_SCHEME",
                    )
                given.append(_exact(value, dtype))
            else:
                given.append((call.attrs if arg.kind == "static" else call.scalars)[arg.name])
        with np.errstate(all="ignore"):
            results = OPERATORS[call.op].reference(*given)
        results = results if isinstance(results, tuple) else (results,)
        for i, result in enumerate(results):
            out = call.outputs[i]
            if out is None:  # its shape depends on data
                out = call.allocate(i, np.shape(result))
            if out.dtype == np.uint16:
                out[...] = bfloat16_bits(round_to(result, "bfloat16"))
            elif call.output_dtypes[i].name == "float8_e4m3":
                out[...] = float8_bits(result)
            else:
                out[...] = round_to(result, out.dtype.name)


class ReferenceBackend:
    """Kernels for the operators without a composed form; the others are composed of them."""

    name = "reference"

    def __init__(self) -> None:
        _load()
        self.kernels = _Kernels()


@hookimpl
def clika_register_backends(register: Any) -> None:
    register(
        plugins.BackendSpec(
            name="reference",
            contract=plugins.CONTRACTS["clika_runtime.backends"],
            kinds=("reference",),
            load=f"{__name__}:ReferenceBackend",
            summary="The operators' NumPy references.",
        )
    )


def install() -> None:
    """Adds the reference backend to the plugins of this process."""
    null_backend.install(__name__, "reference")
