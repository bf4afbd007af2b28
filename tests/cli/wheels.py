"""Wheels made by hand for the tests: good ones, and ones that lie."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path


def tiny_gguf(architecture: str = "llama", payload: bytes = b"\0" * 128) -> bytes:
    """A well-formed GGUF of one float32 tensor; enough for everything but running it."""

    def text(value: str) -> bytes:
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    pairs = text("general.architecture") + struct.pack("<I", 8) + text(architecture)
    count = len(payload) // 4
    tensor = text("token_embd.weight") + struct.pack("<IQIQ", 1, count, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + pairs + tensor
    return head + b"\0" * (-len(head) % 32) + payload


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    record: str | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write ``NAME-VERSION-py3-none-any.whl``; ``record`` replaces the RECORD that fits the
    files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    everything = dict(files)
    everything[f"{info}/METADATA"] = metadata.encode()
    everything[f"{info}/WHEEL"] = tags.encode()
    if record is None:
        record = "".join(record_line(path, data) for path, data in everything.items())
        record += f"{info}/RECORD,,\n"
    path = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, data in everything.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/RECORD", record)
    return path
