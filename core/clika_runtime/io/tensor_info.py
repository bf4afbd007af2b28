"""What the file readers say about a tensor before any byte of it is read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TensorInfo"]


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a checkpoint.

    ``type`` is the name the file uses (``"Q4_1"``, ``"F32"``, ``"BF16"``). ``dtype`` is the
    runtime's dtype name of a dense tensor and None for a packed one, whose ``scheme`` is then not
    0. ``shape`` is row-major, the contiguous dimension last, in elements; ``nbytes`` bytes start at
    ``offset`` of part ``part`` (0 unless the checkpoint is split over files).
    """

    name: str
    type: str
    dtype: str | None
    scheme: int
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    part: int = 0
    loadable: bool = True

    @property
    def packed(self) -> bool:
        """Whether the bytes are blocks of a quantization scheme."""
        return self.scheme != 0

    @property
    def numel(self) -> int:
        """Number of logical elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count
