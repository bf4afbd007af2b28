"""Which files make a model: from the names in a directory, a wheel or an installed distribution.

Only names are looked at here. The rules are those of the hub's snapshots: GGUF files are weight
options of their own, the parts of a split are one option, and a folder of safetensors with its
index is one option.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

__all__ = [
    "COMPANIONS",
    "Option",
    "other_formats",
    "own_checkpoint",
    "sidecars",
    "weight_options",
]

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
    "video_preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
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
_MODULE = re.compile(r"\d+_\w+")
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

    Sidecars (``mmproj``, ``imatrix``, LoRA adapters) are no options. The parts of a split are one
    option, named by their common stem; a folder that holds the parts of one split alone gives its
    own name. Of two options with one name both are written with their folder.
    """
    names = sorted(set(names))
    modules = {posixpath.dirname(n) for n in names if posixpath.basename(n) == "modules.json"}
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in names:
        root, base = posixpath.split(name)
        stem, suffix = posixpath.splitext(base)
        if suffix not in (".gguf", ".safetensors") or _is_sidecar(base):
            continue
        if suffix == ".safetensors" and _of_module(root, modules):
            continue
        groups.setdefault((suffix[1:], root, _stem(stem)), []).append(name)
    folders = Counter(root for kind, root, _ in groups if kind == "gguf")
    options = []
    for (kind, root, stem), weights in groups.items():
        if kind == "gguf":
            split = len(weights) > 1 and root and folders[root] == 1
            shown = posixpath.basename(root) if split else stem
            options.append(Option(kind, shown, root, tuple(weights)))
            continue
        if stem != "model" and ("safetensors", root, "model") in groups:
            continue  # `model` is the folder's checkpoint; the rest are copies in other shapes
        beside = tuple(n for n in names if _belongs(n, root, modules))
        options.append(Option(kind, stem, root, tuple(weights), beside))
    shared = Counter(option.name.lower() for option in options)
    options = [
        replace(o, name=posixpath.join(o.root, o.name)) if shared[o.name.lower()] > 1 else o
        for o in options
    ]
    options.sort(key=lambda option: (option.root, option.name, option.kind))
    return options


def own_checkpoint(options: Sequence[Option], names: Iterable[str]) -> Option | None:
    """The checkpoint that a folder or repository stands for although other options are beside or
    below it: its safetensors at the top, with a config.json."""
    if "config.json" not in set(names):
        return None
    dense = [o for o in options if o.kind == "safetensors" and not o.root]
    return dense[0] if len(dense) == 1 else None


def sidecars(names: Iterable[str]) -> list[str]:
    """The weight files that are no options: projectors, importance matrices, adapters."""
    return [
        name
        for name in sorted(set(names))
        if name.endswith((".gguf", ".safetensors")) and _is_sidecar(posixpath.basename(name))
    ]


def _is_sidecar(base: str) -> bool:
    lowered = base.lower()
    if lowered.endswith(".gguf"):
        return "mmproj" in lowered or "imatrix" in lowered
    return lowered.startswith("adapter_")


def _of_module(root: str, modules: set[str]) -> bool:
    """Whether ``root`` is a module's folder of a sentence-transformers checkpoint (``2_Dense``)."""
    parent, base = posixpath.split(root)
    return parent in modules and _MODULE.fullmatch(base) is not None


def _belongs(name: str, root: str, modules: set[str]) -> bool:
    """Whether ``name`` is a companion of the checkpoint in ``root``."""
    folder, base = posixpath.split(name)
    if folder == root:
        return any(fnmatch.fnmatchcase(base, pattern) for pattern in COMPANIONS)
    if posixpath.dirname(folder) == root and _of_module(folder, modules & {root}):
        return base == "config.json" or base.endswith(".safetensors")
    return False


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
