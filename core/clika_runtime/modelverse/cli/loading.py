"""The load of a model's command: its flags, the device it lands on, what is printed on the way."""

from __future__ import annotations

import argparse
import logging
import os
from typing import TYPE_CHECKING, Any

from ...errors import ClikaRTError, InternalError, InvalidArgumentError
from .. import catalog
from ..knobs import CACHE_DTYPES, COMPUTE_DTYPES
from ..sources import ResolvedSource
from .arguments import DEFAULT_WINDOW, MAX_SEQ, Parser, number
from .stages import check_file

if TYPE_CHECKING:
    from ..preview import Preview

__all__ = [
    "adapter_options",
    "add_adapters",
    "add_arguments",
    "add_cache_format",
    "cache_format",
    "check_adapters",
    "check_arguments",
    "load",
    "warn_of_window",
]

_log = logging.getLogger("clika_runtime.modelverse")


def add_arguments(parser: argparse.ArgumentParser, window: str = DEFAULT_WINDOW) -> None:
    """The load flags of every command that runs a model; ``window`` is what ``--max-seq`` is by
    default."""
    load = parser.add_argument_group("loading")
    load.add_argument(
        "--device",
        metavar="DEV",
        help="cpu, cuda, cuda:0, vulkan:0, metal, auto (default: the best one here)",
    )
    load.add_argument(
        "--max-seq",
        type=number(int, 1),
        metavar="N",
        help=f"the whole context window, prompt and reply (default: {window})",
    )
    load.add_argument(
        "--dtype",
        choices=COMPUTE_DTYPES,
        help="dtype of activations, and of the cache without --kv-quant (default: the "
        "checkpoint's)",
    )
    add_mode(load)
    load.add_argument(
        "--kvcache",
        choices=("paged", "continuous"),
        help="the layout of the cache: blocks, or one piece per sequence (default: paged)",
    )
    add_cache_format(load)
    add_adapters(load)
    load.add_argument(
        "--prefill-chunk",
        type=number(int, 1),
        metavar="N",
        help="prompt tokens that one step takes at most (default: 512)",
    )
    load.add_argument(
        "--memory-stages",
        metavar="FILE",
        help="append the counters of the memory pools at each stage, a line of JSON each",
    )


def add_mode(group: Any) -> None:
    """``--exact``, of every command that judges or loads a model."""
    group.add_argument(
        "--exact",
        action="store_true",
        help="multiply quantized weights, and a cache of 16 bits, exactly (slower; default: "
        "integer products, and queries rounded as the cache is)",
    )


def mode_of(given: dict[str, Any]) -> str:
    """What ``--exact`` means for the load."""
    return "exact" if given.get("exact") else "fast"


def add_cache_format(group: Any) -> None:
    """``--kv-quant``, of every command that judges or makes a cache."""
    group.add_argument(
        "--kv-quant",
        choices=("none", *CACHE_DTYPES),
        metavar="MODE",
        help=f"what the cache holds keys and values in: {', '.join(CACHE_DTYPES)}, or none: "
        "bfloat16 beside quantized weights without --exact and --dtype, else the dtype of "
        "activations (default: none)",
    )


def add_adapters(group: Any) -> None:
    """``--lora``, of every command that judges or loads a model."""
    group.add_argument(
        "--lora",
        action="append",
        metavar="PATH[:SCALE]",
        help="a LoRA adapter on top of the model, a folder of PEFT or a GGUF file, by a factor "
        "(default: 1); may be given several times",
    )
    group.add_argument(
        "--lora-merge",
        action="store_true",
        help="add the adapters to the weights, which have to be dense (default: computed beside)",
    )


def adapter_options(given: dict[str, Any]) -> dict[str, Any]:
    """What ``--lora`` and ``--lora-merge`` mean for the load."""
    return {
        "adapters": tuple(given.get("lora", ())),
        "merge_adapters": bool(given.get("lora_merge")),
    }


