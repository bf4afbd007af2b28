"""The operator ``arange``."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ._factory import place
from ._promotion import DEFAULT_FLOAT
from ._shapes import fail, known
from .record import FACTORY, Meta, op, static


def _infer(start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Meta:
    if end is None:
        start, end = 0, start
    if dtype is None:
        inexact = any(isinstance(value, float) for value in (start, end, step))
        dtype = DEFAULT_FLOAT if inexact else dtypes.int64
    if not all(isinstance(value, (int, float)) for value in (start, end, step)):
        if not known(step, 1):
            fail("arange", f"symbolic bounds {start} and {end} take step 1, got {step}")
        return Meta((end if known(start, 0) else end - start,), dtype, device)
    if step == 0 or not all(math.isfinite(value) for value in (start, end, step)):
        fail("arange", f"start {start}, end {end} and step {step} must be finite, and step not 0")
    if dtype is dtypes.int64:  # torch's rule: int64 counts with the numbers taken towards zero
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            fail("arange", "step must be at least 1 or at most -1 for int64")
    if (end - start) * step < 0:
        fail("arange", f"step {step} leads away from end: start is {start}, end {end}")
    if all(isinstance(value, int) for value in (start, end, step)):
        return Meta((-((start - end) // step),), dtype, device)
    count = (end - start) / step
    if not math.isfinite(count):
        fail("arange", f"start {start}, end {end} and step {step} give too many numbers")
    return Meta((math.ceil(count),), dtype, device)


op(
    "arange",
    doc="""
    The numbers start, start + step, ... before end: element i is start + i * step.

    With one number it is the end, and start is 0. Without `dtype`: int64 where all three are
    ints, else float32. An integer dtype takes start and step towards zero. The kernel sees the
    three numbers as given, a missing end as None.
    """,
    args=[
        static("start", "number"),
        static("end", "number", None),
        static("step", "number", 1),
        *place(),
    ],
    infer=_infer,
    traits={FACTORY},
    method=False,
)
