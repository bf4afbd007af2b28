"""Sums of products named by the indices of their operands."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._shapes import fail, product, text
from .products import _one_dtype, wide

__all__ = ["einsum"]

_DOTS = "..."


def einsum(equation: str, *operands: Any) -> Any:
    """The sum of products over the indices that the equation names: ``"ij,jk->ik"`` is `matmul`.

    One letter names one dim; the operands are parted by commas. Letters after ``->`` are the dims
    of the result in order; without ``->`` they are those that appear once, sorted. A letter twice
    in one operand takes its diagonal. ``...`` stands for dims without a name, which broadcast and
    come first in the result unless it places them. A dim of size 1 broadcasts. Operands are
    contracted in pairs from the left, each pair by `matmul`; spaces do not count. A refusal names
    the equation and the operand.

    Example: ``ops.einsum("ii->", crt.tensor([[1.0, 2.0], [3.0, 4.0]]))`` is 5.
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str):
        raise TypeError(f"einsum: equation must be a str, got {type(equation).__name__}")
    if not operands:
        fail("einsum", f"'{equation}' has no operands")
    from .._native._core import Tensor

    for i, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"einsum: operand {i} must be a tensor, got {type(x).__name__}; make one with "
                "clika_runtime.tensor()"
            )
    dt = _one_dtype("einsum", *operands)
    inputs, output = _parse(equation, [x.ndim for x in operands])
    sizes = _sizes(equation, inputs, operands)
    parts = [_diagonal(wide(x), labels, sizes) for x, labels in zip(operands, inputs, strict=True)]
    result, labels = parts[0]
    for i, (x, others) in enumerate(parts[1:]):
        later = set(output).union(*(set(names) for _, names in parts[i + 2 :]))
        result, labels = _pair(result, labels, x, others, later)
    result, labels = _reduced(result, labels, set(output))
    result = ops.permute(result, [labels.index(label) for label in output])
    return ops.copy(result) if any(result is x for x in operands) else ops.cast(result, dt)


def _labels(equation: str, term: str) -> list[str]:
    """The labels of one term, with ``...`` as one."""
    found: list[str] = []
    i = 0
    while i < len(term):
        if term.startswith(_DOTS, i):
            if _DOTS in found:
                fail("einsum", f"'{equation}': '{term}' has more than one ellipsis")
            found.append(_DOTS)
            i += 3
        elif term[i].isascii() and term[i].isalpha():
            found.append(term[i])
            i += 1
        else:
            fail("einsum", f"'{equation}': '{term[i]}' is no letter, comma, ellipsis or arrow")
    return found


def _parse(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result, with one label ``.0`` for each dim that an
    ellipsis covers (``.0`` is the last)."""
    text_ = "".join(equation.split())
    left, arrow, right = text_.partition("->")
    terms = [_labels(equation, term) for term in left.split(",")]
    if len(terms) != len(ranks):
        fail("einsum", f"'{equation}' names {len(terms)} operands, {len(ranks)} are given")
    widest = 0
    inputs = []
    for i, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        dots = rank - len([label for label in term if label != _DOTS])
        if dots < 0 or (dots and _DOTS not in term):
            fail("einsum", f"'{equation}': operand {i} has {rank} dims, the equation {len(term)}")
        widest = max(widest, dots)
        inputs.append(_spread(term, dots))
    used = {label for term in inputs for label in term}
    if not arrow:
        counts = [label for term in inputs for label in term if not label.startswith(".")]
        once = sorted(label for label in used if counts.count(label) == 1)
        return inputs, [*_spread([_DOTS], widest), *once]
    wanted = _labels(equation, right)
    output = _spread(wanted, widest)
    for label in wanted:
        if wanted.count(label) > 1:
            fail("einsum", f"'{equation}': the result names '{label}' twice")
        if label != _DOTS and label not in used:
            fail("einsum", f"'{equation}': no operand has the result's '{label}'")
    return inputs, output


def _spread(term: list[str], dots: int) -> list[str]:
    named = [f".{dots - 1 - i}" for i in range(dots)]
    return [name for label in term for name in (named if label == _DOTS else [label])]


def _sizes(equation: str, inputs: list[list[str]], operands: tuple[Any, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for i, (labels, x) in enumerate(zip(inputs, operands, strict=True)):
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.get(label, 1)
            if known != 1 and size not in (1, known):
                name = "the ellipsis" if label.startswith(".") else f"'{label}'"
                fail(
                    "einsum",
                    f"'{equation}': operand {i} {text(x.shape)} has size {size} at {name}, which "
                    f"is {known} before",
                )
            sizes[label] = known if size == 1 else size
    return sizes


def _diagonal(x: Any, labels: list[str], sizes: dict[str, int]) -> tuple[Any, list[str]]:
    """The operand with each label once and without the dims of size 1 that broadcast."""
    labels = list(labels)
    for at in reversed(range(len(labels))):
        if x.shape[at] == 1 and sizes[labels[at]] != 1:
            x = ops.squeeze(x, at)
            del labels[at]
    for label in set(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = ops.diagonal(x, 0, first, second)  # its dim comes last
            del labels[second], labels[first]
            labels.append(label)
    return x, labels


def _reduced(x: Any, labels: list[str], kept: set[str]) -> tuple[Any, list[str]]:
    gone = [at for at, label in enumerate(labels) if label not in kept]
    if gone:
        x = ops.sum(x, gone, dtype=x.dtype)
    return x, [label for label in labels if label in kept]


def _pair(
    a: Any, a_labels: list[str], b: Any, b_labels: list[str], later: set[str]
) -> tuple[Any, list[str]]:
    """The product of two operands, summed over the labels that nothing after it needs."""
    a, a_labels = _reduced(a, a_labels, later | set(b_labels))
    b, b_labels = _reduced(b, b_labels, later | set(a_labels))
    both = [label for label in a_labels if label in b_labels]
    batch = [label for label in both if label in later]
    inside = [label for label in both if label not in later]
    rows = [label for label in a_labels if label not in both]
    columns = [label for label in b_labels if label not in both]
    size = {
        **dict(zip(a_labels, a.shape, strict=True)),
        **dict(zip(b_labels, b.shape, strict=True)),
    }

    def folded(x: Any, labels: list[str], *groups: list[str]) -> Any:
        x = ops.permute(x, [labels.index(label) for group in groups for label in group])
        return ops.reshape(x, tuple(product(size[label] for label in group) for group in groups))

    made = ops.matmul(
        folded(a, a_labels, batch, rows, inside), folded(b, b_labels, batch, inside, columns)
    )
    labels = [*batch, *rows, *columns]
    return ops.reshape(made, tuple(size[label] for label in labels)), labels
