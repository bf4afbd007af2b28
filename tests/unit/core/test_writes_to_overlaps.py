"""Writes to a tensor that shows one element at several places are refused, as torch does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import clika_runtime as crt

REFUSED = {
    "assignment": lambda lib, x: x.__setitem__(slice(None), 5.0),
    "a part": lambda lib, x: x.__setitem__((slice(None), 1), 5.0),
    "in place": lambda lib, x: x.add_(1.0),
    "operator": lambda lib, x: x.__iadd__(lib.ones(4, 3)),
    "copy": lambda lib, x: x.copy_(lib.ones(4, 3)),
    "relu": lambda lib, x: x.relu_(),
    "transposed": lambda lib, x: x.t().mul_(2.0),
    "more dims": lambda lib, x: x.expand(2, 4, 3)[0].mul_(2.0),
}
ALLOWED = {
    "a row": lambda lib, x: x.__setitem__(0, 5.0),
    "one row": lambda lib, x: x[1:2].mul_(3.0),
    "an element": lambda lib, x: x.__setitem__((2, 1), 7.0),
    "nothing": lambda lib, x: x[:0].mul_(3.0),
}


def both() -> list[tuple[Any, Any, Any]]:
    """(library, base, its four equal rows) of torch and of the runtime."""
    found = []
    for lib in (torch, crt):
        base = lib.arange(3).to(lib.float32).reshape(1, 3)
        found.append((lib, base, base.expand(4, 3)))
    return found


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    (lib, base, wide), (own, own_base, own_wide) = both()
    with pytest.raises(RuntimeError, match="single memory location"):
        REFUSED[case](lib, wide)
    with pytest.raises(crt.InvalidArgumentError, match=r"single memory location.*clone") as failure:
        REFUSED[case](own, own_wide)
    assert failure.value.code_name == "INVALID_ARGUMENT"
    assert own_base.tolist() == base.tolist()
    copy = own_wide.clone()
    REFUSED[case](own, copy)
    assert own_base.tolist() == base.tolist()


@pytest.mark.parametrize("case", ALLOWED)
def test_a_part_that_does_not_overlap_itself_is_written(case: str) -> None:
    (lib, base, wide), (own, own_base, own_wide) = both()
    ALLOWED[case](lib, wide)
    ALLOWED[case](own, own_wide)
    assert own_base.tolist() == base.tolist() and own_wide.tolist() == wide.tolist()


def test_indices_and_masks() -> None:
    """Where torch warns that it will refuse them, they are refused."""
    for index in (crt.tensor([0, 1]), crt.ones(4, 3, dtype=crt.bool)):
        base = crt.zeros(1, 3)
        with pytest.raises(crt.InvalidArgumentError, match="single memory location"):
            base.expand(4, 3)[index] = 1.0
        assert base.tolist() == [[0.0] * 3]


def test_what_comes_from_elsewhere() -> None:
    """Strides of 0 that another library made."""
    wide = crt.from_dlpack(torch.zeros(1, 3).expand(4, 3))
    with pytest.raises(crt.InvalidArgumentError, match="single memory location"):
        wide.add_(1.0)
    narrow = crt.from_dlpack(torch.zeros(1, 3).expand(1, 3))
    assert narrow.add_(1.0).tolist() == [[1.0] * 3]


def test_recordings() -> None:
    """A traced write is refused at once, also where the size is not known yet."""
    specs = [crt.TensorSpec("x", crt.float32, [1, 3]), crt.TensorSpec("y", crt.float32, [-1])]

    def write(x: list[Any], *sizes: Any) -> list[Any]:
        x[0].clone().expand(*sizes).add_(1.0)
        return x

    for sizes in (lambda x: (4, 3), lambda x: (x[1].shape[0], 3)):
        with pytest.raises(crt.InvalidArgumentError, match="single memory location"):
            crt.trace(lambda x, s=sizes: write(x, *s(x)), specs)
    crt.trace(lambda x: write(x, 1, 3), specs)


def test_elements_are_not_deleted() -> None:
    x = crt.ones(3)
    with pytest.raises(TypeError, match="cannot be deleted"):
        del x[0]
    with pytest.raises(TypeError):
        del torch.ones(3)[0]
    assert x.tolist() == [1.0] * 3
