"""Random damage to files, the same for the same seed."""

from __future__ import annotations

import random
import re
import struct

INTEGERS = (0, 1, 2, 3, 7, 8, 31, 32, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x10000)
INTEGERS += (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)

TOKENS = (
    *("0", "1", "-1", "2", "1e999", "-0.0", "1.5", "NaN", "Infinity", "null", "true", "false"),
    *("[]", "{}", '""', '"a"', "[[[[]]]]", '{"a":{}}', "[1]", '"\\ud800"', '"../x"', '"\\u0000"'),
    *(str(2**31), str(2**32), str(2**63), str(2**64), "9" * 400, "9" * 5000, "1" + "0" * 30),
    *("4294967295", "-9223372036854775808", '"' + "a" * 3000 + '"', "[" * 600 + "]" * 600, "0.1"),
)
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null')
_WORD = re.compile(rb"\{%-?|-?%\}|\{\{|\}\}|\w+|[^\w\s]")
TEMPLATE_TOKENS = (
    *(
        "range(10**9)",
        "* 10**9",
        "~",
        "loop",
        "recursive",
        "messages",
        "[]",
        "{}",
        "()",
        "|join",
        "|list",
    ),
    *(
        "|tojson",
        "|map",
        ".__class__",
        "|attr('__class__')",
        "**",
        "%",
        "'%999999999d'",
        "not",
        "in",
        "is",
    ),
    *(
        "{% for x in messages %}",
        "{% endfor %}",
        "{% set x = x ~ x %}",
        "{% macro a() %}",
        "{{",
        "}}",
    ),
    *(
        "{% endif %}",
        "{% include 'x' %}",
        "raise_exception('x')",
        ".format(1)",
        "|center(10**9)",
        "#}",
    ),
)


def damage_bytes(data: bytes, rng: random.Random, focus: int) -> bytes:
    """One to four blows; most of them fall on the first ``focus`` bytes, where the structure is."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        end = min(len(result), focus) if rng.random() < 0.85 else len(result)
        if end == 0:
            return bytes(result)
        place = rng.randrange(end)
        kind = rng.random()
        if kind < 0.25:
            result[place] ^= 1 << rng.randrange(8)
        elif kind < 0.4:
            result[place] = rng.randrange(256)
        elif kind < 0.7:
            width, code = rng.choice(((1, "B"), (2, "H"), (4, "I"), (8, "Q")))
            value = rng.choice(INTEGERS) & ((1 << width * 8) - 1)
            result[place : place + width] = struct.pack("<" + code, value)
        elif kind < 0.78:
            del result[place : place + rng.choice((1, 4, 8, 33, 500))]
        elif kind < 0.84:
            result[place:place] = rng.randbytes(rng.choice((1, 4, 8, 64)))
        elif kind < 0.9:
            other = rng.randrange(end)
            size = rng.choice((4, 8, 24, 100))
            result[place : place + size] = result[other : other + size]
        elif kind < 0.96:
            del result[place:]
        else:
            result[place : place + 16] = bytes(min(16, len(result) - place))
    return bytes(result)


def damage_text(data: bytes, rng: random.Random) -> bytes:
    """Replace, drop, copy or swap values of a JSON text; now and then raw bytes instead."""
    if rng.random() < 0.15:
        return damage_bytes(data, rng, len(data))
    result = data
    for _ in range(rng.choice((1, 1, 2, 3))):
        spots = [match.span() for match in _JSON_TOKEN.finditer(result)]
        if not spots:
            return result
        begin, end = rng.choice(spots)
        kind = rng.random()
        if kind < 0.6:
            new = rng.choice(TOKENS).encode()
        elif kind < 0.85:
            other = rng.choice(spots)
            new = result[other[0] : other[1]]
        else:
            new = b""
        result = result[:begin] + new + result[end:]
    return result


def damage_template(text: str, rng: random.Random) -> str:
    """Replace, insert or drop words of a Jinja template."""
    result = text.encode()
    for _ in range(rng.choice((1, 1, 2, 3))):
        spots = [match.span() for match in _WORD.finditer(result)]
        if not spots:
            break
        begin, end = rng.choice(spots)
        kind = rng.random()
        if kind < 0.4:
            new = rng.choice(TEMPLATE_TOKENS).encode()
        elif kind < 0.6:
            new = result[begin:end] + b" " + rng.choice(TEMPLATE_TOKENS).encode()
        elif kind < 0.8:
            other = rng.choice(spots)
            new = result[other[0] : other[1]]
        else:
            new = b""
        result = result[:begin] + new + result[end:]
    return result.decode(errors="replace")
