"""Operators whose result is their input, to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._native._core import Port
from ...ops.record import VIEW
from ..optimize import OwnTransform

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..rewriting import Rewriter


def _neutral(rewriter: Rewriter, node: int) -> None:
    """x * 1, x / 1 and x - 0 are x; so is x + 0 for integers, and x + -0.0: for a floating-point x
    of -0.0, x + 0 is 0.0, which has other bits."""
    graph = rewriter.graph
    given = rewriter.arguments(node)
    if not rewriter.is_plain(node) or given.get("rounding_mode", "none") != "none":
        return
    op = rewriter.op(node)
    (old,) = graph.results(node)
    for kept, other in (("input", "other"), ("other", "input")):
        if kept == "other" and (op in ("sub", "div") or given.get("alpha", 1) != 1):
            return
        if not isinstance(given[kept], Port):
            continue
        new = rewriter.read(node, given[kept])
        number = rewriter.number(node, given[other])
        if number is None or not _is_neutral(op, number, given.get("alpha", 1), rewriter, new):
            continue
        if rewriter.may_stand_for(new, old):
            rewriter.redirect(old, new)
            return


def _is_neutral(
    op: str, number: float | int | bool, alpha: float | int, rewriter: Rewriter, value: int
) -> bool:
    if op in ("mul", "div"):
        return number == 1
    if number != 0 or alpha != 1:
        return False
    if rewriter.graph._spec(value).dtype.kind != "f":
        return True
    is_minus_zero = str(float(number)).startswith("-")
    return is_minus_zero == (op == "add")


def _same_view(rewriter: Rewriter, node: int) -> None:
    """A view with the shape and the strides of its input is its input: Permute in the same order,
    Reshape to the same shape, Expand of nothing."""
    graph = rewriter.graph
    if not rewriter.has(node, VIEW) or len(graph.ports(node)) != 1:
        return
    (new,) = graph.ports(node)
    old, *more = graph.results(node)
    if more or not rewriter.same_kind(new, old) or rewriter.steps(new) != rewriter.steps(old):
        return
    if rewriter.may_stand_for(new, old):
        rewriter.redirect(old, new)


def _same_dtype(rewriter: Rewriter, node: int) -> None:
    """A Cast to the dtype that its input has is its input."""
    graph = rewriter.graph
    (old,) = graph.results(node)
    (new,) = graph.ports(node)
    if rewriter.is_plain(node) and rewriter.may_stand_for(new, old):
        rewriter.redirect(old, new)


def permutation(rewriter: Rewriter, node: int) -> tuple[int, ...] | None:
    """The order in which a node gives the dims of its input; None where it is no permutation."""
    find = _ORDERS.get(rewriter.op(node))
    if find is None or rewriter.record(node) is None:
        return None
    rank = len(rewriter.graph.meta(rewriter.graph.ports(node)[0])[3])
    return find(rewriter.arguments(node), rank)


def _permute(given: dict[str, object], rank: int) -> tuple[int, ...]:
    dims = given["dims"]
    assert isinstance(dims, (tuple, list))
    return tuple(dim % rank for dim in dims)


def _transpose(given: dict[str, object], rank: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank:
        a, b = given["dim0"], given["dim1"]
        assert isinstance(a, int) and isinstance(b, int)
        a, b = a % rank, b % rank
        order[a], order[b] = order[b], order[a]
    return tuple(order)


def _swap_last(given: dict[str, object], rank: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank > 1:
        order[-2:] = order[-1], order[-2]
    return tuple(order)


def _moved(given: dict[str, object], rank: int) -> tuple[int, ...]:
    def places(name: str) -> list[int]:
        value = given[name]
        assert isinstance(value, (int, tuple, list))
        return [dim % rank for dim in ((value,) if isinstance(value, int) else value)]

    moved = dict(zip(places("destination"), places("source"), strict=True))
    rest = iter(dim for dim in range(rank) if dim not in moved.values())
    return tuple(moved[dim] if dim in moved else next(rest) for dim in range(rank))


_ORDERS: dict[str, Callable[[dict[str, object], int], tuple[int, ...]]] = {
    "permute": _permute,
    "transpose": _transpose,
    "t": _swap_last,
    "adjoint": _swap_last,
    "movedim": _moved,
}
PERMUTATIONS = frozenset(_ORDERS)

FOLD_NEUTRAL_NUMBERS = OwnTransform(
    "fold_neutral_numbers", visit=_neutral, ops=frozenset({"add", "sub", "mul", "div"})
)
REMOVE_IDENTITY_VIEWS = OwnTransform("remove_identity_views", visit=_same_view)
REMOVE_IDENTITY_CASTS = OwnTransform(
    "remove_identity_casts", visit=_same_dtype, ops=frozenset({"cast"})
)
