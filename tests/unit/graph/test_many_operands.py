"""Nodes of more tensors than one call carries, as a file may have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.graph import ModelGraph
from tests.unit.graph.test_saving import read, rewrite


def saved_cat(path: Path, count: int) -> Path:
    """A file whose graph joins its input that often."""
    import json

    spec = crt.TensorSpec("x", crt.float32, (2, 3))
    crt.trace(lambda given: [crt.cat([given[0], given[0]], 0)], [spec]).graph.save(path)
    header, document, values = read(path)
    graph = document["graph"]
    node = graph["nodes"][-1]
    node["inputs"] = [0] * count
    node["call"][0] = [{"port": index} for index in range(count)]
    graph["values"][node["outputs"][0]]["shape"] = [2 * count, 3]
    rewrite(path, header, json.dumps(document), values)
    return path


@pytest.mark.parametrize("count", [64, 65, 200, 5000])
def test_many_tensors_are_joined_in_parts(tmp_path: Path, count: int) -> None:
    graph = ModelGraph.load(saved_cat(tmp_path / "a.safetensors", count))
    graph.finalize()
    x = crt.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    found = graph.run({"x": x})
    (result,) = found.values() if isinstance(found, dict) else found
    assert np.array_equal(result.numpy(), np.tile(x.numpy(), (count, 1)))
