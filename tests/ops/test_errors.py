"""What shape rules refuse, and how they say it: operation, values, rule, fix."""

from __future__ import annotations

from typing import Any

import pytest

from clika_runtime import dtypes
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.ops import record
from clika_runtime.ops.record import Meta


def t(*shape: Any, dtype: str = "float32", **more: Any) -> Meta:
    return Meta(shape, dtypes.by_name(dtype), **more)


NUMBER = t(weak=True)
_ROWS = t(3, 4, 16), t(3, 2, 16), t(3, 2, 8)  # query, key, value
_POOLS = t(4, 8, 2, 16), t(4, 8, 2, 8)

REFUSED: list[tuple[str, tuple[Any, ...], str]] = [
    (
        "matmul",
        (t(2, 3), t(5, 7)),
        "ops::matmul: cannot contract a [2, 3] with b [5, 7]: a's last dim (3) must equal b's dim "
        "0 (5)",
    ),
    (
        "matmul",
        (t(4, 2, 3), t(4, 5, 7)),
        "ops::matmul: cannot contract a [4, 2, 3] with b [4, 5, 7]: a's last dim (3) must equal "
        "b's dim 1 (5)",
    ),
    ("matmul", (t(2, 3), t()), "matmul: both operands need at least one dim, got [2, 3] and []"),
    ("matmul", (t(2, 3), t(3, dtype="float64")), "matmul: operands must have one dtype, got"),
    (
        "add",
        (t(2, 3), t(4), None),
        "add: cannot broadcast [2, 3] and [4]: sizes 3 and 4 at dim -1 differ and neither is 1",
    ),
    ("add", (NUMBER, NUMBER, None), "add: at least one operand must be a tensor"),
    ("sub", (t(2, dtype="bool"), t(2, dtype="bool"), None), "sub: operands of dtype bool and bool"),
    ("neg", (t(2, dtype="bool"),), "neg: input has dtype bool, which the operator does not take"),
    ("exp", (t(2, dtype="float8_e4m3"),), "exp: input has dtype float8_e4m3"),
    ("relu", (t(4, 32, scheme=4),), "relu: input is a packed weight"),
    ("where", (t(2, dtype="int32"), t(2), t(2)), "where: condition has dtype int32"),
    ("clamp", (t(2), None, None), "clamp: at least one of min and max must be given"),
    ("reshape", (t(2, 3), (4, 2)), "reshape: cannot view [2, 3] as [4, 2]: 6 elements are not 8"),
    ("reshape", (t(2, 3), (-1, 4)), "reshape: cannot view [2, 3] as [-1, 4]: 6 is not divisible"),
    ("reshape", (t(2, 3), (-1, -1)), "reshape: shape [-1, -1] has more than one -1"),
    ("reshape", (t(0, 3), (-1, 0)), "reshape: the -1 in [-1, 0] is ambiguous"),
    ("reshape", (t(2, 3), (-2, 3)), "reshape: shape [-2, 3] has a negative size"),
    ("permute", (t(2, 3), (0,)), "permute: dims [0] must name each of the 2 dims"),
    ("permute", (t(2, 3), (0, -2)), "permute: dims [0, -2] names a dimension twice"),
    (
        "transpose",
        (t(2, 3), 0, 2),
        "transpose: dim1 2 is out of range for rank 2: expected -2 to 1",
    ),
    ("unsqueeze", (t(2), 3), "unsqueeze: dim 3 is out of range for rank 1: expected -2 to 1"),
    ("expand", (t(3, 1), (4, 5)), "expand: cannot expand [3, 1] to [4, 5]: dim 0 has size 3"),
    ("expand", (t(3, 1), (3,)), "expand: shape [3] has fewer dims than input [3, 1]"),
    ("expand", (t(3), (-1, 3)), "expand: -1 at dim 0 of shape [-1, 3] names no dim"),
    ("narrow", (t(5), 0, 3, 3), "narrow: start 3 and length 3 do not fit into dim 0 of size 5"),
    ("narrow", (t(), 0, 0, 1), "narrow: input has no dims"),
    ("select", (t(5), 0, 5), "select: index 5 is out of range for dim 0 of size 5"),
    ("flatten", (t(2, 3), 1, 0), "flatten: start_dim 1 comes after end_dim 0"),
    ("cat", ([], 0), "cat: expected at least one tensor"),
    ("cat", ([t(2, 3), t(3, 3)], 1), "cat: tensor 1 has shape [3, 3], tensor 0 [2, 3]"),
    ("cat", ([t()], 0), "cat: 0-d tensors cannot be joined; use stack"),
    ("stack", ([t(2), t(3)], 0), "stack: tensor 1 has shape [3], tensor 0 [2]"),
    ("index_select", (t(3), 0, t(2, 2, dtype="int64")), "index_select: index must have one dim"),
    ("index_select", (t(3), 0, t(2)), "index_select: index has dtype float32"),
    ("gather", (t(2, 3), 0, t(2, dtype="int64")), "gather: index [2] must have as many dims"),
    ("gather", (t(2, 3), 0, t(2, 4, dtype="int64")), "gather: index [2, 4] is larger than input"),
    ("topk", (t(3), 4, -1, True, True), "topk: k 4 must be between 0 and the size 3 of dim 0"),
    ("sum", (t(2, 3), (0, -2), False, None), "sum: dim [0, -2] names a dimension twice"),
    ("sum", (t(2, 3), (2,), False, None), "sum: dim 2 is out of range for rank 2"),
    ("mean", (t(2, dtype="int64"), None, False, None), "mean: the mean of int64 has no dtype"),
    ("amax", (t(2, 0), (1,), False), "amax: dim 1 has size 0"),
    ("argmax", (t(0), None, False, None), "argmax: dim 0 has size 0"),
    ("softmax", (t(2, dtype="int64"), -1, None), "softmax: input has dtype int64"),
    ("softmax", (t(2, 3), 2, None), "softmax: dim 2 is out of range for rank 2"),
    ("full", ((2,), t(3), None, None), "full: fill_value must be a number or 0-d, got shape [3]"),
    ("zeros", ((2, -1), None, None), "zeros: shape [2, -1] has a negative size"),
    ("arange", (0, 5, 0, None, None), "arange: start 0, end 5 and step 0 must be finite"),
    ("arange", (0, 5, -1, None, None), "arange: step -1 leads away from end"),
    ("rand", ((2,), None, None, dtypes.int32, None), "rand: dtype must be one of"),
    (
        "linear",
        (t(2, 3), t(4, 5), None, "exact"),
        "linear: input [2, 3] does not fit weight [4, 5]: input's last dim (3) must equal weight's "
        "dim 1 (5)",
    ),
    ("linear", (t(2, 5), t(4, 5), t(5), "exact"), "linear: bias [5] must be [4]"),
    ("linear", (t(2, 5), t(5), None, "exact"), "linear: expected input [..., K] and weight [N, K]"),
    ("embedding", (t(4), t(2, dtype="int64"), None), "embedding: weight must be [N, K], got [4]"),
    ("embedding", (t(4, 2), t(2), None), "embedding: ids has dtype float32"),
    ("dequantize", (t(4, 32, scheme=4), dtypes.int8), "dequantize: dtype must be one of"),
    (
        "rms_norm",
        (t(2, 4), (4,), t(3), None, None),
        "rms_norm: weight [3] must be [4], the last dims of",
    ),
    (
        "rms_norm",
        (t(2, 4), (2,), None, None, None),
        "rms_norm: normalized_shape [2] must be the last dims of input [2, 4]",
    ),
    ("layer_norm", (t(2, 4), (4,), None, t(3), None), "layer_norm: bias [3] must be [4]"),
    (
        "add_rms_norm",
        (t(2, 4), t(4), *[None] * 7),
        "add_rms_norm: residual [4] must have the",
    ),
    (
        "add_rms_norm",
        (t(2, 4), t(2, 4, dtype="bfloat16"), *[None] * 7),
        "add_rms_norm: residual has dtype bfloat16, input float32",
    ),
    ("swiglu", (t(2, 4), t(2, 3)), "swiglu: gate [2, 4] and up [2, 3] must have one shape"),
    (
        "rotary",
        (t(5, 2, 8), t(4, dtype="int32"), t(4), False, None),
        "rotary: positions [4] must be [T] or [A, T] with the T of input [5, 2, 8]",
    ),
    (
        "rotary",
        (t(5, 2, 8), t(5, dtype="int32"), t(5), False, None),
        "rotary: inv_freq [5] rotates 10 values of a head, and input [5, 2, 8] has 8",
    ),
    (
        "rotary",
        (t(5, 2, 8), t(3, 5, dtype="int32"), t(4), False, None),
        "rotary: inv_freq [4] must have one row of frequencies for each axis of positions [3, 5]",
    ),
    (
        "kv_append",
        (t(4, 8, 2, 16), t(3, 2, 8), t(3, dtype="int32")),
        "kv_append: value [3, 2, 8] must have the heads and the head size of pool [4, 8, 2, 16]",
    ),
    (
        "kv_append",
        (t(4, 8, 2, 16), t(3, 2, 16), t(2, dtype="int32")),
        "kv_append: slots [2] must name one slot for each token of value [3, 2, 16]",
    ),
    (
        "rotary_append",
        (*_ROWS, t(3, dtype="int32"), t(9), *_POOLS, t(3, dtype="int32"), False, None),
        "rotary_append: inv_freq [9] rotates 18 values of a head, and query [3, 4, 16] has 16",
    ),
    (
        "rotary_append",
        (
            *(t(3, 4, 32), *_ROWS[1:]),
            *(t(3, dtype="int32"), t(8), *_POOLS, t(3, dtype="int32"), False, None),
        ),
        "rotary_append: query [3, 4, 32] and key [3, 2, 16] must have heads of one size",
    ),
    (
        "rotary_append",
        (*_ROWS, t(3, dtype="int32"), t(8), *_POOLS[::-1], t(3, dtype="int32"), False, None),
        "rotary_append: key [3, 2, 16] must have the heads and the head size of key_pool "
        "[4, 8, 2, 8]",
    ),
    (
        "rotary_append",
        (*_ROWS, t(3, dtype="int32"), t(8), *_POOLS, t(2, dtype="int32"), False, None),
        "rotary_append: slots [2] must name one slot for each token of key [3, 2, 16]",
    ),
]


