"""Convolutions and transposed convolutions over 1, 2 and 3 spatial dims, channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._promotion import NUMBERS
from ._shapes import fail, known, same, text
from ._windows import each, replaced, same_pads, slid, spatial
from .record import Meta, op, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._native._core import Tensor
    from .record import Record

_SIZES = {1: "W", 2: "H, W", 3: "D, H, W"}


def _check(
    name: str, n: int, input: Meta, weight: Meta, bias: Meta | None, groups: int, out_last: bool
) -> tuple[Any, Any]:
    """Channels of the result per group, and the number of groups times them."""
    layout = "[C, K..., O / groups]" if out_last else "[O, K..., C / groups]"
    if weight.ndim != n + 2:
        fail(name, f"weight {text(weight.shape)} must be {layout} with {n} kernel dims")
    for other in (weight, bias):
        if other is not None and other.dtype is not input.dtype:
            fail(
                name,
                f"input has dtype {input.dtype.name}, and weight or bias {other.dtype.name}; "
                "convert one with .to()",
            )
    channels = input.shape[-1]
    if groups < 1:
        fail(name, f"groups {groups} must be at least 1")
    if any(known(size, 0) for size in weight.shape[1:-1]):
        fail(name, f"weight {text(weight.shape)} has a kernel of size 0")
    if out_last:
        inner, outer = weight.shape[0], weight.shape[-1]
        fits = same(channels, inner) and (type(inner) is not int or inner % groups == 0)
        made = outer * groups
    else:
        inner, outer = weight.shape[-1], weight.shape[0]
        fits = same(channels, inner * groups) and (type(outer) is not int or outer % groups == 0)
        made = outer
    if not fits:
        fail(
            name,
            f"input {text(input.shape)} with {channels} channels does not fit weight "
            f"{text(weight.shape)} ({layout}) in {groups} groups",
        )
    if bias is not None and (bias.ndim != 1 or not same(bias.shape[0], made)):
        fail(name, f"bias {text(bias.shape)} must be [{made}], one for each channel of the result")
    return channels, made


def _pads(name: str, n: int, padding: Any) -> tuple[tuple[int, int], ...]:
    """Padding before and after each dim, from one number, one per dim, or two per dim."""
    found = each(name, "padding", padding, n, 0, counts=(2 * n,))
    if len(found) == n:
        return tuple((pad, pad) for pad in found)
    return tuple(zip(found[:n], found[n:], strict=True))


def _convolution(n: int) -> Record:
    name = f"conv{n}d"

    def infer(
        input: Meta,
        weight: Meta,
        bias: Meta | None,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
    ) -> Meta:
        sizes = spatial(name, input, n)
        _, made = _check(name, n, input, weight, bias, groups, False)
        strides = each(name, "stride", stride, n, 1)
        steps = each(name, "dilation", dilation, n, 1)
        pads = _pads(name, n, padding)
        result = [
            slid(name, size, kernel, strides[i], sum(pads[i]), steps[i])
            for i, (size, kernel) in enumerate(zip(sizes, weight.shape[1:-1], strict=True))
        ]
        return Meta(replaced(input, result, made), input.dtype)

    def front(call: Callable[..., Any]) -> Callable[..., Any]:
        def conv(
            input: Tensor,
            weight: Tensor,
            bias: Tensor | None = None,
            stride: int | Sequence[int] = 1,
            padding: int | Sequence[int] | str = 0,
            dilation: int | Sequence[int] = 1,
            groups: int = 1,
        ) -> Tensor:
            if isinstance(padding, str):
                padding = _word(name, n, padding, weight, stride, dilation)
            return call(input, weight, bias, stride, padding, dilation, groups)

        return conv

    return op(
        name,
        doc=f"""
        Convolution (cross-correlation): result[n, p, o] = bias[o] + the sum over the kernel's
        positions k and the channels c of o's group: weight[o, k, c] * input[n, p * stride -
        padding + k * dilation, c].

        input [N, {_SIZES[n]}, C] or [{_SIZES[n]}, C], weight [O, K..., C / groups], bias [O]. What
        lies outside the input is 0. `stride`, `padding` and `dilation` are one number or one for
        each spatial dim; `padding` may also be two for each, all those before the input first, then
        those after it, or "valid" (none) or "same" (the size stays, stride 1). Floats are summed in
        float32 (float64 in its own precision), integers wrap around.
        """,
        args=[
            tensor("input", NUMBERS),
            tensor("weight", NUMBERS),
            tensor("bias", NUMBERS, optional=True),
            static("stride", "ints", 1),
            static("padding", "ints", 0),
            static("dilation", "ints", 1),
            static("groups", "int", 1),
        ],
        infer=infer,
        front=front,
        method=False,
        source="Dumoulin and Visin, A guide to convolution arithmetic, arXiv:1603.07285",
    )


def _word(
    name: str, n: int, padding: str, weight: Tensor, stride: Any, dilation: Any
) -> tuple[int, ...]:
    """The numbers behind a padding that is given as a word."""
    if padding == "valid":
        return (0,)
    if padding != "same":
        fail(
            "padding", f"{padding!r} is not a Padding; choose one of 'valid', 'same', or give sizes"
        )
    strides = each(name, "stride", stride, n, 1)
    steps = each(name, "dilation", dilation, n, 1)
    if weight.ndim != n + 2:
        return (0,)  # the rule says what is wrong with it
    pads = [same_pads(name, weight.shape[1 + i], strides[i], steps[i]) for i in range(n)]
    return (*(pad[0] for pad in pads), *(pad[1] for pad in pads))


def _transposed(n: int) -> Record:
    name = f"conv_transpose{n}d"

    def infer(
        input: Meta,
        weight: Meta,
        bias: Meta | None,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: int,
        dilation: Any,
    ) -> Meta:
        sizes = spatial(name, input, n)
        _, made = _check(name, n, input, weight, bias, groups, True)
        strides = each(name, "stride", stride, n, 1)
        steps = each(name, "dilation", dilation, n, 1)
        pads = _pads(name, n, padding)
        extra = each(name, "output_padding", output_padding, n, 0)
        result = []
        for i, (size, kernel) in enumerate(zip(sizes, weight.shape[1:-1], strict=True)):
            if extra[i] >= max(strides[i], steps[i]):
                fail(
                    name,
                    f"output_padding {list(extra)} must be smaller than stride {list(strides)} or "
                    f"dilation {list(steps)}",
                )
            reach = steps[i] * (kernel - 1) + 1
            made_size = (size - 1) * strides[i] + (reach + extra[i] - sum(pads[i]))
            if type(made_size) is int and made_size < 1:
                fail(name, f"padding {list(pads[i])} leaves nothing of the result: {made_size}")
            result.append(made_size)
        return Meta(replaced(input, result, made), input.dtype)

    return op(
        name,
        doc=f"""
        Transposed convolution: each input[n, p, c] adds weight[c, k, o] times itself to result[n,
        p * stride - padding + k * dilation, o], for the channels o of c's group; bias [O] on top.

        input [N, {_SIZES[n]}, C] or [{_SIZES[n]}, C], weight [C, K..., O / groups]. A size L
        becomes (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1. `padding`
        may also be two numbers for each spatial dim, all those before first, then those after.
        Floats are summed in float32 (float64 in its own precision), integers wrap around.
        """,
        args=[
            tensor("input", NUMBERS),
            tensor("weight", NUMBERS),
            tensor("bias", NUMBERS, optional=True),
            static("stride", "ints", 1),
            static("padding", "ints", 0),
            static("output_padding", "ints", 0),
            static("groups", "int", 1),
            static("dilation", "ints", 1),
        ],
        infer=infer,
        method=False,
        source="Dumoulin and Visin, A guide to convolution arithmetic, arXiv:1603.07285",
    )


for _n in (1, 2, 3):
    _convolution(_n)
    _transposed(_n)
