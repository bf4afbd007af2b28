"""Greedy tokens that are chosen before their masks are asked: the same replies, fewer masks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import ClikaRTError
from clika_runtime.modelverse.constraints import ConstraintSpec, ConstraintState, compile_constraint
from clika_runtime.modelverse.constraints import constraint as room
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.sampling import Choice, Sampling
from clika_runtime.tokenizer import Tokenizer
from tests.unit.modelverse import models
from tests.unit.modelverse.walks import allowed
from tests.unit.tokenizer import small

pytest.importorskip("llguidance")

PROMPTS = ["Once upon a time", "abc", "x", "The quick brown fox"]
SPECS = [
    ConstraintSpec.json_schema(
        {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        }
    ),
    ConstraintSpec.choice(["The capital of France", "The capital of Italy, 1 of 2", "The"]),
    ConstraintSpec.regex("(one two  three|one two, it's)+ x{12}y?[^a-q]{3,9}"),
    ConstraintSpec.lark('start: A "=" B\nA: /[a-f]{3,9}/\nB: /[0-9]{2,}/\n'),
]
CONSTRAINTS: list[dict[str, Any]] = [
    {"regex": "([A-Z][a-z]{1,12} ){3,}"},
    {"regex": "[ -~]*"},
    {"choice": ["yes, and it goes on for a while", "yes, and it ends", "no"]},
    {"json_schema": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 4}},
    {"lark": 'start: "(" NUMBER ")"\nNUMBER: /[0-9]{1,30}/\n'},
]
WAYS: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.3, "logit_bias": {65: 4.0, 66: -float("inf")}},
    {"top_k": 4, "min_p": 0.2},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    folder = tmp_path_factory.mktemp("model")
    models.write_model(folder, max_position_embeddings=512)
    return load_generative(folder, max_sequences=8)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many masks were made at a time."""
    sizes: list[int] = []
    fill = room.fill_masks
    monkeypatch.setattr(
        room, "fill_masks", lambda states, *more: sizes.append(len(states)) or fill(states, *more)
    )
    yield sizes


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("kind", ["SmolLM2", "tiny, without an end"])
def test_single_tokens_are_admitted_as_the_mask_says(
    smollm2_gguf: Path, tmp_path: Path, kind: str, spec: ConstraintSpec
) -> None:
    """Of every token, in states on random ways; also where a text is forced, whose mask is made
    without the library."""
    if kind == "SmolLM2":
        tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    else:
        small.byte_level().save(str(tmp_path / "tokenizer.json"))
        tokenizer = Tokenizer.from_file(tmp_path)
    constraint = compile_constraint(tokenizer, spec, tokenizer.vocab_size + 3)
    for seed in range(2):
        rng = random.Random(seed)
        state = constraint.start()
        for _ in range(14):
            mask = state.mask()
            bits = set(allowed(mask).tolist())
            native = np.frombuffer(state.fork()._matcher.compute_bitmask(), np.int32)
            end = {constraint.vocab_size} if constraint._vocabulary.padded else set()
            assert bits == set(allowed(native).tolist()) - end
            said = {
                token for token in range(state.vocab_size) if state.first_admitted([token]) == 0
            }
            assert said == bits
            if not bits:
                break
            others = [token for token in range(40) if token not in bits]
            some = sorted(bits)[:2]
            assert state.first_admitted([-1, *others, *some]) == len(others) + 1
            assert state.first_admitted(others) == state.first_admitted([]) == -1
            token = rng.choice(sorted(bits))
            if token in tokenizer.stop_ids:
                break
            state.accept(token)
            if state.finished:
                break


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
def test_replies_are_those_of_masks_made_before(
    model: GenerativeModel,
    constraint: dict[str, Any],
    way: dict[str, Any],
    asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"temperature": 0.0, "max_new_tokens": 60, "constraint": constraint, **way}
    late = model.generate_batch(PROMPTS, **options)
    fewer = sum(asked)
    asked.clear()
    monkeypatch.delattr(ConstraintState, "first_admitted")
    before = model.generate_batch(PROMPTS, **options)
    assert [report.token_ids for report in late] == [report.token_ids for report in before]
    assert [report.stop_reason for report in late] == [report.stop_reason for report in before]
    assert fewer < sum(asked)