@pytest.mark.parametrize(
    ("name", "args", "message"), REFUSED, ids=[f"{i}-{row[0]}" for i, row in enumerate(REFUSED)]
)
def test_refusal(name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        record(name).infer(*args)
    assert str(caught.value).startswith(message)
    assert caught.value.code_name == "INVALID_ARGUMENT"
    assert isinstance(caught.value, ValueError)


def attention(**change: Any) -> Any:
    args: dict[str, Any] = {
        "query": t(5, 4, 16),
        "key_pool": t(9, 8, 2, 16),
        "value_pool": t(9, 8, 2, 16),
        "block_table": t(3, 4, dtype="int32"),
        "cu_seqlens": t(4, dtype="int32"),
        "kv_lens": t(3, dtype="int32"),
        "sinks": None,
        "causal": True,
        "window": 0,
        "mode": "exact",
        "scale": None,
        "softcap": None,
        **change,
    }
    return record("paged_attention").infer(*args.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": t(5, 64)}, "expected query [T, Hq, D], key_pool"),
        ({"value_pool": t(9, 4, 2, 16)}, "key_pool [9, 8, 2, 16] and value_pool [9, 4, 2, 16]"),
        ({"query": t(5, 4, 8)}, "query [5, 4, 8] and key_pool [9, 8, 2, 16] must have one head"),
        ({"query": t(5, 3, 16)}, "3 query heads are not a multiple of 2 key heads"),
        ({"cu_seqlens": t(3, dtype="int32")}, "block_table [3, 4], cu_seqlens [3] and kv_lens [3]"),
        ({"sinks": t(2)}, "sinks [2] must be [4], one for each query head"),
        ({"window": -1}, "window -1 must be 0 (no window) or a number of positions"),
        ({"kv_lens": t(3, dtype="int64")}, "kv_lens has dtype int64"),
    ],
)
def test_attention_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        attention(**change)
    assert str(caught.value).startswith(f"paged_attention: {message}")


