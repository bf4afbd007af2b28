"""PyTorch's own samples (OpInfo) as an oracle: every sample runs in torch and here, and must agree.

Coverage. An OpInfo is covered when a group's module has a twin for it, or, without one, when there
is a function here that has the last part of its name (``nn.functional.gelu``: `gelu`). Not
counted: random operators, ``_copy`` forms, backward and jiterator entries, entries and samples
that are complex.

Twins. A module of this package named after a group of operators has a dict ``TWINS``: the OpInfo's
name, with its variant if only that is meant (``div.trunc_rounding``), and a function that takes the
sample's arguments (tensors and dtypes are ours already, devices are gone) or a `Twin`. None says
that nothing here corresponds.

Outcomes of a sample. ``passed``; ``skipped``, when we refuse it as an invalid argument or as
unsupported (the reason is kept); ``failed``: another shape, dtype or value, or any other exception.

Tolerances. Integers and bools are compared exactly. Floats are compared by what torch itself takes
as close for the dtype (`torch.testing.assert_close`): 1.3e-6 relative and 1e-5 absolute for
float32 (10 roundings: two orders of summation differ), 1.6e-2 for bfloat16 (2 to 4 roundings), 1e-7
for float64. NaN and infinities stand at the same places. A `Twin` may state a wider one with its
reason.

    python -m tests.oracles.opinfo [names...]
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

import clika_runtime as crt
from clika_runtime import dtypes, ops
from clika_runtime.errors import InvalidArgumentError, UnsupportedError

__all__ = [
    "DTYPES",
    "Outcome",
    "Skip",
    "Twin",
    "channels_last",
    "covered",
    "entries",
    "from_torch",
    "run",
    "to_torch",
]

DTYPES = ("float32", "bfloat16", "int64", "bool")

#: Relative and absolute tolerance by dtype of the result.
CLOSE = {
    "float64": (1e-7, 1e-7),
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
}

# Where the last part of a name means the same function as the whole.
_PLAIN = ("", "nn.functional", "special")
_RANDOM = frozenset(
    """
    bernoulli cauchy exponential geometric log_normal multinomial normal rand_like randint
    randint_like randn randn_like uniform nn.functional.alpha_dropout nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.rrelu
    svd_lowrank pca_lowrank
    """.split()
)
# Arguments that say where and how a result is stored; the results are compared, not their storage.
_PLACING = frozenset(("device", "layout", "pin_memory", "requires_grad", "memory_format"))


class Skip(Exception):
    """Raised by a twin for a sample that it cannot express; the text is the reason."""


@dataclass(frozen=True)
class Twin:
    """How an OpInfo runs here.

    ``call``: the function over our tensors. ``close``: wider tolerances (relative, absolute) by
    dtype, with a comment why. ``values`` False: only shape and dtype are compared (what is not
    initialised). ``compare``: instead of an elementwise comparison, a function of our results and
    torch's (both as torch tensors) and of the sample's arguments as torch has them; it raises
    AssertionError.
    """

    call: Callable[..., Any]
    close: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    values: bool = True
    compare: Callable[..., None] | None = None


@dataclass
class Outcome:
    """The samples of one OpInfo in one dtype."""

    name: str
    dtype: str
    passed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)


# ---------------------------------------------------------------- what is covered
@cache
def entries() -> dict[str, Any]:
    """All OpInfos that count, by name and variant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found = {}
    for entry in op_db:
        name = entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")
        if entry.name in _RANDOM or "backward" in name or name.startswith(("jiterator", "torch.")):
            continue
        if entry.name.endswith("_copy") or not dtypes_of(entry):
            continue
        found[name] = entry
    return found


def dtypes_of(entry: Any) -> list[str]:
    import torch

    return [name for name in DTYPES if entry.supports_dtype(getattr(torch, name), "cpu")]


@cache
def twins() -> dict[str, Any]:
    """The twins of all groups."""
    found: dict[str, Any] = {}
    for module in iter_modules(__path__):
        for name, twin in getattr(import_module(f"{__name__}.{module.name}"), "TWINS", {}).items():
            if name in found:
                raise ValueError(f"opinfo: two groups have a twin of {name}")
            found[name] = twin
    return found


