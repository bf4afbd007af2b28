"""Every operator of ONNX has a row, and every row names operators that there are."""

from __future__ import annotations

import pytest

from clika_runtime import ops
from clika_runtime.ops._onnx_table import GRAPH, HOST, OPSET, TABLE


@pytest.mark.parametrize("name", sorted(TABLE))
def test_row(name: str) -> None:
    row = TABLE[name]
    for operator in row.operators:
        assert callable(getattr(ops, operator))
        assert operator in ops.__all__
    assert row.operators or row.kind in (GRAPH, HOST)
    assert row.remark or row.kind not in (GRAPH, HOST)


def test_every_operator_of_onnx_has_a_row() -> None:
    onnx = pytest.importorskip("onnx")
    schemas = [found for found in onnx.defs.get_all_schemas() if found.domain == ""]
    names = {found.name for found in schemas if found.since_version <= OPSET}
    assert names == set(TABLE)
    assert onnx.defs.onnx_opset_version() == OPSET, "a newer opset: give its operators rows"
