"""Constrained output: masks, states, every kind of tokenizer, and hostile constraints."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.constraints import (
    ConstraintSpec,
    ConstraintState,
    compile_constraint,
    fill_masks,
    mask_words,
)
from clika_runtime.modelverse.constraints.constraint import KEPT
from clika_runtime.tokenizer import Tokenizer
from tests.unit.modelverse.walks import allowed, walk
from tests.unit.tokenizer import small
from tests.unit.tokenizer.spm_models import trained

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "bé", 'c"d']}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SUM = """start: term ("+" term)*
term: NUMBER | "(" start ")"
NUMBER: /[1-9][0-9]{0,3}/
"""


def _json(folder: Path, backend: Any, eos: str | None = "<|im_end|>") -> Tokenizer:
    backend.save(str(folder / "tokenizer.json"))
    if eos is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    return Tokenizer.from_file(folder)


def _sentencepiece(folder: Path, kind: str, **options: Any) -> Tokenizer:
    options.setdefault("byte_fallback", True)
    (folder / "tokenizer.model").write_bytes(trained(kind, tuple(options.items())))
    return Tokenizer.from_file(folder / "tokenizer.model")


def _tiktoken(folder: Path) -> Tokenizer:
    tokens = [bytes([byte]) for byte in range(256)] + [
        b"he",
        b"ll",
        b"hell",
        b'{"',
        b'": ',
        b"hello",
    ]
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)]
    path = folder / "tiny.tiktoken"
    path.write_text("\n".join(lines))
    return Tokenizer.from_tiktoken(path, r"\w+|\W+", {"<|end|>": len(tokens)})


def _tekken(folder: Path) -> Tokenizer:
    rows = [
        {"rank": rank, "token_bytes": base64.b64encode(bytes([rank])).decode(), "token_str": None}
        for rank in range(256)
    ]
    special = [
        {"rank": rank, "token_str": text, "is_control": True}
        for rank, text in enumerate(("<unk>", "<s>", "</s>"))
    ]
    config = {
        "pattern": r"\w+|\W+",
        "default_vocab_size": 259,
        "default_num_special_tokens": 3,
    }
    value = {"config": config, "vocab": rows, "special_tokens": special}
    path = folder / "tekken.json"
    path.write_text(json.dumps(value))
    return Tokenizer.from_file(path)


KINDS = {
    "byte-level json": lambda folder: _json(folder, small.byte_level()),
    "byte-level json without an end": lambda folder: _json(folder, small.byte_level(), None),
    "byte fallback json": lambda folder: _json(folder, small.byte_fallback(), "</s>"),
    "gguf": lambda folder: Tokenizer.from_gguf(small.write_gguf(folder / "tiny.gguf")),
    "sentencepiece bpe": lambda folder: _sentencepiece(folder, "bpe"),
    "sentencepiece unigram": lambda folder: _sentencepiece(folder, "unigram"),
    "tiktoken": _tiktoken,
    "tekken": _tekken,
}


@pytest.fixture(scope="module")
def tokenizers_by_kind(
    tmp_path_factory: pytest.TempPathFactory, smollm2_gguf: Path
) -> dict[str, Tokenizer]:
    made = {kind: make(tmp_path_factory.mktemp("kind")) for kind, make in KINDS.items()}
    made["SmolLM2"] = Tokenizer.from_gguf(smollm2_gguf)
    return made


def text_of(tokenizer: Tokenizer, ids: list[int]) -> str:
    data = b"".join(tokenizer.token_bytes(index) or b"" for index in ids)
    text = data.decode()
    if not text.startswith(" "):
        assert tokenizer.decode(ids) == text
    return text


def state_of(tokenizer: Tokenizer, spec: ConstraintSpec) -> ConstraintState:
    return compile_constraint(tokenizer, spec).start()


@pytest.mark.parametrize("kind", [*KINDS, "SmolLM2"])
def test_walks_keep_to_the_constraint(tokenizers_by_kind: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = tokenizers_by_kind[kind]
    options = ["yes", "no", "maybe é", "<|im_end|>", 'a "quoted" \\ one\n', "😀"]
    pattern = r"(ab|c[0-9]{2,3}|é😀?)+;[^x-z]{0,5}"
    for seed in range(8):
        rng = random.Random(seed)

        def walked(spec: ConstraintSpec, rng: random.Random = rng) -> str:
            state = state_of(tokenizer, spec)
            ids = walk(state, tokenizer, rng, endings=(";",), limit=2000)
            assert state.accepting
            return text_of(tokenizer, ids)

        assert walked(ConstraintSpec.choice(options)) in options
        assert re.fullmatch(pattern, walked(ConstraintSpec.regex(pattern)))
        total = walked(ConstraintSpec.lark(SUM))
        assert set(total) <= set("0123456789+()")
        eval(total)
        for compact in (False, True):
            text = walked(ConstraintSpec.json_schema(PERSON, compact=compact))
            jsonschema.validate(json.loads(text), PERSON)
            assert not compact or "\n" not in text
        assert isinstance(json.loads(walked(ConstraintSpec.json_object())), dict)


@pytest.mark.parametrize("kind", [*KINDS, "SmolLM2"])
def test_rollback_is_exact(tokenizers_by_kind: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = tokenizers_by_kind[kind]
    for spec in (ConstraintSpec.json_schema(PERSON), ConstraintSpec.regex("a+(b|c)*d?[0-9]{3}")):
        rng = random.Random(kind)
        state = state_of(tokenizer, spec)
        masks: list[np.ndarray[Any, Any]] = []
        ids = walk(state, tokenizer, rng, patience=1000, limit=25, record=masks)
        masks = masks[: len(ids)]
        for _ in range(30):
            back = rng.randint(0, len(ids))
            state.rollback(back)
            at = len(ids) - back
            for place in range(at, len(ids)):
                if place < len(masks):
                    assert np.array_equal(state.mask(), masks[place])
                state.accept(ids[place])
        state.rollback(len(ids))
        assert np.array_equal(state.mask(), masks[0])
        with pytest.raises(InvalidArgumentError, match="rollback of 1 tokens, 0 have been"):
            state.rollback(1)


@pytest.mark.parametrize("kind", [*KINDS, "SmolLM2"])
def test_a_mask_is_a_function_of_the_text(
    tokenizers_by_kind: dict[str, Tokenizer], kind: str
) -> None:
    """Also where it leaves no choice and the model's own spelling decides the token."""
    tokenizer = tokenizers_by_kind[kind]
    fixed = {"const": {"a long member": ["that", "leaves no choice"], "é": [1, 2, 3]}}
    for spec in (
        ConstraintSpec.json_schema({"type": "array", "items": fixed, "minItems": 2}),
        ConstraintSpec.choice(["The capital of France", "The capital of Italy, 1 of 2", "The"]),
        ConstraintSpec.regex("(one two  three|one two, it's)+ x{12}y?"),
    ):
        masks: list[np.ndarray[Any, Any]] = []
        state = state_of(tokenizer, spec)
        ids = walk(state, tokenizer, random.Random(kind), patience=9, limit=60, record=masks)
        for place, (token, mask) in enumerate(zip(ids, masks, strict=False)):
            fresh = state_of(tokenizer, spec)
            for before in ids[:place]:
                fresh.accept(before)
            assert np.array_equal(fresh.mask(), mask), place
            assert np.array_equal(fresh.fork().mask(), mask), place
            assert token in allowed(mask)


