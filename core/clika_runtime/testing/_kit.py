"""Cases, their expected results, and the comparison with what a backend gives."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..errors import ClikaRTError, is_capability_decline
from ..ops.record import Meta, Record, View
from . import operators
from ._numpy import EPS, FLOATS, Array, from_payload, payload, round_to
from .operators.examples import EXAMPLES

__all__ = [
    "OPERATORS",
    "Case",
    "Make",
    "Operand",
    "Outcome",
    "Report",
    "cases",
    "check_case",
    "check_rule",
    "expected",
    "operator",
    "run_cases",
]


@dataclass(frozen=True)
class Operand:
    """A tensor argument: its values as the dtype holds them, and how they lie in memory.

    ``layout``: ``plain`` is compact; ``transposed``, ``stepped`` (every second element),
    ``offset`` and ``expanded`` (stride 0 along dim 0) are views of something larger. With
    ``scheme`` the values are those of the packed weight ``data``.
    """

    values: Array
    dtype: str
    layout: str = "plain"
    scheme: int = 0
    data: bytes = b""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def exact(self) -> Array:
        """The values for a reference: float64, or the integers and bools as they are."""
        return self.values.astype(np.float64) if self.dtype in FLOATS else self.values

    def meta(self) -> Meta:
        return Meta(self.shape, dtypes.by_name(self.dtype), scheme=self.scheme)

    def base(self) -> Array:
        """What lies in memory, of which the operand is a view."""
        base = self.values
        if self.layout == "transposed":
            base = base.transpose()
        elif self.layout == "stepped":
            base = np.stack([base, np.zeros_like(base)], -1)
        elif self.layout == "offset":
            base = np.concatenate([base[:1], base], 0)
        elif self.layout == "expanded":
            base = base[:1]
        return base

    def stored(self, device: Any) -> Any:
        """The tensor of `base`."""
        from .._native._core import Tensor

        dtype = dtypes.by_name(self.dtype)
        if self.scheme:
            made = Tensor.from_buffer(
                self.data, self.shape, dtype, scheme=self.scheme, mapped=False
            )
        else:
            base = self.base()
            made = Tensor.from_bytes(payload(base, self.dtype), base.shape, dtype)
        return made.to(device)

    def view(self, stored: Any) -> Any:
        """The operand's view of `stored`."""
        if self.layout == "transposed":
            return ops.permute(stored, tuple(reversed(range(len(self.shape)))))
        if self.layout == "stepped":
            return ops.select(stored, -1, 0)
        if self.layout == "offset":
            return ops.narrow(stored, 0, 1, self.shape[0])
        if self.layout == "expanded":
            return ops.expand(stored, self.shape)
        return stored


@dataclass(frozen=True)
class Bound:
    """Largest error: eps(dtype) * (relative * |want| + spread * magnitude). The magnitude is that
    of the terms that were added up, by default the largest |want|."""

    relative: float
    spread: float


@dataclass(frozen=True)
class Case:
    """One call of an operator: ``args`` in the order of its record's arguments."""

    op: str
    name: str
    args: tuple[Any, ...]
    dtype: str
    bound: Bound | None = None  # None: the operator's

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"


@dataclass(frozen=True)
class Operator:
    """What the kit knows of one operator."""

    reference: Callable[..., Any]
    build: Callable[[Make], None]
    bounds: dict[str, Bound]
    magnitude: Callable[..., Any] | None


OPERATORS: dict[str, Operator] = {}


def operator(
    name: str,
    reference: Callable[..., Any],
    build: Callable[[Make], None],
    *,
    float32: tuple[float, float] = (4, 0),
    narrow: tuple[float, float] = (1, 0),
    magnitude: Callable[..., Any] | None = None,
    example: str = "",
) -> None:
    """Declares reference, cases and bounds. ``float32`` bounds float64 results too (in their eps),
    ``narrow`` the shorter ones; each is (relative, spread). ``example`` is that of the reference
    page; see `examples`."""
    bounds = dict.fromkeys(("float32", "float64"), Bound(*float32))
    bounds.update(dict.fromkeys(("float16", "bfloat16", "float8_e4m3"), Bound(*narrow)))
    OPERATORS[name] = Operator(reference, build, bounds, magnitude)
    if example:
        EXAMPLES[name] = example


