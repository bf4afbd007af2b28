"""Steps that end where none should: whoever was in them fails, nobody gets a wrong text, and what
comes afterwards is as ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clika_runtime.modelverse import assistant, scheduler
from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.speculation import Pace
from tests.unit.modelverse import models

TEXTS = ("Once upon a time there was a port,", "and of its ships they told at some length.")
FREE: dict[str, Any] = {"max_new_tokens": 20, "stop_ids": (), "temperature": 1.0, "seed": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    models.write_model(path, max_position_embeddings=256)
    return path


def breaks_at(number: int, function: Callable[..., Any], error: type[BaseException]) -> Any:
    """The function, whose call of that number raises."""
    calls = 0

    def call(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise error("here")
        return function(*given, **named)

    return call


def ends(stream: Any) -> str:
    """The text of a stream, or the kind of its failure."""
    try:
        return "".join(stream)
    except (KeyboardInterrupt, MemoryError) as error:
        return type(error).__name__


def check_after(model: GenerativeModel, want: list[str]) -> None:
    """The model serves as ever, and holds nothing more than prefixes."""
    assert [model.generate(text, **FREE) for text in TEXTS] == want
    assert model.prefixes is not None
    model.prefixes.clear()
    cache = model.engine.cache
    assert cache.free_blocks == cache.config.num_blocks
    assert cache.free_sequences == cache.config.max_sequences


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("place", ["plan", "mask", "engine", "take"])
def test_a_step_is_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: type[BaseException]
) -> None:
    plain = load_generative(folder, prefix_cache=False)
    want = [plain.generate(text, **FREE) for text in TEXTS]
    where: dict[str, tuple[Any, str]] = {
        "plan": (scheduler.Scheduler, "_reuse"),
        "mask": (scheduler, "look"),
        "engine": (Engine, "_decode"),
        "take": (scheduler.Scheduler, "_take"),
    }
    owner, name = where[place]
    for number in (1, 2):
        model = load_generative(folder, max_sequences=3)
        constrained = {"constraint": {"regex": "[a-f]{40}"}}
        streams = [
            model.stream_generate(text, **FREE, **more)
            for text, more in zip(TEXTS, ({}, constrained), strict=True)
        ]
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, breaks_at(number, getattr(owner, name), error))
            found = [ends(stream) for stream in streams]
        # Not a text of which a step was left out or computed twice.
        assert found[0] in (want[0], error.__name__) and error.__name__ in found
        for stream in streams:
            stream.close()
        check_after(model, want)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_draft_is_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """An assistant's failure costs the drafts alone; what is no failure of it ends the requests."""
    monkeypatch.setattr(Pace, "best", lambda self, sequences, rate, most, each=0.0: most)
    plain = load_generative(folder, prefix_cache=False)
    want = [plain.generate(text, **FREE) for text in TEXTS]
    for number in (1, 2, 3):
        model, helper = load_generative(folder, max_sequences=3), load_generative(folder)
        drafted = {"assistant_model": helper, "num_assistant_tokens": 3}
        streams = [model.stream_generate(text, **FREE, **drafted) for text in TEXTS]
        begun = [next(stream) for stream in streams]
        held = next(iter(model.scheduler._running)).speculation
        assert held is not None and held.assistant is not None
        step = held.assistant.engine.step
        monkeypatch.setattr(held.assistant.engine, "step", breaks_at(number, step, error))
        found = [first + ends(stream) for first, stream in zip(begun, streams, strict=True)]
        if error is MemoryError:
            assert found == want
        else:
            assert all(text.endswith(error.__name__) for text in found)
        for stream in streams:
            stream.close()
        check_after(model, want)


def test_an_interrupted_draft_is_taken_up_again(folder: Path) -> None:
    """What the assistant had not fed yet is fed at the next draft."""
    model, helper = load_generative(folder), load_generative(folder)
    made = assistant.Assistant(helper, 1, model.loaded.model.vocab_size)
    from clika_runtime.modelverse.sampling import Sampling
    from clika_runtime.modelverse.speculation import Speculation

    request = scheduler.Request([*range(7, 47)], Sampling(), 20)
    request.speculation = Speculation(assistant=made, assistant_tokens=3)
    request.produced += [9]
    step = made.engine.step
    made.engine.step = breaks_at(1, step, KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.draft([request], [3])
    request.produced += [11, 12]
    found = made.draft([request], [3])
    fresh = assistant.Assistant(helper, 1, model.loaded.model.vocab_size)
    assert found == fresh.draft([request], [3]) and len(found[0]) == 3