def test_the_end_can_be_taken_back(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    state = state_of(tokenizer, ConstraintSpec.regex("a*"))
    before = state.mask()
    assert state.accepting
    assert not state.finished
    stop = min(tokenizer.stop_ids)
    state.accept(stop)
    assert state.finished
    with pytest.raises(InvalidArgumentError, match="does not follow"):
        state.accept(tokenizer.encode("a")[0])
    state.rollback(1)
    assert not state.finished
    assert np.array_equal(state.mask(), before)


def test_forks_are_apart(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    one = state_of(tokenizer, ConstraintSpec.choice(["red", "blue"]))
    two = one.fork()
    one.accept(tokenizer.encode("red")[0])
    two.accept(tokenizer.encode("blue")[0])
    two.rollback(1)
    assert np.array_equal(
        two.mask(), state_of(tokenizer, ConstraintSpec.choice(["red", "blue"])).mask()
    )


def test_stop_ids_follow_a_whole_text_only(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    state = state_of(tokenizer, ConstraintSpec.regex("[0-9]{2}[a-z]*"))
    stops = set(tokenizer.stop_ids)
    assert stops
    assert not stops & set(allowed(state.mask()))
    for token in tokenizer.encode("42"):
        state.accept(token)
    assert state.accepting
    assert stops <= set(allowed(state.mask()))
    assert not tokenizer.special_ids - stops & set(allowed(state.mask()))


def test_masks_of_a_batch(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    specs = [
        ConstraintSpec.json_schema(PERSON),
        ConstraintSpec.regex("x{3}"),
        ConstraintSpec.choice(["a", "b"]),
        ConstraintSpec.json_object(),
    ]
    states: list[ConstraintState | None] = [state_of(tokenizer, spec) for spec in specs]
    states.insert(2, None)
    masks = np.full((7, mask_words(tokenizer.vocab_size)), 7, np.int32)
    assert fill_masks(states, masks) == {}
    for state, row in zip(states, masks, strict=False):
        assert np.array_equal(row, np.full_like(row, -1) if state is None else state.mask())
    assert (masks[5:] == 7).all()


def test_masks_along_drafts(smollm2_gguf: Path) -> None:
    """What speculation asks: the masks behind each token of a draft, the state as it was."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    one = state_of(tokenizer, ConstraintSpec.json_schema(PERSON))
    two = state_of(tokenizer, ConstraintSpec.regex("(red|blue)+"))
    three = state_of(tokenizer, ConstraintSpec.regex("[a-z]+"))
    drafts = [tokenizer.encode('{"name": "x'), [], tokenizer.encode("red green")]
    rows = sum(len(draft) + 1 for draft in drafts)
    masks = np.full((rows, mask_words(tokenizer.vocab_size)), 7, np.int32)
    assert fill_masks([one, three, two], masks, drafts) == {}
    row = 0
    for state, draft in zip((one, three, two), drafts, strict=True):
        admitted = state.admitted(draft)
        other = state.fork()
        for place in range(len(draft) + 1):
            if place <= admitted:
                assert np.array_equal(masks[row], other.mask()), place
            else:
                assert not masks[row].any()
            if place < admitted:
                other.accept(draft[place])
            row += 1
        assert np.array_equal(state.mask(), masks[row - len(draft) - 1])
    assert one.admitted(drafts[0]) == len(drafts[0])
    assert two.admitted(drafts[2]) < len(drafts[2])


def test_forced_tokens(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    state = state_of(tokenizer, ConstraintSpec.regex("The capital of France is (Paris|Rome)"))
    forced = state.forced()
    assert tokenizer.decode(forced).startswith("The capital of France")
    assert state.admitted(forced) == len(forced)


def test_more_logits_than_tokens(tokenizers_by_kind: dict[str, Tokenizer]) -> None:
    """Models pad their tables; ids behind the vocabulary are never admitted."""
    for kind in ("byte-level json", "byte-level json without an end"):
        tokenizer = tokenizers_by_kind[kind]
        for size in (tokenizer.vocab_size, 288, 320, 321):
            constraint = compile_constraint(tokenizer, ConstraintSpec.regex("[a-z]*"), size)
            state = constraint.start()
            ids = allowed(state.mask())
            assert ids.max() < tokenizer.vocab_size
            assert state.mask().shape == (mask_words(size),)
            two = np.zeros((2, mask_words(size)), np.int32)
            fill_masks([state, constraint.start()], two)
            assert np.array_equal(two[0], state.mask())
            assert np.array_equal(two[1], state.mask())
    with pytest.raises(InvalidArgumentError, match="vocab_size must be in 1"):
        compile_constraint(tokenizer, ConstraintSpec.json_object(), 0)


def test_fewer_logits_than_tokens(tokenizers_by_kind: dict[str, Tokenizer]) -> None:
    """Tokenizers name tokens that a model of theirs was not given; none of those is admitted."""
    for kind in ("byte-level json", "byte-level json without an end"):
        tokenizer = tokenizers_by_kind[kind]
        for size in (tokenizer.vocab_size - 1, tokenizer.vocab_size - 40):
            state = compile_constraint(tokenizer, ConstraintSpec.regex("[a-z]*"), size).start()
            ids = allowed(state.mask())
            assert len(ids) and ids.max() < size
            assert state.mask().shape == (mask_words(size),)


def test_ends_beside_the_tokenizers(tokenizers_by_kind: dict[str, Tokenizer]) -> None:
    """A model's own stop ids end a text where it may end, and nowhere else."""
    tokenizer = tokenizers_by_kind["byte-level json"]
    end = next(
        index for index in range(tokenizer.vocab_size) if tokenizer.id_to_token(index) == "z"
    )
    spec = ConstraintSpec.regex("ab?")
    state = compile_constraint(tokenizer, spec, None, {end, *tokenizer.stop_ids}).start()
    assert state.stop_ids == {end, *tokenizer.stop_ids}
    assert end not in allowed(state.mask())
    state.accept(tokenizer.encode("a", add_special_tokens=False)[0])
    assert state.stop_ids < set(allowed(state.mask()).tolist())
    plain = compile_constraint(tokenizer, spec).start()
    assert plain.stop_ids == tokenizer.stop_ids


def test_tokens_without_bytes_of_their_own(tmp_path: Path) -> None:
    tokenizer = _json(tmp_path, small.word_piece(), "[SEP]")
    with pytest.raises(UnsupportedError, match="no bytes of their own"):
        compile_constraint(tokenizer, ConstraintSpec.json_object())


def test_compiled_constraints_are_found_again(tokenizers_by_kind: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers_by_kind["tiktoken"]
    first = compile_constraint(tokenizer, ConstraintSpec.json_schema(PERSON))
    again = compile_constraint(tokenizer, ConstraintSpec.json_schema(json.dumps(PERSON)))
    assert first is again
    for index in range(KEPT):
        compile_constraint(tokenizer, ConstraintSpec.regex(f"a{index}"))
    assert compile_constraint(tokenizer, ConstraintSpec.json_schema(PERSON)) is not first
    first.start().mask()  # still whole


def test_exhausted_constraints_are_not_kept(smollm2_gguf: Path) -> None:
    """An expression that explodes fails alone: its row, its request, and nothing stays of it."""
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    bad = ConstraintSpec.regex("(((a{1000}){1000}){1000})")
    first = compile_constraint(tokenizer, bad)
    good = state_of(tokenizer, ConstraintSpec.choice(["a", "b"]))
    masks = np.full((2, mask_words(tokenizer.vocab_size)), 7, np.int32)
    state = first.start()
    for _ in range(10):
        errors = fill_masks([state, good], masks)
        if errors:
            break
        with contextlib.suppress(InvalidArgumentError):  # the bound may be passed here too
            state.accept(int(allowed(masks[0])[-1]))
    assert list(errors) == [0]
    assert "cannot be followed further" in str(errors[0])
    assert not masks[0].any()
    assert np.array_equal(masks[1], good.mask())
    assert compile_constraint(tokenizer, bad) is not first


def test_threads(tokenizers_by_kind: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers_by_kind["gguf"]
    found: list[bool] = []

    def work(seed: int) -> None:
        for index in range(5):
            state = state_of(tokenizer, ConstraintSpec.regex(f"[ab]{{{index + 1}}}"))
            walk(state, tokenizer, random.Random(seed))
            found.append(state.accepting)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 40


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: ConstraintSpec.regex("("), "unclosed group"),
        (lambda: ConstraintSpec.regex("(?=a)b"), "look-around"),
        (lambda: ConstraintSpec.regex(3), "a regular expression is a text, got int"),  # type: ignore[arg-type]
        (lambda: ConstraintSpec.regex("\ud800"), "no valid Unicode"),
        (lambda: ConstraintSpec.lark("start: nosuch"), "nosuch"),
        (lambda: ConstraintSpec.lark("start: <nosuch>"), "unknown special token"),
        (lambda: ConstraintSpec.lark(""), "cannot be compiled"),
        (lambda: ConstraintSpec.choice([]), "1 to 100000 texts, got 0"),
        (lambda: ConstraintSpec.choice(["a", ""]), "not empty"),
        (lambda: ConstraintSpec.choice("ab"), "got one text"),
        (lambda: ConstraintSpec.json_schema(3), "true or false, got int"),  # type: ignore[arg-type]
        (lambda: ConstraintSpec.json_schema("{"), "no JSON"),
        (lambda: ConstraintSpec.json_schema({"a": float("nan")}), "no JSON"),
        (lambda: ConstraintSpec.json_schema({"type": "strin"}), "strin"),
        (lambda: ConstraintSpec.json_schema(False), "admits no document"),
        (lambda: ConstraintSpec.json_schema({"not": {}}), "Unimplemented keys"),
        (
            lambda: ConstraintSpec.json_schema({"not": {}, "x-guidance": {"lenient": True}}),
            "Unimplemented keys",
        ),
        (lambda: ConstraintSpec.json_schema({"$ref": "http://x.y/z.json"}), "does not fetch"),
        (lambda: ConstraintSpec.json_schema({"$ref": "file:///etc/passwd"}), "cannot be compiled"),
        (lambda: ConstraintSpec("xml", "<a/>"), "the kinds are"),
    ],
)
def test_what_cannot_be_compiled(
    tokenizers_by_kind: dict[str, Tokenizer], make: Any, reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        compile_constraint(tokenizers_by_kind["gguf"], make())


def test_constraints_of_requests() -> None:
    read = ConstraintSpec.read
    assert read(None) is None
    assert read({"type": "text"}) is None
    spec = ConstraintSpec.regex("a")
    assert read(spec) is spec
    assert read({"type": "regex", "regex": "a"}) == spec
    assert read({"type": "lark", "lark": SUM}) == ConstraintSpec.lark(SUM)
    assert read({"type": "choice", "choice": ["a"]}) == ConstraintSpec.choice(["a"])
    assert read({"type": "json_object"}) == ConstraintSpec.json_object()
    wrapped = {
        "type": "json_schema",
        "json_schema": {"name": "p", "strict": True, "schema": PERSON},
    }
    assert read(wrapped) == ConstraintSpec.json_schema(PERSON)
    for wrong, reason in (
        ({"type": "xml"}, "the types are text, json_object, json_schema"),
        ("json_object", "the types are"),
        ({"type": "regex"}, "type 'regex' needs a member 'regex'"),
        ({"type": "json_schema", "json_schema": {}}, "needs a member 'schema'"),
        ({"type": ["regex"]}, "the types are"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            read(wrong)


def test_arrays_and_tokens_that_do_not_fit(tokenizers_by_kind: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers_by_kind["gguf"]
    state = state_of(tokenizer, ConstraintSpec.json_object())
    words = mask_words(tokenizer.vocab_size)
    wrong: list[Any] = [
        np.zeros((1, words), np.int64),
        np.zeros((1, words + 1), np.int32),
        np.zeros((0, words), np.int32),
        np.zeros((words, 1), np.int32).T[:, ::-1],
        [0] * words,
    ]
    for masks in wrong:
        with pytest.raises(InvalidArgumentError, match="the masks must be int32"):
            fill_masks([state], masks)
    for token in (-1, tokenizer.vocab_size, "a", None):
        with pytest.raises(InvalidArgumentError, match="a token is a whole number"):
            state.accept(token)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="does not follow here"):
        state.accept(tokenizer.encode("x")[0])
    other = state_of(tokenizers_by_kind["tiktoken"], ConstraintSpec.json_object())
    with pytest.raises(InvalidArgumentError, match="different vocabularies"):
        fill_masks([state, other], np.zeros((2, words), np.int32))


# ------------------------------------------------------------ hostile constraints
HOSTILE = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
import numpy as np
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.constraints import ConstraintSpec, compile_constraint
from clika_runtime.tokenizer import Tokenizer

tokenizer = Tokenizer.from_gguf(sys.argv[1])
R, J, L, C = (getattr(ConstraintSpec, name) for name in ("regex", "json_schema", "lark", "choice"))


def nested(depth):
    return '{"properties": {"a": ' * depth + '{"type": "integer"}' + "}}" * depth


def chain(count, body):
    defs = {f"d{i}": body({"$ref": f"#/$defs/d{i + 1}"}) for i in range(count)}
    defs[f"d{count}"] = {"type": "integer"}
    return {"$ref": "#/$defs/d0", "$defs": defs}


def inside(schema):
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


many = {"anyOf": [
    {"type": "object", "properties": {f"a{i}": {"type": "string"}}, "required": [f"a{i}"]}
    for i in range(60)
]}
doubled = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
for _ in range(14):
    doubled = {"allOf": [doubled, doubled]}
makers = [
    lambda: R("(a+)+b"), lambda: R("(a|a)*b"), lambda: R("(((a{1000}){1000}){1000})"),
    lambda: R("a{1,1000000000}"), lambda: R("(.*a){20}"), lambda: R(".*a.{30}"),
    lambda: R("[a-z]{20}" * 40000), lambda: R("[:a" * 130000), lambda: R("[a]{999999999}"),
    lambda: R("".join(f"[a-z{i}]{{{16 + i}}}" for i in range(500))), lambda: R("[" * 400000),
    lambda: R("(a|b|ab|ba){500}c"), lambda: R("(\\\\p{L}{1,300}){1,300}"),
    lambda: R("(" * 100000 + ")" * 100000), lambda: R("a" + "?" * 100000),
    lambda: R("|".join(f"w{i}x{i * 7}" for i in range(20000))), lambda: R("x" * (5 << 20)),
    lambda: L("start: " + "(" * 100000 + '"a"' + ")" * 100000),
    lambda: L("start: r0\\n" + "".join(f"r{i}: r{i + 1}\\n" for i in range(4900)) + 'r4900: "a"'),
    lambda: L("start: r0\\n" + "".join(f"r{i}: r{i + 1}\\n" for i in range(90000))),
    lambda: L("start: T0\\n" + "".join(f'T{i}: T{i + 1} "b"\\n' for i in range(4900)) +
              'T4900: "a"'),
    lambda: L('start: start "a" | "a"'), lambda: L("start: start"),
    lambda: L('start: (start start start)? "a"?'),
    lambda: L('start: a a a a a a a a\\na: "x"*'),
    lambda: L("start: T\\nT: " + " & ".join(f"/(.*{chr(97 + i)}.*)/" for i in range(20))),
    lambda: J(nested(60)), lambda: J(nested(5000)), lambda: J(nested(100000)),
    lambda: J({"$ref": "#"}), lambda: J(chain(4000, lambda x: x)), lambda: J(chain(90000, inside)),
    lambda: J(chain(4000, inside)),
    lambda: J({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
                                              "b": {"$ref": "#/$defs/a"}}}),
    lambda: J({"enum": [f"value{i}" for i in range(50000)]}),
    lambda: J({"type": "string", "minLength": 10**9}), lambda: J({"type": "integer",
              "minimum": -10**30, "maximum": 10**40, "multipleOf": 123457}),
    lambda: J({"type": "array", "items": {"type": "integer"}, "minItems": 10**7}),
    lambda: J({"type": "object", "properties": {f"p{i}": {} for i in range(4000)}}),
    lambda: J({"type": "object", "properties": {f"p{i}": {} for i in range(20000)}}),
    lambda: J({"allOf": [many, many]}), lambda: J({"allOf": [many, many, many, many]}),
    lambda: J(doubled), lambda: J({"type": "string", "pattern": "^(a+)+$"}),
    lambda: J({"type": "string", "pattern": "^(([a-z]{1,99}){1,99}){1,99}$"}),
    lambda: C([f"choice {i}" for i in range(50000)]),
]
results = []
for index, make in enumerate(makers):
    before = time.perf_counter()
    try:
        state = compile_constraint(tokenizer, make()).start()
        rng = np.random.default_rng(index)
        for _ in range(10):
            bits = np.flatnonzero(np.unpackbits(state.mask().view(np.uint8), bitorder="little"))
            if not len(bits) or state.finished:
                break
            state.accept(int(rng.choice(bits)))
        said = "followed"
    except InvalidArgumentError as error:
        said = str(error)[:200]
    results.append((index, time.perf_counter() - before, said))
# Of this program alone: ru_maxrss counts what started it too.
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10
print(json.dumps([results, peak]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bounds of memory are set by resource")
def test_hostile_constraints_are_bounded(smollm2_gguf: Path) -> None:
    """Expressions that explode, deep nesting, chains of references, huge values: each is followed
    or refused in seconds, and the process lives on within its memory."""
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(smollm2_gguf)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results, peak = json.loads(done.stdout)
    slow = [row for row in results if row[1] > 20]
    assert not slow
    refused = [row for row in results if row[2] != "followed"]
    assert len(refused) >= 10
    assert all(row[2].startswith("constraint: ") for row in refused)
    assert peak < 2500, peak  # MiB


def test_without_the_package(tmp_path: Path) -> None:
    path = small.write_gguf(tmp_path / "tiny.gguf")
    program = f"""
        import sys
        sys.modules["llguidance"] = None
        from clika_runtime.errors import UnsupportedError
        from clika_runtime.modelverse.constraints import ConstraintSpec, compile_constraint
        from clika_runtime.tokenizer import Tokenizer
        try:
            compile_constraint(Tokenizer.from_gguf({str(path)!r}), ConstraintSpec.json_object())
        except UnsupportedError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "constrained output needs the package llguidance, which is not installed. Install it with: "
        "pip install 'clika-runtime[constrain]'"
    )


def test_the_package_is_imported_late() -> None:
    program = (
        "import sys, clika_runtime.modelverse.constraints, clika_runtime.modelverse.tools\n"
        "print('llguidance' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
