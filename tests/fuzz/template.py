"""The chat template that is mutated."""

TEMPLATE = """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content']|trim + '<|im_end|>' }}
{%- if loop.last and tools %}{{ tools|tojson(indent=2) }}{% endif %}
{% endfor %}
{% set ns = namespace(n=0) %}
{%- for i in range(3) %}{% set ns.n = ns.n + i * 2 %}{% endfor %}{{ ns.n }}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' ~ bos_token }}{% endif %}"""
