"""GGUF files spelled out byte by byte, so that a test can make every field wrong."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

STRING = 8
ARRAY = 9


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def strings(key: str, items: list[str]) -> bytes:
    head = struct.pack("<IQ", STRING, len(items))
    return pair(key, ARRAY, head + b"".join(map(text, items)))


def tensor(name: str, sizes: list[int], kind: int, offset: int, rank: int | None = None) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(sizes) if rank is None else rank)
        + struct.pack(f"<{len(sizes)}Q", *sizes)
        + struct.pack("<IQ", kind, offset)
    )


@dataclass
class RawGguf:
    """The parts of a file. Counts are what they should be unless a test says otherwise."""

    pairs: list[bytes] = field(
        default_factory=lambda: [pair("general.architecture", STRING, text("llama"))]
    )
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = b""
    magic: bytes = b"GGUF"
    version: int = 3
    alignment: int = 32
    n_pairs: int | None = None
    n_tensors: int | None = None

    def bytes(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_pairs = len(self.pairs) if self.n_pairs is None else self.n_pairs
        head = self.magic + struct.pack("<IQQ", self.version, n_tensors, n_pairs)
        head += b"".join(self.pairs) + b"".join(self.tensors)
        if self.data:
            head += bytes(-len(head) % self.alignment)
        return head + self.data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path
