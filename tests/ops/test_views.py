"""View rules against torch on random shapes and strides: when a view is possible, and which one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clika_runtime import dtypes, ops
from clika_runtime.ops import record
from clika_runtime.ops.record import Meta, View
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

torch = pytest.importorskip("torch")

CASES = [case for name in ops._GROUPS["views"].split() for case in cases(name)]


def oracle(name: str) -> Any:
    def call(torch: Any, x: Any, *args: Any) -> Any:
        if name == "slice":
            return torch.ops.aten.slice(x, *args)
        if name == "sliding_window":
            return x.unfold(*args)
        return getattr(x, name)(*args)

    return call


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle(case.op))


EXAMPLES = settings(max_examples=200, deadline=None, derandomize=True)


@st.composite
def strided(draw: Any) -> Any:
    """A torch tensor of some small shape behind some view operations."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=0, max_size=4))
    x = torch.arange(math.prod(shape)).reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        if x.ndim == 0:
            x = x.unsqueeze(0)
        kind = draw(st.sampled_from(["permute", "step", "narrow", "expand", "unsqueeze"]))
        at = draw(st.integers(0, x.ndim - 1))
        if kind == "permute":
            x = x.permute(draw(st.permutations(range(x.ndim))))
        elif kind == "step":
            x = x[(slice(None),) * at + (slice(None, None, 2),)]
        elif kind == "narrow" and x.shape[at] > 1:
            x = x.narrow(at, 1, x.shape[at] - 1)
        elif kind == "expand" and x.shape[at] == 1:
            x = x.expand(*(3 if d == at else -1 for d in range(x.ndim)))
        elif kind == "unsqueeze" and x.ndim < 6:
            x = x.unsqueeze(at)
    return x


@st.composite
def targets(draw: Any, count: int) -> list[int]:
    """A shape with that many elements."""
    shape = []
    while count > 1:
        factors = [n for n in range(2, count + 1) if count % n == 0]
        factor = draw(st.sampled_from(factors))
        shape.append(factor)
        count //= factor
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return shape


def meta(x: Any) -> Meta:
    return Meta(tuple(x.shape), dtypes.int64, strides=x.stride())


def same_view(x: Any, got: View, want: Any) -> None:
    """Equal elements at equal places; torch's own strides of size-1 dims are arbitrary."""
    assert tuple(got.shape) == tuple(want.shape)
    offset = x.storage_offset() + got.offset
    assert torch.equal(torch.as_strided(x, got.shape, got.strides, offset), want)


@EXAMPLES
@given(st.data())
def test_reshape(data: Any) -> None:
    x = data.draw(strided())
    target = data.draw(targets(x.numel()))
    got = record("reshape").infer(meta(x), tuple(target))
    try:
        want = x.view(target)
    except RuntimeError:
        assert isinstance(got, Meta) and got.shape == tuple(target)
    else:
        assert isinstance(got, View), f"{tuple(x.shape)} {x.stride()} as {target}"
        same_view(x, got, want)


@EXAMPLES
@given(st.data())
def test_flatten(data: Any) -> None:
    x = data.draw(strided())
    first = data.draw(st.integers(0, max(x.ndim - 1, 0)))
    last = data.draw(st.integers(first, max(x.ndim - 1, 0)))
    got = record("flatten").infer(meta(x), first, last - max(x.ndim, 1))
    want = x.flatten(first, last)
    assert tuple(got.shape) == tuple(want.shape)
    assert isinstance(got, View) == (want.data_ptr() == x.data_ptr())
    if isinstance(got, View):
        same_view(x, got, want)


@EXAMPLES
@given(st.data())
def test_always_views(data: Any) -> None:
    x = data.draw(strided())
    if x.ndim == 0:
        x = x.unsqueeze(0)
    at = data.draw(st.integers(-x.ndim, x.ndim - 1))
    other = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = data.draw(st.permutations(range(x.ndim)))
    start = data.draw(st.integers(0, x.shape[at] - 1))
    length = data.draw(st.integers(0, x.shape[at] - start))
    calls: dict[str, tuple[Any, ...]] = {
        "permute": (tuple(order),),
        "transpose": (at, other),
        "unsqueeze": (at,),
        "select": (at, start),
        "narrow": (at, start, length),
    }
    for name, args in calls.items():
        same_view(x, record(name).infer(meta(x), *args), getattr(torch, name)(x, *args))
    same_view(x, record("squeeze").infer(meta(x), (at,)), x.squeeze(at))
    same_view(x, record("squeeze").infer(meta(x), None), x.squeeze())
