"""The checksums of a package's model files, as its wheel states them."""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata
from pathlib import Path

from ...errors import InvalidArgumentError, UnsupportedError
from .package import read_manifest
from .resolved import ResolvedSource

__all__ = ["verify"]


def verify(source: ResolvedSource) -> None:
    """Checks the files of a fetched or installed package against the SHA-256 that its wheel states.

    Raises ``InvalidArgumentError`` with the code ``MALFORMED_FILE`` for a file that is another one,
    ``UnsupportedError`` where nobody states a digest (a model that a package registers).
    """
    stated = _stated(source)
    for path in source.files:
        expected = stated.get(path)
        if expected is None:
            raise UnsupportedError(
                f"{source.spec}: nobody states a checksum of {path.name}, it cannot be verified"
            )
        found = _digest(path)
        if found != expected:
            mend = (
                "install the package again"
                if source.found == "installed"
                else f"delete {source.folder} and fetch again"
            )
            raise InvalidArgumentError(
                f"{path}: its sha256 is {found.hex()}, the package states {expected.hex()}; {mend}",
                "MALFORMED_FILE",
            )


def _digest(path: Path) -> bytes:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            found.update(block)
    return found.digest()


def _stated(source: ResolvedSource) -> dict[Path, bytes]:
    """The digests of the manifest of a cache entry, or of the RECORD of an installed package."""
    if source.found == "installed":
        records = metadata.distribution(source.package or "").files or []
        return {
            Path(str(record.locate())): base64.urlsafe_b64decode(
                record.hash.value + "=" * (-len(record.hash.value) % 4)
            )
            for record in records
            if record.hash is not None and record.hash.mode == "sha256"
        }
    for entry in source.weights[0].parents:
        manifest = read_manifest(entry)
        if manifest is not None:
            listed = manifest.get("sha256")
            stated = listed.items() if isinstance(listed, dict) else ()
            return {entry / name: bytes.fromhex(digest) for name, digest in stated}
    return {}
