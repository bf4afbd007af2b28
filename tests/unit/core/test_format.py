"""How tensors print, against PyTorch's own layout."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import clika_runtime as crt

torch = pytest.importorskip("torch")


def as_torch(array: np.ndarray) -> str:
    """torch's print; it leaves out the dtypes int64 and bool, which are named here."""
    x = torch.from_numpy(array)
    if x.dtype not in (torch.int64, torch.bool):
        return repr(x).replace("dtype=torch.", "dtype=clika_runtime.")
    # The suffix as torch puts it after the same text.
    text = repr(x)[: -len(")")]
    name = f"dtype=clika_runtime.{str(x.dtype).removeprefix('torch.')}"
    over = len(text) - text.rfind("\n") + 1 + len(name) + 2 > 80
    return text + (",\n       " if over else ", ") + name + ")"


def same(array: np.ndarray) -> None:
    got = repr(crt.tensor(array))
    want = as_torch(array)
    if array.dtype.name not in ("float32", "int64", "bool"):
        # Longer names may move to a line of their own earlier than torch's.
        got, want = ("".join(text.split()) for text in (got, want))
    assert got == want


NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.integers(-2000, 2000).map(float),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, 1e-5, 1e9, math.nan, math.inf, -math.inf]),
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=4, max_side=6), elements=NUMBERS)
)
def test_floats(array: np.ndarray) -> None:
    same(array)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    hnp.arrays(
        st.sampled_from([np.int64, np.bool_, np.int32, np.uint8, np.float16, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    )
)
def test_other_dtypes(array: np.ndarray) -> None:
    if 0 in array.shape:
        text = repr(crt.tensor(array))
        size = f", size={array.shape}" if array.ndim > 1 else ""
        assert text.startswith(f"tensor([]{size}, dtype=clika_runtime.")
        return
    same(array)


@pytest.mark.parametrize(
    "shape", [(1001,), (40, 40), (3, 7, 101), (2000, 1), (1, 1, 5000), (30, 2, 2, 30)]
)
@pytest.mark.parametrize("kind", ["float32", "int64", "bool"])
def test_more_than_a_thousand_elements(shape: tuple[int, ...], kind: str) -> None:
    rng = np.random.default_rng(3)
    same((rng.normal(0, 100, shape)).astype(kind))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (crt.full((1, 4), 1.32), "tensor([[1.3200, 1.3200, 1.3200, 1.3200]])"),
        (
            crt.tensor([-0.9, -0.5, 0.0, 0.5, 0.9]),
            "tensor([-0.9000, -0.5000,  0.0000,  0.5000,  0.9000])",
        ),
        (
            crt.ones(2, 5).to(crt.float16),
            "tensor([[1., 1., 1., 1., 1.],\n"
            "        [1., 1., 1., 1., 1.]], dtype=clika_runtime.float16)",
        ),
        (
            crt.arange(6, dtype=crt.float32).reshape(2, 3) * 2 + 3,
            "tensor([[ 3.,  5.,  7.],\n        [ 9., 11., 13.]])",
        ),
        (crt.tensor([1, 2, 3]), "tensor([1, 2, 3], dtype=clika_runtime.int64)"),
        (crt.tensor(True), "tensor(True, dtype=clika_runtime.bool)"),
        (crt.zeros(0), "tensor([])"),
        (crt.zeros(0, 3), "tensor([], size=(0, 3))"),
        (crt.tensor([1.5]).to(crt.bfloat16), "tensor([1.5000], dtype=clika_runtime.bfloat16)"),
        (crt.empty(2, 3, device="meta"), "tensor(<fake>, shape=[2, 3], device='meta')"),
    ],
    ids=str,
)
def test_prints(tensor: crt.Tensor, text: str) -> None:
    assert repr(tensor) == str(tensor) == text
