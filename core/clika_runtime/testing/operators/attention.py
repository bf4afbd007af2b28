"""References and cases of attention, packed sequences, bags of embeddings and bilinear maps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array

_FLOATS = ("float32", "bfloat16", "float16", "float64")


def _attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Any,
    _: float,
    causal: bool,
    scale: float | None,
    grouped: bool,
    softcap: float,
) -> Array:
    if grouped:
        k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    s = (q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    if s.shape[-1] == 0:
        return np.zeros(
            (*np.broadcast_shapes(s.shape[:-2], v.shape[:-2]), s.shape[-2], v.shape[-1])
        )
    top = s.max(-1, keepdims=True)
    weights = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    return np.where(total == 0, 0, weights / np.where(total == 0, 1, total)) @ v


def _attention_cases(make: Make) -> None:
    def case(name: str, q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False,
             scale: Any = None, grouped: bool = False, softcap: float = 0.0) -> None:  # fmt: skip
        make.case(name, q, k, v, mask, 0.0, causal, scale, grouped, softcap)

    def three(
        dtype: str = "float32", length: int = 7, positions: int = 9, heads: int = 2
    ) -> tuple[Any, Any, Any]:
        return (
            make.normal((2, heads, length, 16), dtype),
            make.normal((2, heads, positions, 16), dtype),
            make.normal((2, heads, positions, 16), dtype),
        )

    for dtype in _FLOATS:
        case(dtype, *three(dtype))
        case(f"{dtype}-causal", *three(dtype), causal=True)
        case(f"{dtype}-mask", *three(dtype), make.normal((7, 9), dtype))
    case("long", *three(length=100, positions=150))
    case("long-causal", *three(length=150, positions=150), causal=True)
    case("long-mask", *three(length=60, positions=150), make.normal((2, 1, 60, 150), "bool"))
    case("bool-mask", *three(), make.normal((2, 1, 7, 9), "bool"))
    case("row-mask", *three(), make.normal((9,)))
    case("column-mask", *three(), make.normal((7, 1)))
    case("double-mask", *three(), make.normal((7, 9), "float64"))
    none = make.operand(np.zeros((7, 9)), "bool")
    case("all-masked", *three(), none)
    case("scale", *three(), scale=0.5)
    case("softcap", *three(), scale=2.0, softcap=1.5)
    k, v = make.normal((2, 2, 9, 16)), make.normal((2, 2, 9, 16))
    case("groups", make.normal((2, 6, 7, 16)), k, v, grouped=True)
    case(
        "broadcast", make.normal((4, 7, 16)), make.normal((2, 1, 9, 16)), make.normal((1, 4, 9, 16))
    )
    case("matrix", make.normal((7, 16)), make.normal((9, 16)), make.normal((9, 16)))
    case("odd-sizes", make.normal((3, 7, 5)), make.normal((3, 9, 5)), make.normal((3, 9, 11)))
    case(
        "views",
        make.normal((3, 7, 16), "float32", "transposed"),
        make.normal((3, 7, 16), "float32", "stepped"),
        make.normal((3, 7, 16), "float32", "offset"),
    )
    case("no-queries", make.normal((2, 0, 8)), make.normal((2, 3, 8)), make.normal((2, 3, 8)))
    case("no-keys", make.normal((2, 3, 8)), make.normal((2, 0, 8)), make.normal((2, 0, 8)))


operator(
    "scaled_dot_product_attention",
    _attention,
    _attention_cases,
    float32=(8, 16),
    narrow=(1, 1),
    example=(
        "q, k = crt.tensor([[1.0, 0.0]]), crt.tensor([[1.0, 0.0], [0.0, 1.0]])\n"
        "crt.scaled_dot_product_attention(q, k, k)"
    ),
)


# ---------------------------------------------------------------- packed sequences
def _slots(cu_q: Array, cu_k: Array, table: Array, _: int, page: int) -> tuple[Array, Array]:
    positions, slots = [], []
    for b, blocks in enumerate(table):
        fresh, total = cu_q[b + 1] - cu_q[b], cu_k[b + 1] - cu_k[b]
        for p in range(total - fresh, total):
            positions.append(p)
            slots.append(blocks[p // page] * page + p % page)
    return np.asarray(positions, int), np.asarray(slots, int)


def _slots_cases(make: Make) -> None:
    def ints(values: Any) -> Any:
        return make.operand(np.asarray(values, np.int64), "int32")

    make.case("decode", ints([0, 1, 2]), ints([0, 5, 7]), ints([[3], [1]]), 2, 8)
    make.case("prefill", ints([0, 4, 6]), ints([0, 4, 9]), ints([[3, -1], [0, 2]]), 6, 4)
    make.case("singles", ints([0, 3]), ints([0, 3]), ints([[5, 7, 2]]), 3, 1)
    make.case("nothing", ints([0, 0]), ints([0, 3]), ints([[1]]), 0, 4)
    make.case("no-batch", ints([0]), ints([0]), make.operand(np.zeros((0, 2)), "int32"), 0, 4)


operator(
    "packed_slots",
    _slots,
    _slots_cases,
    example=(
        "ends = crt.tensor([0, 2]).to(crt.int32)\n"
        "crt.packed_slots(ends, crt.tensor([0, 5]).to(crt.int32), "
        "crt.tensor([[7, 3]]).to(crt.int32), 2, 4)"
    ),
)


def _rotary(x: Array, cos: Array, sin: Array, positions: Any, mode: str) -> Array:
    r = cos.shape[1]
    rows = np.arange(len(x)) if positions is None else positions
    c, s = cos[rows][:, None], sin[rows][:, None]
    turned = x[..., : 2 * r]
    a, b = (turned[..., ::2], turned[..., 1::2]) if mode == "gptj" else np.split(turned, 2, -1)
    first, second = a * c - b * s, b * c + a * s
    if mode == "gptj":
        both = np.stack([first, second], -1).reshape(turned.shape)
    else:
        both = np.concatenate([first, second], -1)
    return np.concatenate([both, x[..., 2 * r :]], -1)


def _rotary_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        for mode in ("neox", "gptj"):
            table = make.uniform(-1, 1, (9, 16)), make.uniform(-1, 1, (9, 16))
            x = make.normal((4, 3, 32), dtype)
            make.case(f"{dtype}-{mode}", x, *table, make.integers(0, 9, (4,)), mode)
    table = make.uniform(-1, 1, (9, 5), "bfloat16"), make.uniform(-1, 1, (9, 5), "bfloat16")
    make.case("partial", make.normal((4, 3, 12)), *table, make.integers(0, 9, (4,), "int32"))
    make.case("in-order", make.normal((9, 2, 10)), *table, None)
    make.case("views", make.normal((9, 2, 10), "float32", "transposed"), *table, None)
    make.case("empty", make.normal((0, 2, 10)), *table, make.integers(0, 9, (0,)))


operator(
    "rotary_embedding",
    _rotary,
    _rotary_cases,
    float32=(2, 4),
    narrow=(1, 0.01),
    example=(
        "cos, sin = crt.tensor([[1.0], [0.0]]), crt.tensor([[0.0], [1.0]])\n"
        "crt.rotary_embedding(crt.tensor([[[1.0, 0.0]]]), cos, sin, crt.tensor([1]))"
    ),
)


# ---------------------------------------------------------------- bags and bilinear maps
def _bag(
    weight: Array,
    ids: Array,
    offsets: Any,
    scales: Any,
    mode: str,
    last: bool,
    padding: int | None,
) -> Array:
    if ids.ndim == 2:
        ends = np.arange(len(ids) + 1) * ids.shape[1]
    else:
        ends = np.asarray(offsets) if last else np.append(offsets, len(ids))
    flat = ids.ravel()
    factors = np.ones(len(flat)) if scales is None else scales.ravel()
    skipped = None if padding is None else padding % len(weight)
    result = np.zeros((len(ends) - 1, weight.shape[1]))
    for b in range(len(result)):
        kept = [i for i in range(ends[b], ends[b + 1]) if flat[i] != skipped]
        if not kept:
            continue
        rows = weight[flat[kept]] * factors[kept][:, None]
        fold: Any = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
        result[b] = fold(rows, 0)
    return result


def _bag_cases(make: Make) -> None:
    for mode in ("sum", "mean", "max"):
        for dtype in _FLOATS:
            weight = make.normal((9, 5), dtype)
            make.case(f"{dtype}-{mode}", weight, make.integers(0, 9, (3, 4)), None, None, mode)
        weight, ids = make.normal((9, 300)), make.integers(0, 9, (7,), "int32")
        offsets = make.operand([0, 3, 3, 5], "int64")
        make.case(f"{mode}-offsets", weight, ids, offsets, None, mode)
        make.case(f"{mode}-last", weight, ids, make.operand([0, 3, 7], "int32"), None, mode, True)
        ids = make.operand([[1, 2, 2], [2, 2, 2]], "int64")
        make.case(f"{mode}-padding", weight, ids, None, None, mode, False, 2)
        make.case(f"{mode}-negative-padding", weight, ids, None, None, mode, False, -7)
    scales = make.normal((3, 4))
    make.case("scaled", make.normal((9, 5)), make.integers(0, 9, (3, 4)), None, scales, "sum")
    make.case("empty", make.normal((9, 5)), make.integers(0, 9, (0, 4)))


operator(
    "embedding_bag",
    _bag,
    _bag_cases,
    float32=(2, 4),
    narrow=(1, 0.01),
    example=(
        "weight = crt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])\n"
        "crt.embedding_bag(weight, crt.tensor([0, 2, 1]), crt.tensor([0, 2]))"
    ),
)


def _bilinear(x: Array, y: Array, weight: Array, bias: Any) -> Array:
    result = np.einsum("...a,oab,...b->...o", x, weight, y)
    return result if bias is None else result + bias


def _bilinear_size(x: Array, y: Array, weight: Array, bias: Any) -> Array:
    return _bilinear(np.abs(x), np.abs(y), np.abs(weight), None if bias is None else np.abs(bias))


def _bilinear_cases(make: Make) -> None:
    for dtype in (*_FLOATS, "int64", "int32"):
        x, y = make.normal((2, 3, 4), dtype), make.normal((2, 3, 5), dtype)
        make.case(dtype, x, y, make.normal((7, 4, 5), dtype), make.normal((7,), dtype))
    make.case("no-bias", make.normal((3, 4)), make.normal((3, 5)), make.normal((2, 4, 5)))
    make.case("vectors", make.normal((4,)), make.normal((5,)), make.normal((2, 4, 5)))
    make.case("empty", make.normal((0, 4)), make.normal((0, 5)), make.normal((2, 4, 5)))
    x = make.normal((3, 4), "float32", "transposed")
    make.case("views", x, make.normal((3, 5), "float32", "stepped"), make.normal((2, 4, 5)))


operator(
    "bilinear",
    _bilinear,
    _bilinear_cases,
    float32=(2, 16),
    narrow=(1, 0.01),
    magnitude=_bilinear_size,
    example="crt.bilinear(crt.tensor([1.0, 2.0]), crt.tensor([3.0]), crt.ones(1, 2, 1))",
)
