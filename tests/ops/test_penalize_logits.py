"""Cases of ``penalize_logits``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clika_runtime as crt
from clika_runtime.errors import ClikaRTError
from clika_runtime.testing import cases, check_rule
from clika_runtime.testing.operators.sampling import longest_runs
from tests.ops.support import check_backend

CASES = cases("penalize_logits")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_rule(case)
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("penalty", [1.3, 0.7])
def test_repetition_is_that_of_transformers(penalty: float) -> None:
    torch = pytest.importorskip("torch")
    process = pytest.importorskip("transformers.generation.logits_process")
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 3, (2, 30)).astype(np.float32)
    tokens = rng.integers(0, 12, (2, 15))
    wanted = process.RepetitionPenaltyLogitsProcessor(penalty)(
        torch.tensor(tokens), torch.tensor(logits)
    )
    got = crt.tensor(logits)
    columns = [crt.tensor(np.full(2, value, np.float32)) for value in (penalty, 0, 0, 0, 1.75)]
    crt.penalize_logits(
        got,
        crt.tensor(tokens.reshape(-1).astype(np.int32)),
        crt.tensor(np.array([[0, 15, 15], [15, 30, 30]], np.int32)),
        *columns,
        *(crt.tensor(np.full(2, value, np.int32)) for value in (2, 10)),
    )
    np.testing.assert_array_equal(got.numpy(), wanted.numpy())


@settings(deadline=None, max_examples=60)
@given(
    tokens=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    allowed=st.integers(1, 4),
    limit=st.integers(0, 40),
)
def test_runs_are_those_of_a_search(tokens: list[int], allowed: int, limit: int) -> None:
    got = crt.zeros(1, 6)
    columns = [crt.tensor([value]) for value in (1.0, 0.0, 0.0, 0.5, 1.25)]
    crt.penalize_logits(
        got,
        crt.tensor(np.array(tokens, np.int32)),
        crt.tensor(np.array([[0, 0, len(tokens)]], np.int32)),
        *columns,
        *(crt.tensor(np.array([value], np.int32)) for value in (allowed, limit)),
    )
    wanted = np.zeros(6)
    for token, length in longest_runs(tokens, limit).items():
        if length >= allowed:
            wanted[token] = -0.5 * 1.25 ** (length - allowed)
    np.testing.assert_allclose(got.numpy()[0], wanted, rtol=1e-6)


def test_spans_outside_the_history_are_refused() -> None:
    columns = [crt.tensor([value]) for value in (1.0, 0.0, 0.0, 0.5, 1.25)]
    dry = [crt.tensor(np.array([value], np.int32)) for value in (2, 9)]
    history = crt.tensor(np.array([1, 2], np.int32))
    for span in ([0, 0, 3], [-1, 0, 2], [2, 2, 1]):
        with pytest.raises(ClikaRTError, match=r"spans\[0\].*outside the 2 tokens"):
            spans = crt.tensor(np.array([span], np.int32))
            crt.penalize_logits(crt.zeros(1, 4), history, spans, *columns, *dry).numpy()
