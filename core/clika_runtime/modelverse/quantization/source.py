"""The parts of quantized weights in a checkpoint: found, checked and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.io import SCHEMES_BY_NAME, TensorInfo

__all__ = ["FLOATS", "Layer", "Part", "Source", "Weight"]

FLOATS = ("float32", "float16", "bfloat16")

# About activations and caches, which keep the precision of the forward pass.
_UNUSED = (
    "input_scale",
    "input_scale_ub",
    "input_zero_point",
    "input_global_scale",
    "weight_format",
)


@dataclass(frozen=True)
class Weight:
    """A quantized weight as the loader sees it.

    ``info`` has the name, shape and scheme of the packed weight; ``parts`` are the tensors that it
    is made of, ``unused`` those beside them that carry nothing for it. ``build()`` gives the packed
    tensor. ``order()`` gives, where the columns stand in another order than the input's, int32 [K]:
    which input each column means; else None."""

    info: TensorInfo
    parts: tuple[str, ...]
    unused: tuple[str, ...]
    build: Callable[[], Any]
    order: Callable[[], Any]


class Source:
    """The tensors of an opened checkpoint, with refusals that name file and tensor."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.tensors = file.tensors

    def fail(self, problem: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self.file.path}: {problem}", "MALFORMED_FILE")

    def unsupported(self, problem: str) -> UnsupportedError:
        return UnsupportedError(f"{self.file.path}: {problem}", "NOT_IMPLEMENTED_FOR_SCHEME")

    def layers(self, suffix: str) -> Iterator[Layer]:
        """A layer for each tensor whose name ends with ``.suffix``."""
        for name in self.tensors:
            if name.endswith("." + suffix):
                yield Layer(self, name[: -len(suffix) - 1])


class Part:
    """One tensor of a checkpoint: its description, and its values when they are asked for."""

    def __init__(self, source: Source, info: TensorInfo) -> None:
        self.source = source
        self.info = info
        self.name = info.name
        self.shape = info.shape

    def bytes(self) -> Any:
        """The bytes as uint8 [n], over the mapped file."""
        import numpy as np

        return np.frombuffer(self.source.file.view(self.name), np.uint8)

    def array(self) -> Any:
        """The values in the tensor's shape: bfloat16 as float32, float8 as its bytes."""
        import numpy as np

        data = self.bytes()
        dtype = self.info.dtype or ""
        if dtype == "bfloat16":
            wide = data.view(np.uint16).astype(np.uint32) << 16
            return wide.view(np.float32).reshape(self.shape)
        kind = np.uint8 if dtype.startswith("float8") else np.dtype(dtype)
        return data.view(kind).reshape(self.shape)

    def floats(self) -> Any:
        """The values as float32, all of them finite; refuses the first that is not."""
        import numpy as np

        values = self.array().astype(np.float32)
        self.refuse_where(~np.isfinite(values), values, "a finite number")
        return values

    def refuse_where(self, wrong: Any, values: Any, expected: str) -> None:
        """Refuses the first of the values that is marked as wrong."""
        import numpy as np

        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            place = f"{list(at)}" if at else ""
            raise self.source.fail(
                f"tensor '{self.name}'{place} is {values[at]}, expected {expected}"
            )

    def check_shape(self, *expected: Sequence[int]) -> None:
        """Refuses a shape that is none of the expected ones."""
        if list(self.shape) not in [list(shape) for shape in expected]:
            wanted = " or ".join(str(list(shape)) for shape in expected)
            raise self.source.fail(
                f"tensor '{self.name}' has shape {list(self.shape)}, expected {wanted}"
            )


class Layer:
    """One module of a checkpoint, whose parts are taken one by one."""

    def __init__(self, source: Source, stem: str) -> None:
        self.source = source
        self.stem = stem
        self.taken: list[str] = []

    def info(self, part: str) -> TensorInfo | None:
        found: TensorInfo | None = self.source.tensors.get(f"{self.stem}.{part}")
        return found

    def take(self, part: str, *dtypes: str, rank: int | None = None) -> Part:
        """A part of the weight, of one of these dtypes; refuses one that is missing."""
        info = self.info(part)
        if info is None:
            needs = f"; '{self.taken[0]}' needs it" if self.taken else ""
            raise self.source.fail(f"tensor '{self.stem}.{part}' is missing{needs}")
        if dtypes and info.dtype not in dtypes:
            raise self.source.fail(
                f"tensor '{info.name}' has dtype {info.dtype}, expected {' or '.join(dtypes)}"
            )
        if rank is not None and len(info.shape) != rank:
            raise self.source.fail(
                f"tensor '{info.name}' has shape {list(info.shape)}, expected {rank} dimensions"
            )
        self.taken.append(info.name)
        return Part(self.source, info)

    def maybe(self, part: str, *dtypes: str) -> Part | None:
        """The same, None for a part that is missing."""
        return None if self.info(part) is None else self.take(part, *dtypes)

    def weight(
        self,
        scheme: str,
        shape: tuple[int, ...],
        build: Callable[[], Any],
        order: Callable[[], Any] = lambda: None,
        name: str | None = None,
    ) -> Weight:
        """The weight of the parts that were taken; refuses columns that are no whole blocks."""
        own = SCHEMES_BY_NAME[scheme]
        name = name or f"{self.stem}.weight"
        if shape[-1] % own.columns:
            raise self.source.unsupported(
                f"'{name}' has {shape[-1]} columns, {scheme} takes multiples of {own.columns}"
            )
        rows = 1
        for size in shape[:-1]:
            rows *= size
        nbytes = rows * (shape[-1] // own.columns) * own.nbytes
        info = TensorInfo(name, scheme, None, own.number, shape, 0, nbytes)
        unused = tuple(f"{self.stem}.{part}" for part in _UNUSED if self.info(part) is not None)
        return Weight(info, tuple(self.taken), unused, build, order)
