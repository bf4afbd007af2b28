"""Cases and oracle of ``kv_append``."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, pool: Any, value: Any, slots: Any) -> Any:
    flat = pool.clone().view(-1, *pool.shape[2:])
    flat[slots.long()] = value.to(pool.dtype)
    return flat.view(pool.shape)


@pytest.mark.parametrize("case", cases("kv_append"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("kv_append"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("kv_append"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
