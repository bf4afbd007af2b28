"""Cases of ``sample``, and an oracle for what may be drawn at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clika_runtime.testing import cases, check_rule, expected
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
    """The drawn token survives the filters of another implementation, which has no top-n-sigma and
    no XTC: what these leave out is a part of what it keeps."""
    check_rule(case)
    torch = pytest.importorskip("torch")
    warpers = pytest.importorskip("transformers.generation.logits_process")
    operands = [operand and operand.exact() for operand in case.args]
    logits, temperature, top_p, min_p, top_k = operands[:5]
    sigma, typical_p = operands[7:9]
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
        if sigma is not None and sigma[r] > 0:
            least = scores.max() - sigma[r] * scores.std(correction=0)
            scores = scores.masked_fill(scores < least, -torch.inf)
        scores = scores / float(temperature[r])
        if top_k[r] > 0:
            scores = warpers.TopKLogitsWarper(int(top_k[r]))(None, scores)
        if typical_p is not None and typical_p[r] < 1:
            scores = warpers.TypicalLogitsWarper(float(typical_p[r]))(None, scores)
        if top_p[r] < 1:
            scores = warpers.TopPLogitsWarper(float(top_p[r]))(None, scores)
        if min_p[r] > 0:
            scores = warpers.MinPLogitsWarper(float(min_p[r]))(None, scores)
        assert np.isfinite(float(scores[0, token]))
