"""Tensors as .npy files, against NumPy."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.io import arrays, load_npy, save_npy


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "uint8", "bool"])
def test_numpy_reads_what_is_written_and_the_other_way(tmp_path: Path, dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    save_npy(crt.tensor(values), tmp_path / "x.npy")
    assert np.array_equal(np.load(tmp_path / "x.npy"), values)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
    np.save(tmp_path / "y.npy", np.asfortranarray(values))
    found = load_npy(tmp_path / "y.npy")
    assert found.dtype.name == dtype and np.array_equal(found.numpy(), values)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(crt.NotFoundError) as missing:
        load_npy(tmp_path / "absent.npy")
    assert missing.value.code_name == "NO_SUCHFILE"
    path = tmp_path / "x.npy"
    np.save(path, np.ones(100, np.float32))
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:60], whole[:-4], b"\0" * 200):
        path.write_bytes(damaged)
        with pytest.raises(crt.InvalidArgumentError, match=r"x\.npy"):
            load_npy(path)
    np.save(path, np.array([object()]), allow_pickle=True)
    with pytest.raises(crt.InvalidArgumentError, match=r"x\.npy"):
        load_npy(path)
    np.savez(tmp_path / "z.npz", a=np.ones(2))
    with pytest.raises(crt.InvalidArgumentError, match="archive"):
        load_npy(tmp_path / "z.npz")
    with pytest.raises(crt.InvalidArgumentError, match="expected a tensor"):
        save_npy([1.0], path)  # type: ignore[arg-type]


def test_examples() -> None:
    assert doctest.testmod(arrays).failed == 0
