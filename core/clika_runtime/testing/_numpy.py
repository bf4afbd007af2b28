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
#: Scheme number -> (name, bytes of a block of 32).
SCHEMES = {3: ("q4_0", 18), 4: ("q4_1", 20), 9: ("q8_0", 34)}


def random_blocks(rng: np.random.Generator, scheme: int, rows: int, columns: int) -> Array:
    """Random blocks of a scheme with sane scales: uint8 [rows, columns / 32 * block bytes]."""
    size = SCHEMES[scheme][1]
    blocks = rng.integers(0, 256, (rows, columns // 32, size), dtype=np.uint8)
    scales = rng.uniform(0.002, 0.02, (rows, columns // 32, 1)).astype(np.float16)
    blocks[..., :2] = scales.view(np.uint8)
    if scheme == 4:
        minima = rng.uniform(-0.1, 0.1, (rows, columns // 32, 1)).astype(np.float16)
        blocks[..., 2:4] = minima.view(np.uint8)
    return blocks.reshape(rows, -1)


def decode_blocks(data: Array, scheme: int) -> Array:
    """The float32 numbers of blocks. A block holds a float16 scale, for q4_1 a float16 minimum,
    then 32 codes; of 4-bit codes, the low halves of the bytes come before the high ones."""
    blocks = data.reshape(data.shape[0], -1, SCHEMES[scheme][1])
    scale = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float32)
    if scheme == 9:
        codes = np.ascontiguousarray(blocks[..., 2:]).view(np.int8).astype(np.float32)
        return (scale * codes).reshape(data.shape[0], -1)
    packed = blocks[..., 4 if scheme == 4 else 2 :]
    codes = np.concatenate([packed & 15, packed >> 4], -1).astype(np.float32)
    if scheme == 3:
        return (scale * (codes - 8)).reshape(data.shape[0], -1)
    minimum = np.ascontiguousarray(blocks[..., 2:4]).view(np.float16).astype(np.float32)
    return (scale * codes + minimum).reshape(data.shape[0], -1)


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
