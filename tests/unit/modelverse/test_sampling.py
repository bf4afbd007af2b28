"""Every knob of a generation against the NumPy references, step by step; and what a request must
never notice of those beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import ClikaRTError, InvalidArgumentError
from clika_runtime.modelverse.generation import GenerationConfig, GenerativeModel, load_generative
from clika_runtime.modelverse.sampling import Choice, Sampling
from clika_runtime.testing.operators import sampling as reference
from tests.unit.modelverse import models

PROMPT = "Once upon a time, a time, "
COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    models.write_model(path, max_position_embeddings=256)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> GenerativeModel:
    return load_generative(folder, max_sequences=8)


def run(model: GenerativeModel, prompt: str = PROMPT, **options: Any) -> list[int]:
    chosen = {"max_new_tokens": COUNT, "stop_ids": (), "seed": 5, **options}
    with model.stream_generate(prompt, **chosen) as stream:
        for _ in stream:
            pass
    return stream.report.token_ids


def by_hand(model: GenerativeModel, **options: Any) -> list[int]:
    """The reply as the references choose it, from the model's logits."""
    config = GenerationConfig().with_options({"seed": 5, **options})
    chosen = config.sampling(5)
    prompt = model.tokenizer.encode(PROMPT)
    breakers = {model.tokenizer.encode(text)[0] for text in config.dry_sequence_breakers}
    reply: list[int] = []
    mu = 2 * chosen.mirostat_tau
    while len(reply) < COUNT:
        tokens = prompt + reply
        row = model.logits(tokens)[-1].astype(np.float64)
        for token, bias in chosen.bias:
            row[token] += bias
        window = tokens[-chosen.penalty_window :] if chosen.penalty_window else tokens
        said = reply[-chosen.penalty_window :] if chosen.penalty_window else reply
        breaks = [place for place, token in enumerate(tokens) if token in breakers]
        limit = len(tokens) - 1 - breaks[-1] if breaks else len(tokens)
        reference._penalize_row(
            row,
            window,
            said,
            chosen.repetition_penalty,
            chosen.frequency_penalty,
            chosen.presence_penalty,
            chosen.dry_multiplier,
            chosen.dry_base,
            chosen.dry_allowed_length,
            limit,
        )
        filters = (chosen.top_p, chosen.min_p, chosen.top_k, 5, len(reply))
        more = (
            chosen.top_n_sigma,
            chosen.typical_p,
            chosen.xtc_probability,
            chosen.xtc_threshold,
        )
        token, _ = reference.draw(row, chosen.temperature, *filters, *more)
        settings = (chosen.temperature, chosen.mirostat_tau, chosen.mirostat_eta, mu)
        draw = (5, len(reply), chosen.mirostat_version)
        token, mu, _ = reference._mirostat_row(row, token, *settings, *draw)
        reply.append(token)
    return reply


KNOBS: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.6},
    {"repetition_penalty": 1.6, "penalty_window": 5},
    {"frequency_penalty": 0.7, "presence_penalty": 0.3},
    {"frequency_penalty": 3.0, "penalty_window": 4},
    {"dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_sequence_breakers": [","]},
    {"logit_bias": {70: 2.5, "71": -1.0}, "banned_tokens": [73, 192, 34]},
    {"temperature": 1.0},
    {"temperature": 1.4, "top_k": 30, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 1.2, "typical_p": 0.5},
    {"temperature": 2.0, "top_n_sigma": 1.0},
    {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.03},
    {"temperature": 1.0, "mirostat": 2, "mirostat_tau": 3.0},
    {"temperature": 1.0, "mirostat": 1, "mirostat_tau": 3.0},
    {"temperature": 1.4, "mirostat": 1, "mirostat_tau": 2.0, "banned_tokens": [73, 192]},
    {
        "temperature": 1.3,
        "top_k": 60,
        "typical_p": 0.9,
        "presence_penalty": 1.0,
        "banned_tokens": [9],
    },
]


@pytest.mark.parametrize("options", KNOBS, ids=str)
def test_every_knob_is_the_reference(model: GenerativeModel, options: dict[str, Any]) -> None:
    assert run(model, **options) == by_hand(model, **options)


def test_a_request_does_not_notice_those_beside_it(model: GenerativeModel, folder: Path) -> None:
    """The same tokens alone, in a batch of every other kind of request, and on another engine."""
    alone = [run(model, **options) for options in KNOBS]
    assert len({tuple(tokens) for tokens in alone}) == len(KNOBS)
    shared = {"max_new_tokens": COUNT, "stop_ids": (), "seed": 5}
    streams = [model.stream_generate(PROMPT, **shared, **options) for options in KNOBS]
    for stream in streams:
        for _ in stream:
            pass
    assert [stream.report.token_ids for stream in streams] == alone
    other = load_generative(folder, max_sequences=2, prefill_chunk=5)
    assert [run(other, **options) for options in KNOBS[-3:]] == alone[-3:]


