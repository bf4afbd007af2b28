"""The operator ``rotary``."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import FLOATS, INDEX
from ._shapes import fail, same, text
from .record import Meta, op, scalar, static, tensor


def check_turn(op: str, name: str, input: Meta, positions: Meta, inv_freq: Meta) -> None:
    """Refuses positions and frequencies that do not fit the heads of argument ``name``."""
    if input.ndim != 3:
        fail(op, f"{name} must be [T, H, D], got {text(input.shape)}")
    if positions.ndim not in (1, 2) or not same(positions.shape[-1], input.shape[0]):
        fail(
            op,
            f"positions {text(positions.shape)} must be [T] or [A, T] with the T of {name} "
            f"{text(input.shape)}",
        )
    if inv_freq.ndim != positions.ndim or not same(inv_freq.shape[0], positions.shape[0]):
        if inv_freq.ndim != 1 or positions.ndim != 1:
            fail(
                op,
                f"inv_freq {text(inv_freq.shape)} must have one row of frequencies for each axis "
                f"of positions {text(positions.shape)}",
            )
    if 2 * inv_freq.shape[-1] > input.shape[-1]:
        fail(
            op,
            f"inv_freq {text(inv_freq.shape)} rotates {2 * inv_freq.shape[-1]} values of a head, "
            f"and {name} {text(input.shape)} has {input.shape[-1]}",
        )


def _infer(input: Meta, positions: Meta, inv_freq: Meta, interleaved: bool, scale: Any) -> Meta:
    check_turn("rotary", "input", input, positions, inv_freq)
    return Meta(input.shape, input.dtype)


def _angles(positions: Any, inv_freq: Any) -> Any:
    """[T, 1, R] from positions [T] or [A, T] and frequencies [R] or [A, R]."""
    turns = ops.cast(positions, dtypes.float32)
    if len(positions.shape) == 1:
        turns = ops.mul(ops.unsqueeze(turns, 1), inv_freq)
    else:
        turns = ops.sum(ops.mul(ops.unsqueeze(turns, 2), ops.unsqueeze(inv_freq, 1)), 0)
    return ops.unsqueeze(turns, 1)


def _compose(input: Any, positions: Any, inv_freq: Any, interleaved: bool, scale: float) -> Any:
    angles = _angles(positions, inv_freq)
    cos = ops.mul(ops.cos(angles), scale)
    sin = ops.mul(ops.sin(angles), scale)
    t, h, d = input.shape
    half = inv_freq.shape[-1]
    x = ops.cast(input, dtypes.float32)
    turned = ops.narrow(x, -1, 0, 2 * half)
    if interleaved:
        pairs = ops.reshape(turned, (t, h, half, 2))
        a, b = ops.select(pairs, -1, 0), ops.select(pairs, -1, 1)
    else:
        a, b = ops.narrow(turned, -1, 0, half), ops.narrow(turned, -1, half, half)
    first = ops.sub(ops.mul(a, cos), ops.mul(b, sin))
    second = ops.add(ops.mul(b, cos), ops.mul(a, sin))
    if interleaved:
        result = ops.reshape(ops.stack([first, second], -1), (t, h, 2 * half))
    else:
        result = ops.cat([first, second], -1)
    if 2 * half < d:
        result = ops.cat([result, ops.narrow(x, -1, 2 * half, d - 2 * half)], -1)
    return ops.cast(result, input.dtype)


op(
    "rotary",
    doc="""
    Turns pairs (a, b) of each head by an angle: (a cos - b sin, b cos + a sin) * scale, with
    angle = position * inv_freq[i] for pair i.

    input [T, H, D], positions [T], inv_freq [R] with 2 R <= D; the values of a head from 2 R on
    pass unchanged. Pair i is (x[i], x[i + R]), with `interleaved` (x[2i], x[2i + 1]). Positions
    of several axes [A, T] go with inv_freq [A, R]: the angle is the sum over the axes, so that an
    axis that does not serve pair i has 0 there. Angles, sines and products are float32; the
    result is rounded once.
    """,
    args=[
        tensor("input", FLOATS),
        tensor("positions", INDEX),
        tensor("inv_freq", frozenset(("float32",))),
        static("interleaved", "bool", False),
        scalar("scale", "float", 1.0),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
    source="Su et al., RoFormer, arXiv:2104.09864",
)
