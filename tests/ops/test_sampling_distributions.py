"""Tokens are drawn as often as the NumPy reference says, by the chi-square test.

The draws are functions of seed and index, so each test gives the same statistic every time; a right
sampler has a p-value below the threshold in one of ten thousand seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.testing.operators.sampling import OFF, kept_tokens, longest_runs

DRAWS = 20000
LEAST_P = 1e-4


def logits_of(vocabulary: int = 60, scale: float = 2.0) -> Any:
    return (np.random.default_rng(5).normal(0, scale, vocabulary)).astype(np.float32)


def column(value: Any, kind: str = "float32", rows: int = DRAWS) -> Any:
    return crt.tensor(np.full(rows, value, kind))


def drawn(rows: Any, seed: int = 11, temperature: float = 1.0, **settings: float) -> Any:
    """How often each token was drawn."""
    chosen = {**OFF, **settings}
    filters = [
        column(chosen[name])
        for name in ("top_n_sigma", "typical_p", "xtc_probability", "xtc_threshold")
    ]
    ids = crt.sample(
        rows,
        column(temperature),
        column(chosen["top_p"]),
        column(chosen["min_p"]),
        column(chosen["top_k"], "int32"),
        column(seed, "int64"),
        crt.tensor(np.arange(DRAWS)),
        *filters,
    )
    return np.bincount(ids.numpy(), minlength=rows.shape[1])


def check(counts: Any, wanted: Any) -> None:
    """``counts`` come from the distribution ``wanted``; what must not be drawn never is."""
    torch = pytest.importorskip("torch")
    assert counts[wanted == 0].sum() == 0
    often = wanted * DRAWS >= 5
    observed = [*counts[often], counts[~often].sum()]
    expected = [*(wanted[often] * DRAWS), wanted[~often].sum() * DRAWS]
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    freedom = len(observed) - 1
    if freedom == 0:
        return
    halves = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    p = float(torch.special.gammaincc(halves[0], halves[1]))
    assert p > LEAST_P, f"chi-square {statistic:.1f} with {freedom} degrees of freedom, p = {p:.2g}"


SETTINGS: list[dict[str, float]] = [
    {},
    {"temperature": 0.4},
    {"temperature": 2.5},
    {"top_k": 7},
    {"top_p": 0.8},
    {"min_p": 0.05},
    {"typical_p": 0.6},
    {"top_n_sigma": 1.2},
    {"xtc_probability": 1.0, "xtc_threshold": 0.08},
    {"temperature": 1.3, "top_n_sigma": 2.5, "top_k": 40, "typical_p": 0.95, "top_p": 0.9},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_filters(settings: dict[str, float]) -> None:
    row = logits_of()
    rows = crt.tensor(np.broadcast_to(row, (DRAWS, len(row))).copy())
    chosen = {"temperature": 1.0, **OFF, **settings}
    check(drawn(rows, **settings), kept_tokens(row.astype(np.float64), **chosen))


def test_xtc_mixes_two_distributions() -> None:
    row = logits_of()
    rows = crt.tensor(np.broadcast_to(row, (DRAWS, len(row))).copy())
    settings = {**OFF, "temperature": 1.0, "xtc_probability": 0.3, "xtc_threshold": 0.08}
    exact = row.astype(np.float64)
    out, kept = (kept_tokens(exact, **settings, chance=chance) for chance in (0.0, 0.9))
    assert (out != kept).any()
    settings.pop("temperature")
    check(drawn(rows, **settings), 0.3 * out + 0.7 * kept)


def test_mirostat() -> None:
    row = logits_of()
    rows = crt.tensor(np.broadcast_to(row, (DRAWS, len(row))).copy())
    ids, mu = crt.mirostat(
        rows,
        column(0, "int32"),
        column(1.2),
        column(3.0),
        column(0.1),
        column(4.5),
        column(9, "int64"),
        crt.tensor(np.arange(DRAWS)),
        column(2, "int32"),
    )
    p = np.exp((row - row.max()) / 1.2)
    p /= p.sum()
    kept = np.where(-np.log2(p) <= 4.5, p, 0)
    assert 3 < np.count_nonzero(kept) < len(row) - 3
    wanted = kept / kept.sum()
    check(np.bincount(ids.numpy(), minlength=len(row)), wanted)
    expected = 4.5 - 0.1 * (-np.log2(wanted[ids.numpy()]) - 3.0)
    np.testing.assert_allclose(mu.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("s", [0.7, 1.0, 1.6])
def test_the_first_mirostat_keeps_the_head_of_a_zipf_distribution(s: float) -> None:
    """Where p falls exactly as i^-s, the count that is kept is the paper's formula of s."""
    size, mu, temperature = 300, 6.5, 1.25
    ranks = np.random.default_rng(8).permutation(size) + 1
    row = (-temperature * s * np.log(ranks)).astype(np.float32)
    ids, state = crt.mirostat(
        crt.tensor(np.broadcast_to(row, (DRAWS, size)).copy()),
        column(0, "int32"),
        column(temperature),
        column(3.0),
        column(0.1),
        column(mu),
        column(9, "int64"),
        crt.tensor(np.arange(DRAWS)),
        column(1, "int32"),
    )
    ratio = 1 / math.log(size) if s == 1 else (s - 1) / (1 - size ** (1 - s))
    k = int((ratio * 2**mu) ** (1 / s))
    assert 3 < k < 60
    wanted = np.where(ranks <= k, ranks**-s, 0.0)
    wanted /= wanted.sum()
    check(np.bincount(ids.numpy(), minlength=size), wanted)
    expected = mu - 0.1 * (-np.log2(wanted[ids.numpy()]) - 3.0)
    np.testing.assert_allclose(state.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_goes_to_its_surprise(version: int) -> None:
    """Over many tokens the mean surprise is the one aimed at."""
    row = logits_of(400, 1.5)
    seen = []
    mu = 6.0
    for index in range(600):
        ids, state = crt.mirostat(
            crt.tensor(row[None]),
            *(column(value, kind, 1) for value, kind in ((0, "int32"), (1.0, "float32"))),
            *(column(value, rows=1) for value in (3.0, 0.1, mu)),
            *(column(value, "int64", 1) for value in (4, index)),
            column(version, "int32", 1),
        )
        assert 0 <= ids.item() < 400
        seen.append((mu - float(state.item())) / 0.1 + 3.0)
        mu = float(state.item())
    assert abs(np.mean(seen[100:]) - 3.0) < 0.15


def test_all_stages_together() -> None:
    """Bias, penalties and mask change the logits that are drawn from."""
    row = logits_of(20)
    history = np.array([3, 4, 5, 3, 4, 9, 3, 4], np.int32)
    exact = row.astype(np.float64)
    exact[2] += 1.5
    exact[7] = -np.inf
    for token in set(history):
        exact[token] = exact[token] / 1.2 if exact[token] > 0 else exact[token] * 1.2
        exact[token] -= 0.1 * list(history[2:]).count(token) + 0.2 * (token in history[2:])
    runs = longest_runs(list(history), 10)
    for token, length in runs.items():
        exact[token] -= 0.7 * 1.75 ** (length - 1) if length >= 1 else 0.0
    assert {token for token, length in runs.items() if length >= 1} == {5, 9}
    allowed = 0b01111111111111011111
    exact[5] = exact[19] = -np.inf

    def each(values: Any, kind: str) -> Any:
        array = np.array(values, kind)
        return crt.tensor(np.broadcast_to(array, (DRAWS, *array.shape)).copy())

    rows = each(row, "float32")
    crt.bias_logits(
        rows,
        crt.tensor(np.array([2, 7], np.int32)),
        crt.tensor(np.array([1.5, -np.inf], np.float32)),
        each([0, 2], "int32"),
    )
    crt.penalize_logits(
        rows,
        crt.tensor(history),
        each([0, 2, 8], "int32"),
        *(each(value, "float32") for value in (1.2, 0.1, 0.2, 0.7, 1.75)),
        *(each(value, "int32") for value in (1, 10)),
    )
    crt.mask_logits(rows, each([allowed], "int32"))
    wanted = kept_tokens(exact, 0.9, 1.0, 0.01, 0)
    check(drawn(rows, temperature=0.9, min_p=0.01), wanted)
