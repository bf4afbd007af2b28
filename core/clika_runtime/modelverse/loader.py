"""From a checkpoint's files to a module tree with its weights bound.

The family says how its config is read, how the tree is built and what its names are; reading, dtype
choice, packed weights, tied tables and the checks are the same for all families and stand here."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clika_runtime as crt
from clika_runtime import nn, plugins
from clika_runtime._native._core import pack_weights
from clika_runtime.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from clika_runtime.io import TensorInfo, make_tensor, open_gguf, open_safetensors, read_json

from . import adapters, catalog, fit, quantization, requirements
from .cache_rows import RowFormat, row_format
from .config import Fields
from .family import Family
from .knobs import COMPUTE_DTYPES
from .requirements import owners, stays_as_published

__all__ = [
    "Checkpoint",
    "Described",
    "LoadOptions",
    "LoadedModel",
    "describe",
    "family_object",
    "identify",
    "load_model",
    "open_checkpoint",
    "read_config",
]

_log = logging.getLogger("clika_runtime.modelverse")

WEIGHT_MODES = ("fast", "exact")
CONFIG_LIMIT = 16 << 20
PACK_BYTES = 256 << 20  # weights packed by one call, which Ctrl-C waits for


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded.

    ``device`` is where weights, cache and computation are; one that is not there is refused, and
    "auto" takes the best one here that the model loads on (`fit.on_a_place`).
    ``dtype`` is the dtype of activations: None takes the checkpoint's; for a GGUF file and for a
    quantized one float32, or bfloat16 on a device that multiplies it on tensor cores. ``mode`` is
    how quantized weights are multiplied: "fast" (integer products over activations quantized by row
    block) or "exact" (weights decode to the compute dtype). It is that of attention too: "fast" may
    round queries and weights to the dtype of a cache of 16 bits, of any model
    (`ops.paged_attention`).
    ``max_seq`` caps the context window; 0 keeps the checkpoint's whole one, whose cache has to fit
    (the command line takes at most 4096 where ``--max-seq`` is not given). ``max_sequences``
    sequences may stand in the cache at once; ``kvcache`` is "paged" or "continuous"; ``kv_dtype``
    is what the cache holds its rows in, a name or dtype of `cache_rows`: None takes bfloat16 beside
    quantized weights that are multiplied fast, where ``dtype`` is not given and the device computes
    with it, else the dtype of activations; "q8_0" and "fp8" are quantized. ``prefill_chunk`` is how
    many prompt tokens one step takes at most. With ``prefix_cache`` the cache keeps texts that are
    done as long as nobody needs the room, and a prompt that begins as one of them takes its rows
    (`prefixes`).

    ``adapters`` are LoRA adapters on every request: paths, ``"PATH:SCALE"`` or ``AdapterSpec``
    (`adapters`). ``merge_adapters`` adds them to the weights, which have to be dense, instead of
    computing them beside."""

    device: str = "cpu"
    dtype: Any = None
    mode: str = "fast"
    max_seq: int = 0
    max_sequences: int = 1
    kvcache: str = "paged"
    kv_dtype: Any = None
    prefill_chunk: int = 512
    prefix_cache: bool = True
    adapters: tuple[Any, ...] = ()
    merge_adapters: bool = False

    def __post_init__(self) -> None:
        if self.mode not in WEIGHT_MODES:
            raise InvalidArgumentError(
                f"LoadOptions: mode '{self.mode}' is none; choose one of {', '.join(WEIGHT_MODES)}"
            )
        for name, low in (("max_seq", 0), ("max_sequences", 1), ("prefill_chunk", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise InvalidArgumentError(
                    f"LoadOptions: {name} must be at least {low}, got {value!r}"
                )
        if not isinstance(self.prefix_cache, bool):
            raise InvalidArgumentError(
                f"LoadOptions: prefix_cache must be True or False, got {self.prefix_cache!r:.80}"
            )
        if isinstance(self.adapters, (str, os.PathLike)) or not isinstance(self.adapters, Iterable):
            raise InvalidArgumentError(
                f"LoadOptions: adapters takes a list of adapters, got {self.adapters!r:.80}"
            )
        object.__setattr__(self, "adapters", tuple(map(adapters.spec_of, self.adapters)))

    def compute_dtype(self) -> Any:
        """The dtype object of option ``dtype``, or None; refuses what nothing computes in."""
        if self.dtype is None:
            return None
        found = crt.dtypes.by_name(self.dtype) if isinstance(self.dtype, str) else self.dtype
        if found.name not in COMPUTE_DTYPES:
            raise UnsupportedError(
                f"LoadOptions: dtype {found.name} is not served; choose one of "
                f"{', '.join(COMPUTE_DTYPES)}",
                "NOT_IMPLEMENTED_FOR_DTYPE",
            )
        return found

    def cache_rows(self, compute: Any, checkpoint: Checkpoint) -> RowFormat:
        """What the cache of a model of that checkpoint holds its rows in, where it computes in that
        dtype."""
        if self.kv_dtype is not None:
            return row_format(self.kv_dtype)
        fast = self.dtype is None and self.mode == "fast" and checkpoint.packed
        if fast and _serves_bfloat16(self.device):
            return row_format(crt.bfloat16)
        return row_format(compute)


def _serves_bfloat16(device: Any) -> bool:
    # A host without a backend is judged too, and has no properties.
    if crt.Device(device).type == "cpu":
        return True
    return bool(crt.get_device_properties(device).bf16)


class Checkpoint:
    """The opened files of one model: its raw configuration and its tensors, none of them read yet.

    ``kind`` is "gguf" or "safetensors"; ``config`` holds `config.json` or the GGUF metadata;
    ``where`` names the file that the configuration came from. ``cache_scales`` are tensors for a
    quantized cache, left out of ``tensors``."""

    def __init__(self, path: str | os.PathLike[str], kind: str | None = None) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise NotFoundError(f"{self.path}: no such file or directory")
        if kind is None:
            kind = "gguf" if self.path.suffix.lower() == ".gguf" else "safetensors"
        self.kind = kind
        self.folder = self.path if self.path.is_dir() else self.path.parent
        self.file: Any
        if kind == "gguf":
            self.file = open_gguf(self.path)
            self.where = str(self.path)
            self.config: Mapping[str, Any] = self.file.metadata
        else:
            self.where = str(self.folder / "config.json")
            probed = None
            if not Path(self.where).exists():
                probed = catalog.probe_names(self.folder)
            if probed is None:
                config = read_json(self.where, CONFIG_LIMIT)
            else:
                config, self.where = {"model_type": probed}, str(self.folder)
            if not isinstance(config, dict):
                raise InvalidArgumentError(
                    f"{self.where}: the configuration is a {type(config).__name__}, expected an "
                    "object",
                    "MALFORMED_FILE",
                )
            self.config = config
            self.file = open_safetensors(self.path)
        found = quantization.Quantized()
        if kind == "safetensors":
            found = quantization.read(self.config, self.file, self.where)
        self.quantized = found.weights
        self.cache_scales = found.cache_scales
        self.tensors: Mapping[str, TensorInfo] = found.merged(self.file.tensors)

    @property
    def architecture(self) -> str:
        """The GGUF architecture, or the first of `architectures`; empty when none is given."""
        if self.kind == "gguf":
            return str(self.file.architecture)
        names = Fields(self.config, self.where).get("architectures", None)
        if isinstance(names, list) and names and isinstance(names[0], str):
            return names[0]
        return ""

    @property
    def model_type(self) -> str:
        """`model_type` of a `config.json`; empty for a GGUF."""
        if self.kind == "gguf":
            return ""
        return str(Fields(self.config, self.where).text("model_type", ""))

    @property
    def packed(self) -> bool:
        """Whether any tensor is quantized."""
        return any(info.packed for info in self.tensors.values())

    def weight_dtype(self, device: Any = "cpu") -> Any:
        """The dtype that most matrix elements are stored in. What is computed beside quantized
        weights and those of a GGUF file has no dtype of its own: bfloat16 where the device's tensor
        cores take it, else float32."""
        if self.packed or self.kind == "gguf":
            if crt.Device(device).type == "cpu":
                return crt.float32
            about = crt.get_device_properties(device)
            return crt.bfloat16 if about.tensor_cores and about.bf16 else crt.float32
        elements: dict[str, int] = {}
        for info in self.tensors.values():
            if info.dtype in COMPUTE_DTYPES and len(info.shape) > 1:
                elements[info.dtype] = elements.get(info.dtype, 0) + info.numel
        if not elements:
            return crt.float32
        return crt.dtypes.by_name(max(elements, key=lambda name: elements[name]))

    def tensor(self, name: str) -> Any:
        """A tensor over the mapped bytes: nothing is copied. Packed ones keep their scheme; a
        weight of several parts (`quantization`) is woven into one."""
        if name in self.quantized:
            return self.quantized[name].build()
        return make_tensor(self.file, name)

    def input_order(self, name: str) -> Any:
        """Which input each column of a weight means, int32 [K]; None where the order is the
        input's."""
        order = self.quantized[name].order() if name in self.quantized else None
        return None if order is None else crt.tensor(order)

    def drop_all_pages(self) -> None:
        """Lets the system take back every page of the files; what is read again comes again."""
        drop = getattr(self.file, "drop_all_pages", None)
        if drop is not None:
            drop()

    def drop_pages(self, name: str) -> None:
        """Lets the system take a tensor's pages back."""
        drop = getattr(self.file, "drop_pages", None)
        if drop is not None:
            for part in self.quantized[name].parts if name in self.quantized else (name,):
                drop(part)


def open_checkpoint(source: Any) -> Checkpoint:
    """Opens a resolved source, a directory or a file."""
    # A resolved source knows its index or single file; a folder may hold other weights beside them.
    path = getattr(source, "entry", None) or getattr(source, "path", source)
    return Checkpoint(path, getattr(source, "kind", None))


def identify(checkpoint: Checkpoint) -> Any:
    """The registered family of a checkpoint (a row of `plugins.families()`); refuses by name when
    there is none."""
    if checkpoint.kind == "gguf":
        keys = ("", checkpoint.architecture)
    else:
        keys = catalog.read_keys(checkpoint.config, Path(checkpoint.where))
    return catalog.checked(catalog.match(checkpoint.path, checkpoint.kind, *keys)).row


@dataclass
class LoadedModel:
    """A tree with its weights and ``adapters``, and what was decided on the way."""

    model: Any
    config: Any
    family: Family
    checkpoint: Checkpoint
    dtype: Any
    options: LoadOptions
    report: dict[str, Any] = field(default_factory=dict)
    adapters: tuple[adapters.Adapter, ...] = ()


def read_config(family: Family, checkpoint: Checkpoint) -> Any:
    """The family's config of a checkpoint."""
    if checkpoint.kind == "gguf":
        if family.config_from_gguf is None:
            raise UnsupportedError(
                f"{checkpoint.path}: the family '{family.name}' reads no GGUF files"
            )
        fields = Fields(checkpoint.config, checkpoint.where, f"{checkpoint.architecture}.")
        shapes = {name: info.shape for name, info in checkpoint.tensors.items()}
        return family.config_from_gguf(fields, shapes)
    return family.config_from_hf(Fields(checkpoint.config, checkpoint.where))


@dataclass(frozen=True)
class Described:
    """A checkpoint and the tree of its family, which holds no bytes yet: ``names`` says which
    tensor each slot takes, ``dtype`` is that of activations. ``adapters`` are those of the
    options, matched with the tree, and ``added`` is the memory that they take."""

    checkpoint: Checkpoint
    family: Family
    config: Any
    model: Any
    names: Mapping[str, str]
    dtype: Any
    adapters: tuple[adapters.Adapter, ...] = ()
    added: requirements.Added = field(default_factory=requirements.Added)


def describe(
    source: Any, options: LoadOptions | None = None, family: Family | None = None
) -> Described:
    """Opens a checkpoint and builds its family's tree without any weights, after the checks of
    names and shapes."""
    checkpoint = source if isinstance(source, Checkpoint) else open_checkpoint(source)
    if family is None:
        family = family_object(identify(checkpoint), checkpoint.path)
    config = read_config(family, checkpoint)
    options = options or LoadOptions()
    compute = options.compute_dtype() or checkpoint.weight_dtype(options.device)
    model = family.build(config, compute)
    names = _match_names(family, checkpoint, model)
    found = adapters.read_adapters(options.adapters, family, checkpoint, config, model)
    if options.merge_adapters:
        adapters.check_mergeable(found, checkpoint, names)
    added = adapters.cost_of(found, model, compute, options.merge_adapters)
    return Described(checkpoint, family, config, model, names, compute, found, added)


def load_model(
    source: Any, options: LoadOptions | None = None, family: Family | None = None
) -> LoadedModel:
    """Opens a checkpoint, builds its family's tree and binds the weights.

    Weights that are multiplied with are brought into the backend's layout once, and the file's
    pages are given back; others stay views of the mapped file where they are used as they are.
    Refused with file, key and both values: missing tensors, tensors nobody asked for, shapes that
    do not fit; a model that cannot fit the device's memory, before anything is allocated."""
    return fit.on_a_place(
        options or LoadOptions(), lambda placed: _load_model(source, placed, family)
    )


def _load_model(source: Any, options: LoadOptions, family: Family | None) -> LoadedModel:
    _check_device(options.device)
    found = describe(source, options, family)
    checkpoint, family, config = found.checkpoint, found.family, found.config
    model, compute = found.model, found.dtype
    place = fit.place_of(options.device)
    requirements.admit(fit.budget_of_described(found, options, place), checkpoint.path)
    _bind(checkpoint, model, found.names, compute, options)
    device = crt.Device(options.device)
    adapters.attach(found.adapters, model, compute, device, options.merge_adapters)
    _set_extras(family, checkpoint, model)
    if checkpoint.cache_scales:
        _log.warning(
            "%s: %d scales of a quantized cache are left out (%s): the cache holds what kv_dtype "
            "says, without them",
            checkpoint.path,
            len(checkpoint.cache_scales),
            _some(list(checkpoint.cache_scales), 2),
        )
    report = {
        "family": family.name,
        "device": str(crt.Device(options.device)),
        "compute_dtype": compute.name,
        "mode": options.mode if checkpoint.packed else "dense",
    }
    if found.adapters:
        report["adapters"] = adapters.report_of(found.adapters)
    return LoadedModel(model, config, family, checkpoint, compute, options, report, found.adapters)


def _check_device(name: Any) -> None:
    """Refuses a device that is not there before anything is read for it."""
    device = crt.Device(name)
    plugins.load_backend(device.type)
    if device not in crt.enumerate_devices(device.type):
        raise InternalError(
            f"load_model: cannot load on device {device}: its backend finds no such device here",
            "BACKEND_UNAVAILABLE",
        )


def family_object(row: Any, path: object) -> Family:
    """The code of a family; ``path`` names the checkpoint in the refusal of one that has none."""
    if not row.spec.runnable:
        raise UnsupportedError(
            f"{path}: the family '{row.name}' recognizes this checkpoint and runs none "
            "(identity-only)"
        )
    found = plugins.load(row)
    if not isinstance(found, Family):
        raise UnsupportedError(
            f"the family '{row.name}' gives a {type(found).__name__} where a Family is expected",
            "PLUGIN_FAILED",
        )
    return found


# ---- names
def _match_names(family: Family, checkpoint: Checkpoint, model: nn.Module) -> dict[str, str]:
    """Slot name -> checkpoint name, after the checks that every name has its partner and every
    shape fits."""
    slots = model.state_dict()
    found: dict[str, str] = {}
    unexpected: list[str] = []
    tied = getattr(model, "tied_names", {})
    for name in checkpoint.tensors:
        if name in family.extras or family.is_ignored(name):
            continue
        slot = family.tree_name(name, checkpoint.kind, checkpoint.architecture)
        if slot in slots:
            if slot in found:
                raise InvalidArgumentError(
                    f"{checkpoint.path}: tensors '{found[slot]}' and '{name}' both name '{slot}'",
                    "MALFORMED_FILE",
                )
            found[slot] = name
        elif slot not in tied:
            # A tied checkpoint may repeat the table under the head's name; the table is what
            # counts.
            unexpected.append(name)
    missing = [slot for slot in slots if slot not in found]
    if missing or unexpected:
        raise InvalidArgumentError(
            f"{checkpoint.path}: the tensors do not match the configuration of "
            f"{checkpoint.where}; missing: "
            f"{_some(missing)}; unexpected: {_some(unexpected)}",
            "MALFORMED_FILE",
        )
    for slot, name in found.items():
        have, want = checkpoint.tensors[name].shape, tuple(slots[slot].shape)
        if tuple(have) != want:
            raise InvalidArgumentError(
                f"{checkpoint.path}: tensor '{name}' has shape {list(have)}, the configuration of "
                f"{checkpoint.where} gives '{slot}' {list(want)}",
                "MALFORMED_FILE",
            )
    return found


def _some(names: list[str], limit: int = 8) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(f"'{name}'" for name in names[:limit]) + more


# ---- weights
def _bind(
    checkpoint: Checkpoint,
    model: nn.Module,
    names: Mapping[str, str],
    compute: Any,
    options: LoadOptions,
) -> None:
    mode = options.mode
    device = crt.Device(options.device)
    table = getattr(model, "table", None)
    tied = bool(getattr(model, "tied", False))
    packing = _Packing(checkpoint)
    for slot, owner, attribute in owners(model):
        name = names[slot]
        stored = value = checkpoint.tensor(name)
        is_linear = isinstance(owner, nn.Linear) and attribute == "weight"
        if value.scheme and not is_linear and not isinstance(owner, nn.Embedding):
            # Norms and biases are read element by element; they take a few bytes.
            value = crt.dequantize(value, dtype=compute)
        if not value.scheme:
            value = _in_compute_dtype(value, compute, matrix=len(value.shape) > 1)
        if device.type != "cpu":
            value = value.to(device)
        if is_linear:
            owner.mode = mode if value.scheme else "exact"
            order = checkpoint.input_order(name)
            owner.input_order = order if order is None else order.to(device)
            packing.add(owner, attribute, name, value, mode, copied=value is not stored)
        elif isinstance(owner, nn.Embedding):
            # A table that the head multiplies with takes the layout of products; the gather reads
            # that too.
            multiplied = tied and owner is table
            owner.output_dtype = compute
            owner.mode = mode if multiplied and value.scheme else "exact"
            use = mode if multiplied else "table"
            packing.add(owner, attribute, name, value, use, copied=value is not stored)
        else:
            setattr(owner, attribute, value)
    packing.finish()
    checkpoint.drop_all_pages()


class _Packing:
    """Weights on their way into the backend's layout. Those that are views of the mapped file wait
    for each other, since one call that packs many leaves the interpreter to other threads."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.waiting: list[tuple[nn.Module, str, str, Any, str]] = []
        self.nbytes = 0

    def add(
        self, owner: nn.Module, attribute: str, name: str, value: Any, mode: str, copied: bool
    ) -> None:
        self.waiting.append((owner, attribute, name, value, mode))
        self.nbytes += value.nbytes
        copied = copied or name in self.checkpoint.quantized
        if copied or self.nbytes >= PACK_BYTES:
            self.finish()

    def finish(self) -> None:
        values = [row[3] for row in self.waiting]
        packed = pack_weights(values, [row[4] for row in self.waiting])
        for (owner, attribute, name, _, _), value in zip(self.waiting, packed, strict=True):
            setattr(owner, attribute, value)
            if value.scheme or value.layout:
                self.checkpoint.drop_pages(name)
        self.waiting.clear()
        self.nbytes = 0


def _in_compute_dtype(value: Any, compute: Any, matrix: bool) -> Any:
    """A dense weight as the forward pass takes it."""
    if stays_as_published(value.dtype.name, compute.name, matrix):
        # A vector is copied: to read one of the file, the system maps many pages around it.
        return value if matrix else value.clone()
    if not value.dtype.is_floating_point:
        raise UnsupportedError(
            f"load_model: weights of dtype {value.dtype.name} are not served in a module",
            "NOT_IMPLEMENTED_FOR_DTYPE",
        )
    return value.to(compute)


def _set_extras(family: Family, checkpoint: Checkpoint, model: Any) -> None:
    for name, method in family.extras.items():
        if name in checkpoint.tensors:
            value = checkpoint.tensor(name)
            getattr(model, method)(value.to(crt.float32).numpy())
