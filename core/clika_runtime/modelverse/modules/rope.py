"""Rotary position embedding: the table of frequencies and the module that applies it."""

from __future__ import annotations

import math
from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

from ..config import RopeScaling

__all__ = ["Rotary", "inverse_frequencies"]


def inverse_frequencies(
    rotary_dim: int, theta: float, scaling: RopeScaling | None = None, factors: Any = None
) -> Any:
    """The angles per position, ``theta ** (-2i / rotary_dim)``, stretched by ``scaling``; float32
    ``[rotary_dim/2]``.

    ``linear`` divides every frequency by the factor. ``llama3`` divides those whose wavelength is
    above ``original / low_freq_factor``, keeps those below ``original / high_freq_factor`` and
    blends in between. ``factors`` (float32, one per frequency) divide the unscaled frequencies: the
    form that GGUF files carry.

    >>> inverse_frequencies(4, 10000.0).tolist()
    [1.0, 0.009999999776482582]
    """
    import numpy as np

    steps = np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim
    frequencies = 1.0 / np.power(np.float64(theta), steps)
    scaling = scaling or RopeScaling()
    if factors is not None:
        frequencies = frequencies / np.asarray(factors, dtype=np.float64)
    elif scaling.kind == "linear":
        frequencies = frequencies / scaling.factor
    elif scaling.kind == "llama3":
        wavelength = 2.0 * math.pi / frequencies
        span = scaling.high_freq_factor - scaling.low_freq_factor
        blend = (scaling.original_max_position / wavelength - scaling.low_freq_factor) / span
        # At 0 the frequency is fully stretched, at 1 it is kept; outside the band it is one of the
        # two.
        blend = np.clip(blend, 0.0, 1.0)
        frequencies = (1.0 - blend) * frequencies / scaling.factor + blend * frequencies
    return frequencies.astype(np.float32)


class Rotary:
    """Rotates pairs of a head's elements by ``position * frequency``. One object serves all layers
    of a model.

    ``interleaved`` says how pairs are formed: neighbours (2i, 2i + 1), the order of GGUF's llama
    files, or halves (i, i + rotary_dim / 2), the order of transformers."""

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
        """Divides the frequencies by these factors, one per pair, instead of stretching them by
        ``scaling``.

        ``name`` is the tensor's, for the refusal of a wrong count or a factor that is not positive.
        """
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
        self._factors = factors
        self._tables.clear()

    def table(self, device: Any) -> Any:
        """The frequencies as a tensor of a device, made at first use."""
        found = self._tables.get(device)
        if found is None:
            values = inverse_frequencies(self.head_dim, self.theta, self.scaling, self._factors)
            found = self._tables[device] = crt.tensor(values, device=device)
        return found

    def __call__(self, x: Any, positions: Any) -> Any:
        # x [tokens, heads, head_dim], positions [tokens]
        return crt.rotary(x, positions, self.table(x.device), interleaved=self.interleaved)
