"""What losses refuse, and a few of their values; torch's samples (test_opinfo) cover the rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError


def test_cross_entropy_against_torch() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 5, 3, generator=generator)
    target = torch.randint(0, 5, (6, 3), generator=generator)
    target[1, 2] = -100
    weight = torch.rand(5, generator=generator)
    ours = [crt.from_numpy(x.numpy()) for x in (logits, target, weight)]
    for reduction in ("none", "mean", "sum"):
        for smoothing in (0.0, 0.2):
            options: Any = {"reduction": reduction, "label_smoothing": smoothing}
            want = torch.nn.functional.cross_entropy(logits, target, weight, **options)
            got = ops.cross_entropy(ours[0], ours[1], ours[2], **options)
            # 15 float32 logarithms are added up.
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_extremes_stay_finite() -> None:
    far = crt.tensor([-200.0, 200.0])
    wrong = crt.tensor([1.0, 0.0])
    assert ops.binary_cross_entropy_with_logits(far, wrong).item() == 200.0
    assert ops.binary_cross_entropy(crt.tensor([0.0, 1.0]), wrong).item() == 100.0
    assert ops.soft_margin_loss(far, crt.tensor([1.0, -1.0]), "sum").item() == 400.0
    assert math.isclose(ops.cross_entropy(far, crt.tensor(0)).item(), 400.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.mse_loss(x, x, "average"), "'average' is not a Reduction; choose one of"),
        (lambda x: ops.smooth_l1_loss(x, x, beta=-1), "smooth_l1_loss: beta must be >= 0, got -1"),
        (lambda x: ops.huber_loss(x, x, delta=0), "huber_loss: delta must be > 0, got 0"),
        (lambda x: ops.mse_loss(x.long(), x.long()), "mse_loss: operands of dtype int64"),
        (lambda x: ops.multi_margin_loss(x, crt.tensor(0), p=3), "p must be 1 or 2, got 3"),
        (lambda x: ops.nll_loss(x, crt.tensor([0, 1])), "nll_loss: target .* must have shape"),
        (lambda x: ops.nll_loss(x, crt.tensor(7)), "index"),
        (lambda x: ops.cross_entropy(x, crt.tensor(0), label_smoothing=2), "must be in .0, 1."),
        (lambda x: ops.gaussian_nll_loss(x, x, -x), "var has negative entries"),
        (lambda x: ops.triplet_margin_loss(x, x, x, margin=0), "margin must be > 0, got 0"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call(crt.tensor([1.0, 2.0, 3.0])).tolist()
