"""How rotary frequencies are stretched for long contexts, read from `config.json` and from GGUF
metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .config import LIMITS, Fields

__all__ = ["RopeScaling"]

DEFAULT_THETA = 10000.0
# GGUF tensors of divisors: those of every scaling, and longrope's.
FREQS_TENSOR = "rope_freqs.weight"
SHORT_TENSOR, LONG_TENSOR = "rope_factors_short.weight", "rope_factors_long.weight"


@dataclass(frozen=True)
class RopeScaling:
    """One rule for the frequencies of a model; `modules.rope` has the formulas.

    ``kind``: ``default`` (none), ``linear``, ``dynamic``, ``llama3``, ``yarn``, ``longrope``.
    ``original_max_position`` is the window that the model was trained with. ``attention_factor``
    multiplies sines and cosines (yarn, longrope). ``short_factors`` and ``long_factors`` (longrope)
    divide the frequencies, one per pair."""

    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()

    @property
    def follows_window(self) -> bool:
        """Whether the frequencies depend on how long a sequence may become."""
        return self.kind in ("dynamic", "longrope")

    def window(self, max_position: int) -> int:
        """The context that the scaling serves, where a checkpoint states the one before it."""
        if self.kind not in ("dynamic", "yarn"):
            return max_position
        stretched = int(self.original_max_position * self.factor)
        return min(max(max_position, stretched), LIMITS["positions"])

    def check(self, fields: Fields, head_dim: int) -> None:
        """Refuses a scaling that does not fit the size of the heads."""
        if self.kind == "dynamic" and head_dim <= 2:
            raise fields.fail(
                "rope_scaling", f"is dynamic, which needs heads above 2, not {head_dim}"
            )
        for name in ("short_factors", "long_factors"):
            count = len(getattr(self, name))
            if count and count != head_dim // 2:
                raise fields.fail(
                    "rope_scaling", f"has {count} {name}, the heads have {head_dim // 2} pairs"
                )

    # ---- config.json
    @classmethod
    def from_hf(
        cls, fields: Fields, max_position: int, theta: float = DEFAULT_THETA
    ) -> tuple[float, RopeScaling]:
        """(theta, scaling) of a `config.json`: `rope_parameters`, or `rope_theta` beside
        `rope_scaling`."""
        theta = fields.number("rope_theta", theta, low=1.0, high=1e12)
        section = fields.section("rope_parameters") or fields.section("rope_scaling")
        if section is None:
            return theta, cls()
        return cls.from_section(section, fields, max_position, theta)

    @classmethod
    def from_section(
        cls, section: Fields, fields: Fields, max_position: int, theta: float
    ) -> tuple[float, RopeScaling]:
        """(theta, scaling) of one such object; ``fields`` is the configuration around it."""
        for key in ("full_attention", "sliding_attention"):
            if section.has(key):
                raise section.unsupported(key, "is set apart; served is one rule for all layers")
        partial = section.number("partial_rotary_factor", 1.0)
        if partial != 1.0:
            raise section.unsupported("partial_rotary_factor", f"is {partial:g}; served is 1")
        theta = section.number("rope_theta", theta, low=1.0, high=1e12)
        key = "rope_type" if section.has("rope_type") or not section.has("type") else "type"
        kind = section.choice(key, ("default", *_READERS), "default")
        if kind == "default":
            return theta, cls()
        if kind == "yarn":
            _check_yarn_theta(section, "rope_theta", theta)
        return theta, _READERS[kind](section, fields, max_position)

    # ---- GGUF
    @classmethod
    def from_gguf(
        cls,
        fields: Fields,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        max_position: int = 8192,
        theta: float = DEFAULT_THETA,
    ) -> tuple[float, RopeScaling]:
        """(theta, scaling) of GGUF metadata. Llama 3's scaling comes as a tensor of factors, not
        from here; so do the factors of longrope, which the file's tensors bring."""
        shapes = shapes or {}
        theta = fields.number("rope.freq_base", theta, low=1.0, high=1e12)
        tensors = [name for name in (SHORT_TENSOR, LONG_TENSOR) if name in shapes]
        kind = fields.choice(
            "rope.scaling.type",
            ("none", "linear", "yarn", "longrope"),
            "longrope" if tensors else "",
        )
        if (len(tensors) == 2) != (kind == "longrope") or len(tensors) == 1:
            raise fields.fail(
                "rope.scaling.type",
                f"is '{kind}'; longrope, and it alone, has the tensors '{SHORT_TENSOR}' and "
                f"'{LONG_TENSOR}', found: {', '.join(tensors) or 'none'}",
            )
        attention = fields.number("rope.scaling.attn_factor", 1.0, low=1e-3, high=1e3)
        if kind in ("", "none", "linear"):
            factor = 1.0
            if kind == "linear":
                factor = fields.number("rope.scaling.factor", low=1.0, high=1e6)
            elif kind == "":
                # The key of files written before scaling types were named.
                factor = fields.number("rope.scale_linear", 1.0, low=1.0, high=1e6)
            kind = "default" if factor == 1.0 else "linear"
            return theta, cls(kind, factor, attention_factor=attention)
        original = fields.integer(
            "rope.scaling.original_context_length", max_position, high=LIMITS["positions"]
        )
        if kind == "longrope":
            factor = fields.number("rope.scaling.factor", 1.0, low=0.0, high=1e6)
            if factor not in (0.0, 1.0):
                raise fields.unsupported(
                    "rope.scaling.factor", f"is {factor:g} beside longrope; served is none"
                )
            return theta, cls(
                "longrope", original_max_position=original, attention_factor=attention
            )
        _check_yarn_theta(fields, "rope.freq_base", theta)
        for name, served in (("yarn_ext_factor", (-1.0, 1.0)), ("yarn_attn_factor", (1.0,))):
            value = fields.number(f"rope.scaling.{name}", 1.0)
            if value not in served:
                raise fields.unsupported(f"rope.scaling.{name}", f"is {value:g}; served is 1")
        factor = fields.number("rope.scaling.factor", low=1.0, high=1e6)
        all_dims = fields.number("rope.scaling.yarn_log_multiplier", 0.0, low=0.0, high=1e3)
        return theta, cls(
            "yarn",
            factor,
            original_max_position=original,
            attention_factor=attention * _yarn_attention(factor, 1.0, all_dims),
            **_betas(fields, "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"),
        )