def test_no_mask_is_made_while_the_likeliest_token_fits(
    model: GenerativeModel, asked: list[int]
) -> None:
    """But for the first token, whose step has the prompt."""
    spec = ConstraintSpec.regex("[ -~]*")
    state = compile_constraint(model.tokenizer, spec).start()
    never = set(range(model.tokenizer.vocab_size)) - set(allowed(state.mask()))
    bias = {token: -float("inf") for token in never}
    asked.clear()
    options = {"constraint": {"regex": spec.text}, "max_new_tokens": 20, "temperature": 0.0}
    report = model.generate_batch(PROMPTS[:1], stop_ids=(), logit_bias=bias, **options)[0]
    assert (len(report.token_ids), asked) == (20, [1])


def test_masks_are_made_before_after_tokens_that_did_not_fit() -> None:
    class Mask:
        def first_admitted(self, tokens: Any) -> int:
            return 0

    choice = Choice(Sampling(), [], Mask())  # type: ignore[arg-type]
    assert choice.asks_late()
    runs = []
    for _ in range(5):
        choice.told(False)
        runs.append(0)
        while not choice.asks_late():
            runs[-1] += 1
    assert runs == [8, 16, 32, 64, 64]
    choice.told(True)
    assert choice.asks_late()
    choice.told(False)
    assert choice.before == 8


def test_log_probabilities_and_draws_need_the_mask_before(
    model: GenerativeModel, asked: list[int]
) -> None:
    for way in ({"temperature": 0.0, "logprobs": True}, {"temperature": 1.0, "seed": 3}):
        asked.clear()
        report = model.generate_batch(
            PROMPTS[:1], constraint={"regex": "[ab]{9}"}, stop_ids=(), **way
        )[0]
        assert len(asked) == len(report.token_ids) == 9


def test_what_fails_when_it_is_asked_ends_its_request_alone(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"temperature": 0.0, "max_new_tokens": 12, "stop_ids": ()}
    free = model.generate(PROMPTS[0], **options)

    def failing(state: ConstraintState, tokens: Any) -> int:
        raise RuntimeError("the grammar fell over")

    monkeypatch.setattr(ConstraintState, "first_admitted", failing)
    stream = model.stream_generate(PROMPTS[0], constraint={"regex": "[ab]{12}"}, **options)
    beside = model.stream_generate(PROMPTS[0], **options)
    with pytest.raises(RuntimeError, match="fell over"):
        "".join(stream)
    assert "".join(beside) == free
    assert model.generate(PROMPTS[0], **options) == free


def test_a_constraint_over_its_bounds_ends_its_request_alone(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"temperature": 0.0, "max_new_tokens": 12, "stop_ids": ()}
    free = model.generate(PROMPTS[0], **options)
    monkeypatch.setattr(ConstraintState, "first_admitted", lambda state, tokens: -1)
    fill = room.fill_masks
    error = ClikaRTError("constraint: it cannot be followed further", "INVALID_ARGUMENT")
    stream = model.stream_generate(PROMPTS[0], constraint={"regex": "[ab]{12}"}, **options)
    beside = model.stream_generate(PROMPTS[0], **options)
    text = next(iter(stream))
    monkeypatch.setattr(room, "fill_masks", lambda states, *more: {**fill(states, *more), 0: error})
    with pytest.raises(ClikaRTError, match="cannot be followed further"):
        "".join(stream)
    assert set(text) <= {"a", "b"}
    assert "".join(beside) == free


class Contradiction:
    """A mask of a caller's own that does not do what it says."""

    def __init__(self, place: Any, words: Any) -> None:
        self._place = place
        self._words = words

    def first_admitted(self, tokens: Any) -> Any:
        return self._place

    def mask(self) -> Any:
        return self._words

    def accept(self, token: int) -> None:
        pass


@pytest.mark.parametrize(
    ("place", "words", "error"),
    [
        (-1, None, r"Contradiction: first_admitted\(\) admits none of the likeliest"),
        (-1, "all", "Contradiction.mask: gave 'all'"),
        (-1, np.zeros(3, np.int32), "the request's constraint allows no token here"),
        (None, None, "not supported between"),
        (2, None, "index out of range"),
    ],
)
def test_a_mask_that_misbehaves_ends_its_request_alone(
    model: GenerativeModel, place: Any, words: Any, error: str
) -> None:
    options = {"temperature": 0.0, "max_new_tokens": 12, "stop_ids": ()}
    free = model.generate(PROMPTS[0], **options)
    mask = Contradiction(0, None)
    stream = model.stream_generate(PROMPTS[0], mask=mask, **options)
    beside = model.stream_generate(PROMPTS[0], **options)
    next(iter(stream))
    mask._place, mask._words = place, words
    with pytest.raises(Exception, match=error):
        "".join(stream)
    assert "".join(beside) == free
