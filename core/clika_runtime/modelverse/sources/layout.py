"""Which files make a model: from the names in a directory, a wheel or an installed distribution.

Only names are looked at here. The rules are those of the hub's snapshots: GGUF files are weight
options of their own, the parts of a split are one option, and a folder of safetensors with its
index is one option.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["COMPANIONS", "Option", "other_formats", "select", "weight_options"]

# What a safetensors model needs beside its weights; everything else in the folder stays where it
# is.
COMPANIONS = (
    "config.json",
    "generation_config.json",
    "hf_quant_config.json",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "tekken.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "processor_config.json",
    "preprocessor_config.json",
    "modules.json",
)

# Weights that no loader reads (yet): named in refusals, so that nobody searches for a typing error.
_OTHER = {
    ".onnx": "ONNX",
    ".pth": "torch container",
    ".pt": "torch container",
    ".ckpt": "torch container",
    ".jit": "TorchScript",
    ".bin": "torch or raw container",
    ".tflite": "TensorFlow Lite",
    ".h5": "Keras",
    ".pb": "TensorFlow",
    ".mlmodel": "Core ML",
    ".npz": "NumPy archive",
}
_PART = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})$")


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of weights. Names are relative with forward slashes.

    ``kind`` is ``gguf`` or ``safetensors``; ``weights`` holds the parts in order; ``companions``
    are the configuration and tokenizer files of a safetensors folder ``root``.
    """

    kind: str
    name: str
    root: str
    weights: tuple[str, ...]
    companions: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return self.companions + self.weights


def weight_options(names: Iterable[str]) -> list[Option]:
    """The weight options among ``names``, ordered by name.

    Sidecars (``mmproj``, ``imatrix``, LoRA adapters) are no options.
    """
    names = sorted(set(names))
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in names:
        root, base = posixpath.split(name)
        stem, suffix = posixpath.splitext(base)
        lowered = stem.lower()
        if suffix == ".gguf":
            if "mmproj" in lowered or "imatrix" in lowered:
                continue
            groups.setdefault(("gguf", root, _stem(stem)), []).append(name)
        elif suffix == ".safetensors":
            if lowered.startswith("adapter_"):
                continue
            groups.setdefault(("safetensors", root, _stem(stem)), []).append(name)
    options = []
    for (kind, root, stem), weights in groups.items():
        if kind == "gguf":
            options.append(Option(kind, stem, root, tuple(weights)))
            continue
        if stem != "model" and ("safetensors", root, "model") in groups:
            continue  # `model` is the folder's checkpoint; the rest are copies in other shapes
        beside = tuple(
            n for n in names if posixpath.dirname(n) == root and _companion(posixpath.basename(n))
        )
        options.append(Option(kind, stem, root, tuple(weights), beside))
    options.sort(key=lambda option: (option.root, option.name, option.kind))
    return options


def select(options: list[Option], selector: str) -> list[Option]:
    """The options that ``selector`` names: an exact option name, else a part of a name or of the
    first file's name, else (with ``*``, ``?`` or ``[``) a glob over both. Upper and lower case do
    not matter.
    """
    wanted = selector.lower()
    exact = [option for option in options if option.name.lower() == wanted]
    if exact:
        return exact
    glob = any(c in wanted for c in "*?[")

    def fits(text: str) -> bool:
        text = text.lower()
        return fnmatch.fnmatchcase(text, wanted) if glob else wanted in text

    return [o for o in options if fits(o.name) or fits(posixpath.basename(o.weights[0]))]


def other_formats(names: Iterable[str]) -> str:
    """A sentence part such as ``ONNX (a.onnx, b.onnx and 3 more)``; empty when there is none."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        label = _OTHER.get(posixpath.splitext(name)[1].lower())
        if label:
            found.setdefault(label, []).append(name)
    parts = []
    for label, files in found.items():
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        parts.append(f"{label} ({', '.join(files[:3])}{more})")
    return ", ".join(parts)


def _stem(stem: str) -> str:
    part = _PART.match(stem)
    return part["stem"] if part else stem


def _companion(base: str) -> bool:
    return any(fnmatch.fnmatchcase(base, pattern) for pattern in COMPANIONS)
