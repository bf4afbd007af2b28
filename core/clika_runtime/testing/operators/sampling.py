"""The choice of tokens: what is asked of logits, the draw, and what is told of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array, philox, uniform

_KINDS = {
    "top_k": "int32",
    "version": "int32",
    "seed": "int64",
    "index": "int64",
    "dry_allowed": "int32",
    "dry_limit": "int32",
}


def _columns(make: Make, columns: dict[str, Any]) -> list[Any]:
    return [
        make.operand(np.array(values), _KINDS.get(name, "float32"))
        for name, values in columns.items()
    ]


# ---------------------------------------------------------------- sample
#: The filters of a row, off.
OFF: dict[str, float] = {
    "top_p": 1.0,
    "min_p": 0.0,
    "top_k": 0,
    "top_n_sigma": 0.0,
    "typical_p": 1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 1.0,
}


def _head(order: Array, p: Array, share: float) -> Array:
    """The shortest head whose part of the sum reaches the share."""
    reached = np.cumsum(p[order]) / p[order].sum()
    return order[: int(np.searchsorted(reached, share)) + 1]


def kept_tokens(
    logits: Array,
    temperature: float,
    top_p: float,
    min_p: float,
    top_k: int,
    top_n_sigma: float = 0.0,
    typical_p: float = 1.0,
    xtc_probability: float = 0.0,
    xtc_threshold: float = 1.0,
    chance: float = 0.0,
) -> Array:
    """The probabilities of a row's tokens after the filters; 0 for those left out. ``chance`` is
    the random number of XTC."""
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if top_n_sigma > 0:
        spread = logits[np.isfinite(logits)].std()
        order = order[logits[order] >= logits.max() - top_n_sigma * spread]
    if top_k > 0:
        order = order[:top_k]
    if typical_p < 1:
        surprise = -np.log(p[order] / p[order].sum())
        entropy = (np.exp(-surprise) * surprise).sum()
        order = _head(order[np.argsort(np.abs(surprise - entropy), kind="stable")], p, typical_p)
        order = order[np.lexsort((order, -p[order]))]
    if top_p < 1:
        order = _head(order, p, top_p)
    if min_p > 0:
        order = order[p[order] >= min_p * p[order[0]]]
    if chance < xtc_probability:
        tops = int((p[order] / p[order].sum() >= xtc_threshold).sum())
        order = order[max(0, tops - 1) :]
    result = np.zeros(len(p))
    result[order] = p[order] / p[order].sum()
    return result


def draw(
    logits: Array,
    temperature: float,
    top_p: float,
    min_p: float,
    top_k: int,
    seed: int,
    index: int,
    *more: float,
) -> tuple[int, float]:
    """The token of one row, and how far the draw was from another one (as a share of 1)."""
    if not logits.max() > -np.inf:
        return -1, 1.0
    if temperature == 0:
        return int(np.argmax(logits)), 1.0
    u, chance = (float(x) for x in uniform(philox(index, 0, seed))[:2])
    sigma, typical, often, least = more or (0.0, 1.0, 0.0, 1.0)
    filters = (top_p, min_p, top_k, sigma, typical, often, least)
    steps = np.cumsum(kept_tokens(logits, temperature, *filters, chance))
    return int(np.argmax(steps > u)), float(np.abs(steps - u).min())


def _sample(logits: Array, *columns: Any) -> Array:
    given = [column for column in columns if column is not None]
    return np.array([draw(*row)[0] for row in zip(logits, *given, strict=True)], np.int64)


def _sample_cases(make: Make) -> None:
    def case(name: str, vocabulary: int, dtype: str = "float32", **settings: Any) -> None:
        """Five rows; seeds whose draw falls next to a border, where rounding decides, are left."""
        logits = make.normal((5, vocabulary), dtype, scale=2)
        chosen: dict[str, Any] = {"temperature": 1.0, **OFF, **settings}
        names = ("temperature", "top_p", "min_p", "top_k", "seed", "index", *list(OFF)[3:])
        columns: dict[str, list[float]] = {name: [] for name in names}
        for row in logits.exact():
            while True:
                chosen["seed"] = int(make.rng.integers(2**62))
                chosen["index"] = int(make.rng.integers(2**20))
                if draw(row, *(chosen[name] for name in names))[1] > 1e-4 / vocabulary**0.5:
                    break
            for key in names:
                columns[key].append(chosen[key])
        given = _columns(make, columns)
        make.case(name, logits, *(given if set(settings) & set(names[6:]) else given[:6]))

    for dtype in ("float32", "bfloat16"):
        case(f"{dtype}-greedy", 50, dtype, temperature=0.0)
        case(f"{dtype}-plain", 50, dtype)
    case("cold", 50, temperature=0.3)
    case("hot", 50, temperature=2.5)
    case("top-k", 100, top_k=5)
    case("top-k-one", 100, top_k=1)
    case("top-k-all", 20, top_k=50)
    case("top-p", 100, top_p=0.6)
    case("top-p-least", 100, top_p=0.001)
    case("min-p", 100, min_p=0.2)
    case("all-three", 200, temperature=0.8, top_k=40, top_p=0.9, min_p=0.05)
    case("large", 3000)
    case("sigma", 300, temperature=1.5, top_n_sigma=1.0)
    case("sigma-wide", 300, top_n_sigma=30.0, top_p=0.9)
    case("typical", 300, typical_p=0.5)
    case("typical-least", 300, typical_p=0.001)
    case("typical-then-top-p", 300, typical_p=0.7, top_p=0.6, min_p=0.3)
    case("xtc", 40, xtc_probability=1.0, xtc_threshold=0.05)
    case("xtc-sometimes", 40, xtc_probability=0.5, xtc_threshold=0.02)
    case("xtc-never", 40, xtc_probability=1.0, xtc_threshold=0.9)
    everything: dict[str, Any] = {"top_n_sigma": 2.0, "top_k": 60, "typical_p": 0.9}
    everything |= {"top_p": 0.95, "min_p": 0.01}
    case("every-filter", 500, **everything, xtc_probability=0.7, xtc_threshold=0.04)
    logits = make.operand([[1.0, 3.0, 3.0, 2.0]], "float32")
    settings = [make.operand([x], "float32") for x in (0.0, 1.0, 0.0)]
    rest = [make.operand([0], kind) for kind in ("int32", "int64", "int64")]
    make.case("tie", logits, *settings, *rest)
    no_choice = [[1.0, np.nan, 3.0], [-np.inf, -np.inf, -np.inf], [-np.inf, 2.0, -np.inf]]
    for name, temperature in (("undefined-greedy", 0.0), ("undefined-drawn", 1.0)):
        logits = make.operand(no_choice, "float32")
        settings = [make.operand([x] * 3, "float32") for x in (temperature, 1.0, 0.0)]
        rest = [make.operand([0] * 3, kind) for kind in ("int32", "int64", "int64")]
        make.case(name, logits, *settings, *rest)
    filters = [make.operand([x] * 3, "float32") for x in (1.0, 0.5, 1.0, 0.1)]
    make.case("undefined-filtered", logits, *settings, *rest, *filters)


operator("sample", _sample, _sample_cases)


# ---------------------------------------------------------------- mirostat
def _mirostat_row(
    logits: Array,
    token: int,
    temperature: float,
    tau: float,
    eta: float,
    mu: float,
    seed: int,
    index: int,
    version: int,
) -> tuple[int, float, float]:
    """The token, the next mu, and how far the draw was from another token."""
    if not logits.max() > -np.inf or tau == 0 or temperature == 0:
        return token, mu, 1.0
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    if version == 1:
        kept = _zipf_kept(logits, temperature, mu)
    else:
        kept = -np.log2(p) <= mu
        kept[np.argmax(p)] = True
    q = np.where(kept, p, 0) / p[kept].sum()
    u = float(uniform(philox(index, 0, seed))[0])
    token = int(np.argmax(np.cumsum(q) > u))
    margin = float(np.abs(np.cumsum(q) - u).min())
    return token, mu - eta * (-math.log2(q[token]) - tau), margin


def _zipf_kept(logits: Array, temperature: float, mu: float) -> Array:
    """What version 1 keeps: Basu et al., algorithm 1, with the estimate of s by least squares."""
    order = [i for i in np.argsort(-logits, kind="stable") if logits[i] > -np.inf]
    n = len(order)
    k = float(n)
    if n > 1:
        few = min(100, n)
        i = np.arange(1, few)
        t = np.log((i + 1) / i)
        b = -np.diff(logits[order[:few]]) / temperature
        s = (t * b).sum() / (t * t).sum()
        e = s - 1
        ratio = e / (1 - n**-e) if abs(e) > 1e-9 else 1 / math.log(n)
        with np.errstate(divide="ignore", over="ignore"):
            k = float(np.float64(ratio * 2.0**mu) ** (np.float64(1) / s))
    kept = np.zeros(len(logits), bool)
    kept[order[: max(1, int(min(k, n)))]] = True
    return kept


def _mirostat(logits: Array, *columns: Array) -> tuple[Array, Array]:
    rows = [_mirostat_row(*row) for row in zip(logits, *columns, strict=True)]
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


def _mirostat_cases(make: Make) -> None:
    def case(
        name: str, vocabulary: int, temperature: float, tau: float, mu: float, version: int = 2
    ) -> None:
        logits = make.normal((4, vocabulary), scale=2)
        ids = make.integers(0, vocabulary, (4,), "int32")
        columns: dict[str, list[float]] = {"seed": [], "index": []}
        for row, token in zip(logits.exact(), ids.exact(), strict=True):
            settings = (temperature, tau, 0.1, mu)
            while True:
                seed, index = int(make.rng.integers(2**62)), int(make.rng.integers(2**20))
                margin = _mirostat_row(row, token, *settings, seed, index, version)[2]
                if margin > 1e-4 / vocabulary**0.5:
                    break
            columns["seed"].append(seed)
            columns["index"].append(index)
        whole = {
            name: [value] * 4
            for name, value in (("temperature", temperature), ("tau", tau), ("eta", 0.1))
        }
        columns = {**whole, "mu": [mu] * 4, **columns, "version": [version] * 4}
        make.case(name, logits, ids, *_columns(make, columns))

    case("off", 50, 1.0, 0.0, 0.0)
    case("greedy", 50, 0.0, 3.0, 6.0)
    case("begin", 400, 1.0, 3.0, 6.0)
    case("narrow", 400, 1.0, 1.0, 0.5)
    case("nothing-under", 400, 1.0, 1.0, -3.0)
    case("hot", 400, 2.0, 5.0, 7.5)
    case("first", 400, 1.0, 3.0, 6.0, 1)
    case("first-few-tokens", 7, 0.7, 1.0, 2.0, 1)
    case("first-one-token", 1, 1.0, 1.0, 2.0, 1)
    case("first-narrow", 400, 1.0, 1.0, -3.0, 1)
    case("first-wide", 3000, 2.0, 8.0, 9.5, 1)
    case("first-all", 400, 1.0, 8.0, 400.0, 1)
    no_choice = [[1.0, np.nan, 3.0], [-np.inf, -np.inf, -np.inf], [-np.inf, 2.0, -np.inf]]
    columns = {"temperature": [1.0] * 3, "tau": [2.0] * 3, "eta": [0.1] * 3, "mu": [4.0] * 3}
    make.case(
        "undefined",
        make.operand(no_choice, "float32"),
        make.operand([-1, -1, 0], "int32"),
        *_columns(make, {**columns, "seed": [1] * 3, "index": [2] * 3, "version": [1, 1, 1]}),
    )
    # Equal logits: s is 0. Two of many: the mask of a constraint.
    edges = [[1.5] * 5, [-np.inf, 2.0, -np.inf, 1.0, -np.inf], [0.0, 0.0, 0.0, -9.0, -9.0]]
    make.case(
        "edges",
        make.operand(edges, "float32"),
        make.operand([-1, -1, 0], "int32"),
        *_columns(make, {**columns, "seed": [1] * 3, "index": [2] * 3, "version": [1, 1, 1]}),
    )


operator("mirostat", _mirostat, _mirostat_cases, float32=(64, 0))


# ---------------------------------------------------------------- bias, mask, penalties
def _bias_logits(logits: Array, ids: Array, values: Array, spans: Array) -> Array:
    result = logits.copy()
    for row, (begin, end) in zip(result, spans, strict=True):
        for token, value in zip(ids[begin:end], values[begin:end], strict=True):
            banned = value == -np.inf and not np.isnan(row[token])
            row[token] = -np.inf if banned else row[token] + value
    return result


def _bias_cases(make: Make) -> None:
    def spans(*pairs: tuple[int, int]) -> Any:
        return make.operand(np.array(pairs), "int32")

    logits = make.normal((3, 40))
    ids = make.integers(0, 40, (9,), "int32")
    values = make.normal((9,), scale=5)
    make.case("rows", logits, ids, values, spans((0, 4), (4, 4), (4, 9)))
    make.case("shared", logits, ids, values, spans((0, 9), (0, 9), (2, 3)))
    whole = spans(*[(0, 9)] * 3)
    make.case("strided", make.normal((3, 40), layout="transposed"), ids, values, whole)
    one = make.operand([7, 7], "int32")
    make.case("twice", logits, one, make.operand([1.5, 2.25], "float32"), spans(*[(0, 2)] * 3))
    undefined = make.operand([[np.nan, np.inf, 1.0, -np.inf]], "float32")
    bans = make.operand([-np.inf] * 4, "float32")
    make.case("bans", undefined, make.operand(range(4), "int32"), bans, spans((0, 4)))
    nothing = make.operand(np.zeros(0), "int32"), make.operand(np.zeros(0), "float32")
    make.case("none", logits, *nothing, spans(*[(0, 0)] * 3))


operator("bias_logits", _bias_logits, _bias_cases, float32=(1, 0))


def _mask_logits(logits: Array, mask: Array) -> Array:
    places = np.arange(logits.shape[1])
    allowed = (mask[:, places // 32] >> (places % 32)) & 1
    return np.where((allowed == 1) | np.isnan(logits), logits, -np.inf)


def _mask_cases(make: Make) -> None:
    for vocabulary in (1, 31, 32, 33, 100):
        words = -(-vocabulary // 32)
        mask = make.integers(-(2**31), 2**31, (3, words), "int32")
        make.case(f"random-{vocabulary}", make.normal((3, vocabulary)), mask)
    logits = make.normal((2, 70))
    make.case("all", logits, make.operand(np.full((2, 3), -1), "int32"))
    make.case("none", logits, make.operand(np.zeros((2, 3)), "int32"))
    mask = make.integers(-(2**31), 2**31, (2, 3), "int32", "stepped")
    make.case("strided", make.normal((2, 70), layout="transposed"), mask)
    undefined = make.operand([[np.nan, 1.0, np.inf, -np.inf]], "float32")
    make.case("undefined", undefined, make.operand([[0b0010]], "int32"))


operator("mask_logits", _mask_logits, _mask_cases, float32=(0, 0))


def longest_runs(tokens: list[int], limit: int) -> dict[int, int]:
    """For each token that followed an earlier run of the last tokens: the longest such run."""
    runs: dict[int, int] = {}
    for place in range(len(tokens) - 1):
        length = 0
        while length < limit and length <= place and tokens[place - length] == tokens[-1 - length]:
            length += 1
        following = tokens[place + 1]
        runs[following] = max(runs.get(following, 0), length)
    return runs


def _penalize_row(
    row: Array,
    tokens: list[int],
    reply: list[int],
    repetition: float,
    frequency: float,
    presence: float,
    multiplier: float,
    base: float,
    allowed: int,
    limit: int,
) -> None:
    known = [token for token in tokens if 0 <= token < len(row)]
    for token in set(known):
        row[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
        count = reply.count(token)
        row[token] -= frequency * count + (presence if count else 0)
    if multiplier:
        for token, length in longest_runs(tokens, limit).items():
            if length >= max(1, allowed) and 0 <= token < len(row):
                row[token] -= min(1e30, multiplier * base ** float(length - allowed))


def _penalize_logits(logits: Array, history: Array, spans: Array, *columns: Array) -> Array:
    result = logits.copy()
    for row, (begin, reply, end), *settings in zip(result, spans, *columns, strict=True):
        tokens = [int(token) for token in history[begin:end]]
        said = [int(token) for token in history[max(begin, reply) : end]]
        _penalize_row(row, tokens, said, *settings)
    return result


def _penalize_cases(make: Make) -> None:
    off = {
        "repetition": 1.0,
        "frequency": 0.0,
        "presence": 0.0,
        "dry_multiplier": 0.0,
        "dry_base": 1.75,
        "dry_allowed": 2,
        "dry_limit": 1000,
    }
    spans = make.operand([[0, 10, 30], [30, 30, 60], [12, 60, 60]], "int32")

    def case(name: str, vocabulary: int = 12, **settings: Any) -> None:
        logits = make.normal((3, 50), scale=3)
        history = make.integers(0, vocabulary, (60,), "int32")
        columns = {key: [value] * 3 for key, value in {**off, **settings}.items()}
        make.case(name, logits, history, spans, *_columns(make, columns))

    case("off")
    case("repetition", repetition=1.3)
    case("repetition-below-1", repetition=0.7)
    case("frequency", frequency=0.4)
    case("presence", presence=1.5)
    case("negative", frequency=-0.4, presence=-1.0)
    case("counts-together", repetition=1.1, frequency=0.2, presence=0.3)
    case("dry", 2, dry_multiplier=0.8)
    case("dry-limit", 2, dry_multiplier=0.8, dry_limit=3)
    case("dry-limit-below-allowed", 2, dry_multiplier=0.8, dry_limit=1)
    case("dry-one", 3, dry_multiplier=0.5, dry_base=1.1, dry_allowed=1)
    case("dry-huge", 1, dry_multiplier=1.0, dry_base=100.0)
    case("everything", 3, repetition=1.2, frequency=0.1, presence=0.2, dry_multiplier=0.5)
    case("foreign-tokens", 90, repetition=1.2, dry_multiplier=0.5, dry_allowed=1)
    logits = make.operand([[np.nan, 1.0, np.inf, -np.inf]], "float32")
    columns = {key: [value] for key, value in {**off, "repetition": 2.0, "presence": 1.0}.items()}
    history = make.operand([0, 1, 2, 3], "int32")
    make.case(
        "undefined", logits, history, make.operand([[0, 0, 4]], "int32"), *_columns(make, columns)
    )
    nothing = make.operand(np.zeros(0), "int32"), make.operand([[0, 0, 0]], "int32")
    make.case("no-history", logits, *nothing, *_columns(make, columns))


operator("penalize_logits", _penalize_logits, _penalize_cases, float32=(4, 8))


# ---------------------------------------------------------------- log-probabilities
def _top_logprobs(logits: Array, ids: Array, k: int) -> tuple[Array, Array, Array]:
    chosen, values, tokens = [], [], []
    for row, token in zip(logits, ids, strict=True):
        if not np.isfinite(row.max()):
            chosen.append(np.nan)
            values.append(np.full(k, np.nan))
            tokens.append(np.full(k, -1))
            continue
        logprobs = row - row.max() - np.log(np.exp(row - row.max()).sum())
        order = np.argsort(-row, kind="stable")[:k]
        chosen.append(logprobs[token] if 0 <= token < len(row) else np.nan)
        values.append(logprobs[order])
        tokens.append(order)
    shape = (len(logits), k)
    return np.array(chosen), np.reshape(values, shape), np.reshape(tokens, shape)


def _top_logprobs_cases(make: Make) -> None:
    for dtype in ("float32", "bfloat16"):
        logits = make.normal((4, 200), dtype, scale=3)
        make.case(dtype, logits, make.integers(0, 200, (4,), "int32"), 5)
    logits = make.normal((3, 40), "float32", "transposed", scale=3)
    ids = make.operand([-1, 39, 40], "int32")
    make.case("strided", logits, ids, 3)
    make.case("all", logits, ids, 40)
    make.case("no-tops", logits, ids)
    tied = make.operand([[2.0, 3.0, 3.0, 2.0]], "float32")
    make.case("ties", tied, make.operand([0], "int32"), 3)
    undefined = [[1.0, np.nan, 2.0], [-np.inf] * 3, [-np.inf, 2.0, 1.0], [0.0, np.inf, 1.0]]
    make.case(
        "undefined", make.operand(undefined, "float32"), make.operand([0, 1, 0, 1], "int32"), 2
    )


operator("top_logprobs", _top_logprobs, _top_logprobs_cases, float32=(8, 8))
