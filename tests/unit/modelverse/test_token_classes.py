"""Masks of expressions: by classes of tokens, the same as by the library over all."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.modelverse.constraints import (
    ConstraintSpec,
    ConstraintState,
    compile_constraint,
    fill_masks,
    mask_words,
)
from clika_runtime.modelverse.constraints import classes as room
from clika_runtime.modelverse.constraints.classes import byte_classes
from clika_runtime.tokenizer import Tokenizer
from tests.unit.modelverse.walks import allowed
from tests.unit.tokenizer import small

pytest.importorskip("llguidance")

COUNTING = [
    "([A-Z][a-z]{1,12} ){300}",
    r"\d{2,3}(-[\w.]{4}){3}",
    r"(?:[^a-m\n\-]{1,4}|[ -é]{2}\s){3,9}",
    r".{5,40}",
    r"([A-Z]{2}, it's ){2}x{12}y?[^a-q]{3,9}",
]


def whole(state: ConstraintState) -> set[int]:
    """The mask of the library over all tokens."""
    words = np.frombuffer(state.fork()._matcher.compute_bitmask(), np.int32)
    end = {state.vocab_size} if state._vocabulary.padded else set()
    return set(allowed(words).tolist()) - end


@pytest.fixture(params=["SmolLM2", "tiny, without an end"])
def tokenizer(request: pytest.FixtureRequest, smollm2_gguf: Path, tmp_path: Path) -> Tokenizer:
    if request.param == "SmolLM2":
        return Tokenizer.from_gguf(smollm2_gguf)
    small.byte_level().save(str(tmp_path / "tokenizer.json"))
    return Tokenizer.from_file(tmp_path)


@pytest.mark.parametrize("expression", COUNTING)
def test_masks_are_those_over_all_tokens(
    tokenizer: Tokenizer, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along random replies, with tokens taken back and forks that go on."""
    monkeypatch.setattr(room, "LEAST", 1)
    size = tokenizer.vocab_size + 3
    constraint = compile_constraint(tokenizer, ConstraintSpec.regex(expression), size)
    by_class = 0
    for seed in range(3):
        rng = random.Random(seed)
        state = constraint.start()
        assert state._by_class is not None
        for _ in range(30):
            mask = state.mask()
            assert set(allowed(mask).tolist()) == whole(state)
            by_class += state._by_class.mask() is not None
            follow = [token for token in whole(state) if token not in tokenizer.stop_ids]
            if not follow:
                break
            state.accept(rng.choice(follow))
            if rng.random() < 0.3:
                state.mask()
                state.rollback(1)
                assert np.array_equal(state.mask(), mask)
                state.accept(rng.choice(follow))
            if rng.random() < 0.3:
                state = state.fork()
    assert by_class > 5


def test_masks_of_counts_are_made_once(smollm2_gguf: Path) -> None:
    """A word of one reply and another word of another leave the same tokens."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    constraint = compile_constraint(tokenizer, ConstraintSpec.regex(COUNTING[0]))
    states = [constraint.start() for _ in range(2)]
    for state, text in zip(states, ("The ", "Once Upon An "), strict=True):
        for token in tokenizer.encode(text, add_special_tokens=False):
            state.accept(token)
    masks = [state._by_class and state._by_class.mask() for state in states]
    assert masks[0] is not None
    assert masks[0] is masks[1]
    assert not masks[0].flags.writeable


def test_rows_of_a_batch_are_of_either_way(smollm2_gguf: Path) -> None:
    """States by class, forced ones and others beside each other, and drafts."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    specs = [ConstraintSpec.regex(text) for text in ("[a-z]{2,9} ", "[a-z]+ ", "forced [0-9]{3}")]
    states = [compile_constraint(tokenizer, spec).start() for spec in specs]
    words = mask_words(tokenizer.vocab_size)
    masks = np.full((len(states), words), 7, np.int32)
    assert fill_masks(states, masks) == {}
    for state, mask in zip(states, masks, strict=True):
        assert set(allowed(mask).tolist()) == whole(state)
    draft = tokenizer.encode("abc", add_special_tokens=False)
    along = np.full((3 + len(draft), words), 7, np.int32)
    assert fill_masks(states, along, [draft, [], []]) == {}
    assert np.array_equal(along[[0, -2, -1]], masks)


