"""Rotary position embedding: the table of frequencies and the module that applies it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

from ..rope_scaling import LONG_TENSOR, SHORT_TENSOR, RopeScaling

__all__ = ["Rotary", "inverse_frequencies"]


def inverse_frequencies(
    rotary_dim: int,
    theta: float,
    scaling: RopeScaling | None = None,
    factors: Any = None,
    max_tokens: int = 0,
) -> Any:
    """The angles per position, ``theta ** (-2i / rotary_dim)``, stretched by ``scaling``; float32
    ``[rotary_dim/2]``.

    - ``linear`` divides every frequency by the factor.
    - ``dynamic`` raises theta to ``theta * (factor * n / original - factor + 1) ** (dim / (dim -
      2))`` where n, the longest sequence of ``max_tokens``, is beyond the original window.
    - ``llama3`` divides those whose wavelength is above ``original / low_freq_factor``, keeps those
      below ``original / high_freq_factor`` and blends in between.
    - ``yarn`` keeps those that turn at least ``beta_fast`` times within the original window,
      divides those that turn at most ``beta_slow`` times, and blends in between, linearly in the
      number of the pair (Peng et al., arXiv:2309.00071).
    - ``longrope`` divides by one list of factors up to the original window and by another one where
      ``max_tokens`` is beyond it (Ding et al., arXiv:2402.13753).

    ``factors`` (float32, one per frequency) divide the frequencies before: the form that GGUF files
    carry.

    >>> inverse_frequencies(4, 10000.0).tolist()
    [1.0, 0.009999999776482582]
    """
    import numpy as np

    scaling = scaling or RopeScaling()
    original = scaling.original_max_position
    if scaling.kind == "dynamic" and max_tokens > original:
        growth = scaling.factor * max_tokens / original - (scaling.factor - 1.0)
        theta = theta * growth ** (rotary_dim / (rotary_dim - 2))
    steps = np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim
    frequencies = 1.0 / np.power(np.float64(theta), steps)
    if factors is not None:
        frequencies = frequencies / np.asarray(factors, dtype=np.float64)
    if scaling.kind == "linear":
        frequencies = frequencies / scaling.factor
    elif scaling.kind == "llama3":
        wavelength = 2.0 * math.pi / frequencies
        span = scaling.high_freq_factor - scaling.low_freq_factor
        kept = (original / wavelength - scaling.low_freq_factor) / span
        frequencies = _blend(frequencies, scaling.factor, kept)
    elif scaling.kind == "yarn":
        frequencies = _blend(frequencies, scaling.factor, _yarn_kept(rotary_dim, theta, scaling))
    elif scaling.kind == "longrope":
        chosen = scaling.long_factors if max_tokens > original else scaling.short_factors
        frequencies = frequencies / np.asarray(chosen, dtype=np.float64)
    return frequencies.astype(np.float32)


def _blend(frequencies: Any, factor: float, kept: Any) -> Any:
    """At ``kept`` 0 a frequency is divided by the factor, at 1 it stays; outside it is one of the
    two."""
    import numpy as np

    kept = np.clip(kept, 0.0, 1.0)
    return (1.0 - kept) * frequencies / factor + kept * frequencies


def _yarn_kept(rotary_dim: int, theta: float, scaling: RopeScaling) -> Any:
    import numpy as np

    def pair(turns: float) -> float:
        """Where the pair stands that makes so many turns within the original window."""
        ratio = scaling.original_max_position / (turns * 2.0 * math.pi)
        return rotary_dim * math.log(ratio) / (2.0 * math.log(theta))

    first, last = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rotary_dim - 1)
    if first == last:
        last += 0.001
    ramp = (np.arange(rotary_dim // 2, dtype=np.float64) - first) / (last - first)
    return 1.0 - np.clip(ramp, 0.0, 1.0)


class Rotary:
    """Rotates pairs of a head's elements by ``position * frequency``. One object serves all layers
    of a model, or all those of one kind.

    ``interleaved`` says how pairs are formed: neighbours (2i, 2i + 1), the order of GGUF's llama
    files, or halves (i, i + rotary_dim / 2), the order of transformers.

    Kinds of scaling that depend on how long a text is (``dynamic``, ``longrope``) take the longest
    sequence that the cache may hold for it. So a token's rotation never depends on what follows it,
    on chunks or on neighbours, a plan serves every length, and the numbers are those of one pass of
    transformers over a text that fills the window; for longrope over every text on the same side of
    the original window. A cache within the original window is not stretched at all."""

    def __init__(
        self,
        head_dim: int,
        theta: float,
        scaling: RopeScaling | None = None,
        interleaved: bool = False,
    ) -> None:
        self.head_dim = head_dim
        self.theta = theta
        self.scaling = scaling or RopeScaling()
        self.interleaved = interleaved
        self._factors: Any = None
        self._tables: dict[Any, Any] = {}

    def set_factors(self, factors: Any, name: str) -> None:
        """Takes divisors of the frequencies, one per pair, from a file's tensor of this name: those
        of every scaling, or longrope's short or long ones.

        Refused by name: a wrong count, a factor that is not positive."""
        pairs = self.head_dim // 2
        if tuple(factors.shape) != (pairs,):
            raise InvalidArgumentError(
                f"Rotary: '{name}' has shape {list(factors.shape)}, the heads have {pairs} pairs",
                "MALFORMED_FILE",
            )
        for value in factors.tolist():
            if not 0.0 < value < math.inf:
                raise InvalidArgumentError(
                    f"Rotary: '{name}' holds the factor {value}, factors are positive numbers",
                    "MALFORMED_FILE",
                )
        if name == LONG_TENSOR:
            self.scaling = replace(self.scaling, long_factors=tuple(factors.tolist()))
        elif name == SHORT_TENSOR:
            self.scaling = replace(self.scaling, short_factors=tuple(factors.tolist()))
        else:
            self._factors = factors
        self._tables.clear()

    def table(self, device: Any, max_tokens: int) -> Any:
        """The frequencies as a tensor of a device, made at first use."""
        key = (device, max_tokens if self.scaling.follows_window else 0)
        found = self._tables.get(key)
        if found is None:
            values = inverse_frequencies(
                self.head_dim, self.theta, self.scaling, self._factors, max_tokens
            )
            found = self._tables[key] = crt.tensor(values, device=device)
        return found

    def __call__(self, x: Any, positions: Any, max_tokens: int) -> Any:
        # x [tokens, heads, head_dim], positions [tokens]
        return crt.rotary(x, positions, self.table(x.device, max_tokens), **self._how())

    def append(
        self,
        q: Any,
        k: Any,
        v: Any,
        positions: Any,
        pools: tuple[Any, Any],
        slots: Any,
        max_tokens: int,
    ) -> tuple[Any, Any, Any]:
        """Queries and keys of the same tokens are turned, keys and values go to their ``slots`` of
        the pools: the turned queries and the two pools."""
        table = self.table(q.device, max_tokens)
        turned, keys, values = crt.rotary_append(
            q, k, v, positions, table, *pools, slots, **self._how()
        )
        return turned, keys, values

    def _how(self) -> dict[str, Any]:
        return {"interleaved": self.interleaved, "scale": self.scaling.attention_factor}
