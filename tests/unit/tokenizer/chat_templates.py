"""Chat templates of our own that use what those of the model families use: roles, tools in several
shapes, documents, default system prompts, dates, reasoning, images."""

from __future__ import annotations

__all__ = ["FAMILIES"]

LLAMA_LIKE = """{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: calls\\n" }}{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{{- system_message }}{{- "<|stop|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content'] | string | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message") }}
    {%- endif %}
    {{- '<|head|>user<|/head|>\\n\\n' -}}{{- "These can be called:\\n" }}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
    {{- first_user_message + "<|stop|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim }}
        {{- '<|stop|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|/head|>\\n\\n' -}}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}{{- "}" }}{{- "<|stop|>" }}
    {%- else %}
        {{- "<|head|>ipython<|/head|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}{{- message.content }}{%- endif %}
        {{- "<|stop|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|head|>assistant<|/head|>\\n\\n' }}{%- endif %}"""

GEMMA_LIKE = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Roles must take turns") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}{{ raise_exception("Invalid content type") }}{%- endif -%}
    {{ '</turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<turn>model\\n' }}{%- endif -%}"""

QWEN3_LIKE = """{%- if tools %}
    {{- '<|in|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|out|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|in|>system\\n' + messages[0].content + '<|out|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(
        message.content.startswith('<answer>') and message.content.endswith('</answer>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}
    {%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|in|>' + message.role + '\\n' + content + '<|out|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n')
                .split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}
            {{- '<|in|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') +
                '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}{{- '<|in|>' + message.role + '\\n' + content }}{%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}
                {%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|out|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|in|>user' }}
        {%- endif %}
        {{- '\\n<answer>\\n' + content + '\\n</answer>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|out|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|in|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

MISTRAL_LIKE = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or
        (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Users and assistants must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}
                    {%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[IN] " + system_message + "\\n\\n" + message["content"] + "[/IN]" }}
        {%- else %}{{- "[IN] " + message["content"] + "[/IN]" }}{%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Ids have 9 letters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- set content = message.content.content if message.content is mapping and
            message.content.content is defined else message.content %}
        {{- '[RESULT] {"content": ' + content|string + "}[/RESULT]" }}
    {%- else %}{{- raise_exception("Unknown role " + message["role"]) }}{%- endif %}
{%- endfor %}"""

DEEPSEEK_LIKE = """{% if not add_generation_prompt is defined %}
{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(is_first=false, is_tool=false, system_prompt='') %}
{%- for message in messages %}{%- if message['role'] == 'system' %}
{%- set ns.system_prompt = ns.system_prompt + message['content'] %}{%- endif %}{%- endfor %}
{{- bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}
{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}
{{- '<|User|>' + message['content'] | string }}{%- endif %}
{%- if message['role'] == 'assistant' and message['tool_calls'] is defined %}
{%- set ns.is_tool = false -%}
{%- for tool in message['tool_calls'] %}
{%- if not ns.is_first %}
{{- '<|Assistant|><calls><call>' + tool['type'] + '<sep>' + tool['function']['name'] + '\\n' +
    '```json' + '\\n' + tool['function']['arguments'] | string + '\\n' + '```' + '</call>' }}
{%- set ns.is_first = true -%}
{%- else %}{{- '\\n<call>' + tool['function']['name'] + '</call>' }}{%- endif %}
{%- endfor %}{{- '</calls>' + eos_token }}{%- endif %}
{%- if message['role'] == 'assistant' and message['tool_calls'] is not defined %}
{%- set content = message['content'] %}
{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1] %}{%- endif %}
{{- '<|Assistant|>' + content + eos_token }}{%- endif %}
{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}
{{- '<output>' + message['content'] | string + '</output>' }}{%- endif %}
{%- endfor -%}
{% if add_generation_prompt and not ns.is_tool %}{{ '<|Assistant|>' }}{% endif %}"""

RAG_LIKE = """{%- if tools %}{%- set system_message = 'Tools: ' + tools | map(attribute='function')
    | map(attribute='name') | join(', ') %}{%- endif %}
{%- if documents %}
    {%- set system_message = (system_message | default('')) + ' Answer from the documents.' %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = system_message | default('Knowledge until April.\\nToday is ' +
        strftime_now('%B %d, %Y') + '.') %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '<|r|>system<|/r|>' + system_message + '<|e|>\\n' }}
{%- if tools %}{{- '<|r|>tools<|/r|>' }}{{- tools | tojson(indent=4) }}{{- '<|e|>\\n' }}{%- endif %}
{%- if documents %}
    {{- '<|r|>documents<|/r|>' }}
    {%- for document in documents %}
        {{- 'Document ' + loop.index0 | string + '\\n' }}
        {%- if document.title is defined %}{{- document.title | upper + ': ' }}{%- endif %}
        {{- document['text'] }}
        {%- if not loop.last %}{{- '\\n\\n' }}{%- endif %}
    {%- endfor %}
    {{- '<|e|>\\n' }}
{%- endif %}
{%- for message in loop_messages %}
    {{- '<|r|>' + message['role'] + '<|/r|>' + message['content'] | string + '<|e|>\\n' }}
    {%- if loop.last and add_generation_prompt %}
        {{- '<|r|>assistant' }}
        {%- if controls %}{{- ' ' + controls | tojson() }}{%- endif %}
        {{- '<|/r|>' }}
    {%- endif %}
{%- endfor %}"""

HARMONY_LIKE = """{%- macro type_of(spec) -%}
    {%- if spec.type == "array" -%}{{ type_of(spec['items']) }}[]
    {%- elif spec.enum is defined -%}{{ '"' + spec.enum | join('" | "') + '"' }}
    {%- elif spec.type == "integer" -%}number
    {%- elif spec.type is string -%}{{ spec.type }}
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
{{- "<|s|>system<|m|>You are a model.\\nCurrent date: " + strftime_now("%Y-%m-%d") + "\\n\\n" }}
{%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
{{- "Reasoning: " + reasoning_effort + "\\n# Channels: analysis, commentary, final.<|e|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set developer_message = "" %}{%- set loop_messages = messages %}{%- endif %}
{%- if developer_message or tools %}
    {{- "<|s|>developer<|m|>" }}
    {%- if developer_message %}
        {{- "# Instructions\\n\\n" + developer_message + "\\n\\n" }}
    {%- endif %}
    {%- if tools %}
        {{- "namespace functions {\\n\\n" }}
        {%- for tool in tools %}
            {%- set tool = tool.function %}
            {{- "// " + tool.description + "\\ntype " + tool.name + " = " }}
            {%- if tool.parameters and tool.parameters.properties %}
                {{- "(_: {\\n" }}
                {%- for name, spec in tool.parameters.properties.items() %}
                    {{- name }}
                    {%- if name not in (tool.parameters.required or []) %}{{- "?" }}{%- endif %}
                    {{- ": " + type_of(spec) + ",\\n" }}
                {%- endfor %}
                {{- "}) => any;\\n\\n" }}
            {%- else %}{{- "() => any;\\n\\n" }}{%- endif %}
        {%- endfor %}
        {{- "}" }}
    {%- endif %}
    {{- "<|e|>" }}
{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}
            {%- set call = message.tool_calls[0].function %}
            {%- if message.thinking %}
                {{- "<|s|>assistant<|c|>analysis<|m|>" + message.thinking + "<|e|>" }}
            {%- endif %}
            {{- "<|s|>assistant to=functions." + call.name + "<|c|>commentary json<|m|>" }}
            {{- call.arguments | tojson }}{{- "<|call|>" }}
            {%- set last_call.name = call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|s|>assistant<|c|>final<|m|>" + message.content | string + "<|return|>" }}
        {%- else %}
            {{- "<|s|>assistant<|c|>final<|m|>" + message.content | string + "<|e|>" }}
            {%- set last_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_call.name is none %}
            {{- raise_exception("A result without a call") }}
        {%- endif %}
        {{- "<|s|>functions." + last_call.name + " to=assistant<|m|>" + message.content | tojson }}
        {{- "<|e|>" }}
    {%- else -%}{{- "<|s|>user<|m|>" + message.content | string + "<|e|>" }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|s|>assistant{%- endif -%}"""

FAMILIES = {
    "llama-like": LLAMA_LIKE,
    "gemma-like": GEMMA_LIKE,
    "qwen3-like": QWEN3_LIKE,
    "mistral-like": MISTRAL_LIKE,
    "deepseek-like": DEEPSEEK_LIKE,
    "rag-like": RAG_LIKE,
    "harmony-like": HARMONY_LIKE,
}
