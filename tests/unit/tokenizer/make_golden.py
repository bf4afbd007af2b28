"""Writes the golden ids: what llama.cpp makes of the corpus. Needs `llama-cpp-python`.

    python -m tests.unit.tokenizer.make_golden

The checkpoints are those of the tests. `test_peers.py` compares with llama.cpp itself; the golden
files let every other run compare with what it said.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from clika_runtime.tokenizer.pre_tokenizers import PRE_TOKENIZERS
from clika_runtime.tokenizer.streaming import byte_alphabet
from tests.unit.tokenizer.corpus import texts

GOLDEN = Path(__file__).parent / "golden"
SHOWN = slice(None, None, 8)  # texts whose ids stand in the golden files; all are in the digests
# Tags whose pattern llama.cpp rewrites so that it says something else, and for what texts it does.
OTHER = dict.fromkeys(
    ("tiny_aya", "cohere2moe", "kimi-k2", "youtu", "afmoe"), "all"
) | dict.fromkeys(
    (
        *("tekken", "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
        *("granite-embed-multi-97m", "deepseek-llm", "deepseek-coder", "superbpe"),
    ),
    "not ASCII",
)

Encode = Callable[[str, bool], list[int]]


def digest(rows: Iterable[list[int]]) -> str:
    return hashlib.sha256(json.dumps(list(rows), separators=(",", ":")).encode()).hexdigest()


def model_ids(encode: Encode) -> dict[str, Any]:
    """The part of a golden file that says what ``encode(text, parse_special)`` gives."""
    parsed = [encode(text, True) for text in texts()]
    plain = [encode(text, False) for text in texts()]
    return {
        "parsed": digest(parsed),
        "plain": digest(plain),
        "ids": [",".join(map(str, ids)) for ids in parsed[SHOWN]],
    }


def pair_vocabulary() -> dict[str, Any]:
    """Metadata of a byte-level BPE that joins any two neighbouring bytes of the corpus, in no
    sensible order: where a text is cut shows in the ids."""
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    pairs = {pair for text in texts() for pair in zip(text.encode(), text.encode()[1:])}  # noqa: B905
    ordered = sorted(pairs)
    random.Random(5).shuffle(ordered)
    merges = [f"{letters[first]} {letters[second]}" for first, second in ordered]
    tokens = [*letters.values(), *(merge.replace(" ", "") for merge in merges)]
    return {"tokens": tokens, "token_type": [1] * len(tokens), "merges": merges}


def tag_texts(tag: str) -> list[str]:
    """The texts that llama.cpp cuts as the tag's model does."""
    chosen = texts()[::3]
    where = OTHER.get(tag)
    return [text for text in chosen if where is None or (where != "all" and text.isascii())]


def tags() -> list[str]:
    return [
        tag for tag, pre in PRE_TOKENIZERS.items() if not pre.spaces and OTHER.get(tag) != "all"
    ]


def main() -> None:
    from tests.unit.tokenizer.peer import LlamaCpp
    from tests.unit.tokenizer.small import write_gguf
    from tests.unit.tokenizer.test_peers import CHECKPOINTS

    made_by = f"llama-cpp-python {metadata.version('llama-cpp-python')}"
    GOLDEN.mkdir(exist_ok=True)

    def write(name: str, value: dict[str, Any]) -> None:
        text = json.dumps({"made_by": made_by, **value}, indent=1)
        (GOLDEN / f"{name}.json").write_text(text + "\n")

    for name, find in CHECKPOINTS.items():
        peer = LlamaCpp(find())
        write(name, model_ids(lambda text, parse: peer.encode(text, parse, parse)))  # noqa: B023
        peer.close()
    pairs = pair_vocabulary()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for tag in tags():
            path = write_gguf(
                Path(folder) / "t.gguf",
                pre=tag,
                **pairs,
                **dict.fromkeys(("bos_token_id", "eos_token_id", "unknown_token_id")),
            )
            peer = LlamaCpp(path)
            found[tag] = digest(peer.encode(text, False, False) for text in tag_texts(tag))
            peer.close()
    write("pre_tokenizers", {"tags": found})


if __name__ == "__main__":
    main()
