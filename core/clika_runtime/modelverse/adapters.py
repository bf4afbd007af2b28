"""LoRA: low-rank additions to the linear layers of a loaded model.

A layer with an adapter computes ``W x + scale * B (A x)`` with A ``[rank, inputs]`` and B
``[outputs, rank]`` (Hu et al., arXiv:2106.09685). Unmerged, beside the weight, this works over
every form of weight, packed ones too; merged, ``scale * B A`` is added to a dense weight once.

    model = load_generative("model.gguf", adapters=["sql.gguf", "style-folder:0.5"])
    other = model.with_adapters("poems.gguf")  # the same weights with another adapter

Everything is checked against the tree from headers, before anything is allocated; values when they
are bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import clika_runtime as crt
from clika_runtime import nn, plugins
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.io import make_tensor

from . import fit, requirements
from .adapter_files import AdapterFile, Pair, open_adapter
from .family import Family
from .modules.linear import Linear

if TYPE_CHECKING:
    from .loader import Checkpoint, LoadedModel

__all__ = [
    "Adapter",
    "AdapterSpec",
    "adapted",
    "attach",
    "check_mergeable",
    "cost_of",
    "read_adapters",
    "report_of",
    "spec_of",
]

_MOST_SCALE = 1e6


@dataclass(frozen=True)
class AdapterSpec:
    """An adapter to load: where it is, and a factor on top of its own scale."""

    path: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        scale = self.scale
        if isinstance(scale, bool) or not isinstance(scale, (int, float)):
            raise InvalidArgumentError(f"adapter '{self.path}': the scale is {scale!r:.40}")
        if not abs(scale) <= _MOST_SCALE:  # NaN fails the comparison, as it should
            raise InvalidArgumentError(
                f"adapter '{self.path}': the scale is {scale}, at most {_MOST_SCALE:g} is served"
            )


def spec_of(given: AdapterSpec | str | os.PathLike[str]) -> AdapterSpec:
    """``PATH`` or ``PATH:SCALE``; a path that is there as it is written is one.

    >>> spec_of("style.gguf:0.5")
    AdapterSpec(path='style.gguf', scale=0.5)
    """
    if isinstance(given, AdapterSpec):
        return given
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise InvalidArgumentError(
            f"an adapter is a path, PATH:SCALE or an AdapterSpec, got {given!r:.80}"
        )
    text = os.fsdecode(given)
    path, colon, scale = text.rpartition(":")
    if not isinstance(given, str) or not colon or not path or os.path.exists(text):
        return AdapterSpec(text)
    try:
        factor = float(scale)
    except ValueError:
        return AdapterSpec(text)
    return AdapterSpec(path, factor)


@dataclass(frozen=True)
class Adapter:
    """An adapter whose matrices fit a tree: ``targets`` maps the names of linear layers to their
    matrices, ``orders`` those whose outputs the base stores in another order to that order."""

    spec: AdapterSpec
    file: AdapterFile
    targets: Mapping[str, Pair]
    orders: Mapping[str, Any]


def read_adapters(
    specs: Iterable[Any], family: Family, checkpoint: Checkpoint, config: Any, model: Any
) -> tuple[Adapter, ...]:
    """Opens adapters and matches them with a tree, which need not hold weights.

    Refused with file and name: a weight that the model lacks or that is no linear layer, a shape
    that does not fit, an adapter of another architecture."""
    return tuple(_read(spec_of(spec), family, checkpoint, config, model) for spec in specs)


def _read(
    spec: AdapterSpec, family: Family, checkpoint: Checkpoint, config: Any, model: Any
) -> Adapter:
    file = open_adapter(spec.path)
    if file.kind == "gguf":
        _check_architecture(file, family, checkpoint)
    modules = dict(model.named_modules())
    targets: dict[str, Pair] = {}
    orders: dict[str, Any] = {}
    for base, pair in file.pairs.items():
        slot = family.tree_name(base, file.kind, file.architecture)
        name, _, leaf = slot.rpartition(".")
        module = modules.get(name)
        if leaf != "weight" or not isinstance(module, Linear):
            raise InvalidArgumentError(
                f"{file.path}: the adapter adds to '{base:.120}', and the model {checkpoint.path} "
                + ("has no such module" if module is None else "has no linear layer there")
                + "; is it an adapter of another model?",
                "MALFORMED_FILE",
            )
        _check_shapes(file, base, pair, module, checkpoint)
        if name in targets:
            raise InvalidArgumentError(f"{file.path}: two adapters for '{slot}'", "MALFORMED_FILE")
        targets[name] = pair
        order = None
        if file.kind != checkpoint.kind and family.gguf_row_order is not None:
            order = family.gguf_row_order(config, slot)
        if order is not None:
            orders[name] = _order(order, module, to_gguf=checkpoint.kind == "gguf")
    return Adapter(spec, file, targets, orders)


def _check_architecture(file: AdapterFile, family: Family, checkpoint: Checkpoint) -> None:
    if checkpoint.kind == "gguf":
        served: Sequence[str] = (checkpoint.architecture,)
    else:
        row = plugins.families().get(family.name)
        served = row.spec.gguf_architectures if row is not None else (file.architecture,)
    if file.architecture not in served:
        raise InvalidArgumentError(
            f"{file.path}: the adapter is for architecture '{file.architecture:.40}', the model "
            f"{checkpoint.path} is {' or '.join(served)}",
            "MALFORMED_FILE",
        )


def _check_shapes(
    file: AdapterFile, base: str, pair: Pair, module: Linear, checkpoint: Checkpoint
) -> None:
    inputs = file.file.tensors[pair.down].shape[1]
    outputs = file.file.tensors[pair.up].shape[0]
    if (outputs, inputs) != (module.out_features, module.in_features):
        raise InvalidArgumentError(
            f"{file.path}: the matrices of '{base:.120}' make [{outputs}, {inputs}], the weight of "
            f"{checkpoint.path} is [{module.out_features}, {module.in_features}]; is it an adapter "
            "of another model?",
            "MALFORMED_FILE",
        )


def _order(order: Sequence[int], module: Linear, to_gguf: bool) -> Any:
    """Which of an adapter's rows each row of the base is."""
    import numpy as np

    rows = np.asarray(order, dtype=np.int64)
    if not np.array_equal(np.sort(rows), np.arange(module.out_features)):
        raise InvalidArgumentError(
            f"Family.gguf_row_order: {rows.size} numbers are no order of {module.out_features} rows"
        )
    return rows if to_gguf else np.argsort(rows)


