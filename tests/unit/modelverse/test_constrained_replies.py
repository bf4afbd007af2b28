"""Replies under constraints: valid alone and in batches, ended where they are complete, and never
noticed by those beside them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from clika_runtime.errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from tests.unit.modelverse import models

pytest.importorskip("llguidance")

PROMPT = "Once upon a time"
FREE: dict[str, Any] = {"max_new_tokens": 40, "temperature": 1.0, "seed": 5, "stop_ids": ()}
SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["new", "old one"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 300},
        "gift": {"type": "boolean"},
    },
    "required": ["kind", "count", "gift"],
    "additionalProperties": False,
}
CONSTRAINTS: list[tuple[str, dict[str, Any]]] = [
    ("schema", {"type": "json_schema", "json_schema": {"name": "gift", "schema": SCHEMA}}),
    ("schema", {"json_schema": SCHEMA}),
    ("regex", {"regex": "[ab]{3}-[0-9]{1,4}x"}),
    ("choice", {"choice": ["yes", "no", "not at all"]}),
    ("lark", {"lark": 'start: "(" NUMBER ")"\nNUMBER: /[0-9]{1,3}/\n'}),
]
WAYS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0, "seed": 1},
    {"temperature": 1.5, "seed": 2, "top_p": 0.9, "repetition_penalty": 1.1},
]


def fits(kind: str, text: str) -> bool:
    if kind == "schema":
        jsonschema.validate(json.loads(text), SCHEMA)
        return True
    if kind == "choice":
        return text in ("yes", "no", "not at all")
    pattern = "[ab]{3}-[0-9]{1,4}x" if kind == "regex" else r"\([0-9]{1,3}\)"
    return re.fullmatch(pattern, text) is not None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    folder = tmp_path_factory.mktemp("model")
    models.write_model(folder, max_position_embeddings=512)
    return load_generative(folder, max_sequences=8)


@pytest.fixture(scope="module")
def smollm2(smollm2_gguf: Path) -> GenerativeModel:
    return load_generative(smollm2_gguf, max_seq=512, max_sequences=6)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(("kind", "constraint"), CONSTRAINTS)
def test_a_reply_is_valid_and_ends_where_it_is_complete(
    model: GenerativeModel, kind: str, constraint: dict[str, Any], way: dict[str, Any]
) -> None:
    # Neither the budget nor a stop id ends it: the constraint itself does.
    options = {**way, "max_new_tokens": 400, "stop_ids": ()}
    with model.stream_generate(PROMPT, constraint=constraint, **options) as stream:
        text = "".join(stream)
    assert fits(kind, text), text
    assert (stream.report.text, stream.report.stop_reason) == (text, "stop")
    assert stream.report.warnings == []


def test_neighbours_change_in_no_bit(model: GenerativeModel) -> None:
    """Free requests beside constrained ones, which start and end at different steps."""
    asked = {**FREE, "top_logprobs": 3}
    alone = model.generate_batch([PROMPT], **asked)[0]
    plain = model.generate_batch([PROMPT], **FREE)[0]
    single = [
        model.generate(PROMPT, constraint=constraint, temperature=1.0, seed=9)
        for _, constraint in CONSTRAINTS
    ]
    streams = [model.stream_generate(PROMPT, **FREE)]
    streams += [
        model.stream_generate(PROMPT, constraint=constraint, temperature=1.0, seed=9)
        for _, constraint in CONSTRAINTS
    ]
    streams.append(model.stream_generate(PROMPT, **asked))
    texts = ["".join(stream) for stream in streams]
    assert texts[1:-1] == single
    assert all(fits(kind, text) for (kind, _), text in zip(CONSTRAINTS, single, strict=True))
    assert streams[0].report.token_ids == plain.token_ids == alone.token_ids
    assert streams[-1].report.logprobs == alone.logprobs


def test_a_batch_shares_its_constraint_and_not_its_state(model: GenerativeModel) -> None:
    prompts = [PROMPT, "abc", "x", "The quick brown fox"] * 3
    options = {"constraint": {"json_schema": SCHEMA}, "temperature": 1.0, "seed": 4}
    reports = model.generate_batch(prompts, **options)
    assert [report.text for report in reports[:4]] == [
        model.generate(prompt, **options) for prompt in prompts[:4]
    ]
    assert [report.text for report in reports[4:8]] == [report.text for report in reports[:4]]
    for report in reports:
        jsonschema.validate(json.loads(report.text), SCHEMA)


def test_masks_of_a_step_are_filled_at_once(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clika_runtime.modelverse.constraints import ConstraintState
    from clika_runtime.modelverse.constraints import constraint as room

    sizes: list[int] = []
    fill = room.fill_masks
    monkeypatch.setattr(
        room, "fill_masks", lambda states, *more: sizes.append(len(states)) or fill(states, *more)
    )
    monkeypatch.setattr(ConstraintState, "mask", None)
    reports = model.generate_batch(
        [PROMPT] * 4, constraint={"regex": "[ab]{12}"}, temperature=1.0, seed=1
    )
    assert {len(report.token_ids) for report in reports} == {12}
    assert max(sizes) == 4 and len(sizes) <= 16


def test_a_reply_that_is_cut_says_so(model: GenerativeModel) -> None:
    options = {"constraint": {"regex": "[ab]{30}"}, "max_new_tokens": 8, "temperature": 0.0}
    report = model.generate_batch([PROMPT], **options)[0]
    assert (report.stop_reason, len(report.text)) == ("length", 8)
    assert report.warnings == ["the reply ends at max_new_tokens before its constraint is complete"]
    open_end = model.generate_batch([PROMPT], constraint={"regex": "[ab]+"}, max_new_tokens=8)[0]
    assert open_end.warnings == []
    room = model.generate_batch(["x" * 505], constraint={"regex": "[ab]{30}"})[0]
    assert (room.stop_reason, len(room.warnings)) == ("window", 1)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"regex": "(a"}, "this regex cannot be compiled"),
        ({"lark": "begin: A"}, "this lark cannot be compiled"),
        ({"choice": []}, "a choice has 1 to"),
        ({"json_schema": {"type": "object", "not": {}}}, "cannot be compiled"),
        ({"json_schema": 3}, "a JSON schema is an object"),
        ({"type": "xml"}, "the types are text, json_object"),
        ({"type": "json_schema", "json_schema": {}}, "needs a member 'schema'"),
        ("yes", "the types are text, json_object"),
    ],
)
def test_a_constraint_that_is_none_is_an_error_of_its_request(
    model: GenerativeModel, constraint: Any, message: str
) -> None:
    beside = model.stream_generate(PROMPT, **FREE)
    with pytest.raises(InvalidArgumentError, match=message):
        model.generate(PROMPT, constraint=constraint)
    alone = "".join(beside)
    assert alone == model.generate(PROMPT, **FREE)
    assert model.engine.cache.free_sequences == 8


def test_one_that_cannot_go_on_leaves_the_others(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds of a step, passed by one row of a fill."""
    from clika_runtime.modelverse.constraints import constraint as room

    fill = room.fill_masks

    def failing(states: Any, masks: Any, *more: Any) -> Any:
        errors = dict(fill(states, masks, *more))
        for row, state in enumerate(states):
            if "q" in state._constraint.spec.text and state._taken == 3:
                masks[row] = 0
                errors[row] = InvalidArgumentError("constraint: it cannot be followed further")
        return errors

    monkeypatch.setattr(room, "fill_masks", failing)
    alone = model.generate(PROMPT, **FREE)
    free = model.stream_generate(PROMPT, **FREE)
    drawn: dict[str, Any] = {"temperature": 1.0, "seed": 2}  # whose masks are made before
    good = model.stream_generate(PROMPT, constraint={"regex": "[ab]{12}"}, **drawn)
    sick = model.stream_generate(PROMPT, constraint={"regex": "[aq]{12}"}, **drawn)
    with pytest.raises(ClikaRTError, match="cannot be followed further"):
        list(sick)
    assert (sick.report.stop_reason, len(sick.report.token_ids)) == ("error", 3)
    assert re.fullmatch("[ab]{12}", "".join(good))
    assert "".join(free) == alone
    assert model.engine.cache.free_sequences == 8


