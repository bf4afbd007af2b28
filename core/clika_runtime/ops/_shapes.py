"""Small parts of shape rules. Sizes are Python ints or symbols with ``+ - * //`` and ``==``.

A symbol's ``==`` is structural: it says whether two sizes are known to be equal. Rules compare only
where the answer changes the result, and cancel equal factors before they divide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .record import Meta

Shape = tuple[Any, ...]


def fail(op: str, message: str) -> NoReturn:
    raise InvalidArgumentError(f"{op}: {message}")


def text(shape: Iterable[Any]) -> str:
    """A shape as messages print it: ``[2, 3]``."""
    return "[" + ", ".join(str(size) for size in shape) + "]"


def same(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


def known(size: Any, value: int) -> bool:
    """Whether a size is an int of that value; a symbol is not."""
    return type(size) is int and size == value


def least(a: Any, b: Any) -> Any:
    """The smaller of two sizes, at least 0."""
    if type(a) is int and type(b) is int:
        return max(0, min(a, b))
    return b.minimum(a) if type(a) is int else a.minimum(b)


def place(size: Any, value: Any, otherwise: Any) -> Any:
    """Where a bound of a slice lies in a dim: a negative one counts from the end, one beyond an end
    is moved to it. A symbolic one that may be below 0 stays as it is, and a run where it is refuses
    it."""
    if value is None:
        return otherwise
    if type(value) is int:
        return size - least(size, -value) if value < 0 else least(size, value)
    return value if value.bounds()[0] < 0 else least(size, value)


def reach(size: Any, start: Any, stop: Any) -> Any:
    """How many entries of a dim lie between the bounds of a slice.

    Sizes that are written alike are equal sizes, so the common cases have a form of their own."""
    start = 0 if start is None else start
    if isinstance(start, int) and (stop is None or isinstance(stop, int)):
        if start >= 0 and stop is None:
            return size - least(size, start)
        if stop is None:
            return least(size, -start)
        if start >= 0 and stop < 0:
            return size - least(size, start - stop)
        if start >= 0:
            return least(size, stop) - least(size, min(start, stop))
        if stop < 0:
            return least(size, -start) - least(size, min(-start, -stop))
    first, last = place(size, start, 0), place(size, stop, size)
    return last - least(last, first)


def convertible(op: str, source: Meta, target: Meta) -> None:
    """Refuses a source that is stored into a target whose dtype `cast` does not convert it to."""
    if source.dtype is not target.dtype and (source.dtype.is_subbyte or target.dtype.is_subbyte):
        fail(op, f"{source.dtype.name} cannot be converted to the {target.dtype.name} of input")


def product(sizes: Iterable[Any]) -> Any:
    """Ints first, so that a symbolic product has one constant factor."""
    number = 1
    symbols = []
    for size in sizes:
        if type(size) is int:
            number *= size
        else:
            symbols.append(size)
    if number == 0:
        return 0
    result: Any = number
    for symbol in symbols:
        result = symbol if known(result, 1) else symbol * result
    return result


def dim(op: str, value: int, rank: int, *, extra: int = 0, name: str = "dim") -> int:
    """A dimension from the front; ``extra`` is 1 where the result has one more (unsqueeze)."""
    span = max(rank + extra, 1)  # a 0-d tensor takes dims 0 and -1
    if isinstance(value, bool) or not isinstance(value, int):
        fail(op, f"{name} must be an int, got {value!r}")
    if not -span <= value < span:
        fail(op, f"{name} {value} is out of range for rank {rank}: expected {-span} to {span - 1}")
    return value + span if value < 0 else value


def dims(
    op: str, values: int | Sequence[int] | None, rank: int, *, name: str = "dim"
) -> tuple[int, ...]:
    """Distinct dimensions from the front; None and an empty list stand for all."""
    if isinstance(values, int):  # composed forms get the argument as the caller wrote it
        return (dim(op, values, rank, name=name),)
    if not values:
        return tuple(range(rank))
    found = tuple(dim(op, value, rank, name=name) for value in values)
    if len(set(found)) != len(found):
        fail(op, f"{name} {list(values)} names a dimension twice")
    return found


def broadcast(op: str, *shapes: Shape) -> Shape:
    """The common shape under the usual rule: aligned at the end, sizes equal or one of them 1."""
    first = shapes[0]
    if all(shape == first for shape in shapes[1:]):
        return first
    rank = max(len(shape) for shape in shapes)
    result: list[Any] = [1] * rank
    for shape in shapes:
        for i in range(-len(shape), 0):
            size = shape[i]
            if known(size, 1):
                continue
            if known(result[i], 1):
                result[i] = size
            elif not same(result[i], size):
                listed = " and ".join(text(shape) for shape in shapes)
                fail(
                    op,
                    f"cannot broadcast {listed}: sizes {result[i]} and {size} at dim {i} differ "
                    "and neither is 1",
                )
    return tuple(result)


def contiguous_strides(shape: Shape) -> Shape:
    strides: list[Any] = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        size = shape[i + 1]
        strides[i] = strides[i + 1] if known(size, 0) else product((strides[i + 1], size))
    return tuple(strides)


def strides_of(meta: Meta) -> Shape:
    return contiguous_strides(meta.shape) if meta.strides is None else tuple(meta.strides)


def is_contiguous(meta: Meta) -> bool:
    if meta.strides is None:
        return True
    expected: Any = 1
    for size, stride in zip(reversed(meta.shape), reversed(meta.strides), strict=True):
        if known(size, 0):
            return True
        if known(size, 1):
            continue
        if not same(stride, expected):
            return False
        expected = product((expected, size))
    return True


def reduced(op: str, shape: Shape, over: tuple[int, ...], keepdim: bool) -> Shape:
    """The shape after a reduction over those dims."""
    if keepdim:
        return tuple(1 if i in over else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in over)


def resolve_reshape(op: str, shape: Shape, target: Shape) -> Shape:
    """`target` with its -1 worked out; checks that the number of elements stays.

    Symbols that stand on both sides are cancelled before anything is divided: with a symbol T,
    [T, 576] -> [T, -1, 64] needs no division by T.
    """
    holes = [i for i, size in enumerate(target) if known(size, -1)]
    if len(holes) > 1:
        fail(op, f"shape {text(target)} has more than one -1")
    if any(type(size) is int and size < -1 for size in target):
        fail(op, f"shape {text(target)} has a negative size; only one -1 may be worked out")
    rest = tuple(size for i, size in enumerate(target) if i not in holes)
    left = [size for size in shape if type(size) is not int]
    right: list[Any] = []
    for size in rest:
        if type(size) is int:
            continue
        for i, other in enumerate(left):
            if same(size, other):
                del left[i]
                break
        else:
            right.append(size)
    count = product([size for size in shape if type(size) is int] + left)
    given = product([size for size in rest if type(size) is int] + right)
    if not holes:
        if not same(count, given):
            fail(
                op,
                f"cannot view {text(shape)} as {text(target)}: {product(shape)} elements are not "
                f"{product(target)}",
            )
        return target
    if known(given, 0):
        fail(op, f"the -1 in {text(target)} is ambiguous: the other sizes multiply to 0")
    if known(given, 1):
        missing = count
    elif type(count) is int and type(given) is int and count % given != 0:
        fail(
            op, f"cannot view {text(shape)} as {text(target)}: {count} is not divisible by {given}"
        )
    else:
        missing = _quotient(shape, count, given, left, right)
    return tuple(missing if i in holes else size for i, size in enumerate(target))


def _quotient(shape: Shape, count: Any, given: Any, left: list[Any], right: list[Any]) -> Any:
    if left and not right:
        number = product(size for size in shape if type(size) is int)
        if number % given == 0:  # the symbols stay whole
            return product([number // given, *left])
    return count // given


def view_strides(meta: Meta, target: Shape) -> Shape | None:
    """Strides that show `meta`'s bytes as `target`, or None where only a copy can."""
    if is_contiguous(meta):
        return contiguous_strides(target)
    shape = meta.shape
    strides = strides_of(meta)
    found: list[Any] = []
    t = len(target) - 1
    base = strides[-1]
    chunk: Any = 1
    # Walk both shapes from the end; `chunk` is a run of old dims that is evenly strided.
    for d in range(len(shape) - 1, -1, -1):
        chunk = product((chunk, shape[d]))
        if d > 0:
            if known(shape[d - 1], 1) or same(strides[d - 1], product((chunk, base))):
                continue
        seen: Any = 1
        while t >= 0 and (known(target[t], 1) or not same(seen, chunk)):
            found.append(product((seen, base)))
            seen = product((seen, target[t]))
            t -= 1
        if not same(seen, chunk):
            return None
        if d > 0:
            base = strides[d - 1]
            chunk = 1
    return tuple(reversed(found)) if t < 0 else None
