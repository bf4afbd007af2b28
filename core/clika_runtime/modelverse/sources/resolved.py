"""What a source resolves to: the files of one model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ResolvedSource"]


@dataclass(frozen=True, slots=True)
class ResolvedSource:
    """The files of one model.

    ``kind`` is ``gguf`` or ``safetensors``. ``path`` is the file of a GGUF (the first part of a
    split one) and the folder of a safetensors checkpoint; ``weights`` are its weight files in
    order, ``companions`` the configuration and tokenizer files beside them. ``name`` is a short
    name to show; ``origin`` is ``directory``, ``file``, ``package`` or ``hub``. For a package
    ``package``, ``version`` and ``found`` (``registered``, ``installed``, ``cached``, ``fetched``)
    say more, and ``license`` is what a registration states; for the hub ``repo``, ``commit`` and
    ``snapshot``, the folder of the repository's files, do.
    """

    spec: str
    kind: str
    path: Path
    weights: tuple[Path, ...]
    companions: tuple[Path, ...]
    name: str
    origin: str
    package: str | None = None
    version: str | None = None
    found: str | None = None
    license: str = ""
    repo: str | None = None
    commit: str | None = None
    snapshot: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return self.companions + self.weights

    @property
    def entry(self) -> Path:
        """What a reader opens: the GGUF file, the safetensors index, or the single safetensors
        file."""
        for path in self.companions:
            if path.name.endswith(".safetensors.index.json") and len(self.weights) > 1:
                return path
        return self.weights[0]

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def weight_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.weights)
