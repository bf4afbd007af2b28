"""LoRA adapters in files: the folder that PEFT writes, and GGUF files of type "adapter".

Only headers are read here. A file says which weights of a base model it adds to, under the names
that base checkpoints of its kind use, with two matrices each: A ``[rank, inputs]``, B ``[outputs,
rank]``. What would change the arithmetic (DoRA, biases, trained embeddings, ...) is refused by
name: left out, the model would answer otherwise than it was trained to.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.io import TensorInfo, open_gguf, open_safetensors, read_json

from .config import Fields
from .knobs import COMPUTE_DTYPES

__all__ = ["AdapterFile", "Pair", "open_adapter"]

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
_CONFIG_LIMIT = 16 << 20
_MOST_RANK = 1 << 16
_MOST_NAME = 256  # characters of a tensor's name: what is done with a name's parts is bounded by it
_PEFT_NAME = re.compile(r"(?:base_model\.model\.)?(?P<base>.+)\.lora_(?P<part>[AB])\.weight")
_GGUF_NAME = re.compile(r"(?P<base>.+)\.lora_(?P<part>[ab])")
_PLAIN_NAME = re.compile(r"[\w.]+")
# Switches of adapter_config.json that change what an adapter computes, and what they stand for.
_REFUSED = {
    "modules_to_save": "whole modules trained beside the adapter",
    "lora_bias": "biases of the low-rank products",
    "fan_in_fan_out": "weights stored [inputs, outputs]",
    "trainable_token_indices": "trained rows of the token table",
    "target_parameters": "parameters outside linear layers",
    "layer_replication": "repeated layers",
    "alora_invocation_tokens": "an adapter that starts at certain tokens",
}
# Ways to begin a training that leave the base model's weights alone.
_PLAIN_STARTS = (True, False, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True)
class Pair:
    """The matrices of one weight: their names in the file, and the factor of their product."""

    down: str
    up: str
    rank: int
    scale: float


@dataclass(frozen=True)
class AdapterFile:
    """An opened adapter. ``kind`` is that of base checkpoints with the same names ("gguf",
    "safetensors"); ``architecture`` that of the base in a GGUF; ``pairs`` maps a base weight's name
    to its matrices."""

    path: Path
    kind: str
    architecture: str
    file: Any
    pairs: Mapping[str, Pair]


def open_adapter(path: str | os.PathLike[str]) -> AdapterFile:
    """Opens an adapter: a folder with `adapter_config.json` and `adapter_model.safetensors`, the
    latter file, or a GGUF file.

    Raises ``NotFoundError`` for a missing file, ``InvalidArgumentError`` (``MALFORMED_FILE``) for
    one that contradicts itself, ``UnsupportedError`` for a kind of adapter that is not served; all
    name file and entry."""
    where = Path(path)
    if not where.exists():
        raise NotFoundError(f"{where}: no such adapter (a folder of PEFT, or a GGUF file)")
    if where.suffix.lower() == ".gguf":
        return _open_gguf(where)
    folder = where if where.is_dir() else where.parent
    weights = folder / WEIGHTS_NAME if where.is_dir() else where
    for name in (folder / CONFIG_NAME, weights):
        if not name.is_file():
            raise NotFoundError(
                f"{name}: no such file; an adapter is a folder with {CONFIG_NAME} and "
                f"{WEIGHTS_NAME}, or a GGUF file"
            )
    if weights.suffix.lower() != ".safetensors":
        raise UnsupportedError(
            f"{weights}: adapters are read from safetensors and GGUF files; save it anew with "
            "safe_serialization=True"
        )
    return _open_peft(folder / CONFIG_NAME, weights)


# ---- PEFT
def _open_peft(config: Path, weights: Path) -> AdapterFile:
    fields = Fields(read_json(config, _CONFIG_LIMIT), str(config))
    kind = fields.text("peft_type")
    if kind != "LORA":
        raise fields.unsupported("peft_type", f"is {kind!r:.40}; served is LORA")
    task = fields.text("task_type", None)
    if task not in (None, "CAUSAL_LM"):
        raise fields.unsupported("task_type", f"is {task!r:.40}; served is CAUSAL_LM")
    _refuse(fields)
    rank = fields.integer("r", high=_MOST_RANK)
    alpha = fields.number("lora_alpha", low=-1e6, high=1e6)
    rooted = fields.boolean("use_rslora", False)
    ranks_differ = bool(fields.get("rank_pattern", {}))
    own = _own_alphas(fields)
    file = open_safetensors(weights)

    def scale(base: str, found: int) -> float:
        if found != rank and not ranks_differ:
            raise _malformed(weights, f"'{base}' has rank {found}, {config.name} says r = {rank}")
        _, ours = min((own[end] for end in _ends(base) if end in own), default=(0, alpha))
        return float(ours / (math.sqrt(found) if rooted else found))

    pairs = _pairs(weights, file.tensors, _PEFT_NAME, scale)
    _check_targets(fields, pairs)
    named = {f"{base}.weight": pair for base, pair in pairs.items()}
    return AdapterFile(weights, "safetensors", "", file, named)


def _refuse(fields: Fields) -> None:
    """Refuses by name what the arithmetic here leaves out."""
    for key, meaning in _REFUSED.items():
        if fields.get(key, None):
            raise fields.unsupported(key, f"asks for {meaning}, which is not served")
    for key, value in fields.raw.items():
        if str(key).startswith("use_") and key != "use_rslora" and value:
            raise fields.unsupported(key, "asks for another kind of adapter; served is plain LoRA")
    if fields.text("bias", "none") != "none":
        raise fields.unsupported("bias", f"is {fields.get('bias')!r:.40}; served is 'none'")
    start = fields.get("init_lora_weights", True)
    if start not in _PLAIN_STARTS:
        raise fields.unsupported(
            "init_lora_weights",
            f"is {start!r:.40}, which changes the base weights; save a plain adapter",
        )


def _own_alphas(fields: Fields) -> dict[str, tuple[int, float]]:
    """``alpha_pattern``: alphas of single modules, by the ends of their names, each with its place:
    of several that fit the first one counts."""
    section = fields.section("alpha_pattern")
    if section is None:
        return {}
    for name in section.raw:
        # An expression from a file could take forever to match.
        if not _PLAIN_NAME.fullmatch(str(name)):
            raise section.unsupported(str(name)[:80], "is an expression; served are plain names")
    return {
        name: (place, section.number(name, low=-1e6, high=1e6))
        for place, name in enumerate(section.raw)
    }


def _check_targets(fields: Fields, pairs: Mapping[str, Pair]) -> None:
    """Every module that ``target_modules`` lists has its matrices."""
    targets = fields.get("target_modules", None)
    if targets is None or isinstance(targets, str):  # an expression; the tensors say what it meant
        return
    if not isinstance(targets, list) or not all(isinstance(name, str) for name in targets):
        raise fields.fail("target_modules", f"must be a list of names, found {targets!r:.80}")
    missing = dict.fromkeys(targets)
    for base in pairs:
        for end in _ends(base):
            missing.pop(end, None)
    for name in missing:
        raise fields.fail("target_modules", f"lists '{name:.80}', the file has no tensors of it")


def _ends(base: str) -> Iterator[str]:
    """The name, and what stands behind each of its dots."""
    yield base
    dot = base.find(".")
    while dot >= 0:
        yield base[dot + 1 :]
        dot = base.find(".", dot + 1)


# ---- GGUF
def _open_gguf(path: Path) -> AdapterFile:
    file = open_gguf(path)
    fields = Fields(file.metadata, str(path))
    for key, want in (("general.type", "adapter"), ("adapter.type", "lora")):
        found = fields.text(key, "model" if key == "general.type" else "")
        if found != want:
            raise fields.fail(key, f"is {found!r:.40}, a LoRA adapter says '{want}'")
    if fields.has("adapter.alora.invocation_tokens"):
        raise fields.unsupported(
            "adapter.alora.invocation_tokens",
            f"asks for {_REFUSED['alora_invocation_tokens']}, which is not served",
        )
    alpha = fields.number("adapter.lora.alpha", low=-1e6, high=1e6)

    def scale(base: str, rank: int) -> float:
        return alpha / rank if alpha else 1.0  # 0 means that the matrices carry it

    pairs = _pairs(path, file.tensors, _GGUF_NAME, scale)
    return AdapterFile(path, "gguf", str(file.architecture), file, pairs)


# ---- matrices
def _pairs(
    path: Path,
    tensors: Mapping[str, TensorInfo],
    names: re.Pattern[str],
    scale: Callable[[str, int], float],
) -> dict[str, Pair]:
    found: dict[str, dict[str, TensorInfo]] = {}
    for name, info in tensors.items():
        if len(name) > _MOST_NAME:
            raise _malformed(
                path,
                f"the name '{name:.60}...' has {len(name)} characters, at most {_MOST_NAME} are "
                "served",
            )
        match = names.fullmatch(name)
        if match is None:
            raise UnsupportedError(
                f"{path}: tensor '{name:.120}' is no matrix of a linear layer's adapter (lora_A, "
                "lora_B); trained embeddings, biases and magnitudes are not served"
            )
        found.setdefault(match["base"], {})[match["part"].lower()] = info
    if not found:
        raise _malformed(path, "the adapter has no tensors")
    pairs = {}
    for base, parts in found.items():
        if len(parts) != 2:
            raise _malformed(path, f"'{base:.120}' has one matrix of two: {next(iter(parts))}")
        down, up = parts["a"], parts["b"]
        for info in (down, up):
            if len(info.shape) != 2 or min(info.shape) < 1 or info.shape[0] > 1 << 23:
                raise _malformed(
                    path,
                    f"tensor '{info.name:.120}' has shape {list(info.shape)[:8]}; expected two "
                    "sizes of at least 1",
                )
            if not info.packed and info.dtype not in COMPUTE_DTYPES:
                raise UnsupportedError(
                    f"{path}: tensor '{info.name:.120}' is {info.type}; served are "
                    f"{', '.join(COMPUTE_DTYPES)} and packed ones",
                    "NOT_IMPLEMENTED_FOR_DTYPE",
                )
        rank = down.shape[0]
        if up.shape[1] != rank:
            raise _malformed(
                path,
                f"'{base:.120}': A is {list(down.shape)} and B {list(up.shape)}; A is [rank, "
                "inputs], B [outputs, rank]",
            )
        if rank > _MOST_RANK:
            raise _malformed(path, f"'{base:.120}' has rank {rank}, at most {_MOST_RANK} is served")
        pairs[base] = Pair(down.name, up.name, rank, scale(base, rank))
    return pairs


def _malformed(path: Path, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: {problem}", "MALFORMED_FILE")
