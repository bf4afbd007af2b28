"""Graphs of models: trace and compile eager code, query, edit, optimize, merge and split, run."""

from __future__ import annotations

from .._native._graph import Edge, Node, Value
from . import transforms
from .combine import Rename, extract, merge, split
from .compiled import CompiledFunction, CompiledModule, compile
from .control import cond, loop, scan
from .model_graph import ModelGraph
from .opcode import NameKind, NodeKind, OpCode
from .optimize import DefaultsOptions, OptimizeReport, Transform, TransformReport
from .pattern import Pattern, RewriteMatch
from .profiling import ProfileReport, ProfileRow
from .queries import (
    MAX_PATHS_WITHOUT_LIMIT,
    NameMatch,
    TopologicalOrder,
    ValueCut,
    VisitAction,
    WalkDirection,
    WeightedPath,
)
from .recording import TracedGraph, trace
from .scopes import eager, tracing
from .spec import TensorSpec

__all__ = [
    "CompiledFunction",
    "CompiledModule",
    "compile",
    "cond",
    "loop",
    "scan",
    "eager",
    "tracing",
    "transforms",
    "TransformReport",
    "Transform",
    "Rename",
    "RewriteMatch",
    "Pattern",
    "ProfileReport",
    "ProfileRow",
    "OptimizeReport",
    "DefaultsOptions",
    "MAX_PATHS_WITHOUT_LIMIT",
    "Edge",
    "ModelGraph",
    "NameKind",
    "NameMatch",
    "Node",
    "NodeKind",
    "OpCode",
    "TensorSpec",
    "TopologicalOrder",
    "TracedGraph",
    "Value",
    "ValueCut",
    "VisitAction",
    "WalkDirection",
    "WeightedPath",
    "extract",
    "merge",
    "split",
    "trace",
]
