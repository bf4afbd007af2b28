"""Norms, rotary positions, gated activations, the cache and attention over it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kit import Make, Operand, operator
from .._numpy import Array, q8_0_rows, q8_0_values

_KINDS = ("float32", "bfloat16")


def _over(normalized_shape: Any) -> tuple[int, ...]:
    """The dims that a norm goes over."""
    n = len(normalized_shape) if isinstance(normalized_shape, tuple) else 1
    return tuple(range(-n, 0))


def _rms_norm(x: Array, shape: Any, weight: Any, eps: float | None, offset: float) -> Array:
    mean = np.mean(np.square(x), _over(shape), keepdims=True)
    scaled = x / np.sqrt(mean + (2.0**-23 if eps is None else eps))
    return scaled if weight is None else scaled * (offset + weight)


def _rms_norm_cases(make: Make) -> None:
    for dtype in _KINDS:
        x = make.normal((5, 67), dtype, scale=2)
        make.case(dtype, x, 67, make.uniform(0.5, 1.5, (67,), dtype), 1e-6)
        make.case(f"{dtype}-plain", x, (67,), None, 1e-5)
        make.case(f"{dtype}-offset", x, 67, make.normal((67,), scale=0.2), 1e-6, 1.0)
        heads = make.normal((3, 4, 16), dtype)
        make.case(f"{dtype}-heads", heads, 16, make.normal((16,)), 1e-6)
        make.case(f"{dtype}-dims", heads, (4, 16), make.normal((4, 16)), 1e-6)
    make.case("f32-weight", make.normal((2, 33), "bfloat16"), 33, make.uniform(0.5, 1.5, (33,)))
    make.case("small", make.normal((2, 32), scale=1e-4), 32, make.normal((32,)), 1e-5)
    make.case("strided", make.normal((9, 8), "float32", "transposed"), 8, make.normal((8,)))
    turned = make.normal((3, 4, 5), "float32", "transposed")
    make.case("strided-dims", turned, (4, 5), make.normal((4, 5), "float32", "transposed"))
    make.case("whole", make.normal((3, 4), "float32", "stepped"), (3, 4))
    make.case("row", make.normal((48,)), 48, make.normal((48,)))
    make.case("empty", make.normal((0, 16)), 16, make.normal((16,)))


operator("rms_norm", _rms_norm, _rms_norm_cases, float32=(16, 0), narrow=(1, 0))


def _add_rms_norm(
    x: Array,
    residual: Array,
    input_bias: Any,
    residual_bias: Any,
    shape: Any,
    offset: float | None,
    weight: Any,
    bias: Any,
    eps: float,
) -> Any:
    total = x + residual
    for other in (input_bias, residual_bias):
        total = total if other is None else total + other
    normed = _rms_norm(total, shape, weight, eps, offset or 0.0)
    return normed if bias is None else normed + bias, total


def _add_rms_norm_cases(make: Make) -> None:
    for dtype in _KINDS:
        x, residual = make.normal((5, 67), dtype), make.normal((5, 67), dtype)
        weight = make.uniform(0.5, 1.5, (67,), dtype)
        make.case(dtype, x, residual, None, None, (67,), None, weight)
        small = make.normal((67,), scale=0.2)
        make.case(f"{dtype}-offset", x, residual, None, None, None, 1.0, small)
        rows = [make.normal((67,), dtype) for _ in range(3)]
        make.case(f"{dtype}-biases", x, residual, *rows[:2], 67, 0.0, weight, rows[2], 1e-5)
    x, residual = make.normal((3, 4, 32)), make.normal((3, 4, 32))
    make.case("plain", x, residual, None, None, None, None, None, None, 1e-5)
    make.case("dims", x, residual, None, None, (4, 32), None, make.normal((4, 32)))
    make.case(
        "strided",
        make.normal((9, 8), "float32", "transposed"),
        make.normal((9, 8)),
        *(None, None, 8, None),
        make.normal((8,)),
    )
    empty = make.normal((0, 16)), make.normal((0, 16))
    make.case("empty", *empty, None, None, 16, None, make.normal((16,)))


operator("add_rms_norm", _add_rms_norm, _add_rms_norm_cases, float32=(16, 1), narrow=(2, 1))


def _layer_norm(x: Array, shape: Any, weight: Any, bias: Any, eps: float) -> Array:
    over = _over(shape)
    centered = x - np.mean(x, over, keepdims=True)
    result = centered / np.sqrt(np.mean(np.square(centered), over, keepdims=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _layer_norm_cases(make: Make) -> None:
    for dtype in _KINDS:
        x = make.normal((5, 67), dtype, scale=2)
        weight, bias = make.uniform(0.5, 1.5, (67,), dtype), make.normal((67,), dtype)
        make.case(dtype, x, 67, weight, bias)
        make.case(f"{dtype}-plain", x, (67,), None, None, 1e-6)
        make.case(f"{dtype}-weight", x, 67, weight)
        dims = make.normal((2, 3, 4), dtype)
        make.case(f"{dtype}-dims", dims, (3, 4), make.normal((3, 4)), make.normal((3, 4)))
    far = make.uniform(9, 11, (3, 64))
    make.case("shifted", far, 64, make.normal((64,)), make.normal((64,)))
    make.case("strided", make.normal((9, 8), "float32", "transposed"), 8, make.normal((8,)))
    turned = make.normal((3, 4, 5), "float32", "transposed")
    make.case("strided-dims", turned, (4, 5), make.normal((4, 5), "float32", "stepped"))
    make.case("empty", make.normal((0, 16)), 16, make.normal((16,)))


operator("layer_norm", _layer_norm, _layer_norm_cases, float32=(16, 32), narrow=(1, 0.5))


def _rotary(x: Array, positions: Array, inv_freq: Array, interleaved: bool, scale: float) -> Array:
    at = positions.astype(np.float64)
    if positions.ndim == 1:
        angles = at[:, None] * inv_freq
    else:
        angles = np.einsum("at,ar->tr", at, inv_freq)
    cos, sin = (scale * f(angles)[:, None, :] for f in (np.cos, np.sin))
    half = inv_freq.shape[-1]
    a = x[..., 0 : 2 * half : 2] if interleaved else x[..., :half]
    b = x[..., 1 : 2 * half : 2] if interleaved else x[..., half : 2 * half]
    first, second = a * cos - b * sin, b * cos + a * sin
    if interleaved:
        turned = np.stack([first, second], -1).reshape(*x.shape[:-1], 2 * half)
    else:
        turned = np.concatenate([first, second], -1)
    return np.concatenate([turned, x[..., 2 * half :]], -1)


def _rotary_cases(make: Make) -> None:
    table = make.operand(1e4 ** -(np.arange(8) / 8), "float32")
    positions = make.integers(0, 60, (5,), "int32")
    for dtype in _KINDS:
        x = make.normal((5, 3, 16), dtype)
        make.case(f"{dtype}-halves", x, positions, table)
        make.case(f"{dtype}-pairs", x, positions, table, True)
        make.case(f"{dtype}-partial", make.normal((5, 3, 24), dtype), positions, table)
    make.case("partial-pairs", make.normal((5, 3, 24)), positions, table, True)
    make.case("scale", make.normal((5, 2, 16)), positions, table, False, 1.25)
    # Far positions: the product of position and frequency is rounded to float32 before the sine.
    far = make.operand([4000, 8191, 2048], "int32")
    make.case("far", make.normal((3, 2, 16)), far, table, bound=(4, 4096))
    axes = make.integers(0, 30, (3, 5), "int32")
    rows = np.zeros((3, 8))
    rows[np.arange(8) % 3, np.arange(8)] = table.values
    make.case("axes", make.normal((5, 2, 16)), axes, make.operand(rows, "float32"))
    make.case("strided", make.normal((5, 3, 16), "float32", "transposed"), positions, table)
    make.case("empty", make.normal((0, 3, 16)), make.integers(0, 9, (0,), "int32"), table)


operator("rotary", _rotary, _rotary_cases, float32=(4, 32), narrow=(1, 0.5))


# ---------------------------------------------------------------- cache and attention
def _kv_append(pool: Array, value: Array, slots: Array) -> Array:
    result = pool.copy()
    size = pool.shape[1]
    if pool.dtype == np.uint8:  # rows of Q8_0
        value = q8_0_rows(value)
    for token, slot in zip(value, slots, strict=True):
        result[slot // size, slot % size] = token
    return result


def _kv_append_cases(make: Make) -> None:
    slots = make.operand([0, 5, 23, 11, 6], "int32")
    for dtype in _KINDS:
        make.case(dtype, make.normal((6, 4, 2, 8), dtype), make.normal((5, 2, 8), dtype), slots)
    make.case("one", make.normal((3, 1, 2, 4)), make.normal((1, 2, 4)), make.operand([2], "int32"))
    make.case("converted", make.normal((6, 4, 2, 8), "bfloat16"), make.normal((5, 2, 8)), slots)
    value = make.normal((5, 2, 8), "float32", "transposed")
    make.case("strided", make.normal((6, 4, 2, 8)), value, slots)
    for dtype in (*_KINDS, "float16"):
        rows = make.normal((5, 2, 64), dtype)
        bytes_of = make.integers(0, 256, (6, 4, 2, 68), "uint8")
        make.case(f"q8_0-{dtype}", bytes_of, rows, slots)
        pool = make.normal((6, 4, 2, 24), "float8_e4m3")
        make.case(f"fp8-{dtype}", pool, make.normal((5, 2, 24), dtype), slots, bound=(0, 0))
    # Every exponent, halves between two numbers, and what saturates.
    wide = make.operand(2.0 ** make.rng.uniform(-12, 11, (5, 2, 24)), "float32")
    make.case("fp8-wide", make.normal((6, 4, 2, 24), "float8_e4m3"), wide, slots, bound=(0, 0))
    odd = make.rng.normal(0, 1, (5, 2, 64))
    odd[0, 0, 3], odd[1, 1, 40], odd[2] = np.nan, np.inf, 0.0
    odd[3, 0], odd[4, 1, 0] = odd[3, 0] * 1e-7, 1e30
    pool = make.integers(0, 256, (6, 4, 2, 68), "uint8")
    make.case("q8_0-odd", pool, make.operand(odd, "float32"), slots)
    pool = make.normal((6, 4, 2, 64), "float8_e4m3")
    make.case("fp8-odd", pool, make.operand(odd, "float32"), slots, bound=(0, 0))
    value = make.normal((5, 2, 32), "float32", "transposed")
    make.case("q8_0-strided", make.integers(0, 256, (6, 4, 2, 34), "uint8"), value, slots)
    make.case("none", make.normal((3, 4, 1, 4)), make.normal((0, 1, 4)), make.operand([], "int32"))


operator("kv_append", _kv_append, _kv_append_cases, float32=(0, 0), narrow=(0.5, 0))


def _rotary_append(
    query: Array,
    key: Array,
    value: Array,
    positions: Array,
    inv_freq: Array,
    key_pool: Array,
    value_pool: Array,
    slots: Array,
    interleaved: bool,
    scale: float,
) -> tuple[Array, Array, Array]:
    turned, key = (_rotary(x, positions, inv_freq, interleaved, scale) for x in (query, key))
    return turned, _kv_append(key_pool, key, slots), _kv_append(value_pool, value, slots)


def _rotary_append_cases(make: Make) -> None:
    def case(
        name: str,
        dtype: str = "float32",
        *,
        tokens: int = 5,
        heads: tuple[int, int] = (4, 2),
        sizes: tuple[int, int] = (16, 16),
        turned: int = 16,
        pools: str = "",
        layout: str = "plain",
        interleaved: bool = False,
        scale: float = 1.0,
        axes: int = 0,
        bound: Any = None,
    ) -> None:
        half = turned // 2
        table = np.asarray(1e4 ** -(np.arange(half) / half))
        if axes:  # each pair has the frequency of one axis
            rows = np.zeros((axes, half))
            rows[np.arange(half) % axes, np.arange(half)] = table
            table = rows
        shape = (axes, tokens) if axes else (tokens,)
        q, k = (make.normal((tokens, h, sizes[0]), dtype, layout) for h in heads)
        keys, values = (make.normal((6, 4, heads[1], size), pools or dtype) for size in sizes)
        make.case(
            name,
            q,
            k,
            make.normal((tokens, heads[1], sizes[1]), dtype, layout),
            make.integers(0, 60, shape, "int32"),
            make.operand(table, "float32"),
            keys,
            values,
            make.operand(make.rng.permutation(24)[:tokens], "int32"),
            interleaved,
            scale,
            bound=bound,
        )

    for dtype in (*_KINDS, "float16"):
        case(f"{dtype}-halves", dtype)
        case(f"{dtype}-pairs", dtype, interleaved=True, scale=1.25)
        case(f"{dtype}-partial", dtype, sizes=(48, 32), turned=32)
        case(f"{dtype}-one", dtype, tokens=1, heads=(14, 2), sizes=(64, 64), turned=64)
        case(f"{dtype}-small", dtype, heads=(3, 1), sizes=(6, 10), turned=4)
        case(f"{dtype}-strided", dtype, layout="transposed")
        case(f"{dtype}-axes", dtype, axes=3)
    case("partial-pairs", sizes=(24, 8), turned=16, interleaved=True)
    case("narrow-pools", pools="bfloat16")
    # Keys are rounded to their own dtype before they are converted.
    case("wide-pools", "bfloat16", pools="float32", bound=(2**16, 2**15))
    case("many", "bfloat16", tokens=20, heads=(8, 8), sizes=(64, 64), turned=64)
    case("none", tokens=0)
    # At position 0 nothing is turned: codes are exact.
    slots = make.operand([0, 5, 23, 11, 6], "int32")
    nowhere = make.operand(np.zeros(5, np.int64), "int64")
    rows = [make.normal((5, h, 32)) for h in (4, 2, 2)]
    table = make.operand(1e4 ** -(np.arange(16) / 16), "float32")
    pools = [make.normal((6, 4, 2, 32), "float8_e4m3") for _ in range(2)]
    make.case("fp8", *rows, nowhere, table, *pools, slots, False, 1.0, bound=(0, 0))
    pools = [make.integers(0, 256, (6, 4, 2, 34), "uint8") for _ in range(2)]
    make.case("q8_0", *rows, nowhere, table, *pools, slots, False, 1.0, bound=(0, 0))


operator("rotary_append", _rotary_append, _rotary_append_cases, float32=(4, 32), narrow=(1, 0.5))


def _attention(
    query: Array,
    key_pool: Array,
    value_pool: Array,
    table: Array,
    cu_seqlens: Array,
    kv_lens: Array,
    sinks: Any,
    causal: bool,
    window: int,
    mode: str,
    scale: float,
    softcap: float,
) -> Array:
    heads, size = query.shape[1], key_pool.shape[1]
    group = heads // key_pool.shape[2]
    key_pool, value_pool = (
        q8_0_values(pool) if pool.dtype == np.uint8 else pool for pool in (key_pool, value_pool)
    )
    result = np.zeros((*query.shape[:2], value_pool.shape[3]))
    for b, length in enumerate(kv_lens):
        at = np.arange(length)
        keys, values = (pool[table[b, at // size], at % size] for pool in (key_pool, value_pool))
        for t in range(cu_seqlens[b], cu_seqlens[b + 1]):
            position = length - (cu_seqlens[b + 1] - t)
            seen = (at <= position) if causal else at >= 0
            if window:
                seen &= at > position - window
            for h in range(heads):
                scores = scale * (keys[seen, h // group] @ query[t, h])
                if softcap:
                    scores = softcap * np.tanh(scores / softcap)
                top = max(scores.max(initial=-math.inf), -math.inf if sinks is None else sinks[h])
                weights = np.exp(scores - top)
                total = weights.sum() + (0 if sinks is None else np.exp(sinks[h] - top))
                if total > 0:
                    result[t, h] = weights @ values[seen, h // group] / total
    return result


def _attention_cases(make: Make) -> None:
    def case(
        name: str,
        new: tuple[int, ...],
        lengths: tuple[int, ...],
        *,
        heads: tuple[int, int] = (4, 2),
        sizes: tuple[int, int] = (16, 16),
        block: int = 8,
        dtype: str = "float32",
        pool_dtype: str | None = None,
        sinks: bool = False,
        causal: bool = True,
        window: int = 0,
        mode: str = "exact",
        softcap: float = 0.0,
        sharp: float = 1.0,
    ) -> None:
        per = [-(-n // block) for n in lengths]
        blocks = sum(per) + 2
        order = make.rng.permutation(blocks)
        table = np.zeros((len(new), max(per)), np.int64)
        used = 0
        for b, n in enumerate(per):
            table[b, :n] = order[used : used + n]
            used += n
        kind = pool_dtype or dtype

        def pool(size: int) -> Operand:
            rows = make.normal((blocks, block, heads[1], size), "float32" if quantized else kind)
            return make.operand(q8_0_rows(rows.values), "uint8") if quantized else rows

        quantized = kind == "q8_0"
        make.case(
            name,
            make.normal((sum(new), heads[0], sizes[0]), dtype, scale=sharp),
            pool(sizes[0]),
            pool(sizes[1]),
            make.operand(table, "int32"),
            make.operand(np.cumsum([0, *new]), "int32"),
            make.operand(lengths, "int32"),
            make.normal((heads[0],)) if sinks else None,
            causal,
            window,
            mode,
            1 / math.sqrt(sizes[0]),
            softcap,
        )

    for dtype in _KINDS:
        case(f"{dtype}-decode", (1, 1, 1), (5, 17, 1), dtype=dtype)
        case(f"{dtype}-prefill", (9, 3), (9, 3), dtype=dtype)
        case(f"{dtype}-mixed", (1, 6, 2), (40, 6, 19), dtype=dtype)
    case("bf16-pool", (1, 4), (20, 4), pool_dtype="bfloat16")
    case("fast-float32", (3, 1), (30, 70), mode="fast")
    for dtype in ("bfloat16", "float16"):
        case(f"fast-{dtype}", (3, 1), (30, 70), dtype=dtype, mode="fast")
    case("long", (3,), (200,), block=16)
    case("border", (1, 1, 2), (64, 65, 128), block=16)
    case("one-head", (4,), (4,), heads=(1, 1))
    case("wide-group", (2, 1), (9, 12), heads=(9, 3), sizes=(64, 64))
    case("other-value", (3,), (11,), sizes=(16, 24))
    case("window", (5, 1), (30, 70), window=7)
    case("window-one", (4,), (9,), window=1)
    case("softcap", (3, 1), (9, 20), softcap=5.0, sharp=6.0)
    case("sinks", (3, 1), (9, 20), sinks=True)
    case("everything", (3, 1), (90, 20), sinks=True, window=13, softcap=8.0, sharp=4.0)
    case("not-causal", (4, 2), (10, 2), causal=False)
    case("sharp", (3,), (40,), sharp=8.0)
    case("no-tokens", (0, 2), (0, 6))
    for kind in ("q8_0", "float8_e4m3", "float16"):
        options: dict[str, Any] = {"pool_dtype": kind, "sizes": (64, 32)}
        case(f"{kind}-pool", (1, 4, 3), (20, 4, 90), block=16, **options)
        case(f"{kind}-bf16", (1, 4), (20, 4), dtype="bfloat16", **options)
        case(f"{kind}-window", (5, 1), (30, 70), window=7, **options)
        case(f"{kind}-softcap", (3, 1), (9, 20), softcap=5.0, sharp=6.0, **options)
        case(f"{kind}-sinks", (3, 1), (9, 20), sinks=True, **options)
        whole: dict[str, Any] = {"sinks": True, "window": 13, "softcap": 8.0, "sharp": 4.0}
        case(f"{kind}-everything", (3, 1), (90, 20), **whole, **options)
        case(f"{kind}-not-causal", (4, 2), (10, 2), causal=False, **options)
    case("fp8-odd-sizes", (3,), (40,), sizes=(20, 12), pool_dtype="float8_e4m3")


operator("paged_attention", _attention, _attention_cases, float32=(16, 32), narrow=(2, 1))
