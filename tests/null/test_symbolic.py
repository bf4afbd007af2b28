"""Shape rules over symbolic sizes."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime import dtypes
from clika_runtime._native._core import GraphRecorder
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.ops import record
from clika_runtime.ops.record import Meta, View


@pytest.fixture
def recorder() -> Any:
    return GraphRecorder()


@pytest.fixture
def tokens(recorder: Any) -> Any:
    return recorder.symbol("tokens", 1, 4096)


def t(*shape: Any, dtype: str = "float32", strides: Any = None) -> Meta:
    return Meta(shape, dtypes.by_name(dtype), strides=strides)


def infer(name: str, *args: Any) -> Any:
    return record(name).infer(*args)


def test_heads_are_split_and_joined(tokens: Any) -> None:
    split = infer("reshape", t(tokens, 576), (tokens, 9, 64))
    assert split == View((tokens, 9, 64), (576, 64, 1))
    assert infer("reshape", t(tokens, 576), (-1, 9, 64)).shape == (tokens, 9, 64)
    assert infer("reshape", t(tokens, 576), (tokens, -1, 64)).shape == (tokens, 9, 64)
    assert infer("reshape", t(tokens, 9, 64), (tokens, 576)).shape == (tokens, 576)
    assert infer("reshape", t(tokens, 9, 64), (tokens, -1)).shape == (tokens, 576)


def test_products_of_symbols(recorder: Any, tokens: Any) -> None:
    batch = recorder.symbol("batch", 1, 64)
    flat = infer("flatten", t(batch, tokens, 8), 0, 1)
    assert flat.shape == (batch * tokens, 8) and flat.strides == (8, 1)
    back = infer("reshape", t(*flat.shape), (batch, tokens, 8))
    assert back.shape == (batch, tokens, 8)
    assert infer("reshape", t(batch * tokens, 8), (batch, -1, 8)).shape[1:] == (tokens, 8)
    assert infer("reshape", t(tokens * 9, 64), (tokens, 9, 64)).shape == (tokens, 9, 64)
    assert infer("reshape", t(tokens, 4), (-1, 2)).shape == (tokens * 2, 2)


def test_wrong_counts_are_refused(tokens: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="reshape: cannot view"):
        infer("reshape", t(tokens, 576), (tokens, 9, 60))


def test_strided_views_of_symbolic_rows(tokens: Any) -> None:
    """A third of a fused projection: rows stay 960 apart."""
    part = infer("narrow", t(tokens, 960), -1, 576, 192)
    assert part == View((tokens, 192), (960, 1), 576)
    seen = t(tokens, 192, strides=part.strides)
    assert infer("reshape", seen, (tokens, 3, 64)) == View((tokens, 3, 64), (960, 64, 1))
    assert isinstance(infer("reshape", seen, (tokens * 3, 64)), Meta)
    turned = infer("permute", t(tokens, 9, 64), (1, 0, 2))
    assert turned == View((9, tokens, 64), (64, 576, 1))


def test_elementwise_broadcasting(recorder: Any, tokens: Any) -> None:
    assert infer("add", t(tokens, 64), t(64), None).shape == (tokens, 64)
    assert infer("mul", t(tokens, 1), t(tokens, 64)).shape == (tokens, 64)
    assert infer("where", t(tokens, 1, dtype="bool"), t(1, 4), t()).shape == (tokens, 4)
    other = recorder.symbol("other", 1, 8)
    for size in (other, tokens + 1, 5):
        with pytest.raises(InvalidArgumentError, match="add: cannot broadcast"):
            infer("add", t(tokens, 4), t(size, 4), None)


def test_joins_and_selections(recorder: Any, tokens: Any) -> None:
    rows = recorder.symbol("rows", 1, 64)
    assert infer("cat", [t(tokens, 4), t(3, 4), t(rows, 4)], 0).shape == (tokens + 3 + rows, 4)
    assert infer("index_select", t(tokens, 64), 0, t(rows, dtype="int32")).shape == (rows, 64)
    assert infer("select", t(tokens, 4), 0, -1) == View((4,), (1,), (tokens - 1) * 4)
    assert infer("narrow", t(tokens, 4), 0, 1, tokens - 1).shape == (tokens - 1, 4)
    assert infer("expand", t(1, 4), (tokens, -1)) == View((tokens, 4), (0, 1))
    assert infer("stack", [t(tokens), t(tokens)], 1).shape == (tokens, 2)


def test_reductions_and_factories(tokens: Any) -> None:
    assert infer("sum", t(tokens, 4), (0,), True, None).shape == (1, 4)
    assert infer("argmax", t(tokens, 4), -1, False, None).shape == (tokens,)
    assert infer("softmax", t(tokens, 4), -1, None).shape == (tokens, 4)
    assert infer("zeros", (tokens, 4), None, None).shape == (tokens, 4)
    assert infer("arange", tokens, None, 1, None, None).shape == (tokens,)


def test_model_operators(recorder: Any, tokens: Any) -> None:
    batch = recorder.symbol("batch", 1, 64)
    assert infer("linear", t(tokens, 64), t(128, 64), None, "exact").shape == (tokens, 128)
    assert infer("embedding", t(100, 64), t(tokens, dtype="int64"), None).shape == (tokens, 64)
    assert infer("matmul", t(batch, tokens, 8), t(8, 4)).shape == (batch, tokens, 4)
    heads = t(tokens, 4, 16)
    positions = t(tokens, dtype="int32")
    assert infer("rotary", heads, positions, t(8), False, None).shape == (tokens, 4, 16)
    pool = t(50, 16, 2, 16)
    assert infer("kv_append", pool, t(tokens, 2, 16), positions).shape == (50, 16, 2, 16)
    seen = infer(
        "paged_attention",
        heads,
        pool,
        pool,
        t(batch, 9, dtype="int32"),
        t(batch + 1, dtype="int32"),
        t(batch, dtype="int32"),
        None,
        True,
        0,
        "exact",
        None,
        None,
    )
    assert seen.shape == (tokens, 4, 16)
    with pytest.raises(InvalidArgumentError, match="must have one shape"):
        infer("swiglu", t(tokens, 8), t(batch, 8))
