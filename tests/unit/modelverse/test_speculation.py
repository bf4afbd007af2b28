"""Drafts change the time of a reply and not a bit of it, whatever is drafted and however tokens are
chosen."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import ClikaRTError, InvalidArgumentError
from clika_runtime.modelverse.engine import Work
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.sampling import Choice, Sampling
from clika_runtime.modelverse.speculation import Pace, PromptLookup, Speculation
from tests.unit.modelverse import models
from tests.unit.modelverse.test_sampling import KNOBS

PROMPT = "Once upon a time, a time, "
COUNT = 40
FREE: dict[str, Any] = {"max_new_tokens": COUNT, "stop_ids": (), "seed": 5}
DRAFTED: dict[str, Any] = {"prompt_lookup_num_tokens": 7}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    models.write_model(path, max_position_embeddings=256)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> GenerativeModel:
    return load_generative(folder, max_sequences=4)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts are as long as they may be: what pays is not asked."""
    monkeypatch.setattr(Pace, "best", lambda self, sequences, rate, most, each=0.0: most)


def replies(model: GenerativeModel, *asked: dict[str, Any]) -> list[Any]:
    """Reports of requests that run together."""
    streams = [model.stream_generate(**{"prompt": PROMPT, **FREE, **options}) for options in asked]
    for stream in streams:
        assert "".join(stream) == stream.report.text
    return [stream.report for stream in streams]


def same(told: Any, plain: Any) -> None:
    """Two reports of one reply."""
    for name in ("token_ids", "text", "stop_reason", "stop_id", "stop_text", "logprobs"):
        assert getattr(told, name) == getattr(plain, name), name


