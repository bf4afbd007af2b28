"""Replies as models write them, and what is in them. Written by hand from the formats' public
descriptions: whole ones, several calls, text around them, malformed and cut-off ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clika_runtime.modelverse.tools import Reply, ToolCall

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "detailed": {"type": "boolean"},
            },
            "required": ["city"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": None}}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
            "required": ["numbers"],
        },
    },
}
TOOLS = [WEATHER, NOW, ADD]


@dataclass(frozen=True)
class Golden:
    """A reply of a format, and what is to be read out of it."""

    format: str
    text: str
    expected: Reply
    options: dict[str, Any] = field(default_factory=dict)


def call(name: str, arguments: str = "{}", id: str = "") -> ToolCall:
    return ToolCall(name, arguments, id)


def golden(
    format: str, text: str, shown: str, *calls: ToolCall, reasoning: str = "", **options: Any
) -> Golden:
    if "reasoning_marks" in options:
        options["reasoning"] = options.pop("reasoning_marks")
    return Golden(format, text, Reply(shown, reasoning, list(calls)), options)


def as_text(format: str, text: str, **options: Any) -> Golden:
    """Nothing in it is a call."""
    return golden(format, text, text, **options)


OSLO = '{"city": "Oslo"}'

HERMES = [
    golden(
        "hermes",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "hermes",
        'I look.\n\n<tool_call>\n{"arguments": {"city": "Ås \\ud83d\\ude00", "days": 2}, "name": '
        '"get_weather"}\n</tool_call>\n<tool_call>{"name":"now"}</tool_call>\nDone. ',
        "I look.Done. ",
        call("get_weather", '{"city": "Ås \\ud83d\\ude00", "days": 2}'),
        call("now"),
    ),
    golden(
        "hermes",
        "<think>\nThe user wants\nthe time.\n</think>\n\n<tool_call>\n"
        '{"name": "now", "arguments": {}}\n</tool_call>',
        "",
        call("now"),
        reasoning="The user wants\nthe time.",
        reasoning_marks="think",
    ),
    golden(
        "hermes",
        'Let me see.\n</think>\nNo <call> is "needed" here < 3.',
        'No <call> is "needed" here < 3.',
        reasoning="Let me see.",
        reasoning_marks="think",
        inside=True,
    ),
    as_text("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Os'),
    as_text("hermes", '<tool_call>\n{"name": "get_weather", "arguments": [1]}\n</tool_call>'),
    as_text("hermes", "<tool_call>\n{'name': 'now'}\n</tool_call>"),
    as_text("hermes", "A text with <tool_call and </tool_call> in it, ending in <tool"),
    # Complete arguments count, closing marks or not; an object that is not closed does not.
    as_text("hermes", '<tool_call>\n{"name": "now", "arguments": {}'),
    golden(
        "hermes",
        '<tool_call>{"name": 3}</tool_call> then <tool_call>{"name": "now", "arguments": {}}',
        '<tool_call>{"name": 3}</tool_call> then',
        call("now"),
    ),
    golden(
        "hermes",
        '<tool_call>{"name": "now", "arguments": "{\\"zone\\": \\"UTC\\"}"}</tool_call>',
        "",
        call("now", '{"zone": "UTC"}'),
    ),
]

HERMES += [
    golden(
        "hermes",
        '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
        "",
        call("get_weather", OSLO),
        tools=TOOLS,
    ),
    as_text("hermes", '{"name": "get_weather", "arguments": {"city": "Oslo"}}'),
    as_text("hermes", '{"name": "Ada", "arguments": {}}', tools=TOOLS),
]

QWEN_CODER = [
    golden(
        "qwen3-coder",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        "",
        call("get_weather", '{"city": "Oslo", "days": 3}'),
        tools=TOOLS,
    ),
    golden(
        "qwen3-coder",
        "First.\n<tool_call>\n<function=get_weather>\n<parameter=city>\n42\n\n</parameter>\n"
        "<parameter=detailed>\nTrue\n</parameter>\n</function>\n</tool_call>\n"
        "<function=now>\n</function>",
        "First.",
        call("get_weather", '{"city": "42\\n", "detailed": true}'),
        call("now"),
        tools=TOOLS,
    ),
    golden(
        "qwen3-coder",
        "<function=save><parameter=path>a.txt</parameter><parameter=data>\n"
        '{"a": [1, "</x>"]}\n</parameter><parameter=note>\n<b>"q"</b>\n</parameter></function>',
        "",
        call("save", '{"path": "a.txt", "data": {"a": [1, "</x>"]}, "note": "<b>\\"q\\"</b>"}'),
    ),
    as_text("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nOs"),
    as_text("qwen3-coder", '<tool_call>\n{"name": "now"}\n</tool_call>'),
    as_text(
        "qwen3-coder",
        "<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter></function>",
    ),
]

LLAMA_JSON = [
    golden(
        "llama3-json",
        '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
        "",
        call("get_weather", OSLO),
        tools=TOOLS,
    ),
    golden(
        "llama3-json",
        '<|python_tag|>{"type": "function", "name": "now", "parameters": {}}; '
        '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
        "",
        call("now"),
        call("get_weather", OSLO),
    ),
    golden(
        "llama3-json",
        '<|python_tag|>brave_search.call(query="weather in Oslo")',
        "",
        call("brave_search", '{"query": "weather in Oslo"}'),
    ),
    golden(
        "llama3-json",
        ' [{"name": "now", "parameters": {}}]',
        "",
        call("now"),
        tools=TOOLS,
    ),
    as_text("llama3-json", '{"name": "Ada", "born": 1815}', tools=TOOLS),
    as_text("llama3-json", '{"name": "unknown_tool", "parameters": {}}', tools=TOOLS),
    as_text("llama3-json", '{"name": "get_weather", "parameters": {"city":', tools=TOOLS),
    as_text("llama3-json", "<|python_tag|>import math\nprint(math.pi)"),
    as_text("llama3-json", 'It is {"name": "now", "parameters": {}}', tools=TOOLS),
]

LLAMA_PYTHONIC = [
    golden(
        "llama-pythonic",
        '[get_weather(city="Oslo", days=2, detailed=True), now()]',
        "",
        call("get_weather", '{"city": "Oslo", "days": 2, "detailed": true}'),
        call("now"),
        tools=TOOLS,
    ),
    golden(
        "llama-pythonic",
        "Sure: <|python_start|>[add(numbers=[1, 2.5, -3e2,])]<|python_end|>",
        "Sure:",
        call("add", '{"numbers": [1, 2.5, -3e2]}'),
    ),
    golden(
        "llama-pythonic",
        "<|python_tag|>[f(a={'k': (None, False)}, b='it\\'s \\u00e9\\x21', c=.5, d=1_000,)]",
        "",
        call("f", '{"a": {"k": [null, false]}, "b": "it\'s é!", "c": 0.5, "d": 1000}'),
    ),
    as_text("llama-pythonic", "[get_weather(city=Oslo)]", tools=TOOLS),
    as_text("llama-pythonic", "[1, 2, 3]", tools=TOOLS),
    as_text("llama-pythonic", '[get_weather(city="Oslo", da', tools=TOOLS),
    as_text("llama-pythonic", "[now(", tools=TOOLS),
    golden(
        "llama-pythonic",
        '[now(), get_weather("Oslo")]',
        ', get_weather("Oslo")]',
        call("now"),
        tools=TOOLS,
    ),
]

MISTRAL = [
    golden(
        "mistral",
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "a1b2c3d4e"}]',
        "",
        call("get_weather", OSLO, "a1b2c3d4e"),
    ),
    golden(
        "mistral",
        'Yes.[TOOL_CALLS]get_weather{"city": "Oslo"}[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{}',
        "Yes.",
        call("get_weather", OSLO),
        call("now", "{}", "123456789"),
    ),
    golden(
        "mistral",
        '[THINK]Hm, [x].[/THINK]\n[TOOL_CALLS][{"name": "now", "arguments": {}}, '
        '{"name": "now", "arguments": {"zone": "UTC"}}]',
        "",
        call("now"),
        call("now", '{"zone": "UTC"}'),
        reasoning="Hm, [x].",
        reasoning_marks="mistral",
    ),
    as_text("mistral", '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city"'),
    as_text("mistral", "[TOOL_CALLS]get_weather[ARGS]Oslo"),
    as_text("mistral", "[TOOL_CALLS] []"),
    as_text("mistral", "lists [TOOL, [TOOL_CALL"),
]

GLM = [
    golden(
        "glm",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        "",
        call("get_weather", '{"city": "Oslo", "days": 3}'),
        tools=TOOLS,
    ),
    golden(
        "glm",
        "<think>\nWeather.</think>\nI ask.\n<tool_call>now\n</tool_call>\n"
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value> 7 </arg_value></tool_call>",
        "I ask.",
        call("now"),
        call("get_weather", '{"city": " 7 "}'),
        reasoning="Weather.",
        reasoning_marks="think",
        tools=TOOLS,
    ),
    golden(
        "glm",
        '<tool_call>add\n<arg_key>numbers</arg_key>\n<arg_value>[1, {"a": "<b>"}]</arg_value>\n'
        "</tool_call>",
        "",
        call("add", '{"numbers": [1, {"a": "<b>"}]}'),
    ),
    as_text("glm", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Os"),
    as_text("glm", "<tool_call>get_weather\n<arg_value>Oslo</arg_value>\n</tool_call>"),
    as_text("glm", '<tool_call>\n{"name": "now"}\n</tool_call>'),
]

HARMONY = [
    golden(
        "harmony",
        "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant<|channel|>"
        'commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|>',
        "",
        call("get_weather", OSLO),
        reasoning="Need the weather.",
    ),
    golden(
        "harmony",
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I look it up.<|end|><|start|>assistant to=functions.now<|channel|>commentary "
        "json<|message|>{}<|call|>",
        "I look it up.",
        call("now"),
        reasoning="One.",
    ),
    golden(
        "harmony",
        ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Oslo"}',
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "harmony",
        "<|channel|>analysis<|message|>A.<|end|><|start|>assistant<|channel|>analysis<|message|>B."
        "<|end|><|start|>assistant<|channel|>final<|message|>It is **warm**.\n<|return|>",
        "It is **warm**.\n",
        reasoning="A.\nB.",
    ),
    golden(
        "harmony",
        "<|channel|>analysis<|message|>Cut o",
        "",
        reasoning="Cut o",
    ),
    as_text(
        "harmony",
        '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"city": ',
    ),
    as_text("harmony", "<|channel|>commentary to=python code<|message|>print(1)"),
    as_text("harmony", "No channels at all, to=functions.x"),
]

DEEPSEEK = [
    golden(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Oslo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "deepseek",
        "So.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Oslo"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "So.",
        call("get_weather", OSLO),
        call("now"),
    ),
    golden(
        "deepseek",
        "First I think.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}",
        "",
        call("now"),
        reasoning="First I think.",
        reasoning_marks="think",
        inside=True,
    ),
    golden(
        "deepseek",
        "Deep.\n</think>\n\nForty-two.",
        "Forty-two.",
        reasoning="Deep.",
        reasoning_marks="think",
        inside=True,
    ),
    as_text("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather"),
    as_text(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n[1]\n```",
    ),
    as_text("deepseek", "<｜tool▁calls▁begin｜>nothing<｜tool▁calls▁end｜>"),
]

KIMI = [
    golden(
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        '<|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>',
        "",
        call("get_weather", OSLO, "functions.get_weather:0"),
    ),
    golden(
        "kimi-k2",
        "Two.\n<|tool_calls_section_begin|>\n<|tool_call_begin|>\nfunctions.now:0"
        "<|tool_call_argument_begin|>\n{}\n<|tool_call_end|>\n<|tool_call_begin|>functions.now:1"
        "<|tool_call_argument_begin|>{}<|tool_call_end|>\n<|tool_calls_section_end|>\n",
        "Two.",
        call("now", "{}", "functions.now:0"),
        call("now", "{}", "functions.now:1"),
    ),
    golden(
        "kimi-k2",
        "◁think▷Hm◁/think▷Hello",
        "Hello",
        reasoning="Hm",
        reasoning_marks="kimi",
    ),
    golden(
        "kimi-k2",
        "<think>no end<|tool_calls_section_begin|><|tool_call_begin|>now"
        "<|tool_call_argument_begin|>{}",
        "",
        call("now", "{}", "now"),
        reasoning="no end",
        reasoning_marks="think",
    ),
    as_text("kimi-k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"),
    as_text(
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>x",
    ),
    as_text("kimi-k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
]

PHI = [
    golden(
        "phi-4",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]<|/tool_call|>',
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "phi-4",
        'functools[{"name": "now", "arguments": {}}, {"name": "now", "arguments": {"a": [1]}}]',
        "",
        call("now"),
        call("now", '{"a": [1]}'),
    ),
    golden(
        "phi-4",
        'Ok <|tool_call|>{"name": "now"}<|/tool_call|> done',
        "Okdone",
        call("now"),
    ),
    as_text("phi-4", 'functools is a module; functools [{"name"'),
    as_text("phi-4", '<|tool_call|>[{"arguments": {}}]<|/tool_call|>'),
    as_text("phi-4", '<|tool_call|>[{"name": "now", "arguments": {"a": nul'),
]

GRANITE = [
    golden(
        "granite",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo"}}]',
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "granite",
        "<think>Easy.</think><response>The answer is 4.</response>",
        "The answer is 4.",
        reasoning="Easy.",
        reasoning_marks="granite",
    ),
    golden(
        "granite",
        "Here is my thought process: easy.\nHere is my response: 4",
        "4",
        reasoning="easy.",
        reasoning_marks="granite-words",
    ),
    golden(
        "granite",
        '<tool_call>[{"name": "now", "arguments": {}}]</tool_call>',
        "",
        call("now"),
    ),
    as_text("granite", "<|tool_call|>get_weather(city)"),
    as_text("granite", '<|tool_call|>[{"name": "get_weather", "arguments": {"ci'),
    as_text("granite", "Here is my thought", reasoning_marks="granite-words"),
]

FUNCTIONGEMMA = [
    golden(
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>",
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "functiongemma",
        '<start_function_call>call:f{a:[1,2.5,true],b:{c:<escape>x, {y}: "z"<escape>,d:null}}'
        "<end_function_call><start_function_call>call:now{}<end_function_call>",
        "",
        call("f", '{"a": [1, 2.5, true], "b": {"c": "x, {y}: \\"z\\"", "d": null}}'),
        call("now"),
    ),
    golden(
        "functiongemma",
        "Ok.\n<start_function_call>call:now{}",
        "Ok.",
        call("now"),
    ),
    as_text("functiongemma", "<start_function_call>call:get_weather{city:<escape>Os"),
    as_text("functiongemma", "<start_function_call>call:get_weather{city:Oslo}"),
    as_text("functiongemma", "<start_function_call>get_weather{}<end_function_call>"),
]

GEMMA4 = [
    golden(
        "gemma4",
        '<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>}<tool_call|>',
        "",
        call("get_weather", OSLO),
    ),
    golden(
        "gemma4",
        '<|channel>thought\nThe user asks.\n<channel|>One moment.<|tool_call>call:f{a:[<|"|>x'
        '<|"|>,-1],<|"|>b<|"|>:{c:false}}<tool_call|>',
        "One moment.",
        call("f", '{"a": ["x", -1], "b": {"c": false}}'),
        reasoning="The user asks.",
        reasoning_marks="gemma",
    ),
    golden(
        "gemma4",
        "<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>",
        "",
        call("now"),
        call("now"),
    ),
    as_text("gemma4", "<|tool_call>call:f{a:1,a:2}<tool_call|>"),
    as_text("gemma4", '<|tool_call>call:f{a:<|"|>x'),
    as_text("gemma4", "<|tool_call>call:f{a:[1,}<tool_call|>"),
]

GEMMA_PYTHONIC = [
    golden(
        "gemma-pythonic",
        '[get_weather(city="Oslo")]',
        "",
        call("get_weather", OSLO),
        tools=TOOLS,
    ),
    golden(
        "gemma-pythonic",
        'I call:\n```tool_code\nget_weather(city="Oslo")\nnow()\n```\nand wait',
        "I call:and wait",
        call("get_weather", OSLO),
        call("now"),
    ),
    as_text("gemma-pythonic", '```tool_code\nprint("Oslo")\n```'),
    as_text("gemma-pythonic", "```tool_code\nget_weather(city='Os"),
    as_text("gemma-pythonic", "[see the docs](https://example.com)", tools=TOOLS),
]

JSON = [
    golden(
        "json",
        '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
        "",
        call("get_weather", OSLO),
        tools=TOOLS,
    ),
    golden(
        "json",
        '```json\n[{"name": "now", "arguments": {}}, {"id": "x", "type": "function", "function": '
        '{"name": "now", "arguments": "{}"}}]\n```',
        "",
        call("now"),
        call("now", "{}", "x"),
        tools=TOOLS,
    ),
    as_text("json", '{"name": "Ada", "arguments": {"born": 1815}}', tools=TOOLS),
    as_text("json", '{"city": "Oslo"}', tools=TOOLS),
    as_text("json", '{"name": "get_weather", "arguments": {"city": "Os', tools=TOOLS),
    as_text("json", "Plain words.\n", tools=TOOLS),
]

GOLDENS = [
    *HERMES,
    *QWEN_CODER,
    *LLAMA_JSON,
    *LLAMA_PYTHONIC,
    *MISTRAL,
    *GLM,
    *HARMONY,
    *DEEPSEEK,
    *KIMI,
    *PHI,
    *GRANITE,
    *FUNCTIONGEMMA,
    *GEMMA4,
    *GEMMA_PYTHONIC,
    *JSON,
]
