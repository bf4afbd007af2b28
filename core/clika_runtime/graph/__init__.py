"""Graphs of models: trace and compile eager code, query, edit, optimize, merge and split, run."""

from __future__ import annotations

from .._native._graph import Edge, Node, Value
from .model_graph import ModelGraph
from .opcode import NameKind, NodeKind, OpCode
from .spec import TensorSpec
from .tracing import TracedGraph, trace

__all__ = [
    "Edge",
    "ModelGraph",
    "NameKind",
    "Node",
    "NodeKind",
    "OpCode",
    "TensorSpec",
    "TracedGraph",
    "Value",
    "trace",
]
