"""How calls bind: positions, keywords, aliases, sizes one by one, methods; on the null backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt


@pytest.fixture
def x(null: Any) -> Any:
    return crt.tensor(np.zeros((2, 3, 4), np.float32), device="null")


def shape(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.shape)


CALLS: list[tuple[Any, tuple[int, ...]]] = [
    (lambda x: x.reshape(6, 4), (6, 4)),
    (lambda x: x.reshape((6, 4)), (6, 4)),
    (lambda x: x.reshape([6, -1]), (6, 4)),
    (lambda x: x.reshape(-1), (24,)),
    (lambda x: x.reshape(shape=(24,)), (24,)),
    (lambda x: x.reshape(size=(24,)), (24,)),
    (lambda x: crt.reshape(x, x.shape[:1] + (12,)), (2, 12)),
    (lambda x: x.permute(2, 0, 1), (4, 2, 3)),
    (lambda x: x.permute((2, 0, 1)), (4, 2, 3)),
    (lambda x: crt.permute(x, dims=[2, 0, 1]), (4, 2, 3)),
    (lambda x: x.unsqueeze(0).expand(5, -1, -1, 4), (5, 2, 3, 4)),
    (lambda x: x.unsqueeze(0).expand((5, 2, 3, 4)), (5, 2, 3, 4)),
    (lambda x: x.unsqueeze(0).squeeze(), (2, 3, 4)),
    (lambda x: x.unsqueeze(0).squeeze(0), (2, 3, 4)),
    (lambda x: x.unsqueeze(0).unsqueeze(-1).squeeze(dims=(0, -1)), (2, 3, 4)),
    (lambda x: x.flatten(start_dim=1), (2, 12)),
    (lambda x: x.transpose(dim0=0, dim1=-1), (4, 3, 2)),
    (lambda x: x.sum(), ()),
    (lambda x: x.sum(1), (2, 4)),
    (lambda x: x.sum(dim=(0, 1)), (4,)),
    (lambda x: x.sum(dims=[-1], keepdim=True), (2, 3, 1)),
    (lambda x: crt.sum(x, [1], True), (2, 1, 4)),
    (lambda x: x.mean([1]), (2, 4)),
    (lambda x: crt.mean(x, {1}), (2, 4)),
    (lambda x: x.amax(()), ()),
    (lambda x: x.argmax(), ()),
    (lambda x: x.argmax(dims=[1]), (2, 4)),
    (lambda x: crt.argmax(x, -1, True), (2, 3, 1)),
    (lambda x: x.softmax(), (2, 3, 4)),
    (lambda x: crt.softmax(x, dims=1), (2, 3, 4)),
    (lambda x: crt.cat([x, x], -1), (2, 3, 8)),
    (lambda x: crt.cat((x, x)), (4, 3, 4)),
    (lambda x: crt.cat([x] * 150), (300, 3, 4)),
    (lambda x: crt.stack([x] * 70, 1), (2, 70, 3, 4)),
    (lambda x: x.topk(2)[1], (2, 3, 2)),
    (lambda x: x.clamp(0), (2, 3, 4)),
    (lambda x: x.clamp(max=1.0), (2, 3, 4)),
    (lambda x: x.clamp(min=x, max=1), (2, 3, 4)),
    (lambda x: crt.div(x, 2, rounding_mode=None), (2, 3, 4)),
    (lambda x: 2 - x, (2, 3, 4)),
    (lambda x: x.select(0, 1).max(-1)[0], (3,)),
    (lambda x: x.chunk(3, 1)[2], (2, 1, 4)),
    (lambda x: crt.zeros(2, 3, device="null"), (2, 3)),
    (lambda x: crt.zeros((2, 3), device="null"), (2, 3)),
    (lambda x: crt.zeros(size=[2, 3], device="null"), (2, 3)),
    (lambda x: crt.zeros((), device="null"), ()),
    (lambda x: crt.zeros(x.shape, device="null"), (2, 3, 4)),
    (lambda x: crt.full((2,), value=1, device="null"), (2,)),
    (lambda x: crt.arange(2, 7, 2, device="null"), (3,)),
    (lambda x: crt.rand(2, 3, device="null"), (2, 3)),
    (lambda x: crt.randn((4,), seed=1, device="null"), (4,)),
]


@pytest.mark.parametrize(("call", "want"), CALLS, ids=map(str, range(len(CALLS))))
def test_result_shape(x: Any, call: Any, want: tuple[int, ...]) -> None:
    assert shape(call(x)) == want


def test_in_place_forms_return_their_tensor(x: Any, null: Any) -> None:
    null.calls.clear()
    assert x.add_(1) is x and x.relu_() is x and x.clamp_(min=0) is x and x.copy_(x) is x
    assert null.calls == {"add": 1, "relu": 1, "clamp": 1, "copy_": 4}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: crt.relu(), "relu: missing argument 'input'"),
        (lambda x: crt.relu(x, x), "relu: takes 1 positional arguments, got 2"),
        (lambda x: crt.relu(x, inplace=True), "relu: unexpected keyword argument 'inplace'"),
        (lambda x: crt.sum(x, 1, dim=1), "sum: argument 'dim' is given twice"),
        (lambda x: crt.sum(x, 1.5), "sum: dim must be ints, got 1.5"),
        (lambda x: crt.relu([1.0]), "relu: input must be a tensor, got list"),
        (lambda x: crt.cat(x), "cat: tensors must be a sequence of tensors, got Tensor"),
        (lambda x: x.argmax(dims=[0, 1]), "argmax: dim must be int"),
        (lambda x: crt.add(x, x, 2), "add: takes 2 positional arguments, got 3"),
    ],
)
def test_wrong_calls(x: Any, call: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(x)
    assert str(caught.value).startswith(message)


def test_no_such_method(x: Any) -> None:
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'cat'"):
        x.cat([x])
