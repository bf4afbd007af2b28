"""What a reply may be, as data: hashable, so that compiled constraints are found again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clika_runtime.errors import InvalidArgumentError, told

__all__ = ["ConstraintSpec"]

MAX_TEXT = 4 << 20  # characters of a schema, an expression or a grammar
MAX_CHOICES = 100_000


@dataclass(frozen=True)
class ConstraintSpec:
    """What a reply may be. Make one with the class methods.

    ``kind`` is ``json_schema``, ``regex``, ``lark`` or ``choice``; ``text`` is what it says, in a
    form that is the same for equal constraints; ``compact`` leaves no white space in JSON.

    >>> ConstraintSpec.choice(["yes", "no"]).kind
    'choice'
    """

    kind: str
    text: str
    compact: bool = False

    def __post_init__(self) -> None:
        if len(self.text) > MAX_TEXT:
            raise InvalidArgumentError(
                f"constraint: the {self.kind} has {len(self.text)} characters, the limit is "
                f"{MAX_TEXT}"
            )

    @classmethod
    def json_schema(
        cls, schema: Mapping[str, Any] | bool | str, *, compact: bool = False
    ) -> ConstraintSpec:
        """A document that the JSON schema (an object, True or False, or their JSON text) admits.

        Between the tokens of the document may stand a space, or a line break and up to 24 spaces.
        What the schema says in keywords that cannot be constrained is an error when it is compiled.
        """
        if isinstance(schema, str):
            schema = _parsed(schema)
        if not isinstance(schema, (Mapping, bool)):
            raise InvalidArgumentError(
                f"constraint: a JSON schema is an object, true or false, got "
                f"{type(schema).__name__}"
            )
        if schema is False:
            raise InvalidArgumentError("constraint: the JSON schema false admits no document")
        return cls("json_schema", _json({} if schema is True else schema), compact)

    @classmethod
    def json_object(cls, *, compact: bool = False) -> ConstraintSpec:
        """Any JSON object."""
        return cls.json_schema({"type": "object"}, compact=compact)

    @classmethod
    def regex(cls, pattern: str) -> ConstraintSpec:
        """A text that the expression matches as a whole.

        The syntax is that of the ``regex`` crate of Rust: no look-around, no back-references.
        """
        return cls("regex", _text(pattern, "a regular expression"))

    @classmethod
    def lark(cls, grammar: str) -> ConstraintSpec:
        """A text of the grammar, whose first rule is ``start``, in llguidance's form of Lark."""
        return cls("lark", _text(grammar, "a grammar"))

    @classmethod
    def choice(cls, options: Iterable[str]) -> ConstraintSpec:
        """One of several texts."""
        if isinstance(options, str):
            raise InvalidArgumentError("constraint: a choice is a list of texts, got one text")
        texts = list(options)
        if not 1 <= len(texts) <= MAX_CHOICES:
            raise InvalidArgumentError(
                f"constraint: a choice has 1 to {MAX_CHOICES} texts, got {len(texts)}"
            )
        for text in texts:
            if not isinstance(text, str) or not text:
                raise InvalidArgumentError(
                    f"constraint: a choice takes texts that are not empty, got {told(text)}"
                )
        return cls("choice", _json(texts))

    @classmethod
    def read(cls, value: Any) -> ConstraintSpec | None:
        """The constraint of a request: a ``ConstraintSpec``, or an object in the shape of OpenAI's
        ``response_format``. None for free text.

        ``{"type": "json_schema", "json_schema": {"schema": {...}}}``, ``{"type": "json_object"}``,
        ``{"type": "text"}``; beyond OpenAI's ``{"type": "regex", "regex": ...}``, and ``lark`` and
        ``choice`` alike. In short: ``{"json_schema": SCHEMA}``, ``{"regex": ...}``, ``{"lark":
        ...}``, ``{"choice": [...]}``. Errors: ``InvalidArgumentError`` saying what is missing.

        >>> ConstraintSpec.read({"type": "choice", "choice": ["yes", "no"]}).kind
        'choice'
        >>> ConstraintSpec.read({"regex": "[0-9]+"})
        ConstraintSpec(kind='regex', text='[0-9]+', compact=False)
        """
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, Mapping) and len(value) == 1:
            short: dict[str, Callable[[Any], ConstraintSpec]] = {
                "json_schema": cls.json_schema,
                "regex": cls.regex,
                "lark": cls.lark,
                "choice": cls.choice,
            }
            ((name, text),) = value.items()
            if name in short:
                return short[name](text)
        kind = value.get("type") if isinstance(value, Mapping) else None
        if kind == "text":
            return None
        if kind == "json_object":
            return cls.json_object()
        makers = {
            "json_schema": cls._read_schema,
            "regex": cls.regex,
            "lark": cls.lark,
            "choice": cls.choice,
        }
        if not isinstance(kind, str) or kind not in makers:
            raise InvalidArgumentError(
                f"response_format: the types are text, json_object, {', '.join(makers)}, got "
                f"{told(value)}"
            )
        if value.get(kind) is None:
            raise InvalidArgumentError(f"response_format: type {kind!r} needs a member {kind!r}")
        return makers[kind](value[kind])

    @classmethod
    def _read_schema(cls, value: Any) -> ConstraintSpec:
        schema = value.get("schema") if isinstance(value, Mapping) else None
        if schema is None:
            raise InvalidArgumentError("response_format: json_schema needs a member 'schema'")
        return cls.json_schema(schema)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"constraint: this is no JSON: {error!s:.200}") from error


def _parsed(text: str) -> Any:
    if len(text) > MAX_TEXT:
        raise InvalidArgumentError(
            f"constraint: the schema has {len(text)} characters, the limit is {MAX_TEXT}"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"constraint: the schema is no JSON: {error!s:.200}") from error


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"constraint: {what} is a text, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"constraint: {what} is no valid Unicode: {error}") from error
    return value
