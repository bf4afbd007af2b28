"""Numbers of the runtime's dtypes in NumPy: bfloat16, float8, packed weights, and the Philox
generator."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # a NumPy array; which dtype it has is what the kit is about

NATIVE = {
    "bool": np.bool_,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}
#: The spacing of numbers at 1.
EPS = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3": 2.0**-3,
}
FLOATS = tuple(EPS)


def bfloat16_bits(values: Array) -> Array:
    """float32 to the bits of the nearest bfloat16, halves to even; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def _float8_table() -> Array:
    """The numbers of the codes of e4m3, which has no infinities: 0x7f and 0xff are NaN."""
    code = np.arange(128)
    exponent, mantissa = code >> 3, code & 7
    normal = (8 + mantissa) * 2.0 ** (exponent - 10)
    positive = np.where(exponent == 0, mantissa * 2.0**-9, normal)
    positive[127] = np.nan
    return np.concatenate([positive, -positive]).astype(np.float32)


FLOAT8 = _float8_table()


def float8_bits(values: Array) -> Array:
    """The nearest e4m3, halves to even; beyond +-448 it saturates, a NaN stays one."""
    values = np.asarray(values, np.float64)
    magnitude = np.minimum(np.abs(values), 448.0)
    exponent = np.floor(np.log2(np.maximum(magnitude, 2.0**-6)))
    unit = 2.0 ** (exponent - 3)
    rounded = np.rint(magnitude / unit) * unit
    # The codes of positive numbers ascend as they do.
    code = np.searchsorted(FLOAT8[:127], np.nan_to_num(rounded).astype(np.float32))
    code = np.where(np.isnan(values), 127, code)
    return (code + 128 * np.signbit(values)).astype(np.uint8)


def round_to(values: Any, dtype: str) -> Array:
    """Values as the dtype holds them; a bfloat16 or float8 comes as the float32 of the same
    value."""
    values = np.asarray(values)
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            narrow = values.astype(np.float32)
            return from_bfloat16(bfloat16_bits(narrow)).reshape(narrow.shape)
        if dtype == "float8_e4m3":
            return FLOAT8[float8_bits(values)]
        if dtype == "bool":
            return values.astype(bool)
        return values.astype(NATIVE[dtype])


def payload(values: Array, dtype: str) -> bytes:
    """The bytes of values that `round_to` gave."""
    if dtype == "bfloat16":
        return bytes(bfloat16_bits(values).tobytes())
    if dtype == "float8_e4m3":
        return bytes(float8_bits(values).tobytes())
    return np.ascontiguousarray(values, NATIVE[dtype]).tobytes()