class Make:
    """Builds the cases of one operator from a generator seeded by its name."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.rng = np.random.default_rng(zlib.crc32(op.encode()))
        self.made: list[Case] = []

    def case(self, name: str, *args: Any, bound: tuple[float, float] | None = None) -> None:
        arguments = ops.record(self.op).args
        filled = list(args) + [arg.default for arg in arguments[len(args) :]]
        operands = [value for value in _flat(filled) if isinstance(value, Operand)]
        dtype = operands[0].dtype if operands else "float32"
        self.made.append(
            Case(self.op, name, tuple(filled), dtype, None if bound is None else Bound(*bound))
        )

    def operand(self, values: Any, dtype: str, layout: str = "plain") -> Operand:
        rounded = round_to(values, dtype)
        if layout == "expanded":
            rounded = np.broadcast_to(rounded[:1], rounded.shape)
        return Operand(rounded, dtype, layout)

    def normal(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        layout: str = "plain",
        scale: float = 1.0,
    ) -> Operand:
        """Normal numbers; for an integer dtype whole ones up to about 10, for bool a coin."""
        values: Any = self.rng.normal(0, scale, shape)
        if dtype == "bool":
            values = values > 0
        elif dtype not in FLOATS:
            values = np.rint(values * 4)
            values = np.abs(values) if dtype.startswith("u") else values
        return self.operand(values, dtype, layout)

    def uniform(
        self,
        low: float,
        high: float,
        shape: tuple[int, ...],
        dtype: str = "float32",
        layout: str = "plain",
    ) -> Operand:
        return self.operand(self.rng.uniform(low, high, shape), dtype, layout)

    def integers(
        self,
        low: int,
        high: int,
        shape: tuple[int, ...],
        dtype: str = "int64",
        layout: str = "plain",
    ) -> Operand:
        """Whole numbers from low to high - 1."""
        return self.operand(self.rng.integers(low, high, shape), dtype, layout)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _load() -> None:
    for module in iter_modules(operators.__path__):
        import_module(f"{operators.__name__}.{module.name}")


@cache
def _built(op: str) -> tuple[Case, ...]:
    _load()
    make = Make(op)
    OPERATORS[op].build(make)
    return tuple(make.made)


def cases(op: str | None = None) -> tuple[Case, ...]:
    """The cases of an operator, or of all of them."""
    if op is not None:
        return _built(op)
    _load()
    return tuple(case for name in sorted(OPERATORS) for case in _built(name))


# ---------------------------------------------------------------- what is expected
def _rule_values(record: Record, case: Case) -> list[Any]:
    """The arguments as a shape rule sees them."""
    values: list[Any] = []
    for arg, value in zip(record.args, case.args, strict=True):
        if arg.kind == "scalar":
            values.append(None)
        elif isinstance(value, list) and arg.kind == "tensor":
            values.append([item.meta() for item in value])
        elif isinstance(value, Operand):
            values.append(value.meta())
        elif arg.kind == "tensor" and value is not None:
            values.append(Meta((), weak_dtype(value), weak=True))
        elif arg.type == "ints" and isinstance(value, int):
            values.append((value,))
        else:
            values.append(value)
    return values


def weak_dtype(value: Any) -> Any:
    """The dtype of a Python number as an operand."""
    if isinstance(value, bool):
        return dtypes.bool
    return dtypes.int64 if isinstance(value, int) else dtypes.float32


def inferred(case: Case) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Shape and dtype of each result, by the operator's rule."""
    record = ops.record(case.op)
    values = _rule_values(record, case)
    results = record.infer(*values)
    metas = [value for value, arg in zip(values, record.args, strict=True) if arg.kind == "tensor"]
    found = []
    for result in results if isinstance(results, tuple) else (results,):
        dtype = metas[result.source].dtype if isinstance(result, View) else result.dtype
        found.append((tuple(result.shape), dtype.name))
    return tuple(found)


