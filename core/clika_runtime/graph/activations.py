"""Activations that a node may carry: applied to its result, as part of the node.

A node of an operator in `CARRIERS` has the attribute ``activation``: the name of one of
`ACTIVATIONS`, ``"Identity"`` by default. What it computes is the operator, then the activation.
"""

from __future__ import annotations

from typing import Any

from ..errors import InvalidArgumentError

IDENTITY = "Identity"
# The attribute -> the operator, and its settings.
ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Relu": ("relu", {}),
    "Relu6": ("relu6", {}),
    "Sigmoid": ("sigmoid", {}),
    "Tanh": ("tanh", {}),
    "Silu": ("silu", {}),
    "Gelu": ("gelu", {"approximate": "none"}),
    "GeluTanh": ("gelu", {"approximate": "tanh"}),
    "HardSigmoid": ("hardsigmoid", {}),
    "HardSwish": ("hardswish", {}),
    "Mish": ("mish", {}),
    "Selu": ("selu", {}),
    "Softsign": ("softsign", {}),
}
# Products, and the arithmetic whose kernels walk their result once more for an activation.
CARRIERS = frozenset(
    "matmul linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "add sub mul div".split()
)


def check_activation(op: str, name: Any) -> str:
    """The name of an activation that a node of ``op`` may carry; refuses anything else.

    >>> check_activation("add", "Relu")
    'Relu'
    """
    if op not in CARRIERS:
        raise InvalidArgumentError(f"activation: a node of '{op}' carries no activation")
    if name == IDENTITY or name in ACTIVATIONS:
        return str(name)
    choices = ", ".join([IDENTITY, *ACTIVATIONS])
    raise InvalidArgumentError(f"activation: {name!r} is no activation; choose one of {choices}")


def activation_of(op: str, settings: dict[str, Any]) -> str | None:
    """The name under which an operator with these settings is an activation, or None."""
    for name, (wanted, needed) in ACTIVATIONS.items():
        if op == wanted and settings == needed:
            return name
    return None
