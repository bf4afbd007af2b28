"""Bandwidths, rates and the cost of a launch on this GPU, for the report."""

from __future__ import annotations

import time

import numpy as np
import pytest

import clika_runtime as crt


def seconds(function, repeat=20):
    """The shortest of three means over `repeat` queued calls."""
    function()
    crt.cuda.synchronize()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeat):
            function()
        crt.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / repeat)
    return best


def test_copies(gpu):
    host = np.ones(1 << 26, np.float32)
    source = crt.from_numpy(host)
    figures = gpu["figures"]
    start = time.perf_counter()
    there = source.to("cuda")
    crt.cuda.synchronize()
    figures["host_to_device_gb_s"] = round(host.nbytes / (time.perf_counter() - start) / 1e9, 2)
    start = time.perf_counter()
    there.cpu()
    figures["device_to_host_gb_s"] = round(host.nbytes / (time.perf_counter() - start) / 1e9, 2)
    spent = seconds(lambda: there.to("cuda", copy=True))
    figures["device_copy_gb_s"] = round(2 * host.nbytes / spent / 1e9, 1)


def test_elementwise_and_rows(gpu):
    figures = gpu["figures"]
    x = crt.ones(8192, 8192, dtype=crt.bfloat16, device="cuda")
    size = 2 * 8192 * 8192
    figures["add_gb_s"] = round(3 * size / seconds(lambda: x + x) / 1e9, 1)
    figures["rms_norm_gb_s"] = round(2 * size / seconds(lambda: crt.rms_norm(x, (8192,))) / 1e9, 1)
    figures["softmax_gb_s"] = round(2 * size / seconds(lambda: crt.softmax(x, -1)) / 1e9, 1)
    figures["sum_gb_s"] = round(size / seconds(lambda: crt.sum(x, -1)) / 1e9, 1)
    spent = seconds(lambda: crt.swiglu(x, x))
    figures["swiglu_gb_s"] = round(3 * size / spent / 1e9, 1)
    small = crt.ones(8, device="cuda")
    figures["launch_us"] = round(seconds(lambda: small + 1, 2000) * 1e6, 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_matmul(gpu, dtype):
    n = 8192 if dtype != "float32" else 4096
    rng = np.random.default_rng(1)
    values = rng.normal(size=(n, n)).astype(np.float32)
    a = crt.tensor(values).to("cuda").to(getattr(crt, dtype))
    b = crt.tensor(values[::-1].copy()).to("cuda").to(getattr(crt, dtype))
    spent = seconds(lambda: crt.matmul(a, b), 10)
    gpu["figures"][f"matmul_{dtype}_tflop_s"] = round(2 * n**3 / spent / 1e12, 1)
