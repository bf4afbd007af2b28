"""Pooling over 1, 2 and 3 spatial dims, channels last: maxima, means and power means of windows,
windows that adapt to the size of the result, and the inverse of max pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes
from ._promotion import FLOATS, INDEX, NUMBERS
from ._shapes import fail, known, same, text
from ._windows import LIMIT, each, needs_elements, replaced, slid, spatial
from .record import Meta, op, scalar, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._native._core import Tensor

_SIZES = {1: "L", 2: "H, W", 3: "D, H, W"}
_LAYOUT = "input [N, {sizes}, C] or [{sizes}, C]."
_INDICES = (
    "With `return_indices` the result is a pair with the int64 position of each maximum, counted "
    "over the spatial dims row by row; among equals the first wins."
)


def _windows(
    name: str,
    n: int,
    input: Meta,
    kernel_size: Any,
    stride: Any,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Any, ...]:
    """The shape of the result of a sliding window."""
    sizes = spatial(name, input, n)
    needs_elements(name, input, sizes)
    kernels = each(name, "kernel_size", kernel_size, n, 1)
    # An empty stride is the kernel's size, as None is.
    strides = kernels if not stride else each(name, "stride", stride, n, 1)
    steps = each(name, "dilation", dilation, n, 1)
    pads = each(name, "padding", padding, n, 0)
    for pad, kernel, step in zip(pads, kernels, steps, strict=True):
        if 2 * pad > step * (kernel - 1) + 1:
            fail(
                name,
                f"padding {list(pads)} must be at most half of kernel_size {list(kernels)}, so "
                "that no window lies outside of the input",
            )
    result = [
        slid(
            name,
            size,
            kernels[i],
            strides[i],
            2 * pads[i],
            steps[i],
            ceil=ceil_mode,
            before=pads[i],
        )
        for i, size in enumerate(sizes)
    ]
    if any(type(size) is int and size < 1 for size in result):
        fail(name, f"input {text(input.shape)} is smaller than a window of {list(kernels)}")
    return replaced(input, result, input.shape[-1])


def _pair(shape: tuple[Any, ...], dtype: Any, return_indices: bool) -> Any:
    values = Meta(shape, dtype)
    return (values, Meta(shape, dtypes.int64)) if return_indices else values


def _max_front(call: Callable[..., Any]) -> Callable[..., Any]:
    """The result is a tensor or a pair, which no annotation but this can say."""

    def max_pool(
        input: Tensor,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return call(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    return max_pool


def _max_pool(n: int) -> None:
    name = f"max_pool{n}d"

    def infer(
        input: Meta,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        return_indices: bool,
    ) -> Any:
        shape = _windows(name, n, input, kernel_size, stride, padding, dilation, ceil_mode)
        return _pair(shape, input.dtype, return_indices)

    op(
        name,
        doc=f"""
        Max pooling: the largest value of each window, channel by channel; NaN if there is one.

        {_LAYOUT.format(sizes=_SIZES[n])} `stride` is the kernel's size unless given. Padding counts
        as less than every number. `ceil_mode` adds a last window that reaches over the end.
        {_INDICES}
        """,
        args=[
            tensor("input", NUMBERS),
            static("kernel_size", "ints"),
            static("stride", "ints", None),
            static("padding", "ints", 0),
            static("dilation", "ints", 1),
            static("ceil_mode", "bool", False),
            static("return_indices", "bool", False),
        ],
        infer=infer,
        front=_max_front,
        outputs=0,
        method=False,
    )


def _avg_pool(n: int) -> None:
    name = f"avg_pool{n}d"

    def infer(
        input: Meta,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> Meta:
        if divisor_override == 0:
            fail(name, "divisor_override must not be 0")
        shape = _windows(name, n, input, kernel_size, stride, padding, 1, ceil_mode)
        return Meta(shape, input.dtype)

    args = [
        tensor("input", NUMBERS),
        static("kernel_size", "ints"),
        static("stride", "ints", None),
        static("padding", "ints", 0),
        static("ceil_mode", "bool", False),
        static("count_include_pad", "bool", True),
    ]
    if n > 1:
        args.append(static("divisor_override", "int", None))
    op(
        name,
        doc=f"""
        Average pooling: the sum of each window over its size, channel by channel.

        {_LAYOUT.format(sizes=_SIZES[n])} `stride` is the kernel's size unless given. The divisor
        counts padding unless `count_include_pad` is False, but never what lies beyond it
        (`ceil_mode`); `divisor_override` stands for it. Integers are divided towards zero.
        """,
        args=args,
        infer=infer,
        method=False,
    )


def _lp_pool(n: int) -> None:
    name = f"lp_pool{n}d"

    def infer(input: Meta, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool) -> Meta:
        return Meta(_windows(name, n, input, kernel_size, stride, ceil_mode=ceil_mode), input.dtype)

    op(
        name,
        doc=f"""
        Power-average pooling: (sum over each window of x^p)^(1/p) with p = norm_type, channel by
        channel.

        {_LAYOUT.format(sizes=_SIZES[n])} `stride` is the kernel's size unless given. With
        `ceil_mode` the sum of a window that reaches over the end is scaled to a whole window.
        """,
        args=[
            tensor("input", FLOATS),
            scalar("norm_type", "float"),
            static("kernel_size", "ints"),
            static("stride", "ints", None),
            static("ceil_mode", "bool", False),
        ],
        infer=infer,
        method=False,
    )


def _adaptive(name: str, n: int, input: Meta, output_size: tuple[int, ...]) -> tuple[Any, ...]:
    sizes = spatial(name, input, n)
    wanted = each(name, "output_size", output_size, n, -1)
    needs_elements(name, input, sizes, channels=False)
    result = [size if size >= 0 else sizes[i] for i, size in enumerate(wanted)]
    return replaced(input, result, input.shape[-1])


def _kept(call: Callable[..., Any]) -> Callable[..., Any]:
    """None in an output size, which keeps the size of the input, becomes -1."""

    def adaptive_avg_pool(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
        return call(input, _numbers(output_size))

    return adaptive_avg_pool


def _kept_max(call: Callable[..., Any]) -> Callable[..., Any]:
    def adaptive_max_pool(
        input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False
    ) -> Any:
        return call(input, _numbers(output_size), return_indices)

    return adaptive_max_pool


def _numbers(output_size: Any) -> Any:
    if output_size is None:
        return -1
    if isinstance(output_size, (list, tuple)):
        return tuple(-1 if size is None else size for size in output_size)
    return output_size


def _adaptive_pools(n: int) -> None:
    average, maximum = f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"
    bounds = (
        "Window i of an output size O over an input size L runs from floor(i * L / O) to "
        "ceil((i + 1) * L / O). A None in `output_size` keeps the size of the input."
    )

    def infer_average(input: Meta, output_size: Any) -> Meta:
        return Meta(_adaptive(average, n, input, output_size), input.dtype)

    def infer_maximum(input: Meta, output_size: Any, return_indices: bool) -> Any:
        return _pair(_adaptive(maximum, n, input, output_size), input.dtype, return_indices)

    size = static("output_size", "ints")
    op(
        average,
        doc=f"""
        Adaptive average pooling: the means of windows that make the result of a given size.

        {_LAYOUT.format(sizes=_SIZES[n])} {bounds}
        """,
        args=[tensor("input", FLOATS), size],
        infer=infer_average,
        front=_kept,
        method=False,
    )
    op(
        maximum,
        doc=f"""
        Adaptive max pooling: the maxima of windows that make the result of a given size.

        {_LAYOUT.format(sizes=_SIZES[n])} {bounds} {_INDICES}
        """,
        args=[tensor("input", NUMBERS), size, static("return_indices", "bool", False)],
        infer=infer_maximum,
        front=_kept_max,
        outputs=0,
        method=False,
    )


def _max_unpool(n: int) -> None:
    name = f"max_unpool{n}d"

    def infer(
        input: Meta,
        indices: Meta,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_size: tuple[int, ...] | None,
    ) -> Meta:
        sizes = spatial(name, input, n)
        if indices.ndim != input.ndim or not all(map(same, indices.shape, input.shape)):
            fail(
                name,
                f"indices {text(indices.shape)} must have the shape of input {text(input.shape)}",
            )
        kernels = each(name, "kernel_size", kernel_size, n, 1)
        strides = kernels if not stride else each(name, "stride", stride, n, 1)
        pads = each(name, "padding", padding, n, 0)
        usual = [
            (size - 1) * strides[i] + (kernels[i] - 2 * pads[i]) for i, size in enumerate(sizes)
        ]
        if output_size is None:
            result: Sequence[Any] = usual
        else:
            result = output_size
            if len(output_size) == input.ndim:
                result = output_size[-n - 1 : -1]
            if len(result) != n:
                fail(name, f"output_size {list(output_size)} must be the {n} spatial sizes")
            for i, size in enumerate(result):
                low, high = usual[i] - strides[i], usual[i] + strides[i]
                if type(low) is int and not low < size < high:
                    fail(
                        name,
                        f"output_size {list(result)}: dim {i} must be between {low + 1} and "
                        f"{high - 1}",
                    )
        if any(type(size) is int and not 1 <= size <= LIMIT for size in result):
            fail(name, f"the result would have the spatial sizes {text(result)}")
        if any(known(size, 0) for size in sizes):
            fail(name, f"input {text(input.shape)} is empty in a spatial dim")
        return Meta(replaced(input, result, input.shape[-1]), input.dtype)

    op(
        name,
        doc=f"""
        Inverse of max pooling: the values of input go to their positions `indices` of the result,
        channel by channel; the rest is 0.

        {_LAYOUT.format(sizes=_SIZES[n])} indices are those of `max_pool{n}d` with `return_indices`.
        The size is (L - 1) * stride - 2 * padding + kernel_size, or `output_size` (the spatial
        sizes, or the whole shape), which may differ from it by less than a stride. Of several
        values for one position the last stays. An index outside the result is an error.
        """,
        args=[
            tensor("input", NUMBERS),
            tensor("indices", INDEX),
            static("kernel_size", "ints"),
            static("stride", "ints", None),
            static("padding", "ints", 0),
            static("output_size", "ints", None),
        ],
        infer=infer,
        method=False,
    )


for _n in (1, 2, 3):
    _max_pool(_n)
    _avg_pool(_n)
    _lp_pool(_n)
    _adaptive_pools(_n)
    _max_unpool(_n)
