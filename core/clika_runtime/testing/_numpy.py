"""Numbers of the runtime's dtypes in NumPy: bfloat16, packed weights, and the Philox generator."""

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
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
FLOATS = tuple(EPS)


def bfloat16_bits(values: Array) -> Array:
    """float32 to the bits of the nearest bfloat16, halves to even; a NaN stays one."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def round_to(values: Any, dtype: str) -> Array:
    """Values as the dtype holds them; a bfloat16 comes as the float32 of the same value."""
    values = np.asarray(values)
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            narrow = values.astype(np.float32)
            return from_bfloat16(bfloat16_bits(narrow)).reshape(narrow.shape)
        if dtype == "bool":
            return values.astype(bool)
        return values.astype(NATIVE[dtype])


def payload(values: Array, dtype: str) -> bytes:
    """The bytes of values that `round_to` gave."""
    if dtype == "bfloat16":
        return bytes(bfloat16_bits(values).tobytes())
    return np.ascontiguousarray(values, NATIVE[dtype]).tobytes()


def from_payload(data: bytes, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "bfloat16":
        return from_bfloat16(np.frombuffer(data, np.uint16)).reshape(shape)
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
