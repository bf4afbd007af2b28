"""Makes the calls that `tests.fuzz.calls` describes: ``python -m tests.fuzz.call_worker``.

Reads pickled calls from standard input, each behind its length, and answers with one line each:
``ok``, ``refused CLASS`` or ``FAILED what``. What does not answer has crashed or hangs.
"""

from __future__ import annotations

import faulthandler
import math
import pickle
import resource
import struct
import sys
import time
import traceback
from typing import Any

import numpy as np

import clika_runtime as crt
from clika_runtime import dtypes, ops
from clika_runtime.errors import ClikaRTError
from clika_runtime.testing import Operand, cases
from clika_runtime.testing._numpy import bfloat16_bits

MEMORY = 1 << 30  # bytes of address space over what the imports take
SLOW = 5.0  # seconds of CPU that one call may cost


def values(dtype: Any, count: int, fill: str, seed: int) -> bytes:
    """The bytes of so many elements; random bits where NumPy has no such dtype."""
    rng = np.random.default_rng(seed)
    if fill == "zeros":
        return bytes(dtype.nbytes(count))
    if dtype.name == "bool":
        return bytes(rng.integers(0, 2, count, np.uint8))
    if dtype.is_subbyte or dtype.name.startswith("float8"):
        return bytes(rng.integers(0, 256, dtype.nbytes(count), np.uint8))
    if fill == "small":
        made = rng.integers(-3, 4, count).astype(np.float64)
    elif fill == "index":
        made = rng.choice([0, 1, 2, 3, 4, 5, -1, -4, -5, 2**31, 2**62, -(2**62)], count)
    elif fill == "normal":
        made = rng.normal(size=count)
    else:
        made = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 3e38, 1e-45, 1.8e308], count)
        if not dtype.is_floating_point:
            limits = np.iinfo(dtype.name)
            made = rng.choice([limits.min, limits.max, 0, 1], count)
    with np.errstate(all="ignore"):
        if dtype.name == "bfloat16":
            return bfloat16_bits(made.astype(np.float32)).tobytes()
        return made.astype(dtype.name).tobytes()


def tensor(name: str, shape: tuple[int, ...], layout: str, fill: str, seed: int) -> Any:
    dtype = dtypes.by_name(name)
    held = list(shape)
    if layout == "transposed":
        held.reverse()
    elif layout == "stepped":
        held.append(2)
    elif layout in ("expanded", "narrowed") and shape:
        held[0] = 1 if layout == "expanded" else shape[0] + 2
    if dtype.is_subbyte:
        held, layout = list(shape), "plain"  # they have no views
    made = crt.Tensor.from_bytes(values(dtype, math.prod(held), fill, seed), tuple(held), dtype)
    if layout == "transposed":
        return ops.permute(made, tuple(reversed(range(len(shape)))))
    if layout == "stepped":
        return ops.select(made, -1, 0)
    if layout == "expanded" and shape:
        return ops.expand(made, shape)
    if layout == "narrowed" and shape:
        return ops.narrow(made, 0, 1, shape[0])
    return made


def packed(scheme: int, rows: int, columns: int) -> Any:
    data = np.random.default_rng(rows).integers(0, 256, 4 * rows * max(columns, 1), np.uint8)
    return crt.Tensor.from_buffer(data, (rows, columns), crt.float32, scheme=scheme, mapped=False)


def made(value: Any, case: Any) -> Any:
    """The argument that a description stands for."""
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str):
        return value
    kind, *rest = value
    if kind == "tensor":
        return tensor(*rest)
    if kind == "packed":
        return packed(*rest)
    if kind == "dtype":
        return dtypes.by_name(*rest)
    if kind == "list":
        return [made(item, case) for item in rest[0]]
    if kind == "case":
        return held(case.args[rest[0]])
    return value


def held(value: Any) -> Any:
    if isinstance(value, list):
        return [held(item) for item in value]
    return value.view(value.stored("cpu")) if isinstance(value, Operand) else value


def outcome(name: str, case_at: int | None, described: list[Any], options: dict[str, Any]) -> str:
    record = ops.record(name) if name in ops.records() else None
    case = None
    if record is not None and case_at is not None:
        known = cases(name)
        case = known[case_at % len(known)]
    try:
        positional = [made(value, case) for value in described]
        named = {key: made(value, case) for key, value in options.items()}
    except (ClikaRTError, TypeError):
        return "refused before"  # a tensor that cannot be made: nothing to say of the operator
    if record is not None:
        given = list(zip(positional, record.args, strict=True))
        positional = [value for value, arg in given if not arg.keyword_only]
        named = {arg.name: value for value, arg in given if arg.keyword_only}
    start = time.process_time()
    try:
        results = getattr(ops, name)(*positional, **named)
        for result in results if isinstance(results, (list, tuple)) else (results,):
            if record is not None and not isinstance(result, crt.Tensor):
                return f"FAILED a result {type(result)}"
            if isinstance(result, crt.Tensor) and not result.dtype.is_subbyte:
                result.contiguous().bytes()
        told = "ok"
    except ClikaRTError as error:
        told = f"refused {type(error).__name__}"
        if not error.code_name or not says(name, error):
            told = f"FAILED an error that does not say where: {error.code_name} {error}"
        if error.code_name == "INTERNAL":
            told = f"FAILED {error}"
    except TypeError as error:  # a wrong type, refused where arguments are bound
        told = "refused TypeError"
        inner = record is None and str(error).partition(": ")[0] in ops.__all__
        if not (inner or str(error).startswith((f"{name}: ", f"{name}() "))):
            told = "FAILED " + "".join(traceback.format_exception(error)[-3:])
    except Exception as error:
        told = "FAILED " + "".join(traceback.format_exception(error)[-3:])
    seconds = time.process_time() - start
    return f"FAILED {seconds:.1f} s of CPU" if seconds > SLOW else told


def says(name: str, error: ClikaRTError) -> bool:
    """Whether an error names the operator; the one of its composition whose kernel found it; the
    argument whose modes it lists; or what it could not make: memory, a device."""
    text = str(error)
    first = text.partition(":")[0]
    composed = name not in ops.RECORDS or ops.record(name).compose is not None
    inner = composed and first in ops.RECORDS
    elsewhere = first in ("allocate", "Device") or "choose one of" in text
    return name in text or inner or elsewhere


def main() -> None:
    faulthandler.enable()
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    source = sys.stdin.buffer
    while head := source.read(4):
        call = pickle.loads(source.read(struct.unpack("<I", head)[0]))
        told = outcome(*call).replace("\n", "\\n")
        sys.stdout.write(told + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
