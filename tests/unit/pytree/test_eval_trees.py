"""``crt.eval`` over trees: every tensor is reached, the rest is passed over."""

from __future__ import annotations

from collections import OrderedDict, deque

import pytest

import clika_runtime as crt
from clika_runtime._native import _core
from clika_runtime.errors import InvalidArgumentError

from .test_registry import registered
from .trees import Pair, Point, Stranger


class Named(dict):
    """A subclass is a leaf of pytrees; eval looks into it all the same."""


def reached(*trees):
    """The numbers of the tensors that eval waits for."""
    crt.eval(*trees)
    return sorted(int(tensor.item()) for tensor in _core._tensor_leaves(trees))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [None, "text", x, 3],
        lambda x: OrderedDict(a=(x,)),
        lambda x: deque([[x]]),
        lambda x: Pair(0, deque([x])),
        lambda x: Named(a=deque([x])),
        lambda x: Point(x, 1, "a"),
        lambda x: deque([Point(Named(a=[x]), 1, "a")]),
    ],
)
def test_containers_are_opened(wrap):
    with registered():
        assert reached(wrap(crt.tensor(7)), [wrap(crt.tensor(8))]) == [7, 8]


def test_the_rest_is_passed_over():
    assert reached(None, 3, "text", b"bytes", range(3), Stranger(), {1, 2}) == []
    assert reached(Point(crt.tensor(1), 2, "a")) == []


def test_a_container_that_holds_itself():
    circle = [crt.tensor(1)]
    circle.append({"again": circle})
    assert reached(circle, circle) == [1]
    endless = deque([crt.tensor(1)])
    endless.append(endless)
    with pytest.raises(InvalidArgumentError, match="holds itself"):
        crt.eval(endless)