@pytest.mark.parametrize("expression", COUNTING)
def test_bytes_of_a_class_are_alike_to_python(expression: str) -> None:
    """In the place of one another they change no match."""
    table = byte_classes(expression)
    assert table is not None
    assert table[128:] == bytes(range(128, 256))
    rng = random.Random(0)
    texts = ["The Quick Brown", "12-ab.c-x_yz-1234", "AB, it's ", "\n\t -~é", "xyxyxy"]
    for _ in range(300):
        text = "".join(rng.choice(rng.choice(texts)) for _ in range(rng.randrange(9)))
        alike = text.translate({code: table[code] for code in range(128)})
        for piece in re.findall(r"\[(?:\\.|[^\]])+\]|\\[dws]|\.", expression):
            pattern = f"(?:{piece}){{{len(text)}}}"
            assert bool(re.fullmatch(pattern, text)) == bool(re.fullmatch(pattern, alike))


@pytest.mark.parametrize(
    ("expression", "classes"),
    [
        ("[a-c]{2}", [b"abc"]),
        (r"[a-c]{2}b\.", [b"ac"]),
        (r"\d{3}", [b"0123456789"]),
        (r"[^\s]{2,}", [b"\t\n\v\f\r "]),
        (r".{9}", []),
        (r"[\]x-]{3}", [b"-]x"]),
    ],
)
def test_which_bytes_are_alike(expression: str, classes: list[bytes]) -> None:
    table = byte_classes(expression)
    assert table is not None
    groups: dict[int, list[int]] = {}
    for byte in range(128):
        groups.setdefault(table[byte], []).append(byte)
    rest = max(groups.values(), key=len)
    found = [bytes(group) for group in groups.values() if len(group) > 1 and group is not rest]
    assert sorted(found) == classes


@pytest.mark.parametrize(
    "expression",
    [
        "(?i)[a-z]{3}",
        r"\p{Lu}{3}",
        r"\x41{3}",
        "[a-z&&[^b]]{3}",
        "[a-z--b]{3}",
        "[[:alpha:]]{3}",
        r"[\d-x]{3}",
        r"\ba{3}",
        "^a{3}$",
        "[]a]{3}",
        "a{3}}",
        "[a-z",
    ],
)
def test_what_is_not_understood_is_left_to_the_library(expression: str) -> None:
    assert byte_classes(expression) is None


def test_few_tokens_of_a_class_do_not_pay(smollm2_gguf: Path) -> None:
    """An expression that tells all letters apart."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    letters: Any = "(a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t|u|v|w|x|y|z)"
    constraint = compile_constraint(tokenizer, ConstraintSpec.regex(f"{letters}{{9}}"))
    assert constraint.start()._by_class is None


def test_a_second_matcher_that_cannot_follow_is_left_out(smollm2_gguf: Path) -> None:
    """The library's own masks take its place."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    state = compile_constraint(tokenizer, ConstraintSpec.regex(COUNTING[0])).start()
    by_class = state._by_class
    assert by_class is not None
    assert by_class.mask() is not None
    by_class.accept(tokenizer.encode(" lower", add_special_tokens=False)[0])
    token = tokenizer.encode("The", add_special_tokens=False)[0]
    state.accept(token)
    assert set(allowed(state.mask()).tolist()) == whole(state)
    assert by_class.mask() is None
    state.rollback(1)
    assert state.fork().mask().any()


@pytest.mark.parametrize(
    "characters",
    [
        r"[\D5]",
        r"[^\D5]",
        r"[\W_]",
        r"[^\W_]",
        r"[\Wa-f]",
        r"[\S\n]",
        r"[^\s,.]",
        r"[\]\-x]",
        r"[+--]",
        r"[a\]b]",
        r"\D",
        r".",
    ],
)
def test_bytes_of_a_class_are_those_that_a_set_cannot_tell_apart(characters: str) -> None:
    """Beside Python's `re`; byte 0x1c to 0x1f are white space there alone."""
    table = byte_classes(characters + "{2,9}")
    if table is None:  # what is not understood is not wrong
        return
    one = re.compile(characters)
    for byte in set(range(128)) - set(range(0x1C, 0x20)):
        if table[byte] not in range(0x1C, 0x20):
            assert bool(one.fullmatch(chr(byte))) == bool(one.fullmatch(chr(table[byte])))