class Foreseen:
    """Drafts that know the reply, and spoil a token now and then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reply: list[int], wrong: float) -> None:
        drawn = random.Random(7)
        self.right = self.spoilt = 0

        def draft(lookup: Any, prompt: Any, produced: Any, most: int) -> list[int]:
            found = list(reply[len(produced) : len(produced) + drawn.randint(0, most)])
            for place in range(len(found)):
                if drawn.random() < wrong:
                    found[place] = drawn.randrange(261)
                    self.spoilt += 1
                else:
                    self.right += 1
            return found

        monkeypatch.setattr(PromptLookup, "draft", draft)


# ---------------------------------------------------------------- drafts out of the text
def test_the_last_place_of_the_longest_run_counts() -> None:
    assert PromptLookup().draft([5, 6, 7, 8, 9, 5, 6], [], 3) == [7, 8, 9]
    assert PromptLookup().draft([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], [], 2) == [4, 9]
    assert PromptLookup().draft([2, 3, 4, 2, 3, 5, 2, 3], [], 1) == [5]
    assert PromptLookup().draft([1, 2, 3], [], 4) == []
    assert PromptLookup().draft([1], [], 4) == []
    # A period goes on beyond the end of the text.
    assert PromptLookup().draft([1, 2, 1, 2, 1, 2], [], 5) == [1, 2, 1, 2, 1]
    assert PromptLookup().draft([8, 8, 8], [], 4) == [8, 8, 8, 8]


def test_a_text_that_grows_is_that_text() -> None:
    drawn = random.Random(1)
    for _ in range(50):
        text = [drawn.randrange(4) for _ in range(40)]
        grown = PromptLookup()
        for end in range(10, 40):
            most = drawn.randint(1, 9)
            told = grown.draft(text[:10], text[10:end], most)
            assert told == PromptLookup().draft(text[:end], [], most)


# ---------------------------------------------------------------- the step that looks at a draft
def test_a_step_keeps_what_was_right(model: GenerativeModel) -> None:
    engine, cache = model.engine, model.engine.cache
    prompt = model.tokenizer.encode(PROMPT)
    reply = replies(model, {})[0].token_ids
    for right in range(5):
        sequence, other = cache.add(), cache.add()
        engine.step([Work(sequence, prompt), Work(other, prompt)])
        draft = reply[1 : 1 + right] + [(reply[1 + right] + 1) % 261, 9]
        work = [
            Work(sequence, reply[:1], Sampling(), 1, None, draft),
            Work(other, reply[:1], Sampling(), 1),
        ]
        assert engine.verify(work) == [reply[1 : 2 + right], reply[1:2]]
        assert cache.length(sequence) == len(prompt) + 1 + right
        assert cache.length(other) == len(prompt) + 1
        ids = engine.step([Work(sequence, reply[1 + right : 2 + right], Sampling(), 2 + right)])
        assert ids == [reply[2 + right]]
        cache.free(sequence)
        cache.free(other)


def test_a_step_that_fails_leaves_the_cache(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, cache = model.engine, model.engine.cache
    sequence = cache.add()
    engine.step([Work(sequence, [5, 6, 7])])
    monkeypatch.setattr(engine, "plan", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.verify([Work(sequence, [8], Sampling(), 1, None, [9, 10])])
    assert cache.length(sequence) == 3
    cache.free(sequence)


def test_mirostat_cannot_be_looked_ahead(model: GenerativeModel) -> None:
    choice = Choice(Sampling(1.0, mirostat_tau=5.0), [1])
    sequence = model.engine.cache.add()
    with pytest.raises(InvalidArgumentError, match="cannot be told"):
        model.engine.verify([Work(sequence, [8], choice.sampling, 1, choice, [9])])
    model.engine.cache.free(sequence)
    plain, told = replies(model, {"mirostat": 2, "temperature": 1.0}), []
    told = replies(model, {"mirostat": 2, "temperature": 1.0, **DRAFTED})
    same(told[0], plain[0])
    assert told[0].drafted_tokens == 0
    assert told[0].warnings == [
        "nothing is drafted: mirostat's state follows from the token before"
    ]


# ---------------------------------------------------------------- replies
@pytest.mark.parametrize("wrong", [0.0, 0.3])
@pytest.mark.parametrize("options", KNOBS, ids=str)
def test_every_knob_gives_the_same_reply(
    model: GenerativeModel,
    options: dict[str, Any],
    wrong: float,
    monkeypatch: pytest.MonkeyPatch,
    always: None,
) -> None:
    asked = {**options, "top_logprobs": 3}
    plain = replies(model, asked)[0]
    foreseen = Foreseen(monkeypatch, plain.token_ids, wrong)
    told = replies(model, {**asked, **DRAFTED})[0]
    same(told, plain)
    if "mirostat" in options:
        return
    assert foreseen.right and told.drafted_tokens >= told.draft_steps > 0
    if wrong:
        assert told.accepted_tokens < told.drafted_tokens and foreseen.spoilt
    else:
        assert told.accepted_tokens == told.drafted_tokens == told.new_tokens - 1 - _plain(told)
    same(replies(model, {**options, **DRAFTED})[0], replies(model, options)[0])


def _plain(report: Any) -> int:
    """Tokens after the first that no draft gave, where every draft was right: one per step."""
    return int(report.new_tokens - 1 - report.accepted_tokens)


def test_requests_together(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    """Drafted ones, others, and prompts that come while they run."""
    asked = [{**options, "seed": number} for number, options in enumerate(KNOBS)]
    plain = [replies(model, options)[0] for options in asked]
    known = {tuple(report.token_ids[:1]): report.token_ids for report in plain}
    drawn = random.Random(3)

    def draft(lookup: Any, prompt: Any, produced: Any, most: int) -> list[int]:
        reply = known.get(tuple(produced[:1]), [])
        return reply[len(produced) : len(produced) + drawn.randint(0, most)]

    monkeypatch.setattr(PromptLookup, "draft", draft)
    told = replies(model, *({**one, **(DRAFTED if i % 3 else {})} for i, one in enumerate(asked)))
    for one, other in zip(told, plain, strict=True):
        same(one, other)
    assert sum(report.accepted_tokens for report in told) > 20
    assert model.engine.cache.free_sequences == 4


@pytest.mark.parametrize("most", [1, 2, 3, 8, 9])
def test_a_reply_ends_where_it_would(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch, always: None, most: int
) -> None:
    plain = replies(model, {"temperature": 1.0})[0]
    Foreseen(monkeypatch, plain.token_ids, 0.1)
    ids = plain.token_ids
    stop = plain.text[6:8]
    ends: list[dict[str, Any]] = [
        {"max_new_tokens": most},
        {"stop_ids": (ids[most + 4],)},
        {"stop": stop},
        {"stop": stop, "top_logprobs": 1},
        {"max_new_tokens": most, "stop_ids": (ids[most - 1],)},
    ]
    for options in ends:
        asked = {"temperature": 1.0, **options}
        before, told = replies(model, asked)[0], replies(model, {**asked, **DRAFTED})[0]
        same(told, before)
    assert before.stop_reason == "stop"


def test_the_window_is_filled_to_its_end(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    asked = {"prompt": "ab" * 120, "max_new_tokens": 500, "temperature": 1.0}
    plain = replies(model, asked)[0]
    assert plain.stop_reason == "window" and plain.total_tokens == 256
    Foreseen(monkeypatch, plain.token_ids + [3] * 20, 0.0)
    told = replies(model, {**asked, **DRAFTED})[0]
    same(told, plain)
    assert told.accepted_tokens > 5


def test_the_text_itself_is_drafted(model: GenerativeModel, always: None) -> None:
    pytest.importorskip("llguidance")
    asked = {"constraint": {"regex": "(abcde){20}"}, "max_new_tokens": 120}
    plain = replies(model, asked)[0]
    told = replies(model, {**asked, "prompt_lookup_num_tokens": 15})[0]
    same(told, plain)
    assert told.text == "abcde" * 20
    assert told.accepted_tokens > 80 and told.draft_steps < 20


def test_blocks_that_lack_are_no_failure(folder: Path, always: None) -> None:
    """A draft is left out where the pool has no room for it."""
    from clika_runtime.modelverse.cache import CacheConfig, KVCache
    from clika_runtime.modelverse.engine import Engine
    from clika_runtime.modelverse.scheduler import Request, Scheduler

    model = load_generative(folder)
    config = CacheConfig(256, 2, block_size=8, total_tokens=64)
    cache = KVCache(model.loaded.model.cache_specs(), config)
    scheduler = Scheduler(Engine(model.loaded.model, cache))
    requests = [Request([9, 8] * 8, Sampling(), 15, speculation=Speculation(15)) for _ in range(2)]
    for item in requests:
        scheduler.submit(item)
    for item in requests:
        while not item.done:
            scheduler.advance(item, len(item.produced))
    plain = model.stream_generate([9, 8] * 8, max_new_tokens=15, stop_ids=())
    list(plain)
    assert [item.produced for item in requests] == [plain.report.token_ids] * 2


# ---------------------------------------------------------------- constraints and masks
def test_constraints_hold(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    pytest.importorskip("llguidance")
    schema = {"json_schema": {"type": "array", "items": {"enum": ["one", "two"]}, "minItems": 3}}
    for constraint in ({"regex": "[ab]{3}-[0-9]{4}x"}, schema, {"choice": ["yes", "not at all"]}):
        for way in ({"temperature": 0.0}, {"temperature": 1.5, "repetition_penalty": 1.1}):
            asked = {"constraint": constraint, **way, "top_logprobs": 2}
            plain = replies(model, asked, {})
            Foreseen(monkeypatch, plain[0].token_ids, 0.2)
            told = replies(model, {**asked, **DRAFTED}, {}, {**asked, **DRAFTED})
            same(told[0], plain[0])
            same(told[1], plain[1])
            same(told[2], plain[0])
            assert told[0].accepted_tokens > 0


class Turns:
    """Allows even and odd tokens in turn; counts what is told."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def mask(self) -> Any:
        even = np.full(9, 0x55555555, np.uint32).view(np.int32)
        return even if len(self.told) % 2 else even << 1

    def accept(self, token: int) -> None:
        self.told.append(token)

    @property
    def finished(self) -> bool:
        return len(self.told) == 17