def _reference(case: Case, function: Callable[..., Any]) -> tuple[Array, ...]:
    exact = [
        value.exact()
        if isinstance(value, Operand)
        else [item.exact() if isinstance(item, Operand) else item for item in value]
        if isinstance(value, list)
        else value
        for value in case.args
    ]
    with np.errstate(all="ignore"):
        results = function(*exact)
    return tuple(
        np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))
    )


def expected(case: Case) -> tuple[Array, ...]:
    """The results by the reference, before they are rounded to the result's dtype."""
    _load()
    return _reference(case, OPERATORS[case.op].reference)


def fits(shape: tuple[Any, ...], rule: tuple[Any, ...]) -> bool:
    """Whether a shape is that of a rule, in which None stands for a size that depends on data."""
    return len(shape) == len(rule) and all(
        size in (None, given) for size, given in zip(rule, shape, strict=True)
    )


def check_rule(case: Case) -> None:
    """The shape rule agrees with the shape of the reference's result. Needs no backend."""
    for (shape, _), want in zip(inferred(case), expected(case), strict=True):
        if not fits(want.shape, shape):
            raise AssertionError(
                f"{case}: the rule gives shape {shape}, the reference {want.shape}"
            )


# ---------------------------------------------------------------- what a backend gives
def call(case: Case, device: Any, planned: bool = False) -> tuple[tuple[Any, ...], dict[int, Any]]:
    """Runs the case on a device, eagerly or recorded and run as a plan: the results, and the
    tensors that were written in place, by the number of the result that they are."""
    record = ops.record(case.op)
    recorder: Any = None
    if planned:
        from .._native._core import GraphRecorder

        recorder = GraphRecorder()
    given: dict[str, Any] = {}
    tensors: list[Any] = []

    def enter(operand: Any) -> Any:
        if not isinstance(operand, Operand):
            return operand
        stored = operand.stored(device)
        if planned and len(tensors) in record.written:
            tensors.append(operand.view(stored))
            return operand.view(recorder.state(stored))
        if planned and not operand.scheme:
            name = f"input{len(given)}"
            given[name] = stored
            stored = recorder.input(name, stored.shape, stored.dtype, device)
        tensors.append(operand.view(stored))
        return tensors[-1]

    positional: list[Any] = []
    options: dict[str, Any] = {}
    for arg, value in zip(record.args, case.args, strict=True):
        if arg.kind == "tensor":
            listed = arg.sequence and value is not None
            value = [enter(item) for item in value] if listed else enter(value)
        elif arg.type == "device":
            value = device
        if arg.keyword_only:
            options[arg.name] = value
        else:
            positional.append(value)
    results = getattr(ops, case.op)(*positional, **options)
    results = results if isinstance(results, tuple) else (results,)
    if any(result.is_traced for result in results):
        results = tuple(recorder.compile(list(results)).run(given))
    written = enumerate(record.mutates)
    return results, {at: tensors[arg] for at, arg in written if arg is not None}


def read(tensor: Any) -> Array:
    """The values of a tensor on the host."""
    host = tensor.to("cpu")
    return from_payload(host.bytes(), tuple(host.shape), host.dtype.name)