def test_attention_shape() -> None:
    assert attention(value_pool=t(9, 8, 2, 24)).shape == (5, 4, 24)


@pytest.mark.parametrize(
    ("op", "argument", "value", "message"),
    [
        (
            "div",
            "rounding_mode",
            "ceil",
            "rounding_mode: 'ceil' is not a RoundingMode; choose one of 'none', 'trunc', 'floor'",
        ),
        ("gelu", "approximate", "exact", "approximate: 'exact' is not an Approximate; choose one"),
        ("linear", "mode", 3, "mode: 3 is not a Mode; choose one of 'exact', 'fast'"),
    ],
)
def test_modes(op: str, argument: str, value: Any, message: str) -> None:
    found = next(arg for arg in record(op).args if arg.name == argument)
    with pytest.raises(ValueError) as caught:
        found.mode_index(value)
    assert str(caught.value).startswith(message)
    assert found.mode_index(None) == found.mode_index(found.default)
    assert [found.mode_index(mode) for mode in found.modes] == list(range(len(found.modes)))


def test_a_call_refuses_as_the_rule_does() -> None:
    import clika_runtime as crt

    with pytest.raises(crt.InvalidArgumentError, match=r"^ops::matmul: cannot contract a \[2, 3\]"):
        crt.matmul(crt.zeros(2, 3), crt.zeros(5, 7))
    with pytest.raises(ValueError, match=r"^rounding_mode: 'ceil' is not a RoundingMode"):
        crt.div(crt.ones(2), 2, rounding_mode="ceil")
    with pytest.raises(TypeError, match=r"^softmax: unexpected keyword argument 'axis'"):
        crt.softmax(crt.zeros(2, 3), axis=1)
