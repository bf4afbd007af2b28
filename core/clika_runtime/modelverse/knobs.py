"""The knobs of a generation, the lowest and highest value of each, and what a model computes in:
for the library and for the command line, which refuses a value before anything is loaded."""

from __future__ import annotations

__all__ = ["CACHE_DTYPES", "COMPUTE_DTYPES", "REAL", "WHOLE"]

#: What activations may be in.
COMPUTE_DTYPES = ("float32", "bfloat16", "float16")
#: What the cache may be in (`cache_rows`).
CACHE_DTYPES = (*COMPUTE_DTYPES, "q8_0", "fp8")

WHOLE: dict[str, tuple[int, int]] = {
    "max_new_tokens": (1, 1 << 31),
    "top_k": (0, (1 << 31) - 1),
    "seed": (0, (1 << 63) - 1),
}
REAL: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 1e6),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
}
