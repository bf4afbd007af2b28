"""`OpCode`: what a node computes, one member per operator, and the kinds of nodes and names."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .. import ops

# Spellings that capitalizing the parts of a name does not give.
_SPELLED = {"matmul": "MatMul", "relu6": "Relu6"}
# Nodes that are no operator of `clika_runtime.ops`: the same bytes read after a write; a copy on
# another device; subgraphs; a kernel of the user's own.
AFTER, MOVE, IF, LOOP, SCAN, CUSTOM = "after", "move", "if", "loop", "scan", "custom"
STRUCTURAL = (AFTER, MOVE, IF, LOOP, SCAN, CUSTOM)


def spelled(name: str) -> str:
    """The member's name of an operator.

    >>> spelled("log_softmax"), spelled("matmul"), spelled("copy_")
    ('LogSoftmax', 'MatMul', 'Copy_')
    """
    if name in _SPELLED:
        return _SPELLED[name]
    parts = [part[:1].upper() + part[1:] for part in name.split("_") if part]
    return "".join(parts) + ("_" if name.endswith("_") else "")


if TYPE_CHECKING:

    class _Codes(type):
        def __getattr__(cls, name: str) -> OpCode: ...

    class OpCode(metaclass=_Codes):
        """What a node computes: one member per operator; its value is the operator's name."""

        name: str
        value: str

        def __init__(self, value: str) -> None: ...
else:
    OpCode = enum.Enum(
        "OpCode",
        {spelled(name): name for name in (*ops.operator_names(), *STRUCTURAL)},
        module="clika_runtime.graph",
    )
    OpCode.__doc__ = (
        "What a node computes: one member per operator; its value is the operator's name."
    )


class NodeKind(enum.Enum):
    """An input of the graph, or an operator."""

    Input = "input"
    Operator = "operator"


class NameKind(enum.Enum):
    """What a `Rename` is about."""

    Node = "node"
    Input = "input"
    Output = "output"


def op_code(name: str) -> OpCode:
    """The member of an operator."""
    return OpCode(name)
