"""Tensors and torch's over the same device memory, both ways."""

from __future__ import annotations

import numpy as np
import pytest

import clika_runtime as crt

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "uint8", "bool"])
def test_torch_and_back_without_a_copy(dtype):
    x = torch.arange(655).reshape(5, 131).to(getattr(torch, dtype)).cuda()
    ours = crt.from_dlpack(x)
    assert str(ours.device) == "cuda:0"
    assert ours.data_ptr() == x.data_ptr()
    back = torch.from_dlpack(ours)
    assert back.data_ptr() == x.data_ptr()
    assert torch.equal(back, x)
    made = crt.ones(7, device="cuda")
    assert torch.from_dlpack(made).data_ptr() == made.data_ptr()


def test_exchange_is_in_order_on_every_stream():
    side = torch.cuda.Stream()
    for stream in (torch.cuda.current_stream(), side):
        for i in range(20):
            with torch.cuda.stream(stream):
                x = torch.full((1 << 22,), float(i), device="cuda")
                for _ in range(20):
                    x = x + 1
                ours = crt.from_dlpack(x) * 2
                back = torch.from_dlpack(ours)
                del ours
                crt.zeros(1 << 22, device="cuda")  # would take the memory at once
                y = back + 1
                del back
            assert float(y.min()) == float(y.max()) == 2.0 * (i + 20) + 1


def test_strides_cross():
    x = torch.randn(6, 4, 10, device="cuda").transpose(0, 2)[1:, ::2]
    ours = crt.from_dlpack(x)
    assert np.allclose((ours + 1).cpu().numpy(), (x + 1).cpu().numpy())
