"""Tree specs as JSON: the nodes in one list, parents first, leaves as ``"*"``.

A document may come from anywhere. It names types by a fixed list, namedtuple classes of modules
that are imported already, and registered classes by their serialized name; nothing is imported
for it.
"""

from __future__ import annotations

import json
import math
import sys
from collections import OrderedDict, deque
from typing import Any

from ._native import _pytree
from ._native._pytree import DataclassKey, GetAttrKey, MappingKey, SequenceKey, TreeSpec
from .errors import InvalidArgumentError

__all__ = ["dumps", "loads"]

_LEAF = "*"
_KEYS: dict[str, Any] = {
    kind.__name__: kind for kind in (DataclassKey, GetAttrKey, MappingKey, SequenceKey)
}
# What a defaultdict of a document may call.
_FACTORIES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple),
        *(OrderedDict, deque),
    )
}
# Kinds by what they hold besides their children.
_SIZED = {"tuple", "list", "deque"}
_MAPPINGS = {"dict", "OrderedDict", "defaultdict"}


def dumps(spec: TreeSpec, version: int) -> str:
    """A spec as text."""
    if not isinstance(spec, TreeSpec):
        raise TypeError(f"treespec_dumps: expected a TreeSpec, got {type(spec).__name__}")
    try:
        nodes = [_dump_node(node) for node in _pytree.describe(spec)]
        return json.dumps({"version": version, "none_is_leaf": spec.none_is_leaf, "nodes": nodes})
    except RecursionError:
        raise InvalidArgumentError("treespec_dumps: a context is nested too deep") from None


