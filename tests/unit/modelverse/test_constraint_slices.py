"""Expressions that count characters: sets of tokens of their own, for speed alone."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from clika_runtime.modelverse.constraints import ConstraintSpec, compile_constraint, library
from clika_runtime.tokenizer import Tokenizer
from tests.unit.modelverse.walks import allowed

COUNTED = [
    ConstraintSpec.regex("[a-z ]{40,60}"),
    ConstraintSpec.regex(r"(?:[A-Z]\w{20,}[.!] ){2}([^a-m\n]){30}"),
    ConstraintSpec.regex(r"\[a{20}\p{Lu}{0,17}.{16}"),
    ConstraintSpec.lark('start: A "=" B\nA: /[a-f]{30}/\nB: /[0-9]{16,}/\n'),
    ConstraintSpec.json_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": "^[a-z]{50}$"}},
            "patternProperties": {"^x[0-9]{20}$": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
        }
    ),
    ConstraintSpec.json_schema({"type": "array", "items": {"type": "string", "maxLength": 25}}),
]


@pytest.mark.parametrize("spec", COUNTED, ids=lambda spec: spec.text[:20])
def test_slices_change_no_mask(
    smollm2_gguf: Path, spec: ConstraintSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expressions that count characters get sets of tokens of their own: for speed alone."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    assert library._slices(library.library(), spec)
    sliced = compile_constraint(tokenizer, spec)
    other = Tokenizer.from_gguf(smollm2_gguf)
    monkeypatch.setattr(library, "_slices", lambda lib, spec: ())
    plain = compile_constraint(other, spec)
    for seed in range(3):
        one, two = sliced.start(), plain.start()
        rng = random.Random(seed)
        for _ in range(40):
            mask = one.mask()
            assert np.array_equal(mask, two.mask())
            choices = allowed(mask)
            token = int(choices[rng.randrange(len(choices))])
            if token in tokenizer.stop_ids:
                break
            one.accept(token)
            two.accept(token)
            if one.finished:
                break


@pytest.mark.parametrize(
    ("pattern", "slices"),
    [
        ("[a-z ]{2000}", ["[a-z ]{1,16}"]),
        ("([a-z]){2000}", ["[a-z]{1,16}"]),
        (r"[^\]]{40,}x", [r"[^\]]{1,16}"]),
        (r"\d{99,100}\w{3}.*", [r"\d{1,16}", ".+"]),
        ("[a-z]{1,15}[a-z]+", []),
        (r"\[a{300}", []),
        (
            "[a-c]{20}[b-d]{20}[c-e]{20}[d-f]{20}[e-g]{20}",
            ["[a-c]", "[b-d]", "[c-e]", "[d-f]", "[e-g]"],
        ),
        ("[a-z", []),
        ("[" * 2000 + "{99}", []),
    ],
)
def test_which_classes_get_slices(pattern: str, slices: list[str]) -> None:
    lib = library.library()
    found = library._slices(lib, ConstraintSpec.regex(pattern))
    assert [text[: len(want)] for text, want in zip(found, slices, strict=False)] == slices
    assert len(found) == len(slices)
