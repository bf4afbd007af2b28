"""The knobs of a generation, the lowest and highest value of each, and what a model computes in:
for the library and for the command line, which refuses a value before anything is loaded."""

from __future__ import annotations

__all__ = [
    "CACHE_DTYPES",
    "COMPUTE_DTYPES",
    "MAX_BIASES",
    "MAX_DRAFT",
    "MAX_TOP_LOGPROBS",
    "REAL",
    "WHOLE",
]

#: What activations may be in.
COMPUTE_DTYPES = ("float32", "bfloat16", "float16")
#: What the cache may be in (`cache_rows`).
CACHE_DTYPES = (*COMPUTE_DTYPES, "q8_0", "fp8")

#: Biases and bans of one request.
MAX_BIASES = 1 << 16
#: Tokens of a draft that one step looks at.
MAX_DRAFT = 15
#: The likeliest tokens that a request may ask for beside each of its own.
MAX_TOP_LOGPROBS = 20

_WINDOW = (1 << 31) - 1
WHOLE: dict[str, tuple[int, int]] = {
    "max_new_tokens": (1, 1 << 31),
    "top_k": (0, (1 << 31) - 1),
    "seed": (0, (1 << 63) - 1),
    "penalty_window": (0, _WINDOW),
    "dry_allowed_length": (1, _WINDOW),
    "top_logprobs": (0, MAX_TOP_LOGPROBS),
    "prompt_lookup_num_tokens": (0, MAX_DRAFT),
    "num_assistant_tokens": (1, MAX_DRAFT),
}
REAL: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 1e6),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "top_n_sigma": (0.0, 1e6),
    "typical_p": (0.0, 1.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "repetition_penalty": (1e-6, 1e6),
    "frequency_penalty": (-1e6, 1e6),
    "presence_penalty": (-1e6, 1e6),
    "dry_multiplier": (0.0, 1e6),
    "dry_base": (1.0, 1e6),
    "mirostat_tau": (0.0, 1e3),
    "mirostat_eta": (0.0, 1.0),
}
