"""Operator records: one declaration per operator, from which everything else is derived.

A record feeds the public function, the ``Tensor`` method, the node's opcode, the type stub and the reference
page. It holds no kernel: backends register kernels under the record's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["RECORDS", "Arg", "Meta", "Record", "View", "op", "scalar", "static", "tensor"]

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()

# Traits that passes, the dispatcher and the docs ask for.
ELEMENTWISE = "elementwise"
COMMUTATIVE = "commutative"
REDUCTION = "reduction"
VIEW = "view"
RANDOM = "random"
FACTORY = "factory"


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument. ``kind`` is ``tensor``, ``static`` or ``scalar`` (a runtime scalar)."""

    name: str
    kind: str
    type: str = "tensor"
    default: Any = REQUIRED
    dtypes: frozenset[str] | None = None  # tensor: names of dtypes; None takes all
    optional: bool = False
    number: bool = False
    sequence: bool = False
    modes: tuple[str, ...] = ()  # static str: the allowed strings; the kernel sees the index
    keyword_only: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of a tensor without its bytes. ``weak`` marks a Python number's 0-d operand."""

    shape: tuple[Any, ...]
    dtype: Any
    device: Any = None  # None in a result: the device of the inputs
    scheme: int = 0
    layout: int = 0
    strides: tuple[Any, ...] | None = None  # in elements; None: contiguous
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class View:
    """A result that shares the bytes of tensor argument ``source``. ``offset`` counts elements from it."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any = 0
    source: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    summary: str
    args: tuple[Arg, ...]
    infer: Callable[..., Any]
    traits: frozenset[str] = frozenset()
    compose: Callable[..., Any] | None = None
    mutates: int | None = None  # index (among the tensor arguments) of the one written in place
    outputs: int = 1  # 0: as many as `infer` returns
    method: bool = True  # also a Tensor method
    aliases: tuple[str, ...] = ()
    source: str = ""  # paper or specification of the method
    doc: str = ""  # the long part of the reference page
    codes: tuple[str, ...] = field(default=("INVALID_ARGUMENT",))

    @property
    def tensors(self) -> tuple[Arg, ...]:
        return tuple(a for a in self.args if a.kind == "tensor")

    @property
    def statics(self) -> tuple[Arg, ...]:
        return tuple(a for a in self.args if a.kind == "static")

    @property
    def scalars(self) -> tuple[Arg, ...]:
        return tuple(a for a in self.args if a.kind == "scalar")


RECORDS: dict[str, Record] = {}


def tensor(
    name: str,
    dtypes: frozenset[str] | None = None,
    *,
    optional: bool = False,
    number: bool = False,
    sequence: bool = False,
) -> Arg:
    """A tensor argument; its metadata is part of the dispatch key."""
    default = None if optional else REQUIRED
    return Arg(name, "tensor", "tensor", default, dtypes, optional, number, sequence)


def static(
    name: str,
    type: str,
    default: Any = REQUIRED,
    *,
    modes: tuple[str, ...] = (),
    keyword_only: bool = False,
) -> Arg:
    """A static argument: ``int``, ``float``, ``bool``, ``str``, ``ints``, ``floats``, ``dtype``, ``device``."""
    return Arg(name, "static", type, default, modes=modes, keyword_only=keyword_only)


def scalar(name: str, type: str = "float", default: Any = REQUIRED) -> Arg:
    """A runtime scalar (``int`` or ``float``): rides in the call and is part of no key."""
    return Arg(name, "scalar", type, default)


def op(
    name: str,
    *,
    doc: str,
    args: list[Arg],
    infer: Callable[..., Any],
    **more: Any,
) -> Record:
    """Declare an operator. The first paragraph of ``doc`` is the summary with the formula."""
    if name in RECORDS:
        raise ValueError(f"operator '{name}' is declared twice")
    summary, _, rest = doc.strip().partition("\n\n")
    traits = frozenset(more.pop("traits", ()))
    record = Record(
        name, " ".join(summary.split()), tuple(args), infer, traits, doc=rest.strip(), **more
    )
    RECORDS[name] = record
    return record
