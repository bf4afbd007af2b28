"""Generation: text in, text out; stops, streams, windows, seeds, defaults, reports."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clika_runtime.modelverse as mv
from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse import fit
from clika_runtime.modelverse.generation import GenerationConfig, GenerativeModel, load_generative
from clika_runtime.modelverse.loader import LoadOptions, load_model
from tests.unit.modelverse import models

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    models.write_model(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> GenerativeModel:
    return load_generative(folder, max_sequences=4)


def test_greedy_text_is_the_argmax_of_the_logits(model: GenerativeModel) -> None:
    stream = model.stream_generate(PROMPT, max_new_tokens=10, temperature=0.0, stop_ids=())
    text = "".join(stream)
    report = stream.report
    ids = model.tokenizer.encode(PROMPT)
    rows = model.logits(ids + report.token_ids)
    assert [int(row.argmax()) for row in rows[len(ids) - 1 : -1]] == report.token_ids
    assert text == report.text == model.tokenizer.decode(report.token_ids)
    assert report.stop_reason == "length"
    assert (report.prompt_tokens, report.new_tokens) == (len(ids), 10)
    assert report.prefill_seconds > 0 and report.decode_seconds > 0
    assert report.decode_tokens_per_second > 0 and report.prefill_tokens_per_second > 0
    assert model.generate(PROMPT, max_new_tokens=10, temperature=0.0, stop_ids=()) == text
    assert model.generate(ids, max_new_tokens=10, temperature=0.0, stop_ids=()) == text


def test_a_seed_repeats_and_another_differs(model: GenerativeModel) -> None:
    def run(**options: Any) -> list[int]:
        stream = model.stream_generate(
            PROMPT, max_new_tokens=20, temperature=1.0, stop_ids=(), **options
        )
        list(stream)
        return stream.report.token_ids

    assert run(seed=7) == run(seed=7)
    assert run(seed=7) != run(seed=8)
    stream = model.stream_generate(PROMPT, max_new_tokens=20, temperature=1.0, stop_ids=())
    list(stream)
    assert run(seed=stream.report.seed) == stream.report.token_ids


def test_a_stop_id_ends_the_reply(model: GenerativeModel) -> None:
    stream = model.stream_generate(PROMPT, max_new_tokens=10, temperature=0.0, stop_ids=())
    list(stream)
    ids = stream.report.token_ids
    stop = next(token for place, token in enumerate(ids) if place >= 3 and token not in ids[:place])
    stream = model.stream_generate(PROMPT, max_new_tokens=10, temperature=0.0, stop_ids=(stop,))
    list(stream)
    assert stream.report.token_ids == ids[: ids.index(stop)]
    assert (stream.report.stop_reason, stream.report.stop_id) == ("stop", stop)


def test_a_stop_string_ends_the_text_before_it(model: GenerativeModel) -> None:
    options: dict[str, Any] = {"max_new_tokens": 30, "temperature": 0.0, "stop_ids": ()}
    text = model.generate(PROMPT, **options)
    stop = text[5:8]
    stream = model.stream_generate(PROMPT, stop=[stop], **options)
    assert "".join(stream) == text[: text.index(stop)] == stream.report.text
    assert (stream.report.stop_reason, stream.report.stop_text) == ("stop_string", stop)
    assert model.generate(PROMPT, stop=stop, **options) == text[: text.index(stop)]


def test_the_window_ends_the_reply(model: GenerativeModel) -> None:
    ids = [10] * 60
    stream = model.stream_generate(ids, max_new_tokens=100, temperature=0.0, stop_ids=())
    list(stream)
    assert stream.report.stop_reason == "window"
    assert stream.report.new_tokens == 4


def test_prompts_that_cannot_run_are_refused(model: GenerativeModel, folder: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no tokens"):
        model.generate("")
    with pytest.raises(InvalidArgumentError, match="65 tokens, the context window holds 64"):
        model.generate([10] * 65)
    with pytest.raises(InvalidArgumentError, match="token 1 of the prompt is 999"):
        model.generate([10, 999])
    short = load_generative(folder, max_seq=16)
    assert short.window == 16
    with pytest.raises(InvalidArgumentError, match="20 tokens, the context window holds 16"):
        short.generate([10] * 20)
    assert model.engine.cache.free_sequences == 4


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"top_k": -1},
        {"max_new_tokens": 0},
        {"seed": -1},
        {"stop": [""]},
        {"beams": 4},
        {"stream": True},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_bad_options_are_refused_by_name(bad: dict[str, Any], model: GenerativeModel) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(bad))):
        model.generate(PROMPT, **bad)


def test_names_of_other_programs_lead_to_ours(model: GenerativeModel) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises(InvalidArgumentError, match=r"unknown option 'stream'; .*stream_chat"):
        model.chat(messages, stream=True)
    with pytest.raises(InvalidArgumentError, match="'response_format'; constraint= takes"):
        model.chat(messages, response_format={"type": "json_object"})


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("hi", r'a list of {"role": ..., "content": ...}, got the text \'hi\'.*"role": "user"'),
        ('"hi"', "a list of .* got str 'hi'"),
        (7, "a list of .* got int 7"),
        ([], "got an empty one"),
        ("[]", "got an empty one"),
        (["hi"], r"messages\[0\] is str 'hi'"),
        ([{"role": "user"}], r"messages\[0\] has no content"),
        ([{"role": "user", "content": None}], r"messages\[0\] has no content"),
    ],
)
def test_what_is_no_conversation_is_refused(
    messages: Any, message: str, model: GenerativeModel
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        model.chat(messages, max_new_tokens=1)
    assert model.engine.cache.free_sequences == 4


def test_chat_renders_and_replies(model: GenerativeModel, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    prompt = model.render(messages)
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    reply = model.chat(messages, max_new_tokens=8, temperature=0.0)
    ids = model.tokenizer.encode(prompt, add_special_tokens=False)
    assert reply == model.generate(ids, max_new_tokens=8, temperature=0.0)
    models.write_model(tmp_path, template=False)
    bare = load_generative(tmp_path)
    assert model.has_chat_template and not bare.has_chat_template
    with pytest.raises(InvalidArgumentError, match="chat template"):
        bare.chat(messages)


def test_a_batch_gives_what_each_prompt_gives_alone(model: GenerativeModel) -> None:
    prompts = ["a", "The second one is longer", "third", "number four", "and the fifth waits"]
    options: dict[str, Any] = {"max_new_tokens": 9, "temperature": 0.0, "stop_ids": ()}
    together = model.generate_batch(prompts, **options)
    assert [report.text for report in together] == [model.generate(p, **options) for p in prompts]
    assert model.engine.cache.free_sequences == 4


def test_threads_get_their_own_replies(model: GenerativeModel) -> None:
    prompts = [f"thread number {number} speaks" for number in range(6)]
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 0.0, "stop_ids": ()}
    expected = [model.generate(prompt, **options) for prompt in prompts]
    got: dict[int, str] = {}

    def speak(number: int) -> None:
        got[number] = model.generate(prompts[number], **options)

    threads = [threading.Thread(target=speak, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [got[number] for number in range(6)] == expected


def test_an_abandoned_stream_gives_its_place_back(model: GenerativeModel) -> None:
    with model.stream_generate(PROMPT, max_new_tokens=40, stop_ids=()) as stream:
        next(stream)
        assert model.engine.cache.free_sequences == 3
    assert stream.report.stop_reason == "cancelled"
    assert stream.report.new_tokens >= 1
    assert model.engine.cache.free_sequences == 4
    stream = model.stream_generate(PROMPT, max_new_tokens=40, stop_ids=())
    next(stream)
    del stream
    assert model.engine.cache.free_sequences == 4


def test_scores_are_log_probabilities(model: GenerativeModel) -> None:
    ids = model.tokenizer.encode(PROMPT)
    rows = model.logits(ids)
    assert rows.dtype == np.float32 and rows.shape == (len(ids), model.config.vocab_size)
    scores = model.score(ids)
    shifted = np.exp(rows[:-1].astype(np.float64))
    expected = np.log(shifted / shifted.sum(1, keepdims=True))[np.arange(len(ids) - 1), ids[1:]]
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(InvalidArgumentError, match="0 tokens"):
        model.logits([])
    with pytest.raises(InvalidArgumentError, match=r"65 tokens are given, 1 \.\. 64 fit"):
        model.logits([10] * 65)


def test_defaults_come_from_the_checkpoint(
    folder: Path, model: GenerativeModel, tmp_path: Path
) -> None:
    assert model.defaults == GenerationConfig(stop_ids=(2,))
    models.write_model(tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [2, 4], "max_new_tokens": 9}))
    assert load_generative(tmp_path).defaults == GenerationConfig(max_new_tokens=9, stop_ids=(2, 4))
    path.write_text(json.dumps({"do_sample": True, "temperature": 0.6, "top_p": 0.9}))
    defaults = load_generative(tmp_path).defaults
    assert defaults == GenerationConfig(temperature=0.6, top_k=50, top_p=0.9, stop_ids=(2,))
    path.write_text(json.dumps({"do_sample": True, "top_p": 9}))
    with pytest.raises(InvalidArgumentError, match=r"generation_config\.json: 'top_p'.*9"):
        load_generative(tmp_path)


def test_the_auto_class_loads_a_folder(folder: Path, model: GenerativeModel) -> None:
    loaded = mv.AutoModelForCausalLM.from_pretrained(folder, device="cpu", offline=True, max_seq=32)
    assert type(loaded).__name__ == "GenerativeModel"
    assert (loaded.window, loaded.family) == (32, "llama")
    options: dict[str, Any] = {"max_new_tokens": 5, "temperature": 0.0}
    assert loaded.generate(PROMPT, **options) == model.generate(PROMPT, **options)
    report = loaded.report
    assert report["window"] == 32 and report["compute_dtype"] == "float32"
    with pytest.raises(InvalidArgumentError, match="unknown option 'colour'"):
        load_generative(folder, colour="red")


@pytest.mark.parametrize("device", ["auto", " Auto "])
def test_the_best_device_is_found(folder: Path, device: str) -> None:
    """The host is what is left where no accelerator takes the model."""
    loaded = mv.AutoModelForCausalLM.from_pretrained(folder, device=device, offline=True)
    assert loaded.generate(PROMPT, max_new_tokens=2)
    options = LoadOptions(device=device)
    for made in (
        loaded.loaded,
        load_generative(folder, options).loaded,
        load_model(folder, options),
    ):
        assert made.options.device == made.report["device"]
        assert made.options.device.lower() != "auto"


def test_the_next_device_is_tried(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    places = {"vulkan": ["VULKAN:0", "VULKAN:1"], "cpu": ["CPU:0"]}
    monkeypatch.setattr(fit.crt, "enumerate_devices", lambda kind: places.get(kind, []))
    tried = []

    def load(options: LoadOptions) -> str:
        tried.append(options.device)
        if "VULKAN" in options.device:
            raise UnsupportedError("no kernels")
        return options.device

    with caplog.at_level("WARNING", logger="clika_runtime.modelverse"):
        assert fit.on_a_place(LoadOptions(device="auto"), load) == "CPU:0"
    assert tried == ["VULKAN:0", "CPU:0"]
    assert "loading on VULKAN:0 failed, trying the next device: no kernels" in caplog.text
    with pytest.raises(UnsupportedError):
        fit.on_a_place(LoadOptions(device="VULKAN:1"), load)


def test_a_model_runs_in_bfloat16_with_a_continuous_cache(folder: Path) -> None:
    model = load_generative(folder, dtype="bfloat16", kvcache="continuous")
    assert len(model.logits([10, 11, 12])) == 3
    assert model.report["cache_dtype"] == "bfloat16"
    assert model.report["cache_layout"] == "continuous"


def test_several_prompts_go_to_generate_batch(model):
    with pytest.raises(InvalidArgumentError, match=r"item 0 is list; several prompts go to"):
        model.generate([[1, 2], [3]])


def test_options_are_checked_before_anything_is_fetched():
    with pytest.raises(InvalidArgumentError, match="unknown option 'bogus'"):
        mv.AutoModelForCausalLM.from_pretrained("org/absent", bogus=True, offline=True)
