"""Operators that undo or repeat the one before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._native._core import Port
from ..activations import IDENTITY
from ..optimize import OwnTransform

if TYPE_CHECKING:
    from ..rewriting import Rewriter

# What is never below 0 and never -0.0, so that max(x, 0) is x to the bit; NaN stays NaN.
_NOT_NEGATIVE = frozenset("relu relu6 sigmoid softmax exp abs square hardsigmoid".split())
_NOT_NEGATIVE_ACTIVATIONS = ("Relu", "Relu6", "Sigmoid", "HardSigmoid")


def _double_neg(rewriter: Rewriter, node: int) -> None:
    """Neg(Neg(x)) is x."""
    graph = rewriter.graph
    inner = rewriter.producer(graph.ports(node)[0])
    if rewriter.op(inner) != "neg" or not rewriter.is_plain(inner):
        return
    (old,) = graph.results(node)
    (new,) = graph.ports(inner)
    if rewriter.may_stand_for(new, old):
        rewriter.redirect(old, new)


def _redundant_relu(rewriter: Rewriter, node: int) -> None:
    """Relu of what is not negative is that: of a Relu, a Sigmoid, a Softmax, an Exp, and so on,
    also where a node carries it as its activation."""
    graph = rewriter.graph
    (new,) = graph.ports(node)
    (old,) = graph.results(node)
    inner = rewriter.producer(new)
    if inner < 0 or rewriter.record(inner) is None:
        return
    activation = graph._extras.get(inner, {}).get("activation", IDENTITY)
    known = (
        rewriter.op(inner) in _NOT_NEGATIVE and rewriter.is_plain(inner)
        if activation == IDENTITY
        else activation in _NOT_NEGATIVE_ACTIVATIONS
    )
    if known and rewriter.may_stand_for(new, old):
        rewriter.redirect(old, new)


def _clamp_to_relu(rewriter: Rewriter, node: int) -> None:
    """Clamp with the number 0 as its floor and no ceiling is Relu. Of -0.0 Relu gives -0.0, where
    Clamp gives the floor."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    floor = given["min"]
    if isinstance(floor, (Port, bool)) or floor != 0 or given["max"] is not None:
        return
    if not isinstance(given["input"], Port) or not rewriter.is_plain(node):
        return
    read = rewriter.read(node, given["input"])
    if rewriter.same_kind(read, graph.results(node)[0]):
        rewriter.remake(node, "relu", [Port(0)], [read])


REMOVE_DOUBLE_NEG = OwnTransform("remove_double_neg", visit=_double_neg, ops=frozenset({"neg"}))
REMOVE_REDUNDANT_RELU = OwnTransform(
    "remove_redundant_relu", visit=_redundant_relu, ops=frozenset({"relu"})
)
CLAMP_TO_RELU = OwnTransform("clamp_to_relu", visit=_clamp_to_relu, ops=frozenset({"clamp"}))
