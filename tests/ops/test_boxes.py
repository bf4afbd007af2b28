"""Cases of boxes, and the overlap of boxes by counting cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.testing import cases, check_rule
from tests.ops.support import check_backend

CASES = [*cases("box_iou"), *cases("nms")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("box_iou"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Any) -> None:
    check_rule(case)


def _cells(box: Any) -> set[tuple[int, int]]:
    x1, y1, x2, y2 = map(int, box)
    return {(x, y) for x in range(x1, x2) for y in range(y1, y2)}


def test_overlap_is_that_of_the_cells() -> None:
    """Boxes at whole numbers are sets of unit cells: |A and B| / |A or B|."""
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 9, (12, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 9, (12, 2))], 1)
    cells = [_cells(box) for box in boxes]
    want = [[len(a & b) / len(a | b) for b in cells] for a in cells]
    tensor = crt.tensor(boxes.astype(np.float32))
    assert np.allclose(crt.box_iou(tensor, tensor).numpy(), want, rtol=1e-6, atol=0)


def test_what_suppression_leaves() -> None:
    """Kept boxes do not overlap; each box left out overlaps a better one that is kept."""
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 50, (200, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 20, (200, 2))], 1).astype(np.float32)
    scores = rng.permutation(200).astype(np.float32)
    kept = crt.nms(crt.tensor(boxes), crt.tensor(scores), 0.3).numpy()
    iou = crt.box_iou(crt.tensor(boxes), crt.tensor(boxes)).numpy()
    assert 1 < len(kept) < 200 and (np.diff(scores[kept]) < 0).all()
    assert (iou[np.ix_(kept, kept)] - np.eye(len(kept)) <= 0.3).all()
    for i in set(range(200)) - set(kept.tolist()):
        better = kept[scores[kept] > scores[i]]
        assert (iou[i, better] > 0.3).any()


def test_refusals() -> None:
    boxes = crt.zeros(3, 4)
    for call in (
        lambda: crt.nms(crt.zeros(3, 5), crt.zeros(3), 0.5),
        lambda: crt.nms(boxes, crt.zeros(2), 0.5),
        lambda: crt.nms(boxes, crt.zeros(3, dtype=crt.bfloat16), 0.5),
        lambda: crt.box_iou(boxes, crt.zeros(4)),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()
