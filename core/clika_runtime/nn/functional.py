"""The stateless operations that the modules call: every operator by its name, and the activations
of epilogues."""

from __future__ import annotations

from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

__all__ = ["activate", "check_activation"]

# Activations that act element by element, and gated ones that take (gate, up) side by side and
# halve the width.
POINTWISE = ("relu", "gelu", "silu", "sigmoid", "tanh")
GATED = ("swiglu", "geglu", "reglu", "situ")


def __getattr__(name: str) -> Any:
    """Every operator of the runtime under its own name: ``F.linear``, ``F.softmax``, ..."""
    if not name.startswith("_") and (name in crt.ops.__all__ or name in crt.ops.RECORDS):
        return getattr(crt, name)
    raise AttributeError(f"module 'clika_runtime.nn.functional' has no attribute '{name}'")


def check_activation(operation: str, name: str | None) -> str | None:
    """The activation's name as it is stored ("Identity" and None: None), or a refusal that lists
    the choices."""
    if name is None or name.lower() == "identity":
        return None
    if name in POINTWISE or name in GATED:
        return name
    choices = ", ".join(f"'{n}'" for n in ("identity", *POINTWISE, *GATED))
    raise InvalidArgumentError(
        f"{operation}: activation '{name}' is not an Activation; choose one of {choices}"
    )


def activate(x: Any, name: str) -> Any:
    """Applies an activation by name. A gated one takes ``[..., 2n]`` as (gate, up) and gives
    ``[..., n]``."""
    return getattr(crt, name)(x)
