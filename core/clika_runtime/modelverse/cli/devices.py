"""``devices``: the compute devices of this machine, and why a backend shows none."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ... import device as devices
from ... import plugins
from ..._version import __version__
from ...errors import ClikaRTError
from ..console import json_text, show
from .tables import csv_text, table

#: The version of the JSON document (``docs/schemas/devices.json``).
SCHEMA = 1
_COLUMNS = (
    "device",
    "name",
    "driver",
    "runtime",
    "memory_gb",
    "sm_count",
    "compute_capability",
    "warp",
    "max_threads_per_block",
    "shared_mem_kb",
    "tensor_cores",
    "fp16",
    "bf16",
    "fp8_e4m3",
    "status",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the report as a JSON document")
    form.add_argument("--csv", action="store_true", help="the table as CSV")


def run(arguments: Any) -> int:
    given = vars(arguments)
    backends, rows = report()
    if given.get("json"):
        document = {
            "schema": SCHEMA,
            "runtime": __version__,
            "backends": backends,
            "devices": rows,
        }
        print(json_text(document))
    elif given.get("csv"):
        cells = [[_cell(row[column]) for column in _COLUMNS] for row in rows]
        sys.stdout.write(csv_text(_COLUMNS, cells))
    else:
        show("== compute devices on this machine ==")
        for backend in backends:
            show(f"{backend['api']} {backend['status']}")
        show(table(_COLUMNS, [[_cell(row[c]) for c in _COLUMNS] for row in rows]))
    return 0


def report() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(backends with their status, devices with their properties)."""
    kinds = dict.fromkeys(("cpu", *plugins.device_kinds()))
    backends: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        api = devices.compute_api_name(kind)
        status = _bring_up(kind, api, rows)
        entry: dict[str, Any] = {"kind": kind, "api": api, "status": status}
        for row in plugins.backends().values():
            if kind in row.spec.kinds:
                entry.update(distribution=row.distribution, version=row.version)
        backends.append(entry)
    out = [item for item in plugins.left_out() if item.entry.group == "clika_runtime.backends"]
    for item in (*plugins.broken("clika_runtime.backends"), *out):
        if item.name not in kinds:
            backends.append(
                {
                    "kind": item.name,
                    "api": devices.compute_api_name(item.name),
                    "status": f"not loaded: {item}",
                    "distribution": item.distribution,
                    "version": item.version,
                }
            )
    return backends, rows


def _bring_up(kind: str, api: str, rows: list[dict[str, Any]]) -> str:
    """Load the backend of a kind and add a row per device; the answer is ``available`` or the
    reason."""
    try:
        plugins.load_backend(kind)
        found = devices.enumerate_devices(kind)
    except ClikaRTError as error:
        return f"not loaded: {error}"
    if not found:
        return "not loaded: no device"
    for place in found:
        try:
            properties, status = devices.get_device_properties(place), "ok"
        except ClikaRTError as error:
            properties, status = devices.DeviceProperties(name=""), str(error)
        rows.append(_row(f"{api}:{place.index}", properties, status))
    return "available"


def _row(name: str, properties: Any, status: str) -> dict[str, Any]:
    memory, shared = properties.memory_bytes, properties.shared_memory_bytes
    return {
        "device": name,
        "name": properties.name or None,
        "driver": properties.driver or None,
        "runtime": properties.runtime or None,
        "memory_gb": None if memory is None else round(memory / (1 << 30), 3),
        "sm_count": properties.units,
        "compute_capability": _capability(properties.compute_capability),
        "warp": properties.warp,
        "max_threads_per_block": properties.max_threads_per_block,
        "shared_mem_kb": None if shared is None else shared / 1024,
        "tensor_cores": properties.tensor_cores,
        "fp16": properties.fp16,
        "bf16": properties.bf16,
        "fp8_e4m3": properties.fp8_e4m3,
        "isa": properties.isa,
        "status": status,
    }


def _capability(value: Any) -> str | None:
    """``8.9`` of (8, 9) or of 89; None where a backend says nothing or 0."""
    if isinstance(value, int):
        value = divmod(value, 10) if value else None
    return None if value is None else ".".join(map(str, value))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
