"""Random calls of operators, described in plain values so that another process can make them.

A call is the number of a case or None, a list of arguments in the order of the record's, and
arguments by name (of functions over operators). A tensor is ``("tensor", dtype, shape,
layout, fill, seed)`` or ``("packed", scheme, rows, columns, seed)``, a list of them ``("list",
...)``, a dtype ``("dtype", name)``; everything else stands for itself.
"""

from __future__ import annotations

import inspect
from typing import Any

from hypothesis import strategies as st

from clika_runtime import dtypes, ops
from clika_runtime.ops.record import Arg, Record

DTYPES = [dtype.name for dtype in dtypes.ALL]
COMMON = ["float32", "bfloat16", "int64", "bool", "float64", "int32", "uint8"]
LAYOUTS = ["plain", "plain", "transposed", "stepped", "expanded", "narrowed"]
FILLS = ["small", "small", "index", "normal", "extreme", "zeros"]
SCHEMES = [1, 2, *range(3, 48), *range(48, 58)]

MOST = 2**63 - 1
INTEGERS = [0, 1, 2, 3, -1, -2, -3, 4, 5, 7, 8]
HUGE = [2**31 - 1, 2**31, -(2**31), 2**40, -(2**40), 2**62, MOST, -MOST, -MOST - 1, 2**63, 2**64]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 1e-6, 3.7]
WILD = [float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 5e-324, 2.0**63]


def _mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual four times of five."""
    return st.integers(0, 4).flatmap(lambda n: odd if n == 4 else usual)


INTEGER = _mostly(st.sampled_from(INTEGERS), st.sampled_from(HUGE))
FLOAT = _mostly(st.sampled_from(FLOATS), st.sampled_from(WILD))
NUMBER = st.one_of(INTEGER, FLOAT, st.booleans())
ODD = st.one_of(st.none(), st.booleans(), INTEGER, FLOAT, st.sampled_from(["", "a"]), st.just([]))
SHAPE = st.lists(st.integers(0, 4), min_size=0, max_size=5).map(tuple)


@st.composite
def _tensors(draw: Any, base: tuple[int, ...], dtype: str) -> Any:
    if draw(st.integers(0, 2)):
        shape = base
    elif draw(st.booleans()):  # one that broadcasts, or nearly does
        kept = base[draw(st.integers(0, len(base))) :]
        shape = tuple(1 if draw(st.booleans()) else size for size in kept)
    else:
        shape = draw(SHAPE)
    kind = dtype if draw(st.integers(0, 3)) else draw(st.sampled_from(DTYPES))
    layout, fill = draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(FILLS))
    return "tensor", kind, shape, layout, fill, draw(st.integers(0, 3))


def _packed(draw: Any) -> Any:
    scheme = draw(st.sampled_from(SCHEMES))
    return "packed", scheme, draw(st.integers(0, 4)), draw(st.sampled_from([0, 1, 32, 256, 512]))


def _static(draw: Any, arg: Arg) -> Any:
    if arg.modes:
        return draw(st.sampled_from([*arg.modes, *arg.modes, "no mode", None]))
    if arg.type in ("ints", "floats"):
        one = INTEGER if arg.type == "ints" else FLOAT
        few = st.lists(one, max_size=5)
        return draw(_mostly(st.one_of(few, few.map(tuple), one), st.one_of(ODD, st.lists(ODD))))
    usual: st.SearchStrategy[Any] = {
        "int": INTEGER,
        "float": FLOAT,
        "number": NUMBER,
        "bool": st.booleans(),
        "str": st.sampled_from(["", "a,b->c"]),
        "dtype": st.sampled_from(DTYPES).map(lambda name: ("dtype", name)),
        "device": st.just("cpu"),
    }[arg.type]
    return draw(_mostly(usual, ODD))


def _argument(draw: Any, arg: Arg, base: tuple[int, ...], dtype: str) -> Any:
    if arg.default is not None and not arg.required and draw(st.booleans()):
        return arg.default if not isinstance(arg.default, dtypes.dtype) else None
    if not draw(st.integers(0, 30)):
        return draw(ODD)
    if arg.kind == "tensor":
        if arg.optional and not draw(st.integers(0, 2)):
            return None
        if arg.number and not draw(st.integers(0, 2)):
            return draw(NUMBER)
        if arg.sequence:
            return "list", [draw(_tensors(base, dtype)) for _ in range(draw(st.integers(0, 3)))]
        if not draw(st.integers(0, 2 if arg.packed else 40)):
            return _packed(draw)
        return draw(_tensors(base, dtype))
    if arg.kind == "scalar":
        return draw(_mostly(NUMBER, ODD))
    return _static(draw, arg)


@st.composite
def calls(draw: Any, record: Record) -> Any:
    """A case of the operator with some arguments replaced, or arguments that are all random."""
    base, dtype = draw(SHAPE), draw(st.sampled_from(COMMON))
    count = len(record.args)
    case = draw(st.integers(-1, 40))
    if case < 0 or not count:
        return None, [_argument(draw, arg, base, dtype) for arg in record.args], {}
    replaced = draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=2))
    given = {i: _argument(draw, record.args[i], base, dtype) for i in sorted(replaced)}
    return case, [given.get(i, ("case", i)) for i in range(count)], {}


def _parameter(draw: Any, item: inspect.Parameter, base: tuple[int, ...], dtype: str) -> Any:
    """An argument of a function, by its annotation."""
    kind = str(item.annotation)
    if not draw(st.integers(0, 9)):
        return draw(ODD)
    if "Sequence[Tensor]" in kind:
        return "list", [draw(_tensors(base, dtype)) for _ in range(draw(st.integers(0, 3)))]
    if "Tensor" in kind:
        return draw(_tensors(base, dtype))
    if "bool" in kind:
        return draw(st.booleans())
    if "str" in kind:
        return draw(st.sampled_from(["mean", "sum", "none", "ortho", "reflect"]))
    if kind in ("int", "float"):
        return draw(NUMBER)
    return draw(st.one_of(INTEGER, FLOAT, st.lists(INTEGER, max_size=3), ODD))


@st.composite
def function_calls(draw: Any, name: str) -> Any:
    """A call of a Python function over operators, of which some defaults are kept."""
    base, dtype = draw(SHAPE), draw(st.sampled_from(COMMON))
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for item in inspect.signature(getattr(ops, name)).parameters.values():
        if item.default is not item.empty and draw(st.booleans()):
            continue
        if item.kind is item.VAR_POSITIONAL:
            positional += [
                _parameter(draw, item, base, dtype) for _ in range(draw(st.integers(0, 2)))
            ]
        elif item.default is item.empty and item.kind is not item.KEYWORD_ONLY:
            positional.append(_parameter(draw, item, base, dtype))
        elif item.kind is not item.VAR_KEYWORD:
            named[item.name] = _parameter(draw, item, base, dtype)
    return None, positional, named


def functions() -> list[str]:
    """Functions over operators; a seed is kept by the process, and two only refuse."""
    return sorted(vars(ops)["_HELPERS"] - {"manual_seed", "eig", "eigvals"})


def names() -> list[str]:
    return list(ops.records())
