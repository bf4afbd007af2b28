"""Random JSON schemas of the keywords that constrained output keeps to."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["random_schema"]

_PATTERNS = ("^[a-c]{2,4}$", "^x-[0-9]+$", "^(foo|bar)+$", "[.]txt$", "^.{1,3}$")
_FORMATS = ("date", "uuid", "ipv4", "email")
_NAMES = ("a", "b", "name", "two words", 'quote"d', "ünï", "x-1", "$id2", "", "long_" * 4)


def _string(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    kind = rng.randrange(5)
    if kind == 0:
        schema["pattern"] = rng.choice(_PATTERNS)
    elif kind == 1:
        schema["format"] = rng.choice(_FORMATS)
    elif kind == 2:
        schema["minLength"] = rng.randint(0, 5)
        schema["maxLength"] = schema["minLength"] + rng.randint(0, 9)
    elif kind == 3:
        schema["enum"] = ["red", 'gr"een', "bl\\ue", "ünï", "", "a b"][: rng.randint(1, 6)]
    return schema


def _number(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": rng.choice(("integer", "number"))}
    low = rng.randint(-500, 500)
    if rng.random() < 0.5:
        schema[rng.choice(("minimum", "exclusiveMinimum"))] = low
    if rng.random() < 0.5:
        schema[rng.choice(("maximum", "exclusiveMaximum"))] = low + rng.randint(5, 1000)
    if schema["type"] == "integer" and rng.random() < 0.2:
        schema["multipleOf"] = rng.randint(2, 9)
    return schema


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(rng, depth - 1)}
    if rng.random() < 0.6:
        schema["minItems"] = rng.randint(0, 2)
        schema["maxItems"] = schema["minItems"] + rng.randint(0, 3)
    if rng.random() < 0.2:
        schema["prefixItems"] = [_schema(rng, depth - 1) for _ in range(rng.randint(1, 2))]
        schema["items"] = rng.choice((False, schema["items"]))
        if schema["items"] is False:
            schema.pop("minItems", None)
            schema.pop("maxItems", None)
    return schema


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(_NAMES, rng.randint(0, 4))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _schema(rng, depth - 1) for name in names},
        "required": [name for name in names if rng.random() < 0.5],
    }
    extra = rng.randrange(3)
    if extra == 0:
        schema["additionalProperties"] = False
    elif extra == 1:
        schema["additionalProperties"] = _schema(rng, 0)
    return schema


def _schema(rng: random.Random, depth: int) -> dict[str, Any]:
    kind = rng.randrange(9 if depth > 0 else 5)
    if kind == 0:
        return _string(rng)
    if kind == 1:
        return _number(rng)
    if kind == 2:
        return {"type": rng.choice(("boolean", "null"))}
    if kind == 3:
        return rng.choice(({"const": 3}, {"const": 'fixed " text'}, {"enum": [1, None, "x", True]}))
    if kind == 4:
        return {"type": ["string", "integer", "null"]}
    if kind == 5:
        return _array(rng, depth)
    if kind == 6:
        return {"anyOf": [_schema(rng, depth - 1) for _ in range(rng.randint(2, 3))]}
    return _object(rng, depth)


def random_schema(seed: int) -> dict[str, Any]:
    """A schema of its own for every seed; some refer to themselves."""
    rng = random.Random(seed)
    schema = _schema(rng, 3)
    if seed % 10 == 0:
        schema = {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {
                        "value": schema,
                        "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
