"""Checkpoints as tensors, and tensors as checkpoints."""

from __future__ import annotations

import gc
import json
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import clika_runtime as crt
from clika_runtime import io
from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.io.ggml_types import TYPES
from clika_runtime.testing._numpy import random_blocks

ARRAYS = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "ids": np.array([1, -2, 3], np.int64),
    "flags": np.array([True, False]),
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
}


def tensors() -> dict[str, Any]:
    made = {name: crt.tensor(array) for name, array in ARRAYS.items()}
    made["half"] = crt.Tensor.from_bytes(bytes([0x80, 0x3F, 0x00, 0xC0]), (2,), crt.bfloat16)
    return made


def test_safetensors_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    io.save_safetensors(tensors(), path, {"format": "pt"})
    back = io.load_safetensors(path)
    assert list(back) == list(tensors())
    for name, array in ARRAYS.items():
        assert tuple(back[name].shape) == array.shape
        assert np.array_equal(back[name].numpy(), array)
    assert back["half"].dtype is crt.bfloat16
    assert back["half"].bytes() == bytes([0x80, 0x3F, 0x00, 0xC0])
    assert dict(io.open_safetensors(path).metadata) == {"format": "pt"}


def test_other_programs_files(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    save_file(ARRAYS, path)
    back = io.load_safetensors(path, device="cpu")
    for name, array in ARRAYS.items():
        assert np.array_equal(back[name].numpy(), array)
    made = {name: crt.tensor(array) for name, array in ARRAYS.items()}
    io.save(made, tmp_path / "ours.safetensors")
    theirs = load_file(tmp_path / "ours.safetensors")
    for name, array in ARRAYS.items():
        assert theirs[name].dtype == array.dtype and np.array_equal(theirs[name], array)


def test_loaded_tensors_outlive_everything(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    io.save(tensors(), path)
    weight = io.load(path)["weight"]
    path.unlink()
    gc.collect()
    assert np.array_equal(weight.numpy(), ARRAYS["weight"])


def test_bytes_that_are_not_aligned_are_copied(tmp_path: Path) -> None:
    header: dict[str, Any] = {
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
    }
    text = json.dumps(header).encode()
    path = tmp_path / "odd.safetensors"
    data = b"\x07" + np.array([1.5, -2.0], np.float32).tobytes()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    file = io.open_safetensors(path)
    made = io.make_tensor(file, "b")
    assert made.numpy().tolist() == [1.5, -2.0] and made.data_ptr() % 4 == 0


#: Every type that the ``gguf`` package decodes.
DECODED = [kind for kind in gguf.quants._type_traits if kind.name != "BF16"]
DENSE = (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64)


def written(path: Path, tensors: dict[str, tuple[Any, Any]]) -> Path:
    """A file of the ``gguf`` package: name -> (array, type or None)."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_gguf_of_every_type(tmp_path: Path) -> None:
    """Packed tensors keep their bytes and decode to the package's numbers; others are dense."""
    rng = np.random.default_rng(0)
    arrays: dict[str, tuple[Any, Any]] = {}
    for kind in DECODED:
        block, _ = gguf.GGML_QUANT_SIZES[kind]
        arrays[kind.name] = (random_blocks(rng, kind.name, 4, 3 * block), kind)
    for dtype in DENSE:
        values = (rng.standard_normal((3, 5)) * 50).astype(dtype)
        arrays[np.dtype(dtype).name] = (values, None)
    values = rng.standard_normal((3, 6)).astype(np.float32)
    bits = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
    arrays["bfloat16"] = (bits, gguf.GGMLQuantizationType.BF16)
    loaded, metadata = io.load_gguf(written(tmp_path / "a.gguf", arrays))
    assert json.loads(metadata)["general.architecture"] == "llama"
    assert list(loaded) == list(arrays)
    for kind in DECODED:
        tensor = loaded[kind.name]
        expected = gguf.quants.dequantize(arrays[kind.name][0], kind)
        assert tensor.is_quantized and tensor.scheme == kind.value + 1
        assert tuple(tensor.shape) == expected.shape
        assert np.array_equal(crt.dequantize(tensor).numpy(), expected)
        ids = crt.tensor(np.array([3, 0, 3]))
        assert np.array_equal(crt.embedding(tensor, ids).numpy(), expected[[3, 0, 3]])
    for dtype in DENSE:
        name = np.dtype(dtype).name
        assert not loaded[name].is_quantized and loaded[name].dtype.name == name
        assert np.array_equal(loaded[name].numpy(), arrays[name][0])
    assert loaded["bfloat16"].dtype is crt.bfloat16
    assert loaded["bfloat16"].bytes() == bits.tobytes()


def test_stacks_of_packed_matrices(tmp_path: Path) -> None:
    kind = gguf.GGMLQuantizationType.Q4_K
    blocks = random_blocks(np.random.default_rng(1), "Q4_K", 6, 512)
    stack = blocks.reshape(2, 3, -1)
    loaded, _ = io.load_gguf(written(tmp_path / "a.gguf", {"experts": (stack, kind)}))
    assert tuple(loaded["experts"].shape) == (2, 3, 512)
    expected = gguf.quants.dequantize(blocks, kind).reshape(2, 3, 512)
    assert np.array_equal(crt.dequantize(loaded["experts"]).numpy(), expected)


@pytest.mark.parametrize("name", ["Q8_1", "Q8_K", "Q1_0"])
def test_types_without_a_published_decoding_are_refused_by_name(tmp_path: Path, name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    block, nbytes = gguf.GGML_QUANT_SIZES[kind]
    path = written(tmp_path / "a.gguf", {"w": (np.zeros((2, nbytes), np.uint8), kind)})
    with pytest.raises(UnsupportedError, match=f"tensor 'w' has type {name}, which no") as caught:
        io.load_gguf(path)
    assert caught.value.code_name == "NOT_IMPLEMENTED_FOR_SCHEME"
    assert io.open_gguf(path).tensors["w"].shape == (2, block)


def test_block_sizes_of_the_native_core() -> None:
    """The core's own declaration agrees with the reader's: one byte less is refused."""
    for kind in TYPES.values():
        if kind.dtype is None and kind.loadable:
            shape, size = (2, 3 * kind.block), 6 * kind.nbytes
            crt.Tensor.from_buffer(bytes(size), shape, crt.float32, scheme=kind.scheme)
            with pytest.raises(InvalidArgumentError, match=f"takes {size} bytes"):
                crt.Tensor.from_buffer(bytes(size - 1), shape, crt.float32, scheme=kind.scheme)
            with pytest.raises(InvalidArgumentError, match=f"multiple of {kind.block}"):
                crt.Tensor.from_buffer(bytes(size), (2, 8), crt.float32, scheme=kind.scheme)
        elif kind.dtype is None:
            with pytest.raises(UnsupportedError, match="no scheme number"):
                crt.Tensor.from_buffer(bytes(999), (1, 256), crt.float32, scheme=kind.scheme)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(InvalidArgumentError, match="expected a mapping of names to tensors"):
        io.save_safetensors([1], path)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="'a' must be a tensor, found ndarray"):
        io.save({"a": np.zeros(3)}, path)
    packed = crt.Tensor.from_buffer(bytes(34), (1, 32), crt.float32, scheme=9)
    with pytest.raises(UnsupportedError, match="'a' is quantized"):
        io.save({"a": packed}, path)
    assert not path.exists()


def test_load_and_save_stand_at_the_top(tmp_path: Path) -> None:
    crt.save({"a": crt.tensor([1.0])}, tmp_path / "a.safetensors")
    assert crt.load(tmp_path / "a.safetensors")["a"].numpy().tolist() == [1.0]


def test_missing() -> None:
    for load in (io.load, io.load_safetensors, io.load_gguf):
        with pytest.raises(NotFoundError) as caught:
            load("absent.safetensors")
        assert caught.value.code_name == "NO_SUCHFILE" and caught.value.status.name == "NotFound"
