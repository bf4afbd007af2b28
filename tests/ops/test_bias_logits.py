"""Cases of ``bias_logits``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import ClikaRTError
from clika_runtime.testing import cases, check_rule
from tests.ops.support import check_backend

CASES = cases("bias_logits")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_rule(case)
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def test_ids_and_spans_are_checked_before_anything_is_written() -> None:
    values = crt.tensor([1.0, 2.0])

    def bias(logits: object, ids: list[int], span: list[int]) -> None:
        spans = crt.tensor(np.array([span], np.int32))
        crt.bias_logits(logits, crt.tensor(np.array(ids, np.int32)), values, spans).numpy()

    for ids, span, message in (
        ([0, 4], [0, 2], r"ids\[1\] is 4, outside the 4 logits"),
        ([-1, 0], [0, 2], r"ids\[0\] is -1"),
        ([0, 1], [0, 3], r"spans\[0\] is 0 to 3, outside the 2 ids"),
        ([0, 1], [1, 0], r"spans\[0\] is 1 to 0"),
    ):
        with pytest.raises(ClikaRTError, match=message):
            bias(crt.zeros(1, 4), ids, span)
