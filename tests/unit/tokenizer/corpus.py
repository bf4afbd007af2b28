"""Strings that tokenizers disagree about, made the same on every machine."""

from __future__ import annotations

import random

__all__ = ["SPECIAL", "texts"]

# Written-out special tokens of the models that the tests read; plain text for all others.
SPECIAL = (
    *("<bos>", "<eos>", "<unk>", "<pad>", "<start_of_turn>", "<end_of_turn>", "<unused7>"),
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<tool_call>", "<h1>"),
    *("<|im_start", "<0x41>", "[MASK]"),
)

_PARTS = (
    # spaces and breaks
    *(" ", "  ", "   ", "        ", "\n", "\n\n", "\n \n", "\t", "\t\t", "\r\n", " \n", "\u3000"),
    *("\u00a0", "\u2003", "\u2028", "\u200b"),
    # words
    *("hello", "world", " the", "Hello", "WORLD", "camelCaseWord", "snake_case", "naïve", "Straße"),
    *("don't", "I'LL", "we've", "THEY'RE", "'s", "it's", "O'Neil", "e.g.", "U.S.A."),
    *("привет", "мир", "Москва", "你好", "世界", "中文字符", "日本語", "カタカナ", "ひらがな"),
    *("한국어", "안녕하세요", "नमस्ते", "हिन्दी", "مرحبا", "العربية", "שלום", "ภาษาไทย"),
    *("Ελλάδα", "Việt", "Türkçe", "čeština", "ქართული", "հայերեն", "አማርኛ", "தமிழ்"),
    # marks that combine, wide and styled letters
    *("e\u0301", "n\u0303", "a\u0308\u0304", "\u0301", "ｈｅｌｌｏ", "ﬁ", "①", "²³", "½", "Ⅷ"),
    *("𝔘𝔫𝔦", "ﷺ"),
    # emoji: joined, flags, skin, keycap
    *("😀", "👩‍👩‍👧", "👩🏽‍💻", "🏳️‍🌈", "🇩🇪", "🇯🇵🇺🇸", "👍🏿", "1️⃣", "❤️"),
    # digits
    *("0", "7", "42", "123", "2024", "12345", "1234567890", "3.14159", "1,000,000", "0x1F", "٣٤"),
    # punctuation and code
    *". , ! ?! ... … — “q” 、。 «» = == ------ () [] {} $100 €5 ™ #tag @user".split(),
    *("&amp;", "%d", "//", "->", "λx.x"),
    *("/* c */", "`code`", "a_b", "x=1;", "\\n", "user@mail.com", "https://example.com/?a=b&c=d#e"),
    *("def f(x):\n    return x ** 2  # done\n", "if (a<b && c>d) { x[i] += 1; }\n"),
    *("\tint *p = &q;", "SELECT * FROM t;"),
    # repetition
    *("aaaa", "lllll", "hahaha", "======", "ababab", "!!!!", "哈哈哈", "0000"),
    # control characters and the letter of SentencePiece
    *("\x00", "\x01", "\x7f", "\u0085", "▁", "▁▁", "Ġ", "\ufffd", "\ufeff"),
    *SPECIAL,
)
# Blocks that no version of Unicode of the last years added to.
_BLOCKS = (
    *((0x20, 0x7E),) * 4,
    (0xA1, 0x17F),
    (0x391, 0x3A1),
    (0x410, 0x44F),
    (0x5D0, 0x5EA),
    (0x621, 0x64A),
    (0x905, 0x939),
    (0xE01, 0xE3A),
    (0x2190, 0x21FF),
    (0x2600, 0x26FF),
    (0x3041, 0x3096),
    (0x4E00, 0x9FA5),
    (0xAC00, 0xD7A3),
    (0xFF01, 0xFF5E),
    (0x1F600, 0x1F64F),
    (0x20000, 0x2A6D6),
)


def texts(count: int = 2400, seed: int = 11) -> list[str]:
    """Every part alone, mixtures of parts, and runs of characters of one or a few blocks."""
    rng = random.Random(seed)
    result = ["", *_PARTS]
    while len(result) < count * 2 // 3:
        result.append("".join(rng.choices(_PARTS, k=rng.randint(2, 14))))
    while len(result) < count:
        text = ""
        for _ in range(rng.randint(1, 4)):
            first, last = rng.choice(_BLOCKS)
            text += "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 8)))
        result.append(text)
    return result[:count]
