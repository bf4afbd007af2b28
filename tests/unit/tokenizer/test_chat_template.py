"""Chat templates: what transformers renders, and bounds on what a hostile template can do."""

from __future__ import annotations

import datetime
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.io import open_gguf
from clika_runtime.tokenizer import ChatTemplate, ChatTemplateInputs, chat_template
from tests.unit.tokenizer.small import byte_level

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [
        {"role": "system", "content": "Be <b>brief</b> & \"kind\" 'now'."},
        {"role": "user", "content": "  What is 1 < 2?  \n"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nTrue 😀"},
        {"role": "user", "content": "日本語\n\nund ü"},
    ],
    [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "type": "function",
                    "function": {"name": "add", "arguments": {"b": 2, "a": [1.5, None, True]}},
                }
            ],
        },
        {"role": "tool", "name": "add", "content": "3"},
    ],
]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds <two> numbers & returns 'em.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
]

TEMPLATES = {
    "chatml": """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content']|string + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "namespace and macros": """{{- bos_token }}
{%- macro header(role, name=none) -%}
[{{ role|upper }}{% if name %}:{{ name }}{% endif %}]
{%- endmacro %}
{%- set ns = namespace(last=-1, count=0, text='') %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
    {%- set ns.count = ns.count + (message.content|length) %}
{%- endfor %}
{%- for message in messages if message.role != 'system' %}
    {{- header(message.role, message.name) }} {{ loop.index }}/{{ loop.length }}
    {%- if loop.first %} first{% elif loop.last %} last{% endif %}
    {%- if loop.index0 == ns.last %} *{% endif %}
{% endfor %}
{{- ns.count }}{{ eos_token }}""",
    "tools": """{% if tools %}
# Tools
{% for tool in tools %}
{{ tool | tojson }}
{{ tool.function | tojson(indent=2) }}
{{ tool.function.parameters.properties.keys()|list|join(',') }}
{%- for name, spec in tool.function.parameters.properties.items() %}
 - {{ name }}: {{ spec.type }}{{ ',' if not loop.last }}
{%- endfor %}
{% endfor %}
{% endif %}
{% for message in messages %}
{% if message.tool_calls is defined and message.tool_calls %}
{% for call in message.tool_calls %}
<call>{{ call.function.name }}({{ call.function.arguments|tojson(sort_keys=true) }})</call>
{% endfor %}
{% elif message.content is string %}
{{ message.role }}: {{ message.content|trim }}
{% else %}
{% for part in message.content %}
{% if part.type == 'text' %}{{ part.text }}{% else %}<{{ part.type }}>{% endif %}
{% endfor %}

{% endif %}
{% endfor %}""",
    "controls": """{% for message in messages %}
{% if message.role == 'system' %}{% continue %}{% endif %}
{% if loop.index > 2 %}{% break %}{% endif %}
{% generation %}
{{ message.role }}
{% endgeneration %}
{% else %}
none
{% endfor %}
{% for i in range(3) %}{{ i }}{% endfor %}{{ range(2, 10, 3)|list }}
{% set block %}{% for m in messages %}{{ m.role[0] }}{% endfor %}{% endset %}{{ block }}
{% filter upper %}abc{% endfilter %}""",
    "filters": """{{ messages|map(attribute='role')|join(', ') }}
{{ messages|selectattr('role', 'equalto', 'user')|list|length }}
{{ messages|rejectattr('role', 'in', ['user'])|map(attribute='role')|list }}
{{ (messages|first).role }} {{ (messages|last).role }} {{ messages[-1]['role'] }}
{{ messages[1:]|length }} {{ messages[::-1]|map(attribute='role')|list }}
{{ 'a,b,c'.split(',') }} {{ 'x'.join(['a', 'b']) }} {{ ' a '.strip() }}
{{ 'abc'.startswith('ab') }}
{{ 'abc'|replace('b', 'X')|capitalize }} {{ 'a\\nb'|indent(4) }} {{ '%s-%05.1f' % ('a', 2.5) }}
{{ '{} {b}'.format(1, b=2) }} {{ 'a' ~ 1 ~ none ~ true }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 5 }}
{{ 7 / 2 }} {{ '**%s** 20240101123456 * %%' % 'b' }} {{ '{{{}}} * {{}}'.format('x') }}
{{ [1, 2] + [3] }} {{ 'ab' * 3 }} {{ [3, 1, 2]|sort }} {{ {'b': 1, 'a': 2}|dictsort }}
{{ (1, 2) }}
{{ undefined_name|default('d') }} {{ '' | default('e', true) }} {{ none is none }} {{ 3 is odd }}
{{ {'a': {'b': [1, 2]}}.a.b[1] }} {{ 1 if false else 2 }} {{ '<&>'|e }} {{ '5'|int + 1 }}
{{ 'a b'|title }}
{{ [1, 1, 2]|unique|list }} {{ [1, 2, 3]|sum }} {{ [1, 5]|max }} {{ ['a', 'b']|reverse|list }}
{{ 2.567|round(1) }}
{{ messages|tojson }} {{ 'ü'|tojson }} {{ 'ü'|tojson(ensure_ascii=true) }}
{{ 'text <b>x</b>'|striptags }}
{{ dict(a=1, b=2) }} {{ 'a-b'.rsplit('-', 1)|last }} {{ 'Ab'.lower() }} {{ 'abc'[1:] }}
{{ 'abc'[::-1] }}
{{ [[1, 2], [3]]|map('length')|list }} {{ [1, 2, 3, 4]|batch(2)|list }}
{{ 'aXb'.split('X')[0].lstrip('a') }}
{{ messages|length > 1 and not add_generation_prompt }} {{ 'x' in 'xyz' }} {{ 1 == 1.0 }}
{{ [1] == [1] }}""",
    "call block": """{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}
{% call wrap('p') %}{{ messages[0].content }}{% endcall %}
{% set x = {'k': [1, {'z': 2}]} %}{{ x.k[1].z }}{{ x.missing }}{{ x['k'] }}
{%- with a = 1, b = 2 %} {{ a + b }}{% endwith %}
{% raw %}{{ raw }}{% endraw %} {# comment #}
{% for row in [[1, [[2, []]]], [3, []]] recursive %}
{{ row[0] }}{{ loop.depth }}{{ loop(row[1]) }}
{% endfor %}
{% for key, value in {'a': 1, 'b': 2}.items() %}{{ key }}={{ value }};{% endfor %}
{%- if messages[0].role == 'system' -%} S {%- else %} U {% endif %}
    {%- for c in 'abc' %}{{ loop.cycle('x', 'y') }}{{ c }}{% endfor %}""",
}


@pytest.fixture(scope="module")
def oracle() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=byte_level(), bos_token="<s>", eos_token="</s>")


def compare(oracle: PreTrainedTokenizerFast, source: str, **options: Any) -> int:
    template = ChatTemplate(source)
    compared = 0
    for messages in CONVERSATIONS:
        for prompt in (True, False):
            for tools in (None, TOOLS):
                expected: object = None
                try:
                    expected = oracle.apply_chat_template(
                        messages,
                        tools=tools,
                        chat_template=source,
                        tokenize=False,
                        add_generation_prompt=prompt,
                        **options,
                    )
                except Exception:  # a template that does not fit the conversation: we refuse too
                    with pytest.raises(InvalidArgumentError):
                        template.render(
                            messages,
                            tools=tools,
                            add_generation_prompt=prompt,
                            special_tokens=SPECIAL,
                            extra=options,
                        )
                    continue
                ours = template.render(
                    messages,
                    tools=tools,
                    add_generation_prompt=prompt,
                    special_tokens=SPECIAL,
                    extra=options,
                )
                assert ours == expected
                compared += 1
    return compared


@pytest.mark.parametrize("name", TEMPLATES)
def test_renders_as_transformers(oracle: PreTrainedTokenizerFast, name: str) -> None:
    assert compare(oracle, TEMPLATES[name]) >= 8
    assert compare(oracle, TEMPLATES[name], enable_thinking=False, level=3) >= 8


def test_renders_the_real_template(oracle: PreTrainedTokenizerFast, smollm2_gguf: Path) -> None:
    source = open_gguf(smollm2_gguf).metadata["tokenizer.chat_template"]
    assert compare(oracle, source) >= 8
    assert ChatTemplate(source).render(CONVERSATIONS[0]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_variables() -> None:
    source = (
        "{{ documents[0].text }}{{ bos_token }}{{ level }}{{ add_generation_prompt }}{{ tools }}"
    )
    text = ChatTemplate(source).render(
        [], documents=[{"text": "D"}], special_tokens=SPECIAL, extra={"level": (1, 2)}
    )
    assert text == "D<s>[1, 2]TrueNone"


def test_inputs_object_and_json_text() -> None:
    template = ChatTemplate(
        "{{ messages[0].content }}{{ tools }}{{ x }}{{ add_generation_prompt }}"
    )
    messages = [{"role": "user", "content": "ü"}]
    inputs = ChatTemplateInputs(
        json.dumps(messages), tools="[]", extra={"x": 1}, add_generation_prompt=False
    )
    assert template.render(inputs) == "ü[]1False"


def test_clock() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}")
    moment = datetime.datetime(2024, 7, 26, 12)
    assert template.render([], now_epoch_seconds=moment.timestamp()) == "26 Jul 2024"
    now = datetime.datetime.now()
    assert template.render([]) in {
        (now + datetime.timedelta(minutes=minute)).strftime("%d %b %Y") for minute in (0, 1)
    }


def test_messages_lose_absent_values() -> None:
    template = ChatTemplate("{{ 'tool_calls' in messages[0] }}{{ messages[0].content is defined }}")
    assert template.render([{"role": "a", "content": None, "tool_calls": None}]) == "FalseFalse"


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("{", "messages is not valid JSON"),
        ("[" * 100_000, "messages is not valid JSON"),
        ("{}", "messages must be a list of objects, found dict"),
        (3, "must be a list of objects, found int"),
        (["a"], r"messages\[0\] must be an object, found str"),
        ([{"content": "a"}], r"messages\[0\] needs a string 'role', found None"),
        ([{"role": 3}], "needs a string 'role', found 3"),
        ([{"role": "u", "content": object()}], "may hold strings, numbers, .* found object"),
        ([{"role": "u", "content": {1, 2}}], "found set"),
    ],
)
def test_wrong_messages(messages: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ChatTemplate("x").render(messages)


def test_deep_messages_are_refused() -> None:
    content: list[Any] = []
    for _ in range(100):
        content = [content]
    with pytest.raises(InvalidArgumentError, match="nested deeper than 64"):
        ChatTemplate("x").render([{"role": "u", "content": content}])


def test_raise_exception_gives_the_templates_words() -> None:
    template = ChatTemplate("{% if not tools %}{{ raise_exception('no tools: ' ~ 3) }}{% endif %}")
    with pytest.raises(InvalidArgumentError, match="chat template: no tools: 3") as caught:
        template.render([])
    assert caught.value.code_name == "INVALID_ARGUMENT"


BROKEN = [
    "{{ x",
    "{% for %}",
    "{% if a %}",
    "{% endfor %}",
    "{{ 'a' | nope }}",
    "{{ 1 is nope }}",
    "{% unknown %}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{% if a %}" * 2000 + "{% endif %}" * 2000,
    "{{ " + "9" * 10_000 + " }}",
    "x" * (chat_template.MAX_TEMPLATE + 1),
]


@pytest.mark.parametrize("source", BROKEN, ids=lambda text: text[:20])
def test_templates_that_do_not_compile(source: str) -> None:
    with pytest.raises(InvalidArgumentError, match="chat template: "):
        ChatTemplate(source).render([])
    with pytest.raises(InvalidArgumentError, match="must be a string"):
        ChatTemplate(3)  # type: ignore[arg-type]


ESCAPES = [
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ (messages|attr('__class__')).mro() }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ ''.format_map.__self__.__class__.mro() }}",
    "{{ range.__call__.__self__.__class__.mro() }}",
    "{{ raise_exception.__globals__.x }}",
    "{{ namespace.__init__.__globals__.x }}",
    "{{ namespace(__class__=1).a.b }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "{{ self.__init__.__globals__.x }}",
    "{{ lipsum.__globals__.x }}",
    "{{ joiner().__class__.__init__.x }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({}) }}",
    "{{ messages.clear() }}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
    "{{ loop.__self__.x }}",
    "{{ [1]|map('attr', '__class__')|list|first|attr('mro') }}{{ x.y }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(InvalidArgumentError):
        ChatTemplate(source).render(CONVERSATIONS[0])


# Each of these would take minutes or gigabytes. They end by a bound, most of them at once.
GREEDY = {
    "range": "{% for i in range(10**9) %}{% endfor %}",
    "loops": "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "silent loops": (
        "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}"
    ),
    "repeat": "{{ 'a' * 10**9 }}",
    "repeat a list": "{{ [messages] * 10**8 }}",
    "doubling": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% "
        "endfor %}"
    ),
    "doubling sum": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% "
        "endfor %}"
    ),
    "doubling block": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set b %}{{ n.x }}{{ n.x }}{% "
        "endset %}"
        "{% set n.x = b %}{% endfor %}"
    ),
    "shared lists": (
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% "
        "endfor %}{{ n.x }}"
    ),
    "shared dicts": (
        "{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = {'a': n.x, 'b': n.x} "
        "%}{% endfor %}"
        "{{ n.x|tojson }}"
    ),
    "shared namespaces": (
        "{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = namespace(a=n.x, "
        "b=n.x) %}{% endfor %}"
        "{{ n.x }}"
    ),
    "macros": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "endless macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "endless block": "{% block a %}{{ self.a() }}{% endblock %}",
    "endless loop": (
        "{% for m in messages recursive %}{{ loop(messages) }}{{ loop(messages) }}{% endfor %}"
    ),
    "text in a loop": "{% for i in range(99999) %}" + "x" * 100_000 + "{% endfor %}",
    "text in a set": "{% set b %}{% for i in range(99999) %}"
    + "x" * 100_000
    + "{% endfor %}{% endset %}",
    "power": "{{ 10 ** (10 ** 8) }}",
    "squares": (
        "{% set n = namespace(x=9) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}"
    ),
    "round": "{{ 1.5|round(10**9, 'ceil') }}",
    "center": "{{ 'a'|center(10**9) }}",
    "ljust": "{{ 'a'.ljust(10**9) }}",
    "zfill": "{{ '1'.zfill(10**9) }}",
    "expandtabs": "{{ ('\t' * 100000).expandtabs(100000) }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "percent star": "{{ '%*d' % (10**9, 1) }}",
    "percent name": "{{ '%(a())999999999d' % {'a()': 1} }}",
    "percent precision": "{{ '%.999999999f' % 1 }}",
    "percent fields": "{{ ('%(a)s' * 100000) % {'a': 'x' * 100000} }}",
    "format width": "{{ '{:1000000000}'.format(1) }}",
    "format nested": "{{ '{:{}}'.format(1, 10**9) }}",
    "format fields": "{{ ('{0}' * 100000).format('x' * 100000) }}",
    "format map": "{{ ('{a}' * 100000).format_map({'a': 'x' * 100000}) }}",
    "format filter": "{{ '%999999999s'|format('a') }}",
    "replace": "{{ ('a' * 10000).replace('a', 'b' * 100000) }}",
    "replace filter": "{{ ('a' * 10000)|replace('a', 'b' * 100000) }}",
    "replace nothing": "{{ ('a' * 100000).replace('', 'b' * 10000) }}",
    "join": (
        "{% set x = 'a' * 1000000 %}{{ 'b'.join(range(99999)|map('string')|list + [x] * 30) * 9 }}"
    ),
    "join filter": "{{ range(99999)|join('x' * 100000) }}",
    "indent": "{{ ('a\n' * 100000)|indent(90000) }}",
    "tojson indent": "{{ messages|tojson(indent=10**9) }}",
    "tojson indent text": "{{ range(9999)|list|tojson(indent='x' * 100000) }}",
    "translate": "{{ ('a' * 99999).translate({97: 'b' * 99999}) }}",
    "slice": "{{ [1]|slice(10**9)|list }}",
    "batch": "{{ [1]|batch(10**9, 'x')|list }}",
    "sum of lists": "{{ ([[1] * 1000] * 1000)|sum(start=[]) }}",
    "split": "{{ ('a ' * 9000000).split() }}",
    "list of letters": "{{ ('a' * 9000000)|list }}",
    "to_bytes": "{{ (1).to_bytes(10**9, 'big') }}",
    "bytes": "{{ ('a' * 99999).encode().center(10**9) }}",
    "fromkeys": "{{ dict.fromkeys(range(99999), 'a' * 99999) }}",
    "strftime": "{{ strftime_now('%c' * 10000) }}",
    "pprint": "{{ messages|pprint }}",
}


@pytest.mark.parametrize("name", GREEDY)
def test_greedy_templates_end(name: str) -> None:
    start = time.monotonic()
    with pytest.raises(InvalidArgumentError, match="chat template: "):
        ChatTemplate(GREEDY[name], time_limit=0.3).render(CONVERSATIONS[0])
    assert time.monotonic() - start < 20  # a bound, with room for a busy machine


def test_large_honest_conversations_pass() -> None:
    text = "word " * 400_000
    messages = [{"role": "user", "content": text}] * 4 + [{"role": "user", "content": "x"}] * 2000
    result = ChatTemplate(TEMPLATES["chatml"], time_limit=60).render(messages)
    assert len(result) > 4 * len(text) and result.count("<|im_start|>") == 2005


def test_limits_do_not_leak_between_threads() -> None:
    slow = ChatTemplate("{% for i in range(99999) %}" * 2 + "{% endfor %}" * 2, time_limit=1)
    quick = ChatTemplate(TEMPLATES["chatml"])
    expected = quick.render(CONVERSATIONS[0])
    errors: list[BaseException] = []

    def run_slow() -> None:
        try:
            slow.render([])
        except InvalidArgumentError as error:
            errors.append(error)

    thread = threading.Thread(target=run_slow)
    thread.start()
    while thread.is_alive():
        assert quick.render(CONVERSATIONS[0]) == expected
    thread.join()
    assert len(errors) == 1