def test_plan_classes_are_few(folder: Path) -> None:
    model = load_generative(folder)
    for options in KNOBS:
        run(model, **options)
        run(model, **options, top_logprobs=2)
    # Prefill and decode, each with and without adjusted logits and log-probabilities.
    assert model.engine.compiled <= 8


# ---------------------------------------------------------------- log-probabilities
@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.0}, {"temperature": 1.5, "top_k": 5, "repetition_penalty": 1.5}],
    ids=str,
)
def test_logprobs_are_the_models_own(model: GenerativeModel, options: dict[str, Any]) -> None:
    stream = model.stream_generate(PROMPT, max_new_tokens=9, seed=1, top_logprobs=4, **options)
    list(stream)
    report = stream.report
    assert report.logprobs is not None and len(report.logprobs) == report.new_tokens
    prompt = model.tokenizer.encode(PROMPT)
    rows = model.logits(prompt + report.token_ids)[len(prompt) - 1 :].astype(np.float64)
    for row, token, told in zip(rows, report.token_ids, report.logprobs, strict=False):
        logprobs = row - row.max() - np.log(np.exp(row - row.max()).sum())
        best = np.argsort(-row, kind="stable")[:4]
        assert told.token == token
        assert told.logprob == pytest.approx(logprobs[token], abs=1e-5)
        assert [item[0] for item in told.top] == best.tolist()
        np.testing.assert_allclose([item[1] for item in told.top], logprobs[best], atol=1e-5)
    plain = model.stream_generate(PROMPT, max_new_tokens=9, seed=1, **options)
    list(plain)
    assert plain.report.token_ids == report.token_ids and plain.report.logprobs is None
    alone = model.stream_generate(PROMPT, max_new_tokens=3, logprobs=True)
    list(alone)
    assert [item.top for item in alone.report.logprobs or ()] == [()] * 3


