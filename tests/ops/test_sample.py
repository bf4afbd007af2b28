"""Cases of ``sample``, and an oracle for what may be drawn at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clika_runtime.testing import cases, check_rule, expected
from clika_runtime.testing.operators.factories import draw
from tests.ops.support import check_backend

CASES = cases("sample")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept_tokens_are_those_of_transformers(case: Any) -> None:
    """The drawn token survives the filters of another implementation."""
    check_rule(case)
    torch = pytest.importorskip("torch")
    warpers = pytest.importorskip("transformers.generation.logits_process")
    logits, temperature, top_p, min_p, top_k, _, _ = (operand.exact() for operand in case.args)
    for r, token in enumerate(expected(case)[0]):
        if token == -1:
            row = torch.tensor(logits[r])
            assert row.isnan().any() or not row.exp().any()  # softmax of it has no numbers
            assert row.softmax(-1).isnan().any()
            continue
        scores = torch.tensor(logits[r : r + 1])
        if temperature[r] == 0:
            assert token == int(scores[0].argmax())
            continue
        scores = scores / float(temperature[r])
        if top_k[r] > 0:
            scores = warpers.TopKLogitsWarper(int(top_k[r]))(None, scores)
        if top_p[r] < 1:
            scores = warpers.TopPLogitsWarper(float(top_p[r]))(None, scores)
        if min_p[r] > 0:
            scores = warpers.MinPLogitsWarper(float(min_p[r]))(None, scores)
        assert np.isfinite(float(scores[0, token]))


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    drawn = [draw(logits, 1.0, 1.0, 0.0, 0, 99, i)[0] for i in range(4000)]
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.abs(shares - np.exp(logits)).max() < 0.03