# ---- one reader per kind of a config.json
def _factor(section: Fields, default: float | None = None) -> float:
    factor = section.number("factor", None, low=1.0, high=1e6)
    if factor is not None:
        return float(factor)
    if default is None or default < 1.0:
        raise section.fail("factor", "is missing")
    return default


def _original(section: Fields, fields: Fields, max_position: int) -> int:
    """The window before scaling, which stands in the section or beside it."""
    key = "original_max_position_embeddings"
    inner = section.integer(key, None, high=LIMITS["positions"])
    outer = fields.integer(key, inner, high=LIMITS["positions"])
    if inner is not None:
        fields.agree(key, outer, "the rope scaling", inner)
    return int(outer or max_position)


def _linear(section: Fields, fields: Fields, max_position: int) -> RopeScaling:
    return RopeScaling("linear", _factor(section))


def _dynamic(section: Fields, fields: Fields, max_position: int) -> RopeScaling:
    return RopeScaling("dynamic", _factor(section), original_max_position=max_position)


def _llama3(section: Fields, fields: Fields, max_position: int) -> RopeScaling:
    factor = _factor(section)
    low = section.number("low_freq_factor", low=1e-6, high=1e6)
    high = section.number("high_freq_factor", low=1e-6, high=1e6)
    if high <= low:
        raise section.fail("high_freq_factor", f"is {high:g}, not above low_freq_factor {low:g}")
    return RopeScaling("llama3", factor, low, high, _original(section, fields, max_position))


def _yarn(section: Fields, fields: Fields, max_position: int) -> RopeScaling:
    original = _original(section, fields, max_position)
    factor = _factor(section, max_position / original)
    attention = section.number("attention_factor", None, low=1e-3, high=1e3)
    if attention is None:
        mscale = section.number("mscale", 0.0, low=0.0, high=1e3)
        all_dims = section.number("mscale_all_dim", 0.0, low=0.0, high=1e3)
        both = mscale > 0.0 and all_dims > 0.0
        attention = _yarn_attention(factor, *((mscale, all_dims) if both else (1.0, 0.0)))
    return RopeScaling(
        "yarn",
        factor,
        original_max_position=original,
        truncate=section.boolean("truncate", True),
        attention_factor=attention,
        **_betas(section, "beta_fast", "beta_slow"),
    )


def _longrope(section: Fields, fields: Fields, max_position: int) -> RopeScaling:
    original = _original(section, fields, max_position)
    factor = section.number("factor", max_position / original, low=1e-6, high=1e6)
    attention = section.number("attention_factor", None, low=1e-3, high=1e3)
    if attention is None:
        if factor > 1.0 and original < 2:
            raise section.fail("original_max_position_embeddings", f"is {original}; at least 2")
        stretch = math.log(factor) / math.log(original) if factor > 1.0 else 0.0
        attention = math.sqrt(1.0 + stretch)
    return RopeScaling(
        "longrope",
        factor,
        original_max_position=original,
        attention_factor=attention,
        short_factors=_factors(section, "short_factor"),
        long_factors=_factors(section, "long_factor"),
    )


_READERS = {
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}


def _factors(section: Fields, key: str) -> tuple[float, ...]:
    """A list of positive numbers, one per pair of a head's elements."""
    values = section.get(key)
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise section.fail(key, f"must be a list of numbers, found a {type(values).__name__}")
    if len(values) > LIMITS["head_dim"] // 2:
        raise section.fail(key, f"has {len(values)} numbers, more than any head has pairs")
    named = Fields({f"{key}[{i}]": value for i, value in enumerate(values)}, section.where)
    return tuple(float(named.number(name, low=1e-6, high=1e6)) for name in named.raw)


def _betas(fields: Fields, fast_key: str, slow_key: str) -> dict[str, Any]:
    """The turns within the original window above which yarn keeps a frequency, and below which it
    stretches it fully."""
    fast = fields.number(fast_key, 32.0, low=0.0, high=1e6) or 32.0
    slow = fields.number(slow_key, 1.0, low=0.0, high=1e6) or 1.0
    if fast < slow:
        raise fields.fail(fast_key, f"is {fast:g}, below '{slow_key}' {slow:g}")
    return {"beta_fast": fast, "beta_slow": slow}


def _yarn_attention(factor: float, mscale: float, all_dims: float) -> float:
    """``(0.1 mscale ln(factor) + 1) / (0.1 all_dims ln(factor) + 1)``."""
    stretch = 0.1 * math.log(factor)
    return (mscale * stretch + 1.0) / (all_dims * stretch + 1.0)


def _check_yarn_theta(fields: Fields, key: str, theta: float) -> None:
    if theta <= 1.0:
        raise fields.fail(key, f"is {theta:g}; yarn needs a base above 1")
