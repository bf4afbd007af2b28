"""Whether a model fits: the memory law over the devices of this machine and over assumed ones.

for budget in check("model.gguf", max_seq=4096, assume=["phone=8G"]):
    print(budget.line())
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import clika_runtime as crt
from clika_runtime import plugins
from clika_runtime._native._core import free_memory
from clika_runtime.errors import ClikaRTError, InvalidArgumentError

from .headers import Source, opened
from .requirements import Added, Budget, Place, Request, budget_of

if TYPE_CHECKING:
    from .loader import Checkpoint, Described, LoadOptions

__all__ = [
    "budget_for",
    "budget_of_described",
    "check",
    "host_memory",
    "parse_place",
    "on_a_place",
    "place_of",
    "places",
]

T = TypeVar("T")

_log = logging.getLogger("clika_runtime.modelverse")
# The order in which the device "auto" looks for a place.
_PREFERENCE = ("cuda", "metal", "vulkan", "cpu")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LONGEST_NAME = 60
_NAME = re.compile(r"[A-Za-z0-9][\w.:-]*")


def check(
    source: Source,
    *,
    max_seq: int = 0,
    assume: Iterable[str] = (),
    options: LoadOptions | None = None,
    weights: str | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> list[Budget]:
    """The budget of a model on every device of this machine, then on each assumed one.

    No weights are read or fetched: configuration, headers and the sizes of tensors say all.
    ``max_seq`` is the sequence length judged (0: the checkpoint's whole window, where the command
    ``check`` takes at most 4096 of it), ``assume`` further
    devices as ``"name=8G"``; ``options`` are those of the load, ``weights`` selects a weight
    option. Refused like a load: a family that is not installed, tensors that do not match the
    configuration."""
    from .loader import LoadOptions, describe

    if isinstance(assume, str):
        raise InvalidArgumentError(f"assume takes a list of devices, got the text {assume!r:.80}")
    assumed = [parse_place(text) for text in assume]
    asked = replace(options or LoadOptions(), max_seq=max_seq)
    with opened(source, weights=weights, offline=offline, cache_dir=cache_dir) as at:
        found = describe(at, asked)
        return [budget_of_described(found, asked, place) for place in (*places(), *assumed)]


def budget_of_described(found: Described, options: LoadOptions, place: Place) -> Budget:
    """The budget of a described checkpoint and its adapters under the options of a load."""
    return budget_for(
        found.checkpoint,
        found.config,
        found.model,
        found.names,
        found.dtype,
        options,
        place,
        found.added,
    )


def budget_for(
    checkpoint: Checkpoint,
    config: Any,
    model: Any,
    names: Mapping[str, str],
    compute: Any,
    options: LoadOptions,
    place: Place,
    added: Added | None = None,
) -> Budget:
    """The budget of a tree that is to be bound under the options of a load; ``added`` is what its
    adapters take."""
    context = int(config.max_position_embeddings)
    window = min(context, options.max_seq) if options.max_seq else context
    vocabulary, merges = _vocabulary(checkpoint, config)
    cache = options.cache_rows(compute, checkpoint)
    return budget_of(
        model,
        checkpoint.tensors,
        names,
        compute,
        context,
        place,
        Request(
            window,
            options.max_sequences,
            options.kvcache,
            cache.name,
            options.prefill_chunk,
            options.mode,
        ),
        vocabulary=vocabulary,
        merges=merges,
        woven=checkpoint.quantized,
        added=added,
    )


def _vocabulary(checkpoint: Checkpoint, config: Any) -> tuple[int, int]:
    """(tokens, merges) of the tokenizer."""
    if checkpoint.kind == "gguf":
        return _count(checkpoint, "tokens"), _count(checkpoint, "merges")
    # A byte-pair tokenizer has a merge for nearly every token.
    return int(config.vocab_size), int(config.vocab_size)


def _count(checkpoint: Checkpoint, key: str) -> int:
    """The length of one of the tokenizer's lists in a GGUF; 0 where there is none."""
    value = checkpoint.config.get(f"tokenizer.ggml.{key}")
    if value is None:
        return 0
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidArgumentError(
            f"{checkpoint.path}: tokenizer.ggml.{key} must be an array, found {value!r:.80}",
            "MALFORMED_FILE",
        )
    return len(value)