def twin_of(name: str) -> Twin | None:
    """The twin of an OpInfo, or None where it is not covered."""
    entry = entries()[name]
    known = twins()
    found: Any
    if name in known:
        found = known[name]
    elif entry.name in known:
        found = known[entry.name]
    else:
        space, _, last = entry.name.rpartition(".")
        found = getattr(ops, last) if space in _PLAIN and last in ops.__all__ else None
    return found if found is None or isinstance(found, Twin) else Twin(found)


@cache
def covered() -> tuple[str, ...]:
    """Names of the OpInfos that have a twin."""
    return tuple(name for name in entries() if twin_of(name) is not None)


# ---------------------------------------------------------------- tensors and arguments
def from_torch(tensor: Any) -> Any:
    """Our tensor of the same bits, sizes, strides and storage."""
    import torch

    tensor = tensor.detach()
    dtype = dtype_of(tensor.dtype)
    shape, strides, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    stored = tensor.untyped_storage().nbytes() // tensor.element_size()
    if stored == tensor.numel() and tensor.is_contiguous():
        return crt.Tensor.from_bytes(_bytes(tensor), shape, dtype)
    base = torch.as_strided(tensor, (stored,), (1,), 0)
    return crt.Tensor.from_bytes(_bytes(base), (stored,), dtype).as_strided(shape, strides, offset)


def _bytes(tensor: Any) -> bytes:
    import torch

    if tensor.numel() == 0:
        return b""
    raw: bytes = tensor.resolve_neg().reshape(-1).view(torch.uint8).numpy().tobytes()
    return raw


def to_torch(tensor: Any) -> Any:
    """torch's tensor of the same bits, compact."""
    import torch

    dtype = getattr(torch, tensor.dtype.name, None)
    if dtype is None:
        raise Skip(f"torch has no dtype {tensor.dtype.name}")
    shape = tuple(tensor.shape)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.bytes()), dtype=dtype).reshape(shape)


def dtype_of(dtype: Any) -> Any:
    name = str(dtype).removeprefix("torch.")
    if dtype.is_complex or name not in {known.name for known in dtypes.ALL}:
        raise Skip(f"dtype {name}")
    return dtypes.by_name(name)


def _is_complex(value: Any) -> bool:
    import torch

    if isinstance(value, torch.dtype):
        return value.is_complex
    if isinstance(value, torch.Tensor):
        return value.is_complex()
    if isinstance(value, (list, tuple)):
        return any(map(_is_complex, value))
    return isinstance(value, complex)


def _ours(value: Any) -> Any:
    """A sample's argument with our tensors and dtypes."""
    import torch

    if isinstance(value, torch.Tensor):
        return from_torch(value)
    if isinstance(value, torch.dtype):
        return dtype_of(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, slice):
        return slice(*map(_ours, (value.start, value.stop, value.step)))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_ours, value))
    if isinstance(value, dict):
        return {key: _ours(item) for key, item in value.items() if key not in _PLACING}
    return value


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


# ---------------------------------------------------------------- channels last
def _permuted(tensor: Any, source: int, target: int) -> Any:
    order = list(range(tensor.ndim))
    order.insert(target % tensor.ndim, order.pop(source))
    return ops.permute(tensor, order)


def channels_last(
    call: Callable[..., Any],
    *,
    spatial: int | None = None,
    tensors: int = 1,
    weight: str = "",
) -> Callable[..., Any]:
    """A function over channels-first tensors from ours over channels-last ones.

    The first ``tensors`` tensor arguments are moved to channels-last, every tensor of the result
    back. ``spatial``: how many spatial dims there are (an input without a batch dim has its
    channels in dim 0); None: channels are dim 1. ``weight``: how torch's convolution weight, the
    argument after them, is laid out: ``oi`` (``[O, I, K...]`` becomes ``[O, K..., I]``) or ``io``
    (transposed convolution: ``[I, O, K...]`` becomes ``[I, K..., O]``).
    """

    def moved(first: Any, *args: Any, **kwargs: Any) -> Any:
        at = 1 if spatial is None else first.ndim - spatial - 1
        values = [first, *args]
        for i in range(tensors):
            if isinstance(values[i], crt.Tensor) and values[i].ndim > at:
                values[i] = _permuted(values[i], at, -1)
        if weight and len(values) > tensors:
            values[tensors] = _permuted(values[tensors], 1, -1)
        result = call(*values, **kwargs)
        if isinstance(result, (list, tuple)):
            return tuple(_permuted(one, -1, at) for one in result)
        return _permuted(result, -1, at)

    return moved


