"""Functions over shape operators: forms that torch's samples leave out, views, refusals.

Results on torch's samples stand in `test_opinfo`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt

torch = pytest.importorskip("torch")


def both(shape: tuple[int, ...], dtype: str = "int64") -> tuple[Any, Any]:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    return crt.tensor(array), torch.from_numpy(array.copy())


def same(got: Any, want: Any) -> None:
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
        return
    assert tuple(got.shape) == tuple(want.shape)
    assert got.dtype.name == str(want.dtype).removeprefix("torch.")
    assert got.tolist() == want.tolist()


METHODS: list[tuple[str, tuple[int, ...], tuple[Any, ...]]] = [
    ("view", (2, 6), (3, 4)),
    ("view", (2, 6), ((3, -1),)),
    ("repeat", (2, 3), (2, 1, 2)),
    ("repeat", (2, 3), ((2, 2),)),
    ("tile", (2, 3), (2,)),
    ("tile", (2, 3), ((2, 1, 1),)),
    ("flip", (2, 3), (0, 1)),
    ("flip", (2, 3), ((-1,),)),
    ("roll", (2, 3), (1,)),
    ("roll", (2, 3), (-5, 1)),
    ("rot90", (2, 3), ()),
    ("rot90", (2, 3), (-3, (1, 0))),
    ("unfold", (2, 7), (1, 3, 2)),
    ("unflatten", (2, 6), (1, (2, -1))),
    ("swapaxes", (2, 3, 4), (0, -1)),
    ("swapdims", (2, 3, 4), (1, 2)),
    ("moveaxis", (2, 3, 4), (0, 2)),
    ("movedim", (2, 3, 4), ((0, 1), (1, 0))),
    ("broadcast_to", (3, 1), ((2, 3, 4),)),
    ("diagonal", (3, 4), (1,)),
    ("diag", (3, 3), (-1,)),
    ("diag", (3,), ()),
    ("diag_embed", (2, 3), (1, 0, 2)),
    ("diagflat", (2, 2), (1,)),
    ("tril", (3, 3), (-1,)),
    ("triu", (3, 3), (1,)),
    ("ravel", (2, 3), ()),
    ("t", (2, 3), ()),
    ("adjoint", (2, 3, 4), ()),
    ("unbind", (2, 3), (1,)),
    ("tensor_split", (7, 2), (3,)),
    ("tensor_split", (7, 2), ((1, 5, 3),)),
    ("hsplit", (2, 4), (2,)),
    ("vsplit", (4, 2), ((1, 2),)),
    ("dsplit", (1, 2, 4), (4,)),
    ("repeat_interleave", (2, 3), (2,)),
    ("repeat_interleave", (2, 3), (2, 1)),
    ("narrow_copy", (5,), (0, 1, 2)),
    ("as_strided", (6,), ((2, 2), (1, 3), 1)),
    ("sum_to_size", (2, 3), (1, 3)),
    ("fliplr", (2, 3), ()),
    ("flipud", (2, 3), ()),
    ("contiguous", (2, 3), ()),
]


@pytest.mark.parametrize(("name", "shape", "args"), METHODS, ids=str)
def test_methods(name: str, shape: tuple[int, ...], args: tuple[Any, ...]) -> None:
    x, y = both(shape)
    same(getattr(x, name)(*args), getattr(y, name)(*args))


def test_methods_with_tensors() -> None:
    (x, y), (a, b) = both((2, 3)), both((6,))
    same(a.view_as(x), b.view_as(y))
    same(x.t().reshape_as(a), y.t().reshape_as(b))
    same(crt.ones(3, dtype=crt.int64).expand_as(x), torch.ones(3, dtype=torch.int64).expand_as(y))
    counts = [2, 0, 1]
    same(
        x.repeat_interleave(crt.tensor(counts), 1, output_size=3),
        y.repeat_interleave(torch.tensor(counts), 1),
    )
    same(crt.repeat_interleave(crt.tensor(counts)), torch.repeat_interleave(torch.tensor(counts)))
    same(x.tensor_split(crt.tensor([1, 2]), 1), y.tensor_split(torch.tensor([1, 2]), 1))
    same(crt.unravel_index(a, (2, 3)), torch.unravel_index(b, (2, 3)))
    for name, extra in (
        ("select_scatter", (1, -1)),
        ("slice_scatter", (1, 1, None, 5)),
        ("diagonal_scatter", (0,)),
    ):
        src = crt.tensor([-1, -2])
        want = torch.tensor([-1, -2])
        if name == "slice_scatter":
            src, want = src.unsqueeze(1), want.unsqueeze(1)
        same(getattr(crt, name)(x, src, *extra), getattr(torch, name)(y, want, *extra))


def test_joining() -> None:
    parts = [both((2, 3)), both((2, 3))]
    ours, theirs = [p[0] for p in parts], [p[1] for p in parts]
    for name in ("hstack", "vstack", "dstack", "column_stack", "row_stack"):
        same(getattr(crt, name)(ours), getattr(torch, name)(theirs))
        same(getattr(crt, name)(tuple(ours)), getattr(torch, name)(tuple(theirs)))
    same(crt.block_diag(*ours, crt.tensor(1.5)), torch.block_diag(*theirs, torch.tensor(1.5)))
    same(crt.block_diag(), torch.block_diag())
    rows = [crt.arange(n) for n in (2, 3, 4)]
    want = [torch.arange(n) for n in (2, 3, 4)]
    for indexing in ("ij", "xy"):
        same(crt.meshgrid(*rows, indexing=indexing), torch.meshgrid(*want, indexing=indexing))
        same(crt.meshgrid(rows, indexing=indexing), torch.meshgrid(want, indexing=indexing))
    same(crt.cartesian_prod(*rows), torch.cartesian_prod(*want))
    for more in (False, True):
        same(crt.combinations(rows[2], 3, more), torch.combinations(want[2], 3, more))
    same(
        crt.broadcast_tensors(rows[0][:, None], rows[1]),
        torch.broadcast_tensors(want[0][:, None], want[1]),
    )
    assert crt.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        given, other = both((2,)), both(())
        same(getattr(crt, name)(given[0], other[0]), getattr(torch, name)(given[1], other[1]))
        same(getattr(crt, name)(other[0]), getattr(torch, name)(other[1]))
    same(
        crt.cat([crt.zeros(0), crt.ones(2, 2)], 1),
        torch.cat([torch.zeros(0), torch.ones(2, 2)], 1),
    )


def test_factories_and_likes() -> None:
    x, y = both((2, 3))
    for name in ("zeros_like", "ones_like"):
        same(getattr(crt, name)(x), getattr(torch, name)(y))
        same(getattr(crt, name)(x, dtype=crt.float16), getattr(torch, name)(y, dtype=torch.float16))
    same(crt.full_like(x, 2.9), torch.full_like(y, 2.9))
    same(x.new_full((2,), 7), y.new_full((2,), 7))
    same(x.new_zeros(2, 1), y.new_zeros(2, 1))
    same(x.new_ones((1,)), y.new_ones((1,)))
    same(crt.scalar_tensor(3), torch.scalar_tensor(3))
    for made in (crt.empty(2, 3), crt.empty((2, 3)), crt.empty(size=(2, 3)), x.new_empty(2, 3)):
        assert tuple(made.shape) == (2, 3)
    assert crt.empty(()).shape == () and crt.empty_like(x).dtype is crt.int64
    assert crt.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert crt.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    assert x.new_empty_strided((2, 2), (1, 4)).dtype is crt.int64
    meta = crt.zeros_like(crt.empty(2, 3, device="meta"))
    assert meta.is_fake() and tuple(meta.shape) == (2, 3)
    recorder = crt.GraphRecorder()
    n = recorder.symbol("n", 1, 8)
    traced = recorder.input("x", (n, 3), crt.float32)
    plan = recorder.compile([crt.ones_like(traced), crt.full_like(traced, 2), traced.new_zeros(n)])
    made = plan.run([crt.zeros(2, 3)])
    assert [one.tolist() for one in made] == [[[1.0] * 3] * 2, [[2.0] * 3] * 2, [0.0] * 2]


def test_views_share_bytes() -> None:
    x = crt.zeros(4, 6)
    views: list[Any] = [
        x.view(24),
        x.view_as(crt.zeros(6, 4)),
        x.unflatten(1, (2, 3)),
        crt.slice(x, 0, 1, 4, 2),
        x.movedim(0, 1),
        x.t(),
        x.T,
        x.mT,
        x.H,
        x.adjoint(),
        x.diagonal(),
        x.unfold(1, 3, 2),
        x.expand_as(crt.zeros(2, 4, 6)),
        x.swapaxes(0, 1),
        x.ravel(),
        *x.unbind(1),
        *x.tensor_split(3, 1),
        crt.broadcast_tensors(x, crt.zeros(1))[0],
        *crt.meshgrid(x[0], x[1]),
        crt.atleast_3d(x),
        x.as_strided((2,), (3,), 1),
        x[1:3, ::2],
        x[None],
    ]
    start, end = x.data_ptr(), x.data_ptr() + x.nbytes
    for view in views:
        assert start <= view.data_ptr() < end, view.shape
    for copied in (x.flip(0), x.repeat(1, 1), x.roll(0, 0), x.rot90(0), x.narrow_copy(0, 0, 1)):
        copied.fill_(1.0)
    for made in (x.diag(), x.repeat_interleave(1, 0), crt.select_scatter(x, crt.ones(6), 0, 0)):
        made.fill_(1.0)
    assert x.sum().item() == 0.0
    for view in (x.view(24), x.unflatten(1, (2, 3)), x.T, x.diagonal(), crt.slice(x, 1, 0, 6, 5)):
        view.add_(1.0)
    assert x.sum().item() == 24 * 3 + 4 + 8


REFUSED: list[tuple[Any, str]] = [
    (lambda x: x.t().view(24), r"view: \[6, 4\] with strides \[1, 6\] cannot be seen as \[24\]"),
    (lambda x: x.view(5, -1), "view: cannot view"),
    (lambda x: crt.zeros(2, 2, 2).t(), "t: input .* must have at most 2 dims"),
    (lambda x: crt.zeros(2).adjoint(), "adjoint: input .* must have at least 2 dims"),
    (lambda x: x.diagonal(0, 1, 1), "diagonal: dim1 1 and dim2 1 must be different dims"),
    (lambda x: x.unfold(0, 5, 1), "sliding_window: size 5 does not fit into dim 0 of size 4"),
    (lambda x: x.unfold(0, 2, 0), "sliding_window: step 0 must be at least 1"),
    (lambda x: x.unflatten(1, (4, -1)), "cannot view"),
    (lambda x: x.unflatten(1, ()), "unflatten: sizes must not be empty"),
    (lambda x: crt.slice(x, 0, 0, 1, 0), "slice: step 0 must be at least 1"),
    (lambda x: x.movedim((0, 1), 0), "must name as many dims"),
    (lambda x: x.movedim((0, 0), (0, 1)), "names a dimension twice"),
    (lambda x: x.flip(0, 0), "flip: dims .* names a dimension twice"),
    (lambda x: x.flip(2), "flip: dims 2 is out of range"),
    (lambda x: x.roll((1, 2)), "roll: shifts .* must be of one length"),
    (lambda x: x.repeat(2), "repeat: repeats .* must have one for each dim"),
    (lambda x: x.repeat(2, -1), "repeat: repeats .* must not be negative"),
    (lambda x: x.repeat(2**40, 2**40), "more elements than can be addressed"),
    (lambda x: crt.zeros(3).tril(), "tril: input .* must have at least 2 dims"),
    (lambda x: x.diag_embed(0, 1, 1), "diag_embed: dim1 1 and dim2 1 must be different"),
    (lambda x: x.diag_embed(2**60), "more elements than can be addressed"),
    (lambda x: x.rot90(1, (0, 0)), "rot90: dims .* must name two different dims"),
    (lambda x: x.tensor_split(0), "tensor_split: 0 sections: there must be at least 1"),
    (lambda x: x.tensor_split(2**40), "sections of dim 0 of size 4 are too many"),
    (lambda x: x.hsplit(4), "hsplit: dim 1 of size 6 does not split into 4 equal parts"),
    (lambda x: crt.zeros(3).vsplit(3), "vsplit: input .* must have at least 2 dims"),
    (lambda x: x.repeat_interleave(-1), r"repeat_interleave: repeats \[-1\] must not be negative"),
    (lambda x: x.repeat_interleave(crt.tensor([1, 2]), 0), "2 repeats for dim 0 of size 4"),
    (lambda x: x.repeat_interleave(2, output_size=3), "output_size 3 is not the sum 48"),
    (lambda x: crt.repeat_interleave(crt.tensor([2**62])), "more elements|cannot allocate"),
    (lambda x: crt.select_scatter(x, crt.ones(5), 0, 0), "select_scatter: src .* must have"),
    (lambda x: crt.eye(-1), "eye: shape .* negative"),
    (lambda x: crt.linspace(0, 1, -1), "linspace: steps -1 must not be negative"),
    (lambda x: crt.tril_indices(-1, 2), "tril_indices: row -1 and col 2 must not be negative"),
    (lambda x: crt.tril_indices(2, 2, dtype=crt.float32), "dtype must be int32 or int64"),
    (lambda x: crt.meshgrid(x), "meshgrid: tensors must have at most one dim"),
    (lambda x: crt.meshgrid(crt.zeros(2), indexing="yx"), "indexing must be 'ij' or 'xy'"),
    (lambda x: crt.meshgrid(crt.zeros(2), crt.arange(2)), "must have one dtype"),
    (lambda x: crt.cartesian_prod(x), "cartesian_prod: tensors must have one dim"),
    (lambda x: crt.combinations(crt.arange(100), 20), "too many"),
    (lambda x: crt.block_diag(crt.zeros(1, 1, 1)), "at most 2 dims are taken"),
    (lambda x: crt.broadcast_shapes((2,), (3,)), "cannot broadcast"),
    (lambda x: crt.sum_to_size(x, 3), "does not broadcast to input"),
    (lambda x: crt.unravel_index(crt.arange(2), (2, -1)), "has a negative size"),
    (lambda x: crt.empty(2**40, 2**40), "more elements than can be addressed"),
    (lambda x: crt.empty(-1), "sizes must be >= 0"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(crt.ClikaRTError, match=message) as caught:
        call(crt.zeros(4, 6))
    assert isinstance(caught.value, (crt.InvalidArgumentError, crt.OutOfMemoryError))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: crt.hstack([x, 1]),
        lambda x: crt.combinations([1, 2]),
        lambda x: x.tensor_split(1.5),
        lambda x: x.repeat_interleave(crt.tensor([0.5])),
        lambda x: crt.unravel_index(x, (2,)),
        lambda x: crt.empty(2, size=3),
        lambda x: crt.empty(2, wrong=3),
        lambda x: x.flip("a"),
    ],
)
def test_wrong_kinds(call: Any) -> None:
    with pytest.raises(TypeError):
        call(crt.zeros(4, 6))
