"""Configurations are hostile: every refusal names file, field, value and rule."""

from __future__ import annotations

import pytest

from clika_runtime.errors import InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.config import Fields, RopeScaling, read_stop_ids


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


@pytest.mark.parametrize("kind", ["dynamic", "yarn", "longrope", "su", "nonsense"])
def test_other_scalings_are_refused_by_name(kind: str) -> None:
    raw = {"rope_scaling": {"rope_type": kind, "factor": 2.0}}
    with pytest.raises(UnsupportedError, match=f"'{kind}'; served are default, linear, llama3"):
        RopeScaling.from_hf(Fields(raw, "config.json"), 128)


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


def test_gguf_scaling() -> None:
    def read(**keys: object) -> tuple[float, RopeScaling]:
        raw = {f"llama.rope.{name.replace('__', '.')}": value for name, value in keys.items()}
        return RopeScaling.from_gguf(Fields(raw, "m.gguf", "llama."))

    assert read(freq_base=1e5) == (1e5, RopeScaling())
    assert read(scaling__type="none") == (1e4, RopeScaling())
    assert read(scaling__type="linear", scaling__factor=4.0) == (1e4, RopeScaling("linear", 4.0))
    assert read(scale_linear=2.0) == (1e4, RopeScaling("linear", 2.0))
    with pytest.raises(UnsupportedError, match="yarn"):
        read(scaling__type="yarn", scaling__factor=4.0)


# ---- stop ids
def test_stop_ids_are_one_or_several() -> None:
    assert read_stop_ids(Fields({}, "c"), "eos_token_id", 10) == ()
    assert read_stop_ids(Fields({"eos_token_id": 2}, "c"), "eos_token_id", 10) == (2,)
    assert read_stop_ids(Fields({"eos_token_id": [2, 3]}, "c"), "eos_token_id", 10) == (2, 3)


@pytest.mark.parametrize("value", [10, -1, "2", [2, 99], [[2]], True, 1.5])
def test_stop_ids_outside_the_vocabulary_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="eos_token_id"):
        read_stop_ids(Fields({"eos_token_id": value}, "c"), "eos_token_id", 10)