class Careful(Turns):
    def rollback(self, count: int) -> None:
        del self.told[len(self.told) - count :]


def test_masks_of_the_callers(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    asked = {"temperature": 1.2}
    plain = replies(model, {**asked, "mask": Turns()})[0]
    assert plain.stop_reason == "stop" and plain.new_tokens == 17
    Foreseen(monkeypatch, plain.token_ids + [1, 2, 3, 4], 0.1)
    mask = Careful()
    told = replies(model, {**asked, "mask": mask, **DRAFTED})[0]
    same(told, plain)
    assert told.accepted_tokens > 5 and mask.told == told.token_ids
    told = replies(model, {**asked, "mask": Turns(), **DRAFTED})[0]
    same(told, plain)
    assert told.warnings == ["nothing is drafted: Turns has no rollback()"]


class Ended(Careful):
    """Allows nothing behind nine tokens."""

    finished = False

    def mask(self) -> Any:
        return np.zeros(9, np.int32) if len(self.told) == 9 else super().mask()


def test_a_dead_end_is_the_same_failure(
    model: GenerativeModel, monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    def failed(**options: Any) -> Any:
        stream = model.stream_generate(PROMPT, mask=Ended(), **FREE, **options)
        with pytest.raises(InvalidArgumentError, match="allows no token here") as caught:
            list(stream)
        return str(caught.value), stream.report.token_ids

    plain = failed()
    assert "token 10 of the reply" in plain[0] and len(plain[1]) == 9
    Foreseen(monkeypatch, plain[1] + [1, 2, 3], 0.1)
    assert failed(**DRAFTED) == plain


def test_what_is_forced_is_drafted(model: GenerativeModel, always: None) -> None:
    pytest.importorskip("llguidance")
    asked = {"constraint": {"regex": "(yes|no), the captain said to the mate[.!]"}}
    plain = replies(model, asked)[0]
    told = replies(model, {**asked, "prompt_lookup_num_tokens": 1})[0]
    same(told, plain)
    assert told.accepted_tokens > 20 and told.draft_steps < 12


def test_a_mask_that_fails_at_a_draft_fails_alone(model: GenerativeModel, always: None) -> None:
    class Sick(Careful):
        def forced(self) -> list[int]:
            raise ValueError("sick")

        def admitted(self, tokens: Any) -> int:
            raise ValueError("sick")

    told = replies(model, {"mask": Sick(), **DRAFTED}, {})
    plain = replies(model, {"mask": Turns()}, {})
    for one, other in zip(told, plain, strict=True):
        same(one, other)


# ---------------------------------------------------------------- assistants
@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    path = tmp_path_factory.mktemp("wide")
    models.write_model(path, max_position_embeddings=256, hidden_size=64)
    return load_generative(path, max_sequences=4)


def test_an_assistant_that_agrees(model: GenerativeModel, folder: Path, always: None) -> None:
    twin = load_generative(folder)
    for options in ({}, {"temperature": 1.1, "top_k": 20}, {"presence_penalty": 0.5}):
        plain = replies(model, options)[0]
        told = replies(model, {**options, "assistant_model": twin, "num_assistant_tokens": 4})[0]
        same(told, plain)
        if "presence_penalty" not in options:
            assert told.accepted_tokens == told.drafted_tokens >= 30
    # Its own cache is free meanwhile.
    stream = model.stream_generate(PROMPT, assistant_model=twin, **FREE)
    next(stream)
    assert twin.generate(PROMPT, **FREE) == model.generate(PROMPT, **FREE)
    stream.close()


def test_an_assistant_that_disagrees(
    model: GenerativeModel, wide: GenerativeModel, always: None
) -> None:
    asked = [{**options, "seed": number} for number, options in enumerate(KNOBS)]
    plain = [replies(wide, options)[0] for options in asked]
    told = replies(wide, *({**options, "assistant_model": model} for options in asked))
    for one, other in zip(told, plain, strict=True):
        same(one, other)
    assert sum(report.drafted_tokens for report in told) > 100
    both = replies(wide, {"assistant_model": model, "prompt_lookup_num_tokens": 3})[0]
    same(both, plain[0])


def test_an_assistant_with_a_short_window(
    model: GenerativeModel, folder: Path, always: None
) -> None:
    short = load_generative(folder, max_seq=50)
    plain = replies(model, {})[0]
    told = replies(model, {"assistant_model": short})[0]
    same(told, plain)
    assert 0 < told.drafted_tokens < COUNT and told.warnings == plain.warnings
    same(
        replies(model, {"prompt": "x" * 60, "assistant_model": short})[0],
        replies(model, {"prompt": "x" * 60})[0],
    )


def test_an_assistant_that_fails(
    model: GenerativeModel, folder: Path, monkeypatch: pytest.MonkeyPatch, always: None
) -> None:
    twin = load_generative(folder)
    plain = replies(model, {})[0]
    engine = model._assistant(twin).engine  # type: ignore[union-attr]
    steps = []

    def failing(work: Any) -> Any:
        steps.append(work)
        raise ClikaRTError("the kernel failed", "INTERNAL")

    monkeypatch.setattr(engine, "step", failing)
    told = replies(model, {"assistant_model": twin})[0]
    same(told, plain)
    assert told.warnings[-1] == "drafts of the assistant have ended: the kernel failed"
    assert len(steps) == 1 and engine.cache.free_sequences == 4


def test_other_tokens_are_refused(
    model: GenerativeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = models.vocabulary()
    names = [*words][:-3] + ["aa", "bb", "cc"]
    monkeypatch.setattr(models, "vocabulary", lambda: {name: i for i, name in enumerate(names)})
    models.write_model(tmp_path / "other")
    other = load_generative(tmp_path / "other")
    with pytest.raises(InvalidArgumentError, match=r"token 258 is 'aa' there and '.' here"):
        model.generate(PROMPT, assistant_model=other)
    monkeypatch.setattr(
        models, "vocabulary", lambda: {name: i for i, name in enumerate(names[:-1])}
    )
    models.write_model(tmp_path / "fewer")
    with pytest.raises(InvalidArgumentError, match="its tokenizer has 260 tokens, the model's has"):
        model.generate(PROMPT, assistant_model=load_generative(tmp_path / "fewer"))
    with pytest.raises(InvalidArgumentError, match="a loaded model is needed, got str"):
        model.generate(PROMPT, assistant_model="other")
    assert model.engine.cache.free_sequences == 4


# ---------------------------------------------------------------- what pays
def costs(**seconds: float) -> Pace:
    pace = Pace()
    for rows, value in seconds.items():
        for _ in range(3):
            pace.record(int(rows[1:]), value)
    return pace


def test_the_length_that_pays() -> None:
    pace = costs(r1=5.0, r2=5.0, r4=6.6, r8=11.1, r16=30.0)
    assert pace.best(1, 0.99, 15) == 7
    assert pace.best(1, 0.99, 5) == 3
    assert pace.best(1, 0.6, 15) == 3
    assert pace.best(1, 0.2, 15) == 1  # a second row is free there
    assert pace.best(1, 0.05, 15) == 0
    flat = costs(r1=5.0, r2=10.0, r4=20.0, r8=40.0, r16=80.0)
    assert flat.best(1, 0.99, 15) == 0
    # An assistant's tokens cost their time.
    assert pace.best(1, 0.5, 15, each=4.0) == 0
    assert pace.best(1, 0.9, 15, each=0.1) == 3
    # Eight sequences are eight rows.
    assert pace.best(8, 0.99, 1) == 0


def test_a_cost_forgets_what_is_gone() -> None:
    pace = Pace()
    pace.record(1, 1.0)  # with the plan's compilation
    pace.record(1, 0.1)
    assert pace.cost(1) == 0.1
    for _ in range(200):
        pace.record(1, 0.4)
    assert pace.cost(1) == 0.4


def test_drafts_that_are_wrong_end() -> None:
    pace = costs(r1=5.0, r2=6.0, r4=8.0, r8=14.0, r16=30.0)
    source = Speculation(7)
    drafted = 0
    text = list(range(100, 140)) * 2
    for number in range(1000):
        draft = source.look_up(text, [], pace, 1, 7)
        if draft:
            drafted += len(draft)
            source.record(len(draft), 0)
        assert number or draft
    assert drafted == source.drafted < 60 and source.accepted == 0
    # What is right again is drafted again.
    for _ in range(600):
        draft = source.look_up(text, [], pace, 1, 7)
        if draft:
            source.record(len(draft), len(draft))
    assert source.accepted > 1000
