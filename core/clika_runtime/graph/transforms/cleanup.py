"""Dropping what nothing reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optimize import OwnTransform

if TYPE_CHECKING:
    from ..rewriting import Rewriter


def _drop(rewriter: Rewriter, node: int) -> None:
    """Drops operators and constants that nothing reads. Inputs of the graph stay."""
    rewriter.sweep(node)


def _drop_constants(rewriter: Rewriter) -> None:
    for value in list(rewriter.graph._constants):
        rewriter.drop_constant(value)


def drop_unread(rewriter: Rewriter) -> None:
    """Drops every operator and constant that nothing reads."""
    for node in rewriter.graph.node_ids():
        rewriter.sweep(node)
    _drop_constants(rewriter)


CLEANUP_GRAPH = OwnTransform("cleanup_graph", visit=_drop, whole=_drop_constants)
