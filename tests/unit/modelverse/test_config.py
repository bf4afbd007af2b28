"""Configurations are hostile: every refusal names file, field, value and rule."""

from __future__ import annotations

import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.config import Fields, read_stop_ids
from clika_runtime.modelverse.rope_scaling import RopeScaling


def test_values_of_the_right_type_and_range_come_through() -> None:
    fields = Fields({"a": 3, "b": 2.5, "c": True, "d": "x", "e": 4.0, "n": None}, "config.json")
    assert fields.integer("a") == 3
    assert fields.integer("e") == 4
    assert fields.number("b") == 2.5
    assert fields.number("a") == 3.0
    assert fields.boolean("c") is True
    assert fields.text("d") == "x"
    assert fields.integer("n", 7) == 7
    assert fields.integer("missing", None) is None
    assert fields.has("a") and not fields.has("n")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({}, ("config.json", "'a'", "missing")),
        ({"a": "3"}, ("config.json", "'a'", "'3'")),
        ({"a": True}, ("'a'", "True")),
        ({"a": 1.5}, ("'a'", "1.5")),
        ({"a": 0}, ("'a'", "1 .. 10", "0")),
        ({"a": 11}, ("'a'", "1 .. 10", "11")),
        ({"a": 10**40}, ("'a'", "1 .. 10")),
        ({"a": [3]}, ("'a'", "[3]")),
        ({"a": float("inf")}, ("'a'", "inf")),
    ],
)
def test_a_bad_whole_number_is_refused_with_field_and_value(
    raw: dict[str, object], words: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Fields(raw, "config.json").integer("a", high=10)
    assert caught.value.code_name == "MALFORMED_FILE"
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "1", True, [1.0]])
def test_a_bad_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="'a'"):
        Fields({"a": value}, "config.json").number("a")


def test_a_configuration_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="expected an object"):
        Fields([1], "config.json")
    with pytest.raises(InvalidArgumentError, match="'rope_scaling' must be an object"):
        Fields({"rope_scaling": 3}, "config.json").section("rope_scaling")


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Fields({"a": "x" * 10_000}, "config.json").integer("a")
    assert len(str(caught.value)) < 200


def test_an_unserved_choice_lists_what_is_served() -> None:
    with pytest.raises(UnsupportedError, match="'hidden_act' is 'relu6'; served are silu, swish"):
        Fields({"hidden_act": "relu6"}, "c").choice("hidden_act", ("silu", "swish"))


def test_keys_carry_their_prefix() -> None:
    fields = Fields({"llama.block_count": 2}, "m.gguf", "llama.")
    assert fields.integer("block_count") == 2
    with pytest.raises(
        InvalidArgumentError, match=r"m\.gguf: 'llama\.embedding_length' is missing"
    ):
        fields.integer("embedding_length")


# ---- rotary scaling
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def test_scaling_reads_the_old_and_the_new_form_alike() -> None:
    old = Fields({"rope_theta": 5e5, "rope_scaling": LLAMA3}, "c")
    new = Fields({"rope_parameters": {**LLAMA3, "rope_theta": 5e5}}, "c")
    assert RopeScaling.from_hf(old, 128) == RopeScaling.from_hf(new, 128)
    theta, scaling = RopeScaling.from_hf(old, 128)
    assert theta == 5e5
    assert scaling == RopeScaling("llama3", 8.0, 1.0, 4.0, 64)


def test_no_scaling_and_the_default_kind_are_the_same() -> None:
    plain = RopeScaling.from_hf(Fields({}, "c"), 128)
    named = RopeScaling.from_hf(Fields({"rope_parameters": {"rope_type": "default"}}, "c"), 128)
    assert plain == named == (10000.0, RopeScaling())


def test_the_oldest_form_says_type() -> None:
    raw = {"rope_scaling": {"type": "linear", "factor": 2.0}}
    assert RopeScaling.from_hf(Fields(raw, "c"), 128) == (10000.0, RopeScaling("linear", 2.0))