def from_payload(data: bytes, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "bfloat16":
        return from_bfloat16(np.frombuffer(data, np.uint16)).reshape(shape)
    if dtype == "float8_e4m3":
        return FLOAT8[np.frombuffer(data, np.uint8)].reshape(shape)
    return np.frombuffer(data, NATIVE[dtype]).reshape(shape)


# ---------------------------------------------------------------- packed weights
#: Scheme name -> where a block has its float16 numbers: the scale, and the scale of the minima. The
#: number of a scheme is that of the type in the ``gguf`` package + 1.
SCHEMES: dict[str, tuple[int, ...]] = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ1_S": (0,),
    "IQ1_M": (),
    "IQ2_XXS": (0,),
    "IQ2_XS": (0,),
    "IQ2_S": (0,),
    "IQ3_XXS": (0,),
    "IQ3_S": (0,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "MXFP4": (),
    "NVFP4": (),
}


def _gguf_type(name: str) -> Any:
    try:
        import gguf
    except ImportError as error:
        raise ImportError(
            "the cases over quantized weights need the gguf package, which decodes them: "
            "pip install gguf"
        ) from error
    return gguf, gguf.GGMLQuantizationType[name]


def scheme_number(name: str) -> int:
    """The number of a scheme in ``plugin.h``: ``"Q8_0"`` -> 9."""
    return int(_gguf_type(name)[1]) + 1


def block_size(name: str) -> tuple[int, int]:
    """Columns and bytes of a block."""
    gguf, kind = _gguf_type(name)
    columns, nbytes = gguf.GGML_QUANT_SIZES[kind]
    return columns, nbytes


def random_blocks(rng: np.random.Generator, name: str, rows: int, columns: int) -> Array:
    """Random blocks of a scheme with every code, and scales of moderate size and both signs:
    uint8 [rows, columns / block columns * block bytes]."""
    per_block, nbytes = block_size(name)
    count = (rows, columns // per_block)
    blocks = rng.integers(0, 256, (*count, nbytes), dtype=np.uint8)

    def halves() -> Array:
        scales = rng.uniform(0.002, 0.02, (*count, 1)) * rng.choice([-1.0, 1.0], (*count, 1))
        return scales.astype(np.float16)

    for at in SCHEMES[name]:
        blocks[..., at : at + 2] = halves().view(np.uint8)
    if name == "IQ1_M":  # the scale's four halves of bytes stand on top of four numbers
        parts = halves().view(np.uint16) >> np.array([0, 4, 8, 12], np.uint16)
        top = ((parts & 15) << 4).astype(np.uint8)
        blocks[..., 49::2] = (blocks[..., 49::2] & 15) | top
    elif name == "MXFP4":  # a power of two
        blocks[..., 0] = rng.integers(115, 124, count, dtype=np.uint8)
    return blocks.reshape(rows, columns // per_block * nbytes)


def decode_blocks(data: Array, name: str) -> Array:
    """The float32 numbers of blocks uint8 [rows, bytes], as the ``gguf`` package decodes them."""
    gguf, kind = _gguf_type(name)
    columns, nbytes = block_size(name)
    if data.size == 0:
        return np.zeros((data.shape[0], data.shape[1] // nbytes * columns), np.float32)
    with np.errstate(over="ignore"):  # a power of two of MXFP4 may be too large
        return gguf.quants.dequantize(data, kind)


def q8_0_rows(values: Array) -> Array:
    """Rows [..., D] as the bytes of blocks of Q8_0, [..., D / 32 * 34]: see `kv_append`."""
    x = np.asarray(values, np.float32).reshape(*values.shape[:-1], -1, 32)
    most = np.abs(x).max(-1, keepdims=True)
    d = np.minimum(most / np.float32(127), np.float32(65504))
    usable = np.isfinite(most) & (d >= np.float32(2.0**-126))
    inverse = np.divide(np.float32(1), d, where=usable, out=np.zeros_like(d))
    scaled = np.where(usable, np.nan_to_num(x) * inverse, 0)
    magnitude = np.minimum(np.abs(scaled), 127)
    codes = np.floor(magnitude) + (magnitude - np.floor(magnitude) >= 0.5)
    blocks = np.empty((*x.shape[:-1], 34), np.uint8)
    blocks[..., :2] = np.where(np.isfinite(most), d, np.nan).astype(np.float16).view(np.uint8)
    blocks[..., 2:] = np.copysign(codes, scaled).astype(np.int8).view(np.uint8)
    return blocks.reshape(*values.shape[:-1], -1)


def q8_0_values(rows: Array) -> Array:
    """What such rows stand for, float64 [..., D]."""
    blocks = rows.reshape(*rows.shape[:-1], -1, 34)
    d = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float64)
    codes = np.ascontiguousarray(blocks[..., 2:]).view(np.int8)
    return (d * codes).reshape(*rows.shape[:-1], -1)


# ---------------------------------------------------------------- random numbers
def philox(counter: Array, offset: Any, seed: Any) -> Array:
    """Philox4x32-10: uint32 words [..., 4] for 64-bit block counters, offsets and seeds."""
    mask = np.uint64(0xFFFFFFFF)
    counter, offset, seed = (
        np.asarray(value).astype(np.int64).view(np.uint64) for value in (counter, offset, seed)
    )
    counter, offset, seed = np.broadcast_arrays(counter, offset, seed)
    shift = np.uint64(32)
    c0, c1, c2, c3 = counter & mask, counter >> shift, offset & mask, offset >> shift
    k0, k1 = seed & mask, seed >> shift
    for _ in range(10):
        a = c0 * np.uint64(0xD2511F53)
        b = c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (b >> shift) ^ c1 ^ k0, b & mask, (a >> shift) ^ c3 ^ k1, a & mask
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    return np.stack([c0, c1, c2, c3], -1).astype(np.uint32)


def uniform(words: Array) -> Array:
    """[0, 1) in steps of 2^-24."""
    return (words >> np.uint32(8)).astype(np.float64) * 2.0**-24
