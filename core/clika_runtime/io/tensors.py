"""Checkpoints as tensors: what the readers show, made into ``Tensor`` objects, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clika_runtime import dtypes, pytree
from clika_runtime.errors import InvalidArgumentError, UnsupportedError

from ._files import invalid, shown
from .gguf import GgufFile, open_gguf
from .safetensors import SafetensorsFile, open_safetensors, write_safetensors

if TYPE_CHECKING:
    from clika_runtime._native._core import Tensor

# The entry of a file's metadata that holds the structure of a saved tree.
_TREESPEC = "clika_runtime.treespec"

__all__ = ["load", "load_gguf", "load_safetensors", "make_tensor", "save", "save_safetensors"]


def make_tensor(file: GgufFile | SafetensorsFile, name: str, device: Any = None) -> Tensor:
    """One tensor of an opened checkpoint, over the mapped bytes: nothing is copied.

    A packed tensor keeps its scheme and logical shape. Bytes that do not start at a multiple of the
    element's size (some writers do not pad) are copied, since no kernel reads those. ``device``
    moves the tensor. Errors: ``UnsupportedError`` naming a type that no kernel reads.
    """
    from clika_runtime._native._core import Tensor

    view = file.view(name)
    info = file.tensors[name]
    if not info.loadable:
        raise UnsupportedError(
            f"{file.path}: tensor {shown(name)} has type {info.type}, which no kernel reads",
            "NOT_IMPLEMENTED_FOR_SCHEME",
        )
    dtype = dtypes.float32 if info.dtype is None else dtypes.by_name(info.dtype)
    if info.offset % max(1, dtype.nbytes(1)) and not info.packed:
        tensor = Tensor.from_bytes(view, info.shape, dtype)
    else:
        tensor = Tensor.from_buffer(view, info.shape, dtype, scheme=info.scheme, owner=file)
    return tensor if device is None or str(device) == "cpu" else tensor.to(device)


def _all(file: GgufFile | SafetensorsFile, device: Any) -> dict[str, Tensor]:
    return {name: make_tensor(file, name, device) for name in file.tensors}


def load_gguf(path: str | os.PathLike[str], device: Any = None) -> tuple[dict[str, Tensor], str]:
    """Load a GGUF checkpoint: its tensors by name, and its metadata as JSON text.

    Quantized tensors stay packed; the bytes stay in the file's mapping on the CPU. Errors as
    ``open_gguf``; ``UnsupportedError`` for a tensor of a type that no kernel reads.

    >>> tensors, metadata = load_gguf("model.gguf")  # doctest: +SKIP
    """
    file = open_gguf(path)
    return _all(file, device), file.metadata_json()


def load_safetensors(path: str | os.PathLike[str], device: Any = None) -> dict[str, Tensor]:
    """Load a safetensors file, an index of shards or a directory: tensors by name, in order.

    The bytes stay in the file's mapping on the CPU. Errors as ``open_safetensors``.

    >>> weights = load_safetensors("model.safetensors")  # doctest: +SKIP
    """
    return _all(open_safetensors(path), device)


def load(path: str | os.PathLike[str], device: Any = "cpu") -> Any:
    """Load what ``save`` wrote: a state dict (of any other program too), a tensor or a tree.

    Errors: ``NotFoundError`` (``NO_SUCHFILE``) for a missing file; ``InvalidArgumentError`` for a
    tree whose tensors are not those of its structure, or that holds a class that is not registered
    (``load_safetensors`` reads such a file by name); others as ``load_safetensors``.
    """
    file = open_safetensors(path)
    text = file.metadata.get(_TREESPEC)
    if text is None:
        return _all(file, device)
    spec = pytree.treespec_loads(text)
    names = [_leaf_name(path) for path in spec.key_paths()]
    if sorted(names) != sorted(file.tensors):
        raise invalid(
            file.path,
            f"the tensors {shown(sorted(file.tensors))} are not the leaves of the saved tree, "
            f"{shown(sorted(names))}; load_safetensors reads the file by name",
        )
    return spec.unflatten([make_tensor(file, name, device) for name in names])


def _leaf_name(path: pytree.KeyPath) -> str:
    """The name of a leaf in a file; a tensor alone has an empty path."""
    return pytree.keystr(path) or "tensor"


def save_safetensors(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write dense tensors by name to a safetensors file that any other tool reads.

    Names keep their order. Pending work is settled first. The file appears only when it is
    complete. Errors: ``InvalidArgumentError`` for what is not a mapping of tensors,
    ``UnsupportedError`` for a quantized tensor.
    """
    from clika_runtime._native._core import Tensor

    if not isinstance(tensors, Mapping):
        raise InvalidArgumentError(
            f"save_safetensors: expected a mapping of names to tensors, "
            f"found {type(tensors).__name__}"
        )
    rows: dict[str, tuple[str, tuple[int, ...], Any]] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InvalidArgumentError(
                f"save_safetensors: {shown(name)} must be a tensor, found {type(tensor).__name__}"
            )
        if tensor.is_quantized:
            raise UnsupportedError(
                f"save_safetensors: {shown(name)} is quantized; safetensors holds dense tensors",
                "NOT_IMPLEMENTED_FOR_SCHEME",
            )
        rows[name] = (tensor.dtype.name, tuple(tensor.shape), tensor.bytes())
    write_safetensors(path, rows, metadata)


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save a tensor, a state dict or any pytree of tensors as safetensors.

    A state dict is saved under its own keys, in its order; a deeper tree as one tensor per leaf,
    named by ``pytree.keystr`` of its key path, with the structure in the file's metadata. None is
    kept as part of the structure. Errors: ``InvalidArgumentError`` for a leaf that is no tensor,
    two leaves of one name, a class without ``serialized_type_name``; others as
    ``save_safetensors``.

    >>> save({"layers": [{"w": weight}]}, "tree.safetensors")  # doctest: +SKIP
    """
    if isinstance(obj, Mapping) and all(
        isinstance(name, str) and pytree.tree_structure(value, none_is_leaf=False).is_leaf()
        for name, value in obj.items()
    ):
        save_safetensors(obj, path)
        return
    leaves, spec = pytree.tree_flatten(obj, none_is_leaf=False)
    names = [_leaf_name(key_path) for key_path in spec.key_paths()]
    if len(set(names)) != len(names):
        raise InvalidArgumentError(
            f"save: leaves of a tree need names of their own, found {shown(sorted(names))}"
        )
    save_safetensors(
        dict(zip(names, leaves, strict=True)), path, {_TREESPEC: pytree.treespec_dumps(spec)}
    )
