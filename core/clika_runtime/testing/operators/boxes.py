"""Boxes given by two corners."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, Operand, operator
from .._numpy import Array


def _iou(a: Array, b: Array) -> Array:
    corner = np.maximum(a[:, None, :2], b[None, :, :2])
    other = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.prod(np.maximum(other - corner, 0), -1)
    area_a, area_b = (np.prod(x[:, 2:] - x[:, :2], -1) for x in (a, b))
    return np.asarray(shared / (area_a[:, None] + area_b[None, :] - shared))


def _boxes(make: Make, count: int, dtype: str = "float32", layout: str = "plain") -> Operand:
    """Boxes at whole numbers, many of which overlap."""
    corner = make.rng.integers(0, 8, (count, 2))
    size = make.rng.integers(1, 8, (count, 2))
    return make.operand(np.concatenate([corner, corner + size], 1), dtype, layout)


def _iou_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        make.case(dtype, _boxes(make, 7, dtype), _boxes(make, 5, dtype))
    make.case(
        "flat", make.operand([[1, 1, 1, 3]], "float32"), make.operand([[1, 1, 1, 3]], "float32")
    )
    make.case("none", make.normal((0, 4)), _boxes(make, 3))
    make.case(
        "strided", _boxes(make, 7, "float32", "transposed"), _boxes(make, 5, "float32", "stepped")
    )


operator(
    "box_iou",
    _iou,
    _iou_cases,
    float32=(4, 0),
    example="crt.box_iou(crt.tensor([[0.0, 0.0, 2.0, 2.0]]), crt.tensor([[1.0, 0.0, 3.0, 2.0]]))",
)


def _nms(boxes: Array, scores: Array, threshold: float) -> Array:
    kept: list[Any] = []
    for i in np.argsort(-scores, kind="stable"):
        if all(_iou(boxes[i : i + 1], boxes[k : k + 1])[0, 0] <= threshold for k in kept):
            kept.append(i)
    return np.array(kept, np.int64)


def _nms_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16", "float64"):
        for threshold in (0.1, 0.37, 0.8):
            make.case(
                f"{dtype}-{threshold}",
                _boxes(make, 40, dtype),
                make.normal((40,), dtype),
                threshold,
            )
    make.case(
        "ties", _boxes(make, 20), make.operand(make.rng.integers(0, 3, (20,)), "float32"), 0.2
    )
    make.case("all", _boxes(make, 9), make.normal((9,)), 1.0)
    make.case("none", make.normal((0, 4)), make.normal((0,)), 0.5)
    make.case(
        "strided",
        _boxes(make, 12, "float32", "transposed"),
        make.normal((12,), "float32", "stepped"),
        0.3,
    )


operator(
    "nms",
    _nms,
    _nms_cases,
    example=(
        "boxes = crt.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 3.0], [5.0, 5.0, 6.0, 6.0]])\n"
        "crt.nms(boxes, crt.tensor([0.9, 0.8, 0.7]), 0.5)"
    ),
)
