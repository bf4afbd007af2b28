"""Generation under attack: every wrong value is a typed error for its request alone, in little
time, and the model goes on."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clika_runtime.errors import ClikaRTError, InvalidArgumentError, UnsupportedError, told
from clika_runtime.modelverse.generation import GenerativeModel, load_generative
from clika_runtime.modelverse.knobs import REAL, WHOLE
from tests.unit.modelverse import models

INF = math.inf
NAN = math.nan
USER = {"role": "user", "content": "hi"}
FEW: dict[str, Any] = {"max_new_tokens": 4, "stop_ids": ()}
SECONDS = 8.0  # for one attack: those of a slow template are 5


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


class Rude:
    """A value whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


ODD: list[Any] = [3, 1.5, b"x", "x", object(), {1, 2}, nested(5000), Rude(), 10**5000, [Rude()]]


def loaded(folder: Path, template: str | None = None) -> GenerativeModel:
    models.write_model(folder, True, max_position_embeddings=512)
    if template is not None:
        path = folder / "tokenizer_config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({**settings, "chat_template": template}))
    return load_generative(folder, max_sequences=4)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> GenerativeModel:
    return loaded(tmp_path_factory.mktemp("model"))


@pytest.fixture
def model(shared: GenerativeModel) -> Iterator[GenerativeModel]:
    """The model, which is unharmed after the test."""
    wanted = shared.generate("abc", temperature=0.0, **FEW)
    yield shared
    gc.collect()
    assert shared.generate("abc", temperature=0.0, **FEW) == wanted
    assert shared.engine.cache.free_sequences == 4


def refused(call: Callable[[], Any]) -> str:
    """The message of the typed error that the call ends with, soon."""
    begun = time.monotonic()
    with pytest.raises(ClikaRTError) as found:
        call()
    assert time.monotonic() - begun < SECONDS
    assert len(str(found.value)) < 1200
    return str(found.value)


# ---------------------------------------------------------------- values
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_parameters(model: GenerativeModel, name: str) -> None:
    for value in (NAN, INF, -INF, -1e30, 1e39, True, "1", [1], 10**5000, *ODD[4:]):
        message = refused(lambda value=value: model.generate("a", **{**FEW, name: value}))
        assert name in message


@pytest.mark.parametrize("name", sorted({*WHOLE, "mirostat"}))
def test_whole_parameters(model: GenerativeModel, name: str) -> None:
    for value in (NAN, INF, -1, 2**70, True, 1.5, "1", [1], -(10**5000), *ODD[4:]):
        message = refused(lambda value=value: model.generate("a", **{**FEW, name: value}))
        assert name in message


def test_an_enormous_reply_ends_at_the_window(model: GenerativeModel) -> None:
    stream = model.stream_generate("a", max_new_tokens=2**31, stop_ids=())
    list(stream)
    assert (stream.report.stop_reason, stream.report.total_tokens) == ("window", 512)


@pytest.mark.parametrize(
    "prompt",
    [None, "", [], [-1], [261], [10**5000], [True], [1.0], ["a"], [[1]], "\ud800", {1: 2}, *ODD],
    ids=lambda value: type(value).__name__,
)
def test_prompts(model: GenerativeModel, prompt: Any) -> None:
    if isinstance(prompt, str) and prompt.isascii() and prompt:
        prompt = prompt * 512  # fills the window
    refused(lambda: model.generate(prompt, **FEW))


@pytest.mark.parametrize(
    "several", [None, 3, "ab", b"ab", {"a": 1}, Rude()], ids=lambda value: type(value).__name__
)
def test_batches_that_are_none(model: GenerativeModel, several: Any) -> None:
    for call in (model.generate_batch, model.chat_batch):
        assert "a list is needed" in refused(lambda call=call: call(several))


def test_empty_and_partly_wrong_batches(model: GenerativeModel) -> None:
    assert model.generate_batch([]) == []
    assert model.chat_batch(iter([])) == []
    assert "no tokens" in refused(lambda: model.generate_batch(["a"] * 6 + [""], **FEW))
    assert "messages[0] is int 3" in refused(lambda: model.chat_batch([[USER], [3]], **FEW))


@pytest.mark.parametrize(
    "stop",
    ["", [""], [None], [["a"]], "x" * 5000, (str(n) for n in range(10**9)), b"x", 3, [Rude()]],
    ids=lambda value: type(value).__name__,
)
def test_stop_strings(model: GenerativeModel, stop: Any) -> None:
    assert refused(lambda: model.generate("a", stop=stop, **FEW)).startswith("stop: ")


