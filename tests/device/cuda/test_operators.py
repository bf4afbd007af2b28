"""Every operator with a CUDA kernel: its cases on the GPU, against reference and CPU backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import UnsupportedError
from clika_runtime.testing import _kit

try:
    from clika_runtime_cuda import _backend

    NAMES = _backend.operators()
except ImportError:  # not built here: conftest skips, and says so
    NAMES = []


def difference(case: Any) -> float:
    """The largest distance between the two backends' results, in units of the largest value."""
    worst = 0.0
    there, _ = _kit.call(case, "cuda")
    here, _ = _kit.call(case, "cpu")
    for a, b in zip(there, here, strict=True):
        x, y = (_kit.read(t).astype(np.float64) for t in (a, b))
        finite = np.isfinite(x) & np.isfinite(y)
        if finite.any():
            scale = max(float(np.abs(y[finite]).max()), 1e-30)
            worst = max(worst, float(np.abs(x[finite] - y[finite]).max()) / scale)
    return worst


@pytest.mark.parametrize("name", NAMES)
def test_operator(gpu, name):
    counts = {"passed": 0, "refused": 0, "beside_cpu": 0.0}
    gpu["operators"][name] = counts
    wrong = []
    try:
        cases = _kit.cases(name)
    except ImportError as error:
        pytest.skip(f"the cases need a package: {error}")
    for case in cases:
        for planned in (False, True):
            try:
                _kit.check_case(case, "cuda", planned=planned)
            except UnsupportedError as error:
                counts["refused"] += 1
                assert "cuda" in str(error).lower(), error
            except AssertionError as error:
                wrong.append(f"planned={planned}: {error}")
            else:
                counts["passed"] += 1
        try:
            counts["beside_cpu"] = max(counts["beside_cpu"], difference(case))
        except UnsupportedError:
            pass
    assert not wrong, "\n".join(wrong[:20])
    assert counts["passed"]


def test_the_same_bits_in_every_run(gpu):
    import clika_runtime as crt

    rng = np.random.default_rng(11)
    x = crt.tensor(rng.normal(size=(512, 4096)).astype(np.float32)).to("cuda")
    w = crt.tensor(rng.normal(size=(4096, 1024)).astype(np.float32)).to("cuda")
    half, narrow = x.to(crt.bfloat16), w.to(crt.bfloat16)
    for function in (
        lambda: crt.matmul(x, w),
        lambda: crt.matmul(half, narrow),
        lambda: crt.sum(x),
        lambda: crt.softmax(x, -1),
        lambda: crt.rms_norm(half, (4096,)),
    ):
        first = function().bytes()
        assert all(function().bytes() == first for _ in range(5))


def test_elements_beyond_31_bits(gpu):
    import clika_runtime as crt

    count = (1 << 31) + 1000
    if crt.get_device_properties("cuda").memory_bytes < 24 << 30:
        pytest.skip("needs 24 GB of device memory")
    x = crt.zeros(count, dtype=crt.uint8, device="cuda")
    y = x + 3
    ends = crt.cat([y[:4], y[-4:]], 0).tolist()
    assert ends == [3] * 8
    total = crt.sum(y.reshape(8, -1), -1).cpu().tolist()
    assert total == [3 * count // 8] * 8
