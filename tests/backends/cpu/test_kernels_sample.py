"""sample against its definition, written out in Python with float64 sums."""

import pytest
import torch
from harness import Kernels, usable_levels
from test_kernels_tensors import philox

LEVELS = usable_levels()


@pytest.fixture(params=LEVELS, scope="module")
def cpu(request):
    return Kernels(request.param)


def sample(cpu, logits, temperature=1.0, top_p=1.0, min_p=0.0, top_k=0, seed=0, index=0):
    rows = logits.shape[0]

    def column(x, dtype):
        x = torch.as_tensor(x, dtype=dtype)
        return x.expand(rows).contiguous() if x.dim() == 0 else x

    inputs = [
        logits,
        column(temperature, torch.float32),
        column(top_p, torch.float32),
        column(min_p, torch.float32),
        column(top_k, torch.int32),
        column(seed, torch.int64),
        column(index, torch.int64),
    ]
    return cpu("sample", inputs, [torch.full((rows,), -7, dtype=torch.int32)])[0]


def reference(row, temperature=1.0, top_p=1.0, min_p=0.0, top_k=0, seed=0, index=0):
    if temperature == 0:
        return int(row.argmax())
    x = (row.float() - row.float().max()) / temperature
    p = x.exp().double()
    order = sorted(range(len(row)), key=lambda i: (-float(row[i]), i))
    kept = order[: top_k or None]
    if top_p < 1:
        total, sum_ = sum(float(p[i]) for i in kept), 0.0
        for n, i in enumerate(kept):
            sum_ += float(p[i])
            if sum_ >= torch.tensor(top_p).item() * total:
                kept = kept[: n + 1]
                break
    kept = [i for i in kept if p[i] >= torch.tensor(min_p)] or kept[:1]
    u = (philox(seed, index)[0] >> 8) * 2.0**-24
    total, sum_ = sum(float(p[i]) for i in sorted(kept)), 0.0
    for i in sorted(kept):
        sum_ += float(p[i])
        if sum_ > u * total:
            return i
    return max(kept)


def logits(rows, size, dtype=torch.float32, seed=0):
    return (torch.randn(rows, size, generator=torch.Generator().manual_seed(seed)) * 3).to(dtype)


SETTINGS = [
    {},
    {"temperature": 0.3},
    {"temperature": 2.5},
    {"top_k": 1},
    {"top_k": 40},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"min_p": 0.1},
    {"top_k": 50, "top_p": 0.8, "min_p": 0.02, "temperature": 0.8},
    {"top_p": 0.999, "min_p": 1e-5},
    {"top_k": 399},
    {"temperature": 0.0, "top_k": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("size", [3, 400])
def test_against_the_definition(cpu, size, settings):
    x = logits(1, size)
    for index in range(12):
        got = sample(cpu, x, seed=11, index=index, **settings)
        assert got.item() == reference(x[0], seed=11, index=index, **settings)


def test_greedy_takes_the_first_of_equals(cpu):
    x = torch.tensor([[1.0, 5.0, 5.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    assert sample(cpu, x, temperature=0.0).tolist() == [1, 0]
    assert sample(cpu, x.bfloat16(), temperature=0.0).tolist() == [1, 0]


def test_ties_at_the_border_keep_the_lower_ids(cpu):
    x = torch.zeros(1, 100)
    drawn = {sample(cpu, x, top_k=7, index=i).item() for i in range(200)}
    assert drawn == set(range(7))
    drawn = {sample(cpu, x, top_p=0.045, index=i).item() for i in range(100)}
    assert drawn == set(range(5))


def test_rows_are_independent_of_the_batch(cpu):
    x = logits(7, 3000)
    temperature = torch.tensor([0.0, 0.5, 1.0, 1.5, 0.7, 1.0, 1.0])
    top_k = torch.tensor([0, 0, 50, 0, 20, 0, 1])
    top_p = torch.tensor([1.0, 0.9, 1.0, 0.95, 0.5, 1.0, 1.0])
    seed, index = torch.arange(7) * 1000003, torch.arange(7) + 5
    min_p = torch.tensor([0.0, 0.0, 0.0, 0.01, 0.0, 0.2, 0.0])
    whole = sample(cpu, x, temperature, top_p, min_p, top_k, seed, index)
    for i in range(7):
        part = slice(i, i + 1)
        one = sample(
            cpu,
            x[part],
            temperature[part],
            top_p[part],
            min_p[part],
            top_k[part],
            seed[part],
            index[part],
        )
        assert one.tolist() == whole[part].tolist()
    two = Kernels(None, threads=2)
    assert sample(two, x, temperature, top_p, min_p, top_k, seed, index).shape == (7,)


def test_frequencies_follow_the_distribution(cpu):
    x = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).expand(4000, 4)
    drawn = sample(cpu, x, index=torch.arange(4000), seed=3)
    share = torch.bincount(drawn, minlength=4) / 4000
    torch.testing.assert_close(share, x[0].softmax(0), rtol=0, atol=0.03)


def test_infinite_and_nan_logits(cpu):
    inf = float("inf")
    nan = float("nan")
    x = torch.tensor(
        [
            [0.0, inf, 1.0],
            [-inf, -inf, 0.0],
            [0.0, nan, 9.0],
            [-inf, 0.0, -inf],
            [-inf, -inf, -inf],
            [nan, -inf, inf],
        ]
    )
    for temperature in (0.0, 1.0):
        drawn = sample(cpu, x, temperature, index=torch.arange(6))
        assert drawn.tolist() == [1, 2, -1, 1, -1, -1]
