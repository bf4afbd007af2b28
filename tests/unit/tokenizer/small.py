"""Small tokenizers made on the spot: the same byte-level BPE as tokenizer.json and as GGUF, and "
"others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from clika_runtime.tokenizer.streaming import byte_alphabet

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER = ("<tool>", "  \n")

MERGES = (
    "h e|l l|he ll|hell o|Ġ w|o r|Ġw or|l d|Ġwor ld|Ġ Ġ|ĠĠ ĠĠ|Ã ©|ð Ł|ðŁ ĺ|ðŁĺ Ģ|ä ½|ä½ ł|Ċ Ċ|1 "
    "2|t h|Ġ th|Ġth e"
).split("|")

TEXTS = (
    "",
    "hello world",
    " hello  the    world ",
    "hello\n\nworld\t\r\n",
    "12 123 1234 3.14",
    "naïve café é",
    "你好 世界",
    "😀😃👩‍👩‍👧 🏳️‍🌈",
    "e\u0301 \u00a0\u3000 \u200b",
    "don't I'll THEY'RE",
    "<|im_start|>user\nhello<|im_end|>",
    "a<|endoftext|>b<tool>c  \nd",
    "<|im_start",
    "\x00\x01\x7f",
    "def f(x):\n    return x ** 2  # done\n",
    "Ġ literal Ċ letters",
    "مرحبا שלום नमस्ते",
    "𝔘𝔫𝔦 ﷺ",
)


def vocabulary() -> dict[str, int]:
    """Special tokens, all bytes, what the merges make, and the user's tokens at the end."""
    tokens = [*SPECIAL, *byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES), *USER]
    return {token: index for index, token in enumerate(tokens)}


def byte_level(bos: bool = False) -> tokenizers.Tokenizer:
    """A byte-level BPE whose pre-tokenizer is that of SmolLM2."""
    vocab = {token: index for token, index in vocabulary().items() if token not in USER}
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    result = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    result.decoder = decoders.ByteLevel()
    result.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    )
    result.add_tokens([AddedToken(text, normalized=False) for text in USER])
    if bos:
        result.post_processor = processors.TemplateProcessing(
            single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]
        )
    return result


def byte_fallback() -> tokenizers.Tokenizer:
    """A BPE in the manner of SentencePiece: a letter for the space, bytes for what is unknown."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", *"helowrdit,.", "he", "ll", "hell", "hello", "▁w", "or", "ld", "▁wor", "▁world"]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    merges = [
        ("h", "e"),
        ("l", "l"),
        ("he", "ll"),
        ("hell", "o"),
        ("▁", "w"),
        ("o", "r"),
        ("l", "d"),
    ]
    merges += [("▁w", "or"), ("▁wor", "ld")]
    result = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    result.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    result.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    result.add_special_tokens(["<unk>", "<s>", "</s>"])
    return result


def word_piece() -> tokenizers.Tokenizer:
    """A WordPiece tokenizer in the manner of BERT."""
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "hello",
        "world",
        "##s",
        "##ld",
        "wor",
        ",",
        ".",
        "do",
    ]
    pieces += ["'", "t", "n", "##n", "##t", "##o"]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    result = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    result.normalizer = normalizers.BertNormalizer(lowercase=True)
    result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    result.decoder = decoders.WordPiece()
    result.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    result.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return result


def write_gguf(path: Path, **changes: Any) -> Path:
    """The byte-level BPE as a GGUF file without tensors; ``changes`` replace or (None) leave out "
    "keys."""
    tokens = list(vocabulary())
    types = [3 if token in SPECIAL else 4 if token in USER else 1 for token in tokens]
    values: dict[str, Any] = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": tokens,
        "token_type": types,
        "merges": list(MERGES),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        "add_bos_token": False,
    }
    template = changes.pop("chat_template", "{{ bos_token }}{{ messages[0].content }}")
    tool_template = changes.pop("tool_template", None)
    values.update(changes)
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in values.items():
        if value is None:
            continue
        full = f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(full, value)
        elif isinstance(value, int):
            writer.add_uint32(full, value)
        elif isinstance(value, str):
            writer.add_string(full, value)
        else:
            writer.add_array(full, value)
    if template is not None:
        writer.add_string("tokenizer.chat_template", template)
    if tool_template is not None:
        writer.add_string("tokenizer.chat_template.tool_use", tool_template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