# ---------------------------------------------------------------- masks
class Allow:
    """Allows some tokens; keeps what it is told."""

    def __init__(self, *allowed: int, words: int = 9) -> None:
        self.words = np.zeros(words, np.uint32)
        for token in allowed:
            self.words[token // 32] |= np.uint32(1 << (token % 32))
        self.calls: list[Any] = []

    def mask(self) -> Any:
        self.calls.append("mask")
        return self.words.view(np.int32)

    def accept(self, token: int) -> None:
        self.calls.append(token)


def test_a_mask_restricts_the_reply(model: GenerativeModel) -> None:
    beside = model.stream_generate(PROMPT, max_new_tokens=COUNT, stop_ids=(), seed=5)
    mask = Allow(80, 95, 31, 2)
    options = {"temperature": 1.0, "seed": 3, "max_new_tokens": 8, "stop_ids": (2,)}
    with model.stream_generate("abc", mask=mask, **options) as stream:
        list(stream)
    report = stream.report
    told = report.token_ids
    assert set(told) <= {80, 95, 31, 2} and report.stop_reason in ("stop", "length")
    last = ["mask"] if report.stop_reason == "stop" else []
    assert mask.calls == [call for token in told for call in ("mask", token)] + last
    list(beside)
    assert beside.report.token_ids == run(model)
    # Words that are left out allow nothing.
    assert set(run(model, mask=Allow(40, words=2), temperature=1.0)) == {40}


def test_a_mask_that_lets_everything_pass_changes_nothing(model: GenerativeModel) -> None:
    class Open:
        def mask(self) -> Any:
            return None

        def accept(self, token: int) -> None:
            pass

    everything = Allow(*range(261))
    options = {"temperature": 1.0, "seed": 8}
    assert run(model, mask=Open(), **options) == run(model, **options)
    assert run(model, mask=everything, **options) == run(model, **options)


class Broken(Allow):
    def __init__(self, at: int, where: str, gives: Any = None) -> None:
        super().__init__(80, 81)
        self.at, self.where, self.gives = at, where, gives

    def mask(self) -> Any:
        super().mask()
        if self.where == "mask" and len(self.calls) > 2 * self.at:
            if self.gives is None:
                raise ValueError("the grammar is lost")
            return self.gives
        return self.words.view(np.int32)

    def accept(self, token: int) -> None:
        super().accept(token)
        if self.where == "accept" and len(self.calls) > 2 * self.at:
            raise ValueError("the grammar is lost")


@pytest.mark.parametrize(
    ("mask", "kind", "message"),
    [
        (lambda: Broken(0, "mask"), ValueError, "the grammar is lost"),
        (lambda: Broken(3, "mask"), ValueError, "the grammar is lost"),
        (lambda: Broken(2, "accept"), ValueError, "the grammar is lost"),
        (lambda: Broken(2, "mask", [1, 2]), InvalidArgumentError, "Broken.mask: gave"),
        (
            lambda: Broken(2, "mask", np.zeros(99, np.int32)),
            InvalidArgumentError,
            "at most 9 words",
        ),
        (lambda: Broken(1, "mask", np.zeros(9, np.int64)), InvalidArgumentError, "an int32 array"),
        (lambda: Allow(), InvalidArgumentError, "constraint allows no token"),
    ],
)
def test_a_mask_that_fails_ends_its_request_alone(
    model: GenerativeModel, mask: Any, kind: type[Exception], message: str
) -> None:
    alone = run(model)
    beside = model.stream_generate(PROMPT, max_new_tokens=COUNT, stop_ids=(), seed=5)
    sick = model.stream_generate(PROMPT, mask=mask(), max_new_tokens=COUNT, stop_ids=())
    after = model.stream_generate(PROMPT, max_new_tokens=COUNT, stop_ids=(), seed=5)
    with pytest.raises(kind, match=message):
        list(sick)
    assert sick.report.stop_reason == "error"
    for stream in (beside, after):
        list(stream)
        assert stream.report.token_ids == alone
    assert model.engine.cache.free_sequences == 8


def test_logits_that_are_no_numbers_beside_adjusted_requests(tmp_path: Path) -> None:
    config = models.write_model(tmp_path, template=False)
    values = models.tensors(config)
    values["model.embed_tokens.weight"][models.vocabulary()["x"]] = np.nan
    models.write_weights(tmp_path, values)
    model = load_generative(tmp_path, max_sequences=3)
    options: dict[str, Any] = {
        "max_new_tokens": 10,
        "temperature": 1.0,
        "seed": 2,
        "repetition_penalty": 1.3,
        "banned_tokens": [models.vocabulary()["x"]],
        "top_logprobs": 2,
    }
    alone = model.generate_batch(["hello"], **options)[0]
    prompts = ["hello", "axa", "hello"]
    with pytest.raises(ClikaRTError, match="NaN"):
        model.generate_batch(prompts, **options)
    reports = model.generate_batch(prompts, raise_errors=False, **options)
    assert [report.stop_reason for report in reports] == ["length", "error", "length"]
    assert reports[1].error is not None and reports[1].error.code_name == "NOT_A_NUMBER"
    assert reports[0].token_ids == reports[2].token_ids == alone.token_ids
    assert model.engine.cache.free_sequences == 3


# ---------------------------------------------------------------- a request's state
def test_histories_grow_past_their_room(model: GenerativeModel) -> None:
    options = {"repetition_penalty": 1.2, "frequency_penalty": 0.1, "max_new_tokens": 200}
    assert run(model, **options)[:COUNT] == by_hand(
        model, repetition_penalty=1.2, frequency_penalty=0.1
    )


def test_a_choice_is_needed_only_where_something_is_carried() -> None:
    assert not Choice.needed(Sampling(0.7, 40, 0.9, 0.05), None)
    assert Choice.needed(Sampling(logprobs=0), None)
    assert Choice.needed(Sampling(repetition_penalty=1.1), None)
    assert Choice.needed(Sampling(), Allow(1))
    assert not Choice.needed(GenerationConfig(typical_p=0.5, mirostat=2).sampling(1), None)


def test_constraints_are_masks(model: GenerativeModel) -> None:
    """A compiled constraint restricts the reply, drawn and greedy, beside free requests."""
    pytest.importorskip("llguidance")
    from clika_runtime.modelverse.constraints import ConstraintSpec, compile_constraint

    size = model.loaded.model.vocab_size
    constraint = compile_constraint(model.tokenizer, ConstraintSpec.regex("[ab]{3}-[0-9]+x"), size)
    free = model.stream_generate(PROMPT, max_new_tokens=COUNT, stop_ids=(), seed=5)
    for options in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3, "top_p": 0.9}):
        stream = model.stream_generate("abc", mask=constraint.start(), max_new_tokens=30, **options)
        text = "".join(stream)
        ended = stream.report.stop_reason == "stop"
        assert re.fullmatch("[ab]{3}-[0-9]+x" if ended else "[ab]{3}-[0-9]+x?", text)
    list(free)
    assert free.report.token_ids == run(model)
