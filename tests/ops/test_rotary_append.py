"""Cases and oracle of ``rotary_append``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops import test_kv_append, test_rotary
from tests.ops.support import check_backend, check_oracle


def oracle(
    torch: Any,
    query: Any,
    key: Any,
    value: Any,
    positions: Any,
    inv_freq: Any,
    key_pool: Any,
    value_pool: Any,
    slots: Any,
    interleaved: bool,
    scale: float,
) -> Any:
    turn = positions, inv_freq, interleaved, scale
    keys = test_kv_append.oracle(torch, key_pool, test_rotary.oracle(torch, key, *turn), slots)
    values = test_kv_append.oracle(torch, value_pool, value, slots)
    return test_rotary.oracle(torch, query, *turn), keys, values


@pytest.mark.parametrize("case", cases("rotary_append"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", cases("rotary_append"), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("rotary_append"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


def setting() -> tuple[list[Any], list[Any], Any]:
    rng = np.random.default_rng(3)
    rows = [crt.tensor(rng.normal(size=(3, h, 8)).astype(np.float32)) for h in (4, 2, 2)]
    pools = [crt.zeros(2, 4, 2, 8), crt.zeros(2, 4, 2, 8)]
    return rows, pools, crt.tensor([1, 6, 3]).to(crt.int32)


def test_pools_are_the_results_and_have_the_bits_of_the_parts() -> None:
    rows, pools, slots = setting()
    turn = crt.tensor([4, 7, 2]), crt.tensor([1.0, 0.1, 0.01, 0.5])
    turned, keys, values = crt.rotary_append(*rows, *turn, *pools, slots)
    assert keys is pools[0] and values is pools[1]
    wanted = crt.kv_append(crt.zeros(2, 4, 2, 8), crt.rotary(rows[1], *turn), slots)
    assert keys.bytes() == wanted.bytes()
    assert values.bytes() == crt.kv_append(crt.zeros(2, 4, 2, 8), rows[2], slots).bytes()
    assert turned.bytes() == crt.rotary(rows[0], *turn).bytes()


def test_traced_writes_are_versions_of_both_pools() -> None:
    rows, pools, slots = setting()
    turn = crt.tensor([4, 7, 2]), crt.tensor([1.0, 0.1, 0.01, 0.5])

    def step(q: Any, k: Any, v: Any) -> Any:
        turned, keys, values = crt.rotary_append(q, k, v, *turn, *pools, slots)
        return turned, keys * 2, values * 3, pools[0] + pools[1]

    graph = crt.trace(step, example_inputs=tuple(rows))
    assert graph.output_names()[-2:] == ["state_out_0", "state_out_1"]
    graph.finalize()
    turned, twice, thrice, total = graph(*rows)
    clear = [crt.zeros(2, 4, 2, 8), crt.zeros(2, 4, 2, 8)]
    wanted, keys, values = crt.rotary_append(*rows, *turn, *clear, slots)
    assert turned.bytes() == wanted.bytes()
    assert twice.bytes() == (keys * 2).bytes() and thrice.bytes() == (values * 3).bytes()
    assert total.bytes() == (keys + values).bytes()
    assert pools[0].bytes() == keys.bytes() and pools[1].bytes() == values.bytes()


@pytest.mark.parametrize("which", [0, 1])
def test_a_pool_that_shows_an_element_twice_is_refused(which: int) -> None:
    rows, pools, slots = setting()
    pools[which] = crt.zeros(1, 4, 2, 8).expand(2, 4, 2, 8)
    turn = crt.tensor([4, 7, 2]), crt.tensor([1.0, 0.1, 0.01, 0.5])
    with pytest.raises(InvalidArgumentError, match="refers to a single memory location"):
        crt.rotary_append(*rows, *turn, *pools, slots)