def compare(case: Case, index: int, got: Array, want: Array, dtype: str) -> None:
    """Values within the bound, NaN for NaN and inf for inf; integers and bools exactly."""
    rounded = round_to(want, dtype)
    if dtype not in FLOATS:
        wrong = got != rounded
        limit = np.zeros(got.shape)
    else:
        known = OPERATORS[case.op]
        bound = case.bound or known.bounds[dtype]
        finite = np.abs(np.where(np.isfinite(want), want, 0).astype(np.float64))
        if known.magnitude is not None:
            magnitude: Any = np.abs(_reference(case, known.magnitude)[index])
        else:
            magnitude = finite.max(initial=0.0)
        limit = EPS[dtype] * (bound.relative * finite + bound.spread * magnitude)
        if bound.relative or bound.spread:  # a subnormal result may be flushed to zero
            limit = limit + (2.0**-24 if dtype == "float16" else 2.0**-126)
        with np.errstate(all="ignore"):
            error = np.abs(got.astype(np.float64) - rounded.astype(np.float64))
        both_nan = np.isnan(got) & np.isnan(rounded)
        wrong = ~((error <= limit) | both_nan | (got == rounded))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        allowed = np.broadcast_to(limit, got.shape)[at]
        raise AssertionError(
            f"{case}: result {index} is wrong at {int(wrong.sum())} of {wrong.size} places; at "
            f"{at} got {got[at]!r}, expected {want[at]!r}, allowed error {allowed:.3g}"
        )


def check_case(case: Case, backend: str = "cpu", *, planned: bool = False) -> None:
    """Runs a case on a backend and compares shape, dtype and values; ``AssertionError`` says what
    differs. A backend's refusal comes through as the `UnsupportedError` it is. With ``planned``
    the call is recorded and runs as a compiled plan."""
    results, written = call(case, backend, planned)
    rule = inferred(case)
    if len(results) != len(rule):
        raise AssertionError(f"{case}: {len(results)} results, expected {len(rule)}")
    for result, (shape, dtype) in zip(results, rule, strict=True):
        if not fits(tuple(result.shape), shape) or result.dtype.name != dtype:
            raise AssertionError(
                f"{case}: got shape {tuple(result.shape)} of {result.dtype.name}, expected {shape} "
                f"of {dtype}"
            )
    wanted = expected(case)
    for i, (result, want) in enumerate(zip(results, wanted, strict=True)):
        if tuple(result.shape) != want.shape:
            raise AssertionError(
                f"{case}: result {i} has shape {tuple(result.shape)}, expected {want.shape}"
            )
        compare(case, i, read(result), want, rule[i][1])
    for i, tensor in written.items():
        compare(case, i, read(tensor), wanted[i], rule[i][1])


@dataclass(frozen=True)
class Outcome:
    """What became of one case: ``passed``, ``failed`` or ``refused`` (with the reason)."""

    case: Case
    status: str
    reason: str = ""


@dataclass
class Report:
    """The outcomes of a run; truthy where nothing failed."""

    backend: str
    outcomes: list[Outcome] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]

    @property
    def refused(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "refused"]

    def __str__(self) -> str:
        count = Counter(outcome.status for outcome in self.outcomes)
        head = ", ".join(f"{count[status]} {status}" for status in ("passed", "failed", "refused"))
        return "\n".join([f"{self.backend}: {head}", *(outcome.reason for outcome in self.failed)])


def run_cases(
    backend: str = "cpu",
    ops: Iterable[str] | None = None,
    dtypes: Iterable[str] | None = None,
    *,
    planned: bool = False,
) -> Report:
    """Runs all cases, or those of some operators and dtypes, on a backend, eagerly or as plans.

    A case that the backend declines (code ``NOT_IMPLEMENTED...``) counts as refused, not as failed.

    Example: ``assert run_cases("cpu", ops=["softmax"])``.
    """
    chosen = cases() if ops is None else tuple(case for name in ops for case in cases(name))
    kept = None if dtypes is None else set(dtypes)
    report = Report(backend)
    for case in chosen:
        if kept is not None and case.dtype not in kept:
            continue
        try:
            check_case(case, backend, planned=planned)
        except AssertionError as error:
            report.outcomes.append(Outcome(case, "failed", str(error)))
        except ClikaRTError as error:
            declined = is_capability_decline(error.code_name)
            status = "refused" if declined else "failed"
            report.outcomes.append(Outcome(case, status, f"{case}: {error}"))
        except Exception as error:  # a kernel may raise anything; the run goes on
            reason = f"{case}: {type(error).__name__}: {error}"
            report.outcomes.append(Outcome(case, "failed", reason))
        else:
            report.outcomes.append(Outcome(case, "passed"))
    return report
