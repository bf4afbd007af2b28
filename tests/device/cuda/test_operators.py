"""Every operator with a CUDA kernel: its cases on the GPU, against reference and CPU backend."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.device.cuda.worker import Workers

try:
    from clika_runtime_cuda import _backend

    NAMES = _backend.operators()
except ImportError:  # not built here: conftest skips, and says so
    NAMES = []


@pytest.fixture(scope="module")
def workers(gpu, request) -> Iterator[Workers]:
    asked = [
        item
        for item in request.session.items
        if getattr(item, "originalname", "") == "test_operator"
    ]
    workers = Workers([item.callspec.params["name"] for item in asked])
    yield workers
    workers.close()


@pytest.mark.parametrize("name", NAMES)
def test_operator(gpu, workers, name):
    answer = workers.ask(name)
    gpu["operators"][name] = {key: value for key, value in answer.items() if key != "wrong"}
    if "skip" in answer:
        pytest.skip(answer["skip"])
    assert "fault" not in answer, answer["fault"]
    assert not answer["wrong"], "\n".join(answer["wrong"][:20])
    assert answer["passed"]


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
