"""`quantization_config` of a `config.json`, or Model Optimizer's own file beside it, parsed once
for every method."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clika_runtime.io import read_json

from ..config import Fields

__all__ = ["QuantizationConfig", "names_of", "parse", "stands_for"]

# Model Optimizer's file.
_MODELOPT_FILE = "hf_quant_config.json"
_MODELOPT_LIMIT = 16 << 20

# Where the methods keep the modules that stay dense.
_SKIPPED = (
    "modules_to_not_convert",
    "ignore",
    "exclude_modules",
    "llm_int8_skip_modules",
    "ignored_layers",
)
_LONGEST = 256  # characters of a module's name that a pattern may mean
_REPETITIONS = 3  # of a regular expression


@dataclass(frozen=True)
class QuantizationConfig:
    """``method`` is `quant_method`; ``fields`` reads the section; ``skipped`` are patterns of
    modules that stay dense."""

    method: str
    fields: Fields
    skipped: tuple[str, ...] = ()

    def skips(self, module: str) -> bool:
        """Whether a module stays dense."""
        return any(stands_for(pattern, module) for pattern in self.skipped)


def stands_for(pattern: str, module: str) -> bool:
    """Whether a pattern of a configuration means a module: its name, some of its name's parts in a
    row, a glob, or a regular expression behind `re:`.

    >>> stands_for("lm_head", "lm_head"), stands_for("mlp", "model.layers.0.mlp.up_proj")
    (True, True)
    >>> stands_for("re:.*q_proj", "layers.0.self_attn.q_proj"), stands_for("o_proj", "do_proj")
    (True, False)
    """
    if len(module) > _LONGEST:
        return False
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatchcase(module, pattern)
    return f".{pattern}." in f".{module}."


def names_of(fields: Fields, key: str) -> tuple[str, ...]:
    """A list of patterns, checked; empty when the key is absent."""
    value = fields.get(key, ())
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(item, str) and len(item) <= 1024 for item in value)
        or len(value) > 65536
    ):
        raise fields.fail(key, f"must be a list of module names, found {str(value)[:80]}")
    for item in value:
        if item.startswith("re:"):
            try:
                re.compile(item[3:])
            except (re.error, OverflowError, RecursionError) as error:
                raise fields.fail(key, f"has the regular expression '{item}': {error}") from None
            # Repetitions of groups and long rows of repetitions may take forever to match.
            if re.search(r"\)[*+{]", item) or len(re.findall(r"[*+{]", item)) > _REPETITIONS:
                raise fields.unsupported(
                    key,
                    f"has the regular expression '{item}'; served are at most {_REPETITIONS} "
                    "repetitions, none of a group",
                )
    return tuple(value)


def parse(
    config: Mapping[str, Any], where: str, methods: Sequence[str]
) -> QuantizationConfig | None:
    """The quantization of a checkpoint, or None; `compression_config` is the older name of the
    section, and `hf_quant_config.json` beside ``where`` counts for a `config.json` without one.
    Refuses a method that is not among ``methods``."""
    outer = Fields(config, where)
    fields = outer.section("quantization_config") or outer.section("compression_config")
    if fields is None:
        fields = _modelopt_fields(os.path.join(os.path.dirname(where), _MODELOPT_FILE))
        if fields is None:
            return None
        method = "modelopt"
    else:
        method = fields.choice("quant_method", methods)
    skipped = [name for key in _SKIPPED for name in names_of(fields, key)]
    return QuantizationConfig(method, fields, tuple(skipped))


def _modelopt_fields(path: str) -> Fields | None:
    """The section `quantization` of Model Optimizer's file; None without the file."""
    if not os.path.exists(path):
        return None
    outer = Fields(read_json(path, _MODELOPT_LIMIT), path)
    fields = outer.section("quantization")
    if fields is None:
        raise outer.fail("quantization", "is missing")
    return fields