def loads(text: str | bytes, version: int) -> TreeSpec:
    """A spec from text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"treespec_loads: not a JSON document: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise _malformed("expected an object with version, none_is_leaf and nodes")
    if type(document.get("version")) is not int or document["version"] != version:
        raise InvalidArgumentError(
            f"treespec_loads: this runtime reads version {version}, got "
            f"{_short(document.get('version'))}"
        )
    if not isinstance(document.get("none_is_leaf"), bool):
        raise _malformed("none_is_leaf is true or false")
    try:
        nodes = [_load_node(node) for node in document["nodes"]]
    except RecursionError:
        raise _malformed("a context is nested too deep") from None
    return _pytree.assemble(document["none_is_leaf"], nodes)


def _malformed(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"treespec_loads: malformed document: {what}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


# ---- nodes


def _dump_node(node: tuple[Any, ...]) -> Any:
    kind, arity, origin, keys, order, data = node
    if kind == "leaf":
        return _LEAF
    out: dict[str, Any] = {"type": kind}
    if kind in _SIZED:
        out["arity"] = arity
    if kind in _MAPPINGS:
        out["keys"] = [_dump_value(key) for key in keys]
    if order is not None:
        out["order"] = [_dump_value(key) for key in order]
    if kind == "deque":
        out["maxlen"] = data
    if kind == "defaultdict":
        out["factory"] = _dump_factory(data)
    if kind == "namedtuple":
        out["class"] = _dump_class(origin)
        out["fields"] = list(origin._fields)
    if kind == "custom":
        cls, namespace = origin
        out.update(_dump_custom(cls, namespace, arity, keys, data))
    return out


def _load_node(node: Any) -> tuple[Any, ...]:
    if node == _LEAF:
        return "leaf", 0, None, None, None, None
    kind = node.get("type") if isinstance(node, dict) else None
    if not isinstance(kind, str):
        kind = None
    arity = 0
    origin = keys = order = data = None
    if kind in _SIZED:
        arity = _field(node, "arity", int)
        data = node.get("maxlen") if kind == "deque" else None
    elif kind in _MAPPINGS:
        keys = [_load_key(key) for key in _field(node, "keys", list)]
        arity = len(keys)
        if "order" in node:
            order = [_load_key(key) for key in _field(node, "order", list)]
        data = _load_factory(node.get("factory")) if kind == "defaultdict" else None
    elif kind == "namedtuple":
        fields = _field(node, "fields", list)
        arity = len(fields)
        origin = _load_class(_field(node, "class", str), fields)
    elif kind == "custom":
        arity = _field(node, "arity", int)
        origin, keys, data = _load_custom(node)
    elif kind != "none":
        raise InvalidArgumentError(f"treespec_loads: unknown node type {_short(node)}")
    return kind, arity, origin, keys, order, data


def _field(node: dict[str, Any], name: str, wanted: type) -> Any:
    value = node.get(name)
    if type(value) is not wanted:
        raise _malformed(f"{name} is a {wanted.__name__}, got {_short(value)}")
    return value


def _dump_custom(
    cls: type, namespace: str, arity: int, entries: list[Any] | None, context: Any
) -> dict[str, Any]:
    entry = _pytree.registration(cls, namespace)
    if entry is None or entry.name is None:
        raise InvalidArgumentError(
            f"treespec_dumps: {cls.__name__} has no serialized_type_name; name it at registration"
        )
    dumped = context if entry.dump is None else entry.dump(context)
    return {
        "name": entry.name,
        "arity": arity,
        "context": _dump_value(dumped),
        "entries": None if entries is None else [_dump_value(name) for name in entries],
    }


def _load_custom(node: dict[str, Any]) -> tuple[tuple[type, str], list[Any] | None, Any]:
    entry = _pytree.registration_named(_field(node, "name", str))
    if entry is None:
        raise InvalidArgumentError(
            f"treespec_loads: no class is registered as {_short(node['name'])}; register it first"
        )
    context = _load_value(node.get("context"))
    if entry.load is not None:
        context = entry.load(context)
    entries = node.get("entries")
    if entries is not None:
        entries = [_load_value(name) for name in _field(node, "entries", list)]
    return (entry.cls, entry.namespace), entries, context


def _dump_factory(factory: Any) -> str | None:
    if factory is None:
        return None
    for name, known in _FACTORIES.items():
        if factory is known:
            return name
    raise InvalidArgumentError(
        f"treespec_dumps: the default_factory {_short(factory)} of a defaultdict is none of "
        f"{sorted(_FACTORIES)}"
    )


def _load_factory(name: Any) -> Any:
    if name is None:
        return None
    if not isinstance(name, str) or name not in _FACTORIES:
        raise InvalidArgumentError(f"treespec_loads: unknown default_factory {_short(name)}")
    return _FACTORIES[name]


def _dump_class(cls: type) -> str:
    name = f"{cls.__module__}:{cls.__qualname__}"
    if _find_class(name) is not cls:
        raise InvalidArgumentError(
            f"treespec_dumps: the namedtuple {name} cannot be found again under this name; define "
            "it at the top of a module, or register it with a serialized_type_name"
        )
    return name


def _load_class(name: str, fields: list[Any]) -> Any:
    cls = _find_class(name)
    if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
        raise InvalidArgumentError(
            f"treespec_loads: unknown type: no namedtuple {_short(name)} in an imported module"
        )
    if list(cls._fields) != fields:
        raise InvalidArgumentError(
            f"treespec_loads: {_short(name)} has the fields {list(cls._fields)}, the document says "
            f"{_short(fields)}"
        )
    return cls


def _find_class(name: str) -> Any:
    """What a name means in the modules that are imported already; read without running code."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found


# ---- keys and contexts


def _dump_value(value: Any) -> Any:
    """A value in JSON that gives back the same types: tuples, dicts and key entries are tagged."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_dump_value(item) for item in value]
    if kind is tuple:
        return {"tuple": [_dump_value(item) for item in value]}
    if kind is dict:
        return {"dict": [[_dump_value(k), _dump_value(v)] for k, v in value.items()]}
    if kind.__name__ in _KEYS and kind is _KEYS[kind.__name__]:
        return {kind.__name__: _dump_value(value.__reduce__()[1][0])}
    raise InvalidArgumentError(
        f"treespec_dumps: {_short(value)} is no JSON value; a registered class states its context "
        "with to_dumpable_context and from_dumpable_context"
    )


def _load_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_load_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(tag, content)] = value.items()
        if tag == "tuple" and isinstance(content, list):
            return tuple([_load_value(item) for item in content])
        if tag == "dict" and isinstance(content, list):
            return dict([_load_pair(pair) for pair in content])
        if tag in _KEYS and (isinstance(content, str) or tag in ("MappingKey", "SequenceKey")):
            return _KEYS[tag](_load_value(content))
    raise _malformed(f"the value {_short(value)}")


def _load_pair(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise _malformed(f"the item {_short(pair)} of a dict")
    return _load_key(pair[0]), _load_value(pair[1])


def _load_key(value: Any) -> Any:
    key = _load_value(value)
    try:
        hash(key)
    except TypeError:
        raise _malformed(f"the key {_short(value)}") from None
    return key