def test_a_missing_library_is_told(model: GenerativeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UnsupportedError, match=r"clika-runtime\[constrain\]"):
        model.generate(PROMPT, constraint={"regex": "never compiled before"})


def test_what_excludes_each_other(model: GenerativeModel) -> None:
    class Open:
        def mask(self) -> Any:
            return None

        def accept(self, token: int) -> None:
            pass

    with pytest.raises(InvalidArgumentError, match="constraint and mask exclude each other"):
        model.generate(PROMPT, constraint={"regex": "a"}, mask=Open())
    assert model.generate(PROMPT, constraint={"type": "text"}, mask=Open(), **FREE)


def test_a_constraint_of_banned_tokens_is_told(model: GenerativeModel) -> None:
    words = models.vocabulary()
    options: dict[str, Any] = {"constraint": {"regex": "[ab]{3}"}, "temperature": 0.0}
    assert model.generate(PROMPT, banned_tokens=[words["a"]], **options) == "bbb"
    with pytest.raises(InvalidArgumentError, match="constraint allows no token here"):
        model.generate(PROMPT, banned_tokens=[words["a"], words["b"]], **options)


def test_masks_that_fill_together_and_fail(model: GenerativeModel) -> None:
    """The hook is anybody's: an object with ``fill`` and ``vocab_size``."""

    class Pair:
        vocab_size = 261
        finished = False

        def __init__(self, sick: bool) -> None:
            self.sick, self.count = sick, 0

        def mask(self) -> Any:
            raise AssertionError("fill takes its place")

        def accept(self, token: int) -> None:
            self.count += 1
            self.finished = self.count == 5

        @staticmethod
        def fill(masks: Any, words: Any) -> dict[int, Exception]:
            words[:, 2] = np.int32(1 << 16 | 1 << 17)  # tokens 80 and 81
            return {
                row: ValueError("lost")
                for row, mask in enumerate(masks)
                if mask.sick and mask.count == 2
            }

    streams = [
        model.stream_generate(PROMPT, mask=Pair(sick), stop_ids=()) for sick in (False, True, False)
    ]
    with pytest.raises(ValueError, match="lost"):
        list(streams[1])
    for stream in (streams[0], streams[2]):
        list(stream)
        assert len(stream.report.token_ids) == 5 and set(stream.report.token_ids) <= {80, 81}
        assert stream.report.stop_reason == "stop"


# ---------------------------------------------------------------- a real model
@pytest.mark.parametrize("way", WAYS[:2], ids=str)
def test_smollm2(smollm2: GenerativeModel, way: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Is the sky blue? Answer."}]
    free = {"max_new_tokens": 16, **way}
    alone = smollm2.chat(messages, **free)
    streams = [smollm2.stream_chat(messages, **free)]
    streams += [
        smollm2.stream_chat(messages, constraint=constraint, max_new_tokens=120, **way)
        for _, constraint in CONSTRAINTS
    ]
    texts = ["".join(stream) for stream in streams]
    assert texts[0] == alone
    for (kind, _), text, stream in zip(CONSTRAINTS, texts[1:], streams[1:], strict=True):
        assert fits(kind, text), text
        assert stream.report.stop_reason == "stop"
