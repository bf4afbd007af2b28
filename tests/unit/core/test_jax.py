"""DLPack between this runtime and JAX, both ways without a copy; environment ``jax``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt

jax: Any = pytest.importorskip("jax", reason="the environment jax installs it")

DTYPES = ["float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_a_jax_array_becomes_a_tensor(name: str) -> None:
    array = jax.numpy.arange(24).reshape(2, 3, 4).astype(name)
    tensor = crt.from_dlpack(array)
    assert tensor.dtype.name == name and tuple(tensor.shape) == (2, 3, 4)
    assert tensor.data_ptr() == array.unsafe_buffer_pointer()
    assert tensor.to(crt.float32).tolist() == array.astype("float32").tolist()


@pytest.mark.parametrize("name", DTYPES)
def test_a_tensor_becomes_a_jax_array(name: str) -> None:
    # JAX takes memory that is aligned to 64 bytes as it is, and copies other memory.
    tensor = crt.arange(24).reshape(2, 3, 4).to(getattr(crt, name))
    array = jax.dlpack.from_dlpack(tensor)
    assert str(array.dtype) == name and array.shape == (2, 3, 4)
    assert np.asarray(array.astype("float32")).tolist() == tensor.to(crt.float32).tolist()
    if tensor.data_ptr() % 64 == 0:
        assert array.unsafe_buffer_pointer() == tensor.data_ptr()


def test_the_memory_lives_as_long_as_either_side() -> None:
    array = jax.numpy.arange(1000.0)
    tensor = crt.from_dlpack(array)
    del array
    other = jax.dlpack.from_dlpack(tensor)
    del tensor
    assert float(other.sum()) == 499500.0


def test_a_packed_weight_is_refused() -> None:
    packed = crt.make_quantized(crt.zeros(2, 34, dtype=crt.uint8), "GGUF_Q8_0", (32, 2))
    with pytest.raises((crt.ClikaRTError, BufferError, TypeError)):
        jax.dlpack.from_dlpack(packed)
