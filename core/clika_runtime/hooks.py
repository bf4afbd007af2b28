"""The hooks of the pluggy project ``clika_runtime``: what a plugin may register.

A plugin is a distribution with an entry point in one of four groups. The entry point names a module
of data: its hook functions call ``register`` with declarations of `clika_runtime.plugins`. The
plugin's code is named in them as ``"module:attribute"`` and is loaded on first need.

    # pyproject.toml:  [project.entry-points."clika_runtime.families"]
    #                  otter = "clika_family_otter.plugin"
    from clika_runtime.hooks import hookimpl
    from clika_runtime.plugins import FamilySpec

    @hookimpl
    def clika_register_families(register):
        register(
            FamilySpec(
                name="otter",
                contract=1,
                vendor="Otter Lab",
                tasks=("text-generation",),
                modalities=("text -> text",),
                verbs=("prompt",),
                model_types=("otter",),
                load="clika_family_otter.model:FAMILY",
            )
        )
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

__all__ = ["PROJECT", "hookimpl", "hookspec"]

PROJECT = "clika_runtime"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Register = Callable[..., Any]


# ---- group clika_runtime.backends
@hookspec
def clika_register_backends(register: Register) -> None:
    """``register(BackendSpec(...))``: a backend, the device kinds it drives, where its table is
    loaded from."""


@hookspec
def clika_register_ops(register: Register) -> None:
    """``register(OpsSpec(...))``: operators of the plugin's own, and the module that declares their
    records."""


# ---- group clika_runtime.families
@hookspec
def clika_register_families(register: Register) -> None:
    """``register(FamilySpec(...))``: a model family: what it recognizes, what it offers, where its
    code is."""


@hookspec
def clika_register_tool_parsers(register: Register) -> None:
    """``register(ToolParserSpec(...))``: a format in which models write tool calls."""


@hookspec
def clika_register_processors(register: Register) -> None:
    """``register(ProcessorSpec(...))``: a processor of images, audio or video."""


# ---- group clika_runtime.models
@hookspec
def clika_register_models(register: Register) -> None:
    """``register(ModelSpec(...))``: a model whose files the distribution carries."""


# ---- group clika_runtime.transforms
@hookspec
def clika_register_transforms(register: Register) -> None:
    """``register(TransformSpec(...))``: a graph transform."""