@pytest.mark.parametrize("kind", ["su", "proportional", "nonsense"])
def test_other_scalings_are_refused_by_name(kind: str) -> None:
    raw = {"rope_scaling": {"rope_type": kind, "factor": 2.0}}
    served = "default, linear, dynamic, llama3, yarn, longrope"
    with pytest.raises(UnsupportedError, match=f"'{kind}'; served are {served}"):
        RopeScaling.from_hf(Fields(raw, "config.json"), 128)


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ({"full_attention": {"rope_type": "default"}}, "full_attention"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ],
)
def test_rules_that_are_not_served_are_refused(section: dict[str, object], word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        RopeScaling.from_hf(Fields({"rope_parameters": section}, "c"), 128)


FACTORS = {"short_factor": [1.0, 1.0], "long_factor": [2.0, 3.0]}


@pytest.mark.parametrize(
    ("kind", "section", "word"),
    [
        ("dynamic", {}, "'factor' is missing"),
        ("dynamic", {"factor": 0.5}, "factor"),
        ("yarn", {"factor": 1e9}, "factor"),
        ("yarn", {"original_max_position_embeddings": 512}, "'factor' is missing"),
        ("yarn", {"factor": 2.0, "beta_fast": 1.0, "beta_slow": 2.0}, "beta_fast"),
        ("yarn", {"factor": 2.0, "rope_theta": 1.0}, "base above 1"),
        ("yarn", {"factor": 2.0, "truncate": 1}, "truncate"),
        ("yarn", {"factor": 2.0, "attention_factor": -1.0}, "attention_factor"),
        ("yarn", {"factor": 2.0, "mscale": "x"}, "mscale"),
        ("longrope", {}, "'short_factor' is missing"),
        ("longrope", {**FACTORS, "long_factor": 3}, "long_factor"),
        ("longrope", {**FACTORS, "long_factor": []}, "long_factor"),
        ("longrope", {**FACTORS, "long_factor": [1.0, 0.0]}, "long_factor\\[1\\]"),
        ("longrope", {**FACTORS, "long_factor": [1.0, "2"]}, "long_factor\\[1\\]"),
        ("longrope", {**FACTORS, "long_factor": [1.0] * 100_000}, "more than any head"),
        ("longrope", {**FACTORS, "original_max_position_embeddings": 1}, "at least 2"),
    ],
)
def test_bad_values_of_the_long_scalings_are_refused(
    kind: str, section: dict[str, object], word: str
) -> None:
    raw = {"rope_scaling": {"rope_type": kind, **section}}
    with pytest.raises(InvalidArgumentError, match=word):
        RopeScaling.from_hf(Fields(raw, "c"), 128)


def test_the_window_before_scaling_stands_in_one_place() -> None:
    section = {"rope_type": "yarn", "factor": 2.0}
    key = "original_max_position_embeddings"

    def read(inner: dict[str, object], outer: dict[str, object]) -> int:
        fields = Fields({"rope_scaling": {**section, **inner}, **outer}, "c")
        return RopeScaling.from_hf(fields, 128)[1].original_max_position

    assert [read({}, {}), read({key: 64}, {}), read({}, {key: 32})] == [128, 64, 32]
    assert read({key: 64}, {key: 64}) == 64
    with pytest.raises(InvalidArgumentError, match=key):
        read({key: 64}, {key: 32})


def test_a_scaling_says_which_context_it_serves() -> None:
    assert RopeScaling("yarn", 4.0, original_max_position=32).window(32) == 128
    assert RopeScaling("yarn", 4.0, original_max_position=32).window(256) == 256
    assert RopeScaling("dynamic", 2.0, original_max_position=32).window(32) == 64
    assert RopeScaling("longrope", original_max_position=32).window(128) == 128
    assert RopeScaling("linear", 2.0).window(32) == 32
    assert RopeScaling("yarn", 1e6, original_max_position=1 << 30).window(1) == 1 << 30


def test_a_scaling_fits_the_heads() -> None:
    fields = Fields({}, "c")
    RopeScaling("longrope", short_factors=(1.0, 2.0), long_factors=(1.0, 2.0)).check(fields, 4)
    with pytest.raises(InvalidArgumentError, match="2 long_factors, the heads have 4 pairs"):
        RopeScaling("longrope", long_factors=(1.0, 2.0)).check(fields, 8)
    with pytest.raises(InvalidArgumentError, match="dynamic"):
        RopeScaling("dynamic", 2.0).check(fields, 2)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"factor": 0.0}, "factor"),
        ({"factor": -1.0}, "factor"),
        ({"factor": None}, "factor"),
        ({"high_freq_factor": 1.0}, "high_freq_factor"),
        ({"low_freq_factor": 0.0}, "low_freq_factor"),
        ({"original_max_position_embeddings": 0}, "original_max_position_embeddings"),
    ],
)
def test_bad_scaling_values_are_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        RopeScaling.from_hf(Fields({"rope_scaling": {**LLAMA3, **change}}, "c"), 128)