def check_mergeable(
    adapters: Sequence[Adapter], checkpoint: Checkpoint, names: Mapping[str, str]
) -> None:
    """Refuses to merge into packed weights; ``names`` says which tensor each slot takes."""
    for adapter in adapters:
        for module in adapter.targets:
            name = names[f"{module}.weight"]
            if checkpoint.tensors[name].packed:
                raise UnsupportedError(
                    f"{checkpoint.path}: '{name}' is packed, and a sum with {adapter.file.path} "
                    "would have to be quantized anew; load the adapter without merge_adapters",
                    "NOT_IMPLEMENTED_FOR_SCHEME",
                )


# ---- memory
def cost_of(
    adapters: Sequence[Adapter], model: Any, compute: Any, merged: bool
) -> requirements.Added:
    """What adapters take: matrices beside the weights, or weights of their own where the file's
    bytes no longer do; and the elements per token that their products need."""
    element = int(compute.nbytes(1))
    modules = dict(model.named_modules())
    names = {name for adapter in adapters for name in adapter.targets}
    sizes = {name: (modules[name].out_features, modules[name].in_features) for name in names}
    if merged:
        held = element * sum(rows * columns for rows, columns in sizes.values())
        passing = 8 * max((rows * columns for rows, columns in sizes.values()), default=0)
        return requirements.Added(held, passing)
    ranks = dict.fromkeys(names, 0)
    for adapter in adapters:
        for name, pair in adapter.targets.items():
            ranks[name] += pair.rank
    held = element * sum(ranks[name] * sum(sizes[name]) for name in names)
    widest = max((ranks[name] + 2 * sizes[name][0] for name in names), default=0)
    largest = max((ranks[name] * sum(sizes[name]) for name in names), default=0)
    return requirements.Added(held, 8 * largest, widest)


