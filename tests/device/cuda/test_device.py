"""Memory, order, faults and exchange with torch on a GPU."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import clika_runtime as crt
from tests.device.cuda.conftest import ROOT

START = """
import json, sys
from tests.device.cuda.conftest import _register
_register()
import clika_runtime as crt
def said(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return [type(error).__name__, getattr(error, "code_name", ""), str(error)]
    return []
"""


def ask(code):
    """What the code leaves in ``answer``, from a process of its own."""
    text = f"import sys; sys.path[:0] = {sys.path!r}\n{START}{code}\nprint(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("count", [0, 1, 1 << 14, (1 << 14) + 1, 5 * (1 << 20) + 3, 1 << 26])
def test_round_trip(count):
    values = np.arange(count, dtype=np.float32)
    there = crt.tensor(values).to("cuda")
    again = there.to("cuda", copy=True)
    assert (again.cpu().numpy() == values).all()


def test_source_may_change_at_once():
    for count in (64, 1 << 22):
        values = np.ones(count, np.float32)
        there = crt.from_numpy(values).to("cuda")
        values[:] = 7
        assert float(crt.sum(there).item()) == count


def test_a_queued_call_does_not_wait(gpu):
    import time

    x = crt.ones(1 << 28, device="cuda")
    for _ in range(3):  # the kernel is compiled, and the memory of the results taken
        x = x * 1.0
    crt.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        x = x * 1.0
    issued = time.perf_counter() - start
    crt.cuda.synchronize()
    whole = time.perf_counter() - start
    assert issued < whole / 2, (issued, whole)
    gpu["figures"]["queued_ms"] = [round(issued * 1e3, 2), round(whole * 1e3, 2)]


def test_out_of_memory_and_on():
    free = crt.get_device_properties("cuda").memory_bytes
    kept = crt.ones(1 << 20, device="cuda")
    with pytest.raises(
        crt.OutOfMemoryError, match=r"cannot allocate \d+ bytes on cuda:0"
    ) as caught:
        crt.zeros(free // 4 + (1 << 20), device="cuda")
    assert caught.value.code_name == "OUT_OF_MEMORY"
    assert float(crt.sum(kept + 1).item()) == 2 << 20
    crt.empty_cache("cuda")


def test_values_that_a_kernel_refuses():
    table = crt.tensor([[1.0, 2.0]]).to("cuda")
    rows = crt.embedding(table, crt.tensor([3], device="cuda"))
    with pytest.raises(crt.InvalidArgumentError, match=r"embedding: index 3 is outside 0 \.\. 0"):
        rows.tolist()
    assert (table + 1).tolist() == [[2.0, 3.0]]


FAULT = """
import ctypes
class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int), ("index", ctypes.c_int),
                ("rank", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
shape = (ctypes.c_int64 * 1)(1024)
array = Array(16, 2, 0, 1, 2, 32, 1, shape, None, 0, None, None)
make = ctypes.pythonapi.PyCapsule_New
make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
wrong = crt.from_dlpack(make(ctypes.addressof(array), b"dltensor", None))  # no such memory
(crt.ones(4, device="cuda") + 1).tolist()
bad = crt.exp(wrong)
first = said(bad.tolist)
later = said(lambda: crt.zeros(2, device="cuda").tolist())
answer = [first, later, (crt.ones(2) + 1).tolist()]
"""


def test_fault_is_reported_once_with_its_operator():
    first, second, host = ask(FAULT)
    assert first[0] == "InternalError"
    assert first[2].startswith("exp failed with CUDA_ERROR_"), first
    assert second[1] == "BACKEND_UNAVAILABLE"
    assert "exp failed" in second[2]
    assert host == [2.0, 2.0]


def test_forked_child_is_told():
    answer = ask("""
import os
crt.ones(2, device="cuda").tolist()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps(said(lambda: crt.zeros(2, device="cuda").tolist())).encode())
    os._exit(0)
answer = json.loads(os.read(read, 10000))
""")
    assert answer[1] == "UNAVAILABLE"