def check_adapters(given: dict[str, Any], parser: Parser) -> None:
    """Refuses an adapter that is not there, or a factor that is no number in range."""
    from ..adapters import spec_of

    for text in given.get("lora", ()):
        try:
            path = spec_of(text).path
        except InvalidArgumentError as error:
            parser.error(f"argument --lora: {error}")
        if not os.path.exists(path):
            parser.error(f"argument --lora: {path}: no such file or directory")


def cache_format(given: dict[str, Any]) -> str | None:
    """What ``--kv-quant`` means for the load."""
    mode = given.get("kv_quant", "none")
    return None if mode == "none" else mode


def check_arguments(given: dict[str, Any], parser: Parser) -> None:
    """What argparse cannot say: the device is there, the file can be written, adapters are
    there."""
    check_adapters(given, parser)
    if "device" in given:
        given["place"] = _named_device(given["device"], parser)
    if "memory_stages" in given:
        check_file(given["memory_stages"])


def load(
    source: ResolvedSource,
    identity: catalog.Identity,
    given: dict[str, Any],
    *,
    max_sequences: int = 1,
    prefix_cache: bool = True,
    seen: Preview | None = None,
) -> Any:
    """Loads the model on the device named, or the first that takes it; says what was loaded.
    ``seen`` is what was read of it already."""
    from ..generation import load_generative

    options: dict[str, Any] = {
        "device": given.get("place", "auto"),
        "mode": mode_of(given),
        "max_seq": given.get("max_seq", MAX_SEQ),
        "max_sequences": max_sequences,
        "prefix_cache": prefix_cache,
        "kv_dtype": cache_format(given),
        **adapter_options(given),
        **{name: given[name] for name in ("dtype", "kvcache", "prefill_chunk") if name in given},
    }
    model = load_generative(seen or source, **options)
    _log_licenses(source, identity, model.loaded.checkpoint)
    warn_of_window(given, model.window)
    return model


def warn_of_window(given: dict[str, Any], window: int) -> None:
    """Says that ``--max-seq`` is over the checkpoint's own window, which is used then."""
    if given.get("max_seq", 0) > window:
        _log.warning(
            "--max-seq %d: the checkpoint's window of %d tokens is used", given["max_seq"], window
        )


def _log_licenses(source: ResolvedSource, identity: catalog.Identity, checkpoint: Any) -> None:
    """The checkpoint's own license; the family's license page where the checkpoint states none."""
    words = [source.license]
    if checkpoint.kind == "gguf":
        keys = ("general.license", "general.license.link")
        words = [str(checkpoint.config.get(key) or "") for key in keys]
    stated = catalog.printable(" ".join(filter(None, words)), 200)
    if stated:
        _log.info("license of the checkpoint: %s", stated)
    elif identity.row is not None and identity.row.spec.license_page:
        _log.info("license page: %s", identity.row.spec.license_page)


# ---------------------------------------------------------------- devices


def _present() -> list[str]:
    from ... import device, plugins

    kinds = dict.fromkeys(("cpu", *plugins.device_kinds()))
    return [str(place) for kind in kinds for place in device.enumerate_devices(kind)]


def _named_device(name: str, parser: Parser) -> str:
    """What ``--device`` names: a device that is here, or ``auto``."""
    from ... import device, plugins

    if name.strip().lower() == "auto":
        return "auto"
    try:
        place = device.Device(name)
    except InvalidArgumentError as error:
        parser.error(f"argument --device: {error}; devices here: {', '.join(_present()) or 'none'}")
    present = _present()
    if str(place) in present:
        return str(place)
    try:
        plugins.load_backend(place.type)
        count = len(device.enumerate_devices(place.type))
        reason = f"the {place.type} backend found {count} device(s)"
        code = "BACKEND_UNAVAILABLE"
    except ClikaRTError as error:
        reason, code = str(error).rstrip("."), error.code_name
    raise InternalError(
        f"cannot allocate on device {place.api}:{place.index}: {reason}. "
        f"Devices here: {', '.join(present) or 'none'}",
        code,
    )
