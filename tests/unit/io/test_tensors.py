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


def test_gguf_stays_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "llama")
    packed = {}
    for name in ("Q4_0", "Q4_1", "Q8_0"):
        kind = gguf.GGMLQuantizationType[name]
        packed[name] = gguf.quants.quantize(values, kind)
        writer.add_tensor(name, packed[name], raw_dtype=kind)
    writer.add_tensor("dense", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    loaded, metadata = io.load_gguf(path)
    assert json.loads(metadata)["general.architecture"] == "llama"
    assert np.array_equal(loaded["dense"].numpy(), values)
    for name in packed:
        assert loaded[name].is_quantized and tuple(loaded[name].shape) == (4, 64)


def test_types_that_no_kernel_reads_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    data = np.zeros((2, 210), np.uint8)
    writer.add_tensor("w", data, raw_dtype=gguf.GGMLQuantizationType.Q6_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedError, match="tensor 'w' has type Q6_K, which no") as caught:
        io.load_gguf(path)
    assert caught.value.code_name == "NOT_IMPLEMENTED_FOR_SCHEME"
    assert io.open_gguf(path).tensors["w"].shape == (2, 256)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(InvalidArgumentError, match="expected a mapping of names to tensors"):
        io.save([1], path)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="'a' must be a tensor, found ndarray"):
        io.save({"a": np.zeros(3)}, path)  # type: ignore[dict-item]
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
