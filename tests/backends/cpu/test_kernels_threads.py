"""Kernels on the core's own pool: one, two and three threads give the same bits."""

import os
import subprocess
import sys

import pytest
from harness import SERVER, usable_levels

PROGRAM = """
import hashlib
import numpy as np
import clika_runtime as crt
from clika_runtime import ops

g = np.random.default_rng(0)
tensor = lambda *shape: crt.tensor(g.standard_normal(shape).astype(np.float32))
ints = lambda x: crt.tensor(np.asarray(x, np.int32))
x, w = tensor(200, 576), tensor(576)
results = [
    ops.rms_norm(x, 576, w),
    ops.softmax(x, -1),
    ops.swiglu(x, x),
    ops.layer_norm(x, 576, w, w),
    ops.matmul(x, tensor(576, 300)),
    ops.rotary(tensor(300, 9, 64), ints(range(300)), tensor(32)),
    ops.sum(tensor(300, 700), 1),
    ops.gelu(tensor(300, 700)),
    ops.conv2d(tensor(2, 20, 20, 24), tensor(40, 3, 3, 24), padding=1),
    ops.conv2d(tensor(2, 30, 30, 48), tensor(48, 3, 3, 1), groups=48),
    ops.conv_transpose2d(tensor(2, 12, 12, 24), tensor(24, 3, 3, 40), stride=2),
    ops.max_pool2d(tensor(2, 40, 40, 24), 3, 2),
    ops.interpolate(tensor(2, 20, 20, 24), (37, 50), mode="bilinear"),
    ops.group_norm(tensor(3, 400, 24), 4),
    ops.batch_norm(tensor(300, 24, 24), None, None, training=True),
    ops.scaled_dot_product_attention(tensor(4, 100, 24), tensor(4, 90, 24), tensor(4, 90, 24)),
]
keys, values = tensor(40, 16, 3, 64), tensor(40, 16, 3, 64)
table = ints(np.arange(40).reshape(1, 40))
for new in (1, 3, 150, 500):
    results.append(
        ops.paged_attention(
            tensor(new, 9, 64), keys, values, table, ints([0, new]), ints([600]), scale=0.125
        )
    )
for r in results:
    print(hashlib.sha256(r.numpy().tobytes()).hexdigest())
"""


@pytest.mark.skipif(bool(SERVER), reason="runs in a process with its own kernels")
@pytest.mark.parametrize("level", usable_levels())
def test_pool_size_changes_no_bit(level):
    seen = set()
    for threads in ("1", "2", "3"):
        env = {**os.environ, "CLIKA_RT_NUM_THREADS": threads, "CLIKA_RT_CPU_ISA": level}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.split()) == 20
        seen.add(done.stdout)
    assert len(seen) == 1
