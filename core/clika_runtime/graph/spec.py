"""`TensorSpec`: name, dtype and dims of an input that is not there yet."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .. import dtypes
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The least and the largest size that a dynamic dim may have.
DYNAMIC = (1, 2**31 - 1)


class TensorSpec:
    """Name, dtype and dims of an input. A dim that is 0 or less is dynamic: it takes its size when
    the graph runs. Dims with the same name in ``dim_names`` have the same size everywhere; a name
    may be followed by a number to add, as in ``"batch + 1"``.

    >>> import clika_runtime as crt
    >>> crt.TensorSpec("ids", crt.int64, [-1, 128], dim_names=["batch", None])
    TensorSpec('ids', clika_runtime.int64, [-1, 128], dim_names=['batch', None])
    """

    __slots__ = ("dim_names", "dims", "dtype", "name", "optional")

    def __init__(
        self,
        name: str,
        dtype: Any,
        dims: Sequence[int] = (),
        optional: bool = False,
        *,
        dim_names: Sequence[str | None] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"TensorSpec: name must be a non-empty string, got {name!r}")
        if not isinstance(dtype, dtypes.dtype):
            raise TypeError(f"TensorSpec: dtype must be a dtype, got {dtype!r}")
        sizes = tuple(_whole(name, size) for size in dims)
        if len(sizes) > 8:
            raise InvalidArgumentError(
                f"TensorSpec: '{name}' has {len(sizes)} dims; 8 is the limit"
            )
        names = tuple(dim_names) if dim_names is not None else (None,) * len(sizes)
        if len(names) != len(sizes):
            raise InvalidArgumentError(
                f"TensorSpec: '{name}' has {len(sizes)} dims and {len(names)} dim_names"
            )
        for label in names:
            if label is not None and not isinstance(label, str):
                raise TypeError(f"TensorSpec: a dim name of '{name}' must be a str, got {label!r}")
        self.name = name
        self.dtype = dtype
        self.dims = tuple(size if size > 0 else -1 for size in sizes)
        self.optional = optional
        self.dim_names = tuple(
            label if size < 0 else None for label, size in zip(names, self.dims, strict=True)
        )

    @classmethod
    def exact(
        cls, name: str, dtype: Any, dims: Sequence[int], dim_names: Sequence[str | None]
    ) -> TensorSpec:
        """The spec of a tensor that is there: only a negative dim is dynamic, 0 is a size."""
        spec = cls(name, dtype, dims, dim_names=dim_names)
        spec.dims = tuple(
            0 if size == 0 else own for size, own in zip(dims, spec.dims, strict=True)
        )
        return spec

    def symbol_name(self, dim: int) -> str:
        """The name that the size of a dynamic dim has."""
        return self.dim_names[dim] or f"{self.name}_dim{dim}"

    def symbolic(
        self, tracer: Any, bounds: Mapping[str, tuple[int, int]] | None = None
    ) -> list[Any]:
        """The dims with symbols of ``tracer`` for the dynamic ones; ``bounds`` are the least and
        the largest size by name, where they are known."""
        found: list[Any] = []
        for dim, size in enumerate(self.dims):
            if size >= 0:
                found.append(size)
                continue
            name, plus, more = self.symbol_name(dim).partition("+")
            name = name.strip()
            if plus and not more.strip().isdecimal():
                raise InvalidArgumentError(
                    f"TensorSpec: the dim name {self.dim_names[dim]!r} of '{self.name}' must be a "
                    "name, or a name + a number"
                )
            least, most = (bounds or {}).get(name, DYNAMIC)
            symbol = tracer.symbol(name, least, most)
            found.append(symbol + int(more) if plus else symbol)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return all(getattr(self, slot) == getattr(other, slot) for slot in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.name, self.dims))

    def __repr__(self) -> str:
        named = f", dim_names={list(self.dim_names)}" if any(self.dim_names) else ""
        optional = ", optional=True" if self.optional else ""
        return f"TensorSpec({self.name!r}, {self.dtype}, {list(self.dims)}{optional}{named})"


def _whole(name: str, size: Any) -> int:
    try:
        return operator.index(size)
    except TypeError:
        raise TypeError(f"TensorSpec: a dim of '{name}' must be an int, got {size!r}") from None