# ---------------------------------------------------------------- running
def samples(entry: Any, dtype: str) -> Iterator[Any]:
    """torch's inference samples in that dtype, the same ones in every run."""
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    # Not `sample_inputs`: it looks through the stack for a test of torch's, and seeds every sample.
    yield from entry.sample_inputs_func(entry, "cpu", getattr(torch, dtype), False)


def run(name: str, dtype: str) -> Outcome:
    """Runs the samples of one OpInfo in one dtype."""
    entry = entries()[name]
    twin = twin_of(name)
    if twin is None:
        raise KeyError(f"opinfo: {name} is not covered")
    outcome = Outcome(name, dtype)
    with _one_thread():
        _run(outcome, entry, twin, iter(samples(entry, dtype)))
    return outcome


@contextmanager
def _one_thread() -> Iterator[None]:
    """The samples are small: torch's threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _run(outcome: Outcome, entry: Any, twin: Twin, drawn: Iterator[Any]) -> None:
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates some of the forms that it samples
            sample = next(drawn, None)
            if sample is None:
                return
            given = (sample.input, *sample.args)
            if any(map(_is_complex, (*_flat(given), *_flat(tuple(sample.kwargs.values()))))):
                continue
            try:
                args, kwargs = _ours(given), _ours(sample.kwargs)
            except Skip as reason:
                outcome.skipped[str(reason)] += 1
                continue
            want = entry(sample.input, *sample.args, **sample.kwargs)
        _one(outcome, twin, (args, kwargs), want, sample)


def _one(outcome: Outcome, twin: Twin, call: Any, want: Any, sample: Any) -> None:
    try:
        got = twin.call(*call[0], **call[1])
        _compare(twin, got, want, sample)
    except Skip as reason:
        outcome.skipped[str(reason)] += 1
    except (InvalidArgumentError, UnsupportedError, NotImplementedError) as refusal:
        outcome.skipped[f"{type(refusal).__name__}: {refusal}"] += 1
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        outcome.failed.append(f"{_told(sample)}: {text}")
    else:
        outcome.passed += 1


def _told(sample: Any) -> str:
    """The sample in one line: tensors by shape and dtype."""
    import torch

    def told(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(told, value))}]"
        return repr(value)

    parts = [told(value) for value in (sample.input, *sample.args)]
    parts += [f"{key}={told(value)}" for key, value in sample.kwargs.items()]
    return f"({', '.join(parts)})"


def _compare(twin: Twin, got: Any, want: Any, sample: Any) -> None:
    got = _as_torch(got)
    want = _as_torch(want)
    if twin.compare is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some ask torch again
            twin.compare(got, want, sample)
        return
    ours, theirs = list(_flat(got)), list(_flat(want))
    assert len(ours) == len(theirs), f"{len(ours)} results, torch has {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        _same(twin, one, other)


def _as_torch(value: Any) -> Any:
    import torch

    if isinstance(value, crt.Tensor):
        return to_torch(value)
    if isinstance(value, torch.Tensor):
        return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    if isinstance(value, (list, tuple)):
        return [_as_torch(item) for item in value]
    return value


def _same(twin: Twin, one: Any, other: Any) -> None:
    import torch

    if not isinstance(other, torch.Tensor):
        assert isinstance(one, type(other)), f"{one!r}, torch has {other!r}"
        if not isinstance(other, (float, int)):
            assert one == other, f"{one!r}, torch has {other!r}"
            return
        one, other = torch.tensor(one), torch.tensor(other)
    assert isinstance(one, torch.Tensor), f"{one!r}, torch has a tensor"
    assert one.shape == other.shape, f"shape {list(one.shape)}, torch has {list(other.shape)}"
    assert one.dtype == other.dtype, f"dtype {one.dtype}, torch has {other.dtype}"
    if not twin.values:
        return
    if torch.equal(one, other):  # most are; what follows takes ten times as long
        return
    name = str(other.dtype).removeprefix("torch.")
    relative, absolute = twin.close.get(name) or CLOSE.get(name, (0, 0))
    torch.testing.assert_close(one, other, rtol=relative, atol=absolute, equal_nan=True)