def test_odd_stop_strings_never_fire(model: GenerativeModel) -> None:
    plain = model.generate("a", temperature=0.0, **FEW)
    for stop in ("\0\0\0", "\ud800", "<|im_end|>", "a" * 4096, "\N{COMBINING ACUTE ACCENT}"):
        assert model.generate("a", stop=[stop] * 64, temperature=0.0, **FEW) == plain


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (dict.fromkeys(range(10**5), 1.0), "more than 65536 entries"),
        (((5, 1.0) for _ in range(10**9)), "more than 65536 entries"),
        (dict.fromkeys(range(261), -INF), "ban all 261 tokens"),
        ({10**5000: 1.0}, "has token <int>, outside the vocabulary of 261"),
        ({5: 10**5000}, "logit_bias of token 5 must be in"),
        ([Rude()], "got the entry <Rude"),
        ([nested(5000)], "logit_bias maps tokens to numbers"),
        ({"9" * 12: 1.0}, "takes token ids"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_biases(model: GenerativeModel, bias: Any, message: str) -> None:
    assert message in refused(lambda: model.generate("a", logit_bias=bias, **FEW))


def test_many_biases_of_one_token_add_up(model: GenerativeModel) -> None:
    many = [(40, 0.01)] * 60_000
    text = model.generate("a", logit_bias=many, temperature=0.0, **FEW)
    assert text == 4 * model.tokenizer.decode([40])


def test_all_tokens_banned_by_either_way(model: GenerativeModel) -> None:
    options = {"banned_tokens": range(200), "logit_bias": dict.fromkeys(range(200, 261), -INF)}
    message = refused(lambda: model.generate("a", **options, **FEW))
    assert "logit_bias and banned_tokens ban all 261 tokens" in message


@pytest.mark.parametrize(
    "mask", [3, "x", object(), [1], Rude()], ids=lambda value: type(value).__name__
)
def test_masks_that_are_none(model: GenerativeModel, mask: Any) -> None:
    assert "mask() and accept(token)" in refused(lambda: model.generate("a", mask=mask, **FEW))


# ---------------------------------------------------------------- messages and tools
LOOP: list[Any] = []
LOOP.append({"role": "user", "content": LOOP})


@pytest.mark.parametrize(
    "messages",
    [
        None,
        "[{",
        USER,
        [None],
        [[USER]],
        [{"content": "x"}],
        [{"role": 3, "content": "x"}],
        [{"role": "user", "content": b"x"}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": [3]}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 3}]}],
        [{"role": "user", "content": nested(5000)}],
        [{"role": "user", "content": Rude()}],
        [{"role": "x" * 10**5, "content": "x"}],
        LOOP,
        (USER for _ in range(3)),
        "[" * 10**5,
        *ODD,
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages(model: GenerativeModel, messages: Any) -> None:
    refused(lambda: model.chat(messages, **FEW))


PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


def test_parts_of_texts_are_joined(model: GenerativeModel) -> None:
    """A template that writes the content as it is would write the list's repr."""
    whole = model.render([{"role": "user", "content": "one\ntwo"}])
    assert model.render([{"role": "user", "content": PARTS}]) == whole
    assert model.render(json.dumps([{"role": "user", "content": PARTS}])) == whole
    assert model.render([{"role": "user", "content": ["one", "two"]}]) == whole


def test_a_template_that_takes_parts_gets_them(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m['content'] %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}"
    )
    model = loaded(tmp_path, template)
    assert model.render([{"role": "user", "content": PARTS}, USER]) == "[one][two]hi"


@pytest.mark.parametrize("kind", ["image_url", "image", "input_audio", "video", "file"])
def test_parts_that_are_no_text(model: GenerativeModel, kind: str) -> None:
    messages = [USER, {"role": "user", "content": [*PARTS, {"type": kind, kind: {"url": "x"}}]}]
    with pytest.raises(UnsupportedError, match=rf"messages\[1\] has a part of type '{kind}'"):
        model.chat(messages, **FEW)


@pytest.mark.parametrize(
    "tools",
    [
        3,
        {},
        "x",
        [3],
        [{"name": 3}],
        [{"name": Rude()}],
        [{"type": "function", "function": {}}],
        [{"name": "a", "parameters": "x"}],
        [{"name": "a"}] * 2,
        [{"name": f"a{n}"} for n in range(2000)],
        [{"name": "a", "parameters": {"default": NAN}}],
        nested(5000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_tools(model: GenerativeModel, tools: Any) -> None:
    refused(lambda: model.chat([USER], tools=tools, tool_choice="required", **FEW))


@pytest.mark.parametrize(
    "value",
    [*ODD, {}, {"name": Rude()}, {"type": nested(5000)}],
    ids=lambda value: type(value).__name__,
)
def test_choices_and_constraints(model: GenerativeModel, value: Any) -> None:
    tool = [{"name": "a"}]
    refused(lambda: model.chat([USER], tools=tool, tool_choice=value, **FEW))
    refused(lambda: model.generate("a", constraint=value, **FEW))


# ---------------------------------------------------------------- templates
@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% for i in range(10**9) %}x{% endfor %}", "the limit is"),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "longer",
        ),
        ("{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}", "too deeply"),
        ("{{ 'x' * 10**10 }}", "the limit is"),
        ("{{ '%9999999999d' | format(1) }}", "the limit is"),
        ("{{ 2 ** (2 ** 30) }}", "the limit is"),
        (
            "{% set n = namespace(a='x') %}{% for i in range(60) %}{% set n.a = n.a + n.a %}"
            "{% endfor %}{{ n.a }}",
            "the limit is",
        ),
        ("{{" + "(" * 3000 + "1" + ")" * 3000 + "}}", "does not compile"),
        ("x" * 5000, "5000 tokens, the context window holds 512"),
    ],
    ids=lambda value: value[:20],
)
def test_hostile_templates(tmp_path: Path, template: str, reason: str) -> None:
    model = loaded(tmp_path, template)
    assert reason in refused(lambda: model.chat([USER], **FEW))
    assert model.generate("a", **FEW)


# ---------------------------------------------------------------- streams and threads
def test_threads_at_once(model: GenerativeModel) -> None:
    """Twelve threads, four places in the cache: the texts of each alone."""

    def text(number: int) -> str:
        return model.generate(f"a{number}", temperature=1.0, seed=number, max_new_tokens=20)

    alone = [text(number) for number in range(3)]
    found: list[Any] = [None] * 12

    def work(place: int) -> None:
        found[place] = text(place % 3)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == alone * 4


def test_half_read_streams(model: GenerativeModel) -> None:
    """Kept ones that nobody reads hold no other request up; dropped ones free their place."""
    kept = [model.stream_generate("a", max_new_tokens=300, stop_ids=()) for _ in range(9)]
    for stream in kept[:4]:
        next(stream)
    assert model.generate("b", **FEW)
    for stream in kept:
        stream.close()
        stream.close()
        assert list(stream) == []
    for _ in range(9):
        next(model.stream_generate("a", max_new_tokens=300, stop_ids=()))


def test_one_stream_and_many_readers(model: GenerativeModel) -> None:
    stream = model.stream_generate("a", max_new_tokens=200, stop_ids=())
    pieces: list[str] = []
    readers = [threading.Thread(target=lambda: pieces.extend(stream)) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert stream.report.new_tokens == 200
    assert len("".join(pieces)) == len(stream.report.text)


def test_closed_while_another_thread_reads(model: GenerativeModel) -> None:
    stream = model.stream_generate("a", max_new_tokens=400, stop_ids=())
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    stream.close()
    reader.join(60)
    assert not reader.is_alive()
    assert stream.report.stop_reason in ("cancelled", "length")


def test_cancelled_tasks(model: GenerativeModel) -> None:
    async def attack() -> None:
        streams = [model.stream_generate("a", max_new_tokens=400, stop_ids=()) for _ in range(6)]

        async def read(stream: Any) -> None:
            async for _ in stream:
                pass

        tasks = [asyncio.create_task(read(stream)) for stream in streams]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asyncio.to_thread(model.generate, "b", **FEW)

    asyncio.run(attack())


def test_a_mask_that_raises_ends_its_request_alone(model: GenerativeModel) -> None:
    class Mask:
        def mask(self) -> Any:
            return None

        def accept(self, token: int) -> None:
            raise InvalidArgumentError("mine")

    good = model.stream_generate("a", temperature=0.0, **FEW)
    bad = model.stream_generate("a", mask=Mask(), **FEW)
    text = "".join(good)
    with pytest.raises(InvalidArgumentError, match="mine"):
        list(bad)
    assert text == model.generate("a", temperature=0.0, **FEW)
    assert bad.report.stop_reason == "error"


# ---------------------------------------------------------------- what messages show
def test_told_is_short_and_never_raises() -> None:
    for value in ODD:
        assert len(told(value)) <= 80
    assert told(Rude()).startswith("<Rude")
    assert told(10**5000) == "<int>"
    assert told({"a": [1, "x"]}) == "{'a': [1, 'x']}"
