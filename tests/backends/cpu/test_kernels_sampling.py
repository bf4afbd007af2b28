"""The operators around the choice of a token, at every level: the kit's cases against its
references, and the same bits for every batch and number of threads."""

import numpy as np
import pytest
import torch
from harness import Kernels, usable_levels

from clika_runtime.testing import Operand, _kit, cases, expected

IN_PLACE = ("bias_logits", "mask_logits", "penalize_logits")
NAMES = (*IN_PLACE, "sample", "mirostat", "top_logprobs")
TYPES = {"float32": torch.float32, "int32": torch.int32}


@pytest.fixture(params=usable_levels(), scope="module")
def cpu(request):
    return Kernels(request.param)


def tensor(operand):
    """The operand as it lies in memory: transposed and stepped ones are views."""
    values = np.array(operand.values)
    if operand.dtype == "bfloat16":
        return torch.from_numpy(values).to(torch.bfloat16)
    if operand.layout == "transposed":
        return torch.from_numpy(np.ascontiguousarray(values.T)).T
    if operand.layout == "stepped":
        return torch.from_numpy(np.stack([values, np.zeros_like(values)], -1))[..., 0]
    return torch.from_numpy(values)


@pytest.mark.parametrize("case", [case for name in NAMES for case in cases(name)], ids=str)
def test_case(cpu, case):
    inputs = [tensor(arg) for arg in case.args if isinstance(arg, Operand)]
    attributes = [arg for arg in case.args if isinstance(arg, int)]
    outputs = [torch.zeros(shape, dtype=TYPES[kind]) for shape, kind in _kit.inferred(case)]
    if case.op in IN_PLACE:
        outputs = inputs[:1]
    got = cpu(case.op, inputs, outputs, attributes)
    for i, (_, kind) in enumerate(_kit.inferred(case)):
        _kit.compare(case, i, got[i].numpy(), expected(case)[i], kind)


def rows_of(cpu, order, threads_of):
    """Tokens, states and log-probabilities of rows in an order."""
    rng = np.random.default_rng(4)
    logits = torch.from_numpy(rng.normal(0, 3, (6, 5000)).astype(np.float32))[order]
    count = len(order)

    def column(low, high):
        return torch.from_numpy(rng.uniform(low, high, 6).astype(np.float32))[order]

    def whole(values):
        return torch.tensor(values)[order]

    filters = [column(0.2, 2.5), column(0.3, 1.0), column(0.0, 0.05), column(0.5, 2.0)]
    temperature, typical, threshold, sigma = filters
    ones, zeros = torch.ones(count), torch.zeros(count)
    top_k = whole([0, 50, 0, 700, 3, 0]).to(torch.int32)
    draw = [whole([3, 4, 5, 6, 7, 8]), whole([0, 1, 2, 3, 4, 5])]
    versions = whole([1, 2, 1, 2, 2, 1]).to(torch.int32)
    ids = torch.zeros(count, dtype=torch.int32)
    drawn = threads_of(
        "sample",
        [logits, temperature, ones, zeros, top_k, *draw, sigma, typical, ones, threshold],
        [ids],
    )[0]
    state = threads_of(
        "mirostat",
        [logits, drawn, temperature, 4 * ones, 0.1 * ones, 8 * ones, *draw, versions],
        [torch.zeros_like(ids), torch.zeros(count)],
    )
    told = threads_of(
        "top_logprobs",
        [logits, drawn],
        [torch.zeros(count), torch.zeros(count, 7), torch.zeros(count, 7, dtype=torch.int32)],
        [7],
    )
    return [drawn, *state, *told]


def test_rows_are_independent_of_the_batch_and_of_threads(cpu):
    whole = rows_of(cpu, list(range(6)), cpu)
    other = Kernels(None, threads=3)
    best = rows_of(other, list(range(6)), Kernels(None, threads=1))
    assert all(map(torch.equal, best, rows_of(other, list(range(6)), other)))
    for order in ([5, 0, 3], [2], [1, 4]):
        part = rows_of(cpu, order, cpu)
        assert all(torch.equal(a[order], b) for a, b in zip(whole, part, strict=True))
