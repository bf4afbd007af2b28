"""Boxes given by two corners: x1, y1, x2, y2 with x1 <= x2 and y1 <= y2."""

from __future__ import annotations

from .. import dtypes
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, scalar, tensor


def _check_boxes(name: str, boxes: Meta, what: str) -> None:
    if boxes.ndim != 2 or not same(boxes.shape[1], 4):
        fail(name, f"{what} must be [N, 4], got {text(boxes.shape)}")


def _infer_iou(boxes1: Meta, boxes2: Meta) -> Meta:
    _check_boxes("box_iou", boxes1, "boxes1")
    _check_boxes("box_iou", boxes2, "boxes2")
    if boxes1.dtype is not boxes2.dtype:
        fail("box_iou", f"boxes1 has dtype {boxes1.dtype.name}, boxes2 {boxes2.dtype.name}")
    return Meta((boxes1.shape[0], boxes2.shape[0]), boxes1.dtype)


op(
    "box_iou",
    doc="""
    The area that two boxes share over the area that they cover together, for each pair: [N, M].

    Boxes are x1, y1, x2, y2. Two boxes without area give NaN. Computed in float32 or wider.
    """,
    args=[tensor("boxes1", FLOATS), tensor("boxes2", FLOATS)],
    infer=_infer_iou,
    method=False,
)


def _infer_nms(boxes: Meta, scores: Meta, iou_threshold: float) -> Meta:
    _check_boxes("nms", boxes, "boxes")
    if scores.ndim != 1 or not same(scores.shape[0], boxes.shape[0]):
        fail("nms", f"scores {text(scores.shape)} must be [{boxes.shape[0]}], one for each box")
    if scores.dtype is not boxes.dtype:
        fail("nms", f"scores has dtype {scores.dtype.name}, boxes {boxes.dtype.name}")
    return Meta((None,), dtypes.int64)


op(
    "nms",
    doc="""
    The int64 indices of the boxes that stay when boxes that overlap a better one are left out.

    Boxes [N, 4] are taken by falling scores [N], the lower index first among equals; one whose
    intersection over union (see `box_iou`) with a box taken before is above `iou_threshold` is left
    out. How many stay depends on the data: the call cannot be recorded.
    """,
    args=[tensor("boxes", FLOATS), tensor("scores", FLOATS), scalar("iou_threshold", "float")],
    infer=_infer_nms,
    method=False,
    source="Greedy non-maximum suppression as in Girshick et al., Rich feature hierarchies for "
    "accurate object detection, arXiv:1311.2524",
)
