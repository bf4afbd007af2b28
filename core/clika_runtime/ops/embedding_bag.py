"""The operator ``embedding_bag``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ops
from ._promotion import FLOATS, INDEX
from ._shapes import fail, same, text
from .embedding import renormed
from .record import Meta, op, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor


def _infer(
    weight: Meta,
    ids: Meta,
    offsets: Meta | None,
    per_sample_weights: Meta | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Meta:
    name = "embedding_bag"
    if weight.ndim != 2:
        fail(name, f"weight must be [N, K], got {text(weight.shape)}")
    if ids.ndim == 2:
        if offsets is not None:
            fail(name, f"ids {text(ids.shape)} are bags of one size already; offsets must be None")
        bags = ids.shape[0]
    elif ids.ndim == 1:
        if offsets is None or offsets.ndim != 1:
            fail(name, f"ids {text(ids.shape)} need offsets [B], where each bag starts")
        bags = offsets.shape[0]
        if include_last_offset:
            if type(bags) is int and bags < 1:
                fail(name, "include_last_offset needs at least one offset")
            bags = bags - 1
    else:
        fail(name, f"ids must be [B, L] or [L], got {text(ids.shape)}")
    if per_sample_weights is not None:
        if mode != "sum":
            fail(name, f"per_sample_weights go with mode 'sum', got '{mode}'")
        if per_sample_weights.ndim != ids.ndim or not all(
            map(same, per_sample_weights.shape, ids.shape)
        ):
            fail(
                name,
                f"per_sample_weights {text(per_sample_weights.shape)} must have the shape of ids "
                f"{text(ids.shape)}",
            )
    rows = weight.shape[0]
    if padding_idx is not None and type(rows) is int and not -rows <= padding_idx < rows:
        fail(name, f"padding_idx {padding_idx} must be within the {rows} rows of weight")
    return Meta((bags, weight.shape[1]), weight.dtype)


def _front(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def embedding_bag(
        weight: Tensor,
        ids: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> Tensor:
        options = (mode, include_last_offset, padding_idx)
        if max_norm is None:
            return call(weight, ids, offsets, per_sample_weights, *options)
        table = renormed("embedding_bag", weight, max_norm, norm_type)
        result = call(table, ids, offsets, per_sample_weights, *options)
        return ops.cast(result, weight.dtype)

    return embedding_bag


op(
    "embedding_bag",
    doc="""
    The sum, mean or largest value of the rows of weight [N, K] that each bag of ids names: [B, K].

    ids [B, L] are B bags; ids [L] are cut into bags at `offsets` [B] (with `include_last_offset`
    the last offset is the end). `per_sample_weights` scale the rows of a sum. Ids equal to
    `padding_idx` do not count. A bag of nothing gives 0. `max_norm` and `norm_type` are those of
    `embedding`. Computed in float32, rounded once. An id outside 0 .. N-1 is an error of the
    kernel.
    """,
    args=[
        tensor("weight", FLOATS),
        tensor("ids", INDEX),
        tensor("offsets", INDEX, optional=True),
        tensor("per_sample_weights", FLOATS, optional=True),
        static("mode", "str", "mean", modes=("sum", "mean", "max")),
        static("include_last_offset", "bool", False),
        static("padding_idx", "int", None),
    ],
    infer=_infer,
    front=_front,
    method=False,
)