def read_gguf(*tensors: str, **keys: object) -> tuple[float, RopeScaling]:
    raw = {f"llama.rope.{name.replace('__', '.')}": value for name, value in keys.items()}
    shapes = {f"rope_factors_{name}.weight": (2,) for name in tensors}
    return RopeScaling.from_gguf(Fields(raw, "m.gguf", "llama."), shapes, 256)


def test_gguf_scaling() -> None:
    assert read_gguf(freq_base=1e5) == (1e5, RopeScaling())
    assert read_gguf(scaling__type="none") == (1e4, RopeScaling())
    linear = RopeScaling("linear", 4.0)
    assert read_gguf(scaling__type="linear", scaling__factor=4.0) == (1e4, linear)
    assert read_gguf(scale_linear=2.0) == (1e4, RopeScaling("linear", 2.0))
    # A file's own factor of sines and cosines holds for every kind.
    assert read_gguf(scaling__attn_factor=0.5)[1] == RopeScaling(attention_factor=0.5)
    with pytest.raises(UnsupportedError, match="dynamic"):
        read_gguf(scaling__type="dynamic", scaling__factor=4.0)


def test_gguf_yarn_is_that_of_config_json() -> None:
    section = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    found = read_gguf(
        scaling__type="yarn", scaling__factor=4.0, scaling__original_context_length=64
    )
    assert found == RopeScaling.from_hf(Fields({"rope_scaling": section}, "c"), 256)
    # The file's own factor comes on top of the one that follows from the stretch.
    scaled = read_gguf(scaling__type="yarn", scaling__factor=4.0, scaling__attn_factor=0.5)[1]
    assert scaled.original_max_position == 256
    assert scaled.attention_factor == found[1].attention_factor * 0.5
    flat = read_gguf(scaling__type="yarn", scaling__factor=4.0, scaling__yarn_log_multiplier=1.0)[1]
    assert flat.attention_factor == 1.0


def test_gguf_longrope_has_its_tensors() -> None:
    expected = RopeScaling("longrope", original_max_position=64, attention_factor=1.2)
    keys = {"scaling__original_context_length": 64, "scaling__attn_factor": 1.2}
    assert read_gguf("short", "long", **keys)[1] == expected
    assert read_gguf("short", "long", scaling__type="longrope", **keys)[1] == expected


@pytest.mark.parametrize(
    ("tensors", "keys", "word"),
    [
        (("short",), {}, "rope_factors_short"),
        ((), {"scaling__type": "longrope"}, "found: none"),
        (("short", "long"), {"scaling__type": "linear", "scaling__factor": 2.0}, "'linear'"),
        ((), {"scaling__type": "yarn"}, "rope.scaling.factor"),
        ((), {"scaling__type": "yarn", "scaling__factor": 0.0}, "rope.scaling.factor"),
        ((), {"scaling__type": "yarn", "scaling__factor": 2.0, "freq_base": 1.0}, "freq_base"),
        ((), {"scaling__type": 3}, "rope.scaling.type"),
    ],
)
def test_bad_gguf_scalings_are_refused(
    tensors: tuple[str, ...], keys: dict[str, object], word: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        read_gguf(*tensors, **keys)


@pytest.mark.parametrize("key", ["yarn_ext_factor", "yarn_attn_factor"])
def test_gguf_yarn_with_a_ramp_of_its_own_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedError, match=key):
        read_gguf(scaling__type="yarn", scaling__factor=2.0, **{f"scaling__{key}": 0.5})


# ---- stop ids
def test_stop_ids_are_one_or_several() -> None:
    assert read_stop_ids(Fields({}, "c"), "eos_token_id", 10) == ()
    assert read_stop_ids(Fields({"eos_token_id": 2}, "c"), "eos_token_id", 10) == (2,)
    assert read_stop_ids(Fields({"eos_token_id": [2, 3]}, "c"), "eos_token_id", 10) == (2, 3)


@pytest.mark.parametrize("value", [10, -1, "2", [2, 99], [[2]], True, 1.5])
def test_stop_ids_outside_the_vocabulary_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="eos_token_id"):
        read_stop_ids(Fields({"eos_token_id": value}, "c"), "eos_token_id", 10)
