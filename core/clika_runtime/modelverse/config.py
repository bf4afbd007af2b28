"""Reading the configuration of a checkpoint: `config.json` and GGUF metadata are hostile until
checked.

A family's config dataclass is filled through `Fields`, which checks type and range of each value
and says file, field, value and rule in every refusal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError

__all__ = ["LIMITS", "Fields", "read_stop_ids"]

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()

# Largest plausible values. They stop absurd sizes before anything is allocated from them.
LIMITS = {
    "hidden": 1 << 17,
    "intermediate": 1 << 20,
    "layers": 4096,
    "heads": 4096,
    "head_dim": 4096,
    "vocab": 1 << 23,
    "positions": 1 << 30,
}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class Fields:
    """Typed access to a raw configuration.

    ``where`` names the file in messages; ``prefix`` is put before each key (``llama.`` for GGUF
    metadata). A value of None counts as absent. An absent key without a default is an error.

    >>> Fields({"heads": 4}, "config.json").integer("heads", high=8)
    4
    """

    def __init__(self, raw: Any, where: str, prefix: str = "") -> None:
        if not isinstance(raw, Mapping):
            raise InvalidArgumentError(
                f"{where}: the configuration is a {type(raw).__name__}, expected an object",
                "MALFORMED_FILE",
            )
        self.raw = raw
        self.where = where
        self.prefix = prefix

    def fail(self, key: str, problem: str) -> InvalidArgumentError:
        """The error for a bad value: file, field and what is wrong with it."""
        return InvalidArgumentError(
            f"{self.where}: '{self.prefix}{key}' {problem}", "MALFORMED_FILE"
        )

    def unsupported(self, key: str, problem: str) -> UnsupportedError:
        """The error for a value that is well formed and not served."""
        return UnsupportedError(f"{self.where}: '{self.prefix}{key}' {problem}")

    def has(self, key: str) -> bool:
        """Whether the key stands in the configuration with a value."""
        return self.raw.get(self.prefix + key) is not None

    def get(self, key: str, default: Any = REQUIRED) -> Any:
        """The raw value."""
        value = self.raw.get(self.prefix + key)
        if value is not None:
            return value
        if default is REQUIRED:
            raise self.fail(key, "is missing")
        return default

    def integer(
        self, key: str, default: Any = REQUIRED, *, low: int = 1, high: int = 1 << 31
    ) -> Any:
        """A whole number in ``low .. high`` (both included)."""
        value = self.get(key, default)
        if value is default:
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(key, f"must be a whole number, found {_shown(value)}")
        if not low <= value <= high:
            raise self.fail(key, f"must be in {low} .. {high}, found {_shown(value)}")
        return value

    def number(
        self, key: str, default: Any = REQUIRED, *, low: float = -math.inf, high: float = math.inf
    ) -> Any:
        """A finite number in ``low .. high`` (both included)."""
        value = self.get(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(key, f"must be a number, found {_shown(value)}")
        # An integer beyond the range of floats is refused like an infinite one.
        if abs(value) > 1e300 or not math.isfinite(value):
            raise self.fail(key, f"must be a finite number, found {_shown(value)}")
        value = float(value)
        if not low <= value <= high:
            raise self.fail(key, f"must be in {low:g} .. {high:g}, found {_shown(value)}")
        return value

    def boolean(self, key: str, default: Any = REQUIRED) -> Any:
        """True or False."""
        value = self.get(key, default)
        if value is default or isinstance(value, bool):
            return value
        raise self.fail(key, f"must be true or false, found {_shown(value)}")

    def text(self, key: str, default: Any = REQUIRED) -> Any:
        """A string."""
        value = self.get(key, default)
        if value is default or isinstance(value, str):
            return value
        raise self.fail(key, f"must be a string, found {_shown(value)}")

    def choice(self, key: str, served: Sequence[str], default: Any = REQUIRED) -> Any:
        """A string out of ``served``; another one is refused as unsupported, with the list."""
        value = self.text(key, default)
        if value is not default and value not in served:
            raise self.unsupported(key, f"is {_shown(value)}; served are {', '.join(served)}")
        return value

    def section(self, key: str) -> Fields | None:
        """A nested object, or None when it is absent."""
        value = self.get(key, None)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fail(key, f"must be an object, found {_shown(value)}")
        return Fields(value, f"{self.where}: '{self.prefix}{key}'")

    def agree(self, key: str, value: Any, other: str, expected: Any) -> None:
        """Refuses when two facts of the checkpoint contradict each other."""
        if value != expected:
            raise self.fail(key, f"says {_shown(value)}, {other} says {_shown(expected)}")


def read_stop_ids(fields: Fields, key: str, vocab_size: int) -> tuple[int, ...]:
    """One id or a list of ids (``eos_token_id``), each inside the vocabulary; empty when the key is
    absent."""
    value = fields.get(key, None)
    if value is None:
        return ()
    ids = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int):
            raise fields.fail(key, f"must be a token id or a list of them, found {_shown(item)}")
        if not 0 <= item < vocab_size:
            raise fields.fail(key, f"is {item}, outside the vocabulary of {vocab_size}")
    return tuple(ids)