# ---------------------------------------------------------------- devices
def on_a_place(options: LoadOptions, load: Callable[[LoadOptions], T]) -> T:
    """What ``load`` makes under the options. For the device "auto" the first device of each kind is
    tried, accelerators first, and the next one where a load fails."""
    device = options.device
    if not isinstance(device, str) or device.strip().lower() != "auto":
        return load(options)
    found = [str(at) for kind in _PREFERENCE for at in crt.enumerate_devices(kind)[:1]]
    *others, last = found or ["cpu"]  # without any backend the load says which package to add
    for name in others:
        try:
            return load(replace(options, device=name))
        except ClikaRTError as error:
            _log.warning("loading on %s failed, trying the next device: %s", name, error)
    return load(replace(options, device=last))


def places() -> list[Place]:
    """The devices of this machine; the host comes first, and is there without a backend too."""
    kinds = dict.fromkeys(("cpu", *plugins.device_kinds()))
    found = [_place(device, False) for kind in kinds for device in crt.enumerate_devices(kind)]
    return found or [Place("CPU:0", "cpu", host_memory())]


def place_of(device: Any) -> Place:
    """A device that something is to be loaded on, with its memory: for the host at most what its
    control group allows, for another what nobody has taken yet, which opens it."""
    return _place(device, free=True)


def _place(device: Any, free: bool) -> Place:
    """A device with its memory, all of it or what is free."""
    device = crt.Device(device)
    name = f"{device.api}:{device.index}"
    try:
        memory = crt.get_device_properties(device).memory_bytes
        if free and device.type != "cpu":
            memory = free_memory(device) or memory
    except ClikaRTError:
        memory = None
    if device.type == "cpu":
        limits = [size for size in (memory, _group_limit()) if size]
        memory = min(limits) if limits else host_memory()
    return Place(name, device.type, memory)


def parse_place(text: str) -> Place:
    """``name=size`` of a device that is not here; ``phone=8G`` is 8 GiB of host memory, a name
    such as ``cuda:0`` memory of an accelerator.

    >>> parse_place("phone=8G")
    Place(name='phone', kind='cpu', memory=8589934592)
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(f"an assumed device is text such as phone=8G, got {text!r:.80}")
    name, equals, size = text.partition("=")
    number = _SIZE.fullmatch(size.strip())
    fits = _NAME.fullmatch(name.strip()) and len(name) <= _LONGEST_NAME
    if not equals or not fits or number is None:
        raise InvalidArgumentError(
            f"an assumed device is written as name=size, such as phone=8G; got {text!r:.80}"
        )
    memory = float(number[1]) * _UNITS[number[2].upper()]
    if not 1 << 20 <= memory < 1 << 60:
        raise InvalidArgumentError(
            f"the memory of an assumed device is {size:.40} in bytes, out of range: 1M to 1 EiB; "
            "8G is 8 GiB"
        )
    kind = name.strip().lower().partition(":")[0]
    accelerator = kind in ("cuda", "vulkan", "metal", "tpu")
    return Place(name.strip(), kind if accelerator else "cpu", int(memory))


def host_memory() -> int | None:
    """Memory of this machine in bytes, at most what the control group of this process allows; None
    where the system does not say."""
    sizes = []
    try:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        pass
    limit = _group_limit()
    if limit is not None:
        sizes.append(limit)
    return min(sizes) if sizes else None


def _group_limit(
    proc: Path = Path("/proc/self/cgroup"), root: str = "/sys/fs/cgroup"
) -> int | None:
    """The least memory limit of the control groups that this process is in; None without one."""
    found: list[int] = []
    try:
        lines = proc.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, name = (line.split(":", 2) + ["", ""])[:3]
        if number == "0":
            top, file = Path(root), "memory.max"
        elif "memory" in controllers.split(","):
            top, file = Path(root, "memory"), "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in name.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            try:
                text = top.joinpath(*parts[:depth], file).read_text(encoding="ascii").strip()
            except (OSError, ValueError):
                continue
            if text.isdigit() and int(text) < 1 << 60:  # an absent limit is a huge number, or "max"
                found.append(int(text))
    return min(found) if found else None
