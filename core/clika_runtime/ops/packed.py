"""Operators over sequences that are packed one after the other: positions, cache slots, rotations
from tables."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ._promotion import FLOATS, INDEX
from ._shapes import fail, same, text
from .record import Meta, op, static, tensor

_INT32 = frozenset(("int32",))


def _infer_slots(
    cu_seqlens_q: Meta, cu_seqlens_k: Meta, block_table: Meta, length: Any, block_size: int
) -> tuple[Meta, Meta]:
    name = "packed_slots"
    if cu_seqlens_q.ndim != 1 or cu_seqlens_k.ndim != 1 or block_table.ndim != 2:
        fail(
            name,
            "expected cu_seqlens_q [B + 1], cu_seqlens_k [B + 1] and block_table [B, M], got "
            f"{text(cu_seqlens_q.shape)}, {text(cu_seqlens_k.shape)} and {text(block_table.shape)}",
        )
    batch = block_table.shape[0]
    if not same(cu_seqlens_q.shape[0], batch + 1) or not same(cu_seqlens_k.shape[0], batch + 1):
        fail(
            name,
            f"cu_seqlens_q {text(cu_seqlens_q.shape)}, cu_seqlens_k {text(cu_seqlens_k.shape)} and "
            f"block_table {text(block_table.shape)} are not of one batch [B + 1], [B + 1], [B, M]",
        )
    if type(length) is int and length < 0:
        fail(name, f"length {length} must not be negative")
    if not 1 <= block_size < 1 << 31:
        fail(name, f"block_size {block_size} must be between 1 and 2^31 - 1")
    return Meta((length,), dtypes.int32), Meta((length,), dtypes.int32)


op(
    "packed_slots",
    doc="""
    Where packed query tokens stand: (positions, slots), both [T] int32, with position = k_len -
    q_len + i for token i of its sequence and slot = block_table[b, position // block_size] *
    block_size + position % block_size.

    cu_seqlens_q and cu_seqlens_k [B + 1] int32 are the cumulative lengths of the new tokens and of
    whole sequences, block_table [B, M] int32 the blocks of each; T is `length`, the last of
    cu_seqlens_q. Lengths that do not fit the block table are an error of the kernel.
    """,
    args=[
        tensor("cu_seqlens_q", _INT32),
        tensor("cu_seqlens_k", _INT32),
        tensor("block_table", _INT32),
        static("length", "int"),
        static("block_size", "int"),
    ],
    infer=_infer_slots,
    outputs=2,
    method=False,
)


MODES = ("neox", "gptj")


def _infer_rotary(
    input: Meta, cos: Meta, sin: Meta, positions: Meta | None, rotary_mode: str
) -> Meta:
    name = "rotary_embedding"
    if input.ndim != 3:
        fail(name, f"input must be [T, H, D], got {text(input.shape)}")
    if cos.ndim != 2 or sin.ndim != 2 or not all(map(same, cos.shape, sin.shape)):
        fail(name, f"cos {text(cos.shape)} and sin {text(sin.shape)} must both be [P, R]")
    turned = 2 * cos.shape[1]
    if type(turned) is int and type(input.shape[2]) is int and turned > input.shape[2]:
        fail(
            name,
            f"cos {text(cos.shape)} turns {turned} values of a head, and input "
            f"{text(input.shape)} has {input.shape[2]}",
        )
    if positions is None:
        if not same(cos.shape[0], input.shape[0]):
            fail(
                name,
                f"without positions cos {text(cos.shape)} must have one row for each token of "
                f"input {text(input.shape)}",
            )
    elif positions.ndim != 1 or not same(positions.shape[0], input.shape[0]):
        fail(
            name,
            f"positions {text(positions.shape)} must be [T], one for each token of input "
            f"{text(input.shape)}",
        )
    return Meta(input.shape, input.dtype)


op(
    "rotary_embedding",
    doc="""
    Turns pairs (a, b) of each head by angles from a table: (a cos - b sin, b cos + a sin).

    input [T, H, D], cos and sin [P, R] with 2 R <= D, positions [T] (rows of the table; None: token
    t has row t). Pair i is (x[i], x[i + R]) for the mode "neox", (x[2i], x[2i + 1]) for "gptj"; the
    values of a head from 2 R on pass unchanged. Computed in float32, rounded once. A position
    outside the table is an error of the kernel.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("cos", FLOATS),
        tensor("sin", FLOATS),
        tensor("positions", INDEX, optional=True),
        static("rotary_mode", "str", "neox", modes=MODES),
    ],
    infer=_infer_rotary,
    method=False,
    source="Su et al., RoFormer, arXiv:2104.09864",
)