# ---- binding
def attach(adapters: Sequence[Adapter], model: Any, compute: Any, device: Any, merge: bool) -> None:
    """Puts adapters on a tree whose weights are bound: beside the weights, or, with ``merge``, into
    them (dense ones only)."""
    modules = dict(model.named_modules())
    names = dict.fromkeys(name for adapter in adapters for name in adapter.targets)
    for name in names:
        pairs = [_matrices(item, name) for item in adapters if name in item.targets]
        # Several adapters of a layer are one of their ranks together.
        down = pairs[0][0] if len(pairs) == 1 else crt.cat([pair[0] for pair in pairs], 0)
        up = pairs[0][1] if len(pairs) == 1 else crt.cat([pair[1] for pair in pairs], 1)
        module = modules[name]
        if merge:
            weight = module.weight.to("cpu", crt.float32) + crt.matmul(up, down)
            module.weight = crt.pack_weight(weight.to(compute).to(device), "exact")
        else:
            module.adapter = tuple(
                crt.pack_weight(matrix.to(compute).to(device), "exact") for matrix in (down, up)
            )


def _matrices(adapter: Adapter, name: str) -> tuple[Any, Any]:
    """A and scale * B in float32, rows of B in the base's order."""
    pair = adapter.targets[name]
    down, up = (_values(adapter.file, tensor) for tensor in (pair.down, pair.up))
    if name in adapter.orders:
        up = up[adapter.orders[name]]
    scale = pair.scale * adapter.spec.scale
    return crt.tensor(down), crt.tensor(up * up.dtype.type(scale))


def _values(file: AdapterFile, name: str) -> Any:
    import numpy as np

    tensor = make_tensor(file.file, name)
    if tensor.scheme:
        tensor = crt.dequantize(tensor, dtype=crt.float32)
    values = tensor.to(crt.float32).numpy()
    if not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0].tolist()
        raise InvalidArgumentError(
            f"{file.path}: tensor '{name:.120}' holds {values[tuple(place)]} at {place}",
            "MALFORMED_FILE",
        )
    return values


# ---- the same weights with other adapters
def adapted(loaded: LoadedModel, specs: Iterable[Any]) -> LoadedModel:
    """The model with these adapters in the place of its own: its weights are shared, its tree is
    not.

    Refused: a model whose adapters are merged; one whose second cache and plans do not fit."""
    from .loader import describe

    if loaded.options.merge_adapters and loaded.options.adapters:
        raise InvalidArgumentError(
            "with_adapters: the model's own adapters are merged into its weights; load it without "
            "merge_adapters"
        )
    options = replace(loaded.options, adapters=tuple(specs), merge_adapters=False)
    found = describe(loaded.checkpoint, options, loaded.family)
    place = fit.place_of(options.device)
    requirements.admit(
        _with_second(fit.budget_of_described(found, options, place)), loaded.checkpoint.path
    )
    tree = _twin(loaded.model, {})
    for module in tree.modules():
        if isinstance(module, Linear):
            module.adapter = None
    attach(found.adapters, tree, loaded.dtype, crt.Device(options.device), False)
    report = {**loaded.report, "adapters": report_of(found.adapters)}
    return replace(loaded, model=tree, options=options, report=report, adapters=found.adapters)


def report_of(adapters: Sequence[Adapter]) -> str:
    """Adapters in a line."""
    return ", ".join(f"{item.spec.path} (x{item.spec.scale:g})" for item in adapters) or "none"


def _with_second(budget: requirements.Budget) -> requirements.Budget:
    """The budget with a second cache and second plans, of the model that shares the weights."""
    total = budget.total + budget.cache + budget.activations
    fits = None if budget.memory is None else total <= budget.memory
    return replace(budget, total=total, fits=fits)


def _twin(module: nn.Module, seen: dict[int, nn.Module]) -> Any:
    """A tree of the same structure whose parameters are the same objects."""
    found = seen.get(id(module))
    if found is None:
        found = seen[id(module)] = object.__new__(type(module))
        found.__dict__.update(module.__dict__)
        for table in ("_parameters", "_modules"):
            found.__dict__[table] = dict(module.__dict__[table])
        for name, child in module.named_children():
            found.__dict__[name] = _twin(child, seen)
    return found
