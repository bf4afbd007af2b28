"""llama.cpp's tokenizer, where the `llama-cpp-python` package is installed."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

__all__ = ["LlamaCpp"]


class LlamaCpp:
    """The vocabulary of a GGUF file in llama.cpp. ``ImportError`` where there is no binding."""

    def __init__(self, path: str | Path) -> None:
        import llama_cpp

        self._library: Any = llama_cpp
        self._quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
        llama_cpp.llama_log_set(self._quiet, None)
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        options.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        assert self._model, f"llama.cpp does not load {path}"
        self._vocabulary = llama_cpp.llama_model_get_vocab(self._model)

    def close(self) -> None:
        self._library.llama_model_free(self._model)

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        data = text.encode()
        size = len(data) + 16
        while True:
            ids = (self._library.llama_token * size)()
            count = self._library.llama_tokenize(
                self._vocabulary, data, len(data), ids, size, add_special, parse_special
            )
            if count >= 0:
                return list(ids[:count])
            size = -count

    def piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(1 << 12)
        size = self._library.llama_token_to_piece(
            self._vocabulary, token, buffer, len(buffer), 0, True
        )
        return buffer.raw[:size]
