"""Logits that are no numbers end the request that has them, by name, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clika_runtime.errors import InternalError
from clika_runtime.modelverse.generation import load_generative
from clika_runtime.modelverse.loader import LoadOptions
from tests.unit.modelverse import models

SICK, HEALTHY = "x", "hello"


def write(folder: Path, damage: Any) -> None:
    """The small checkpoint after ``damage(tensors, ids)``."""
    config = models.write_model(folder, template=False)
    values = models.tensors(config)
    damage(values, models.vocabulary())
    models.write_weights(folder, values)


def poison_a_token(values: dict[str, Any], ids: dict[str, int]) -> None:
    values["model.embed_tokens.weight"][ids[SICK]] = np.nan


def test_every_weight_nan(tmp_path: Path) -> None:
    def poison(values: dict[str, Any], ids: dict[str, int]) -> None:
        values["lm_head.weight"][:] = np.nan

    write(tmp_path, poison)
    model = load_generative(tmp_path, LoadOptions(max_seq=64))
    for options in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}):
        with pytest.raises(InternalError, match=r"token 1 of the reply \(position 5\)") as caught:
            model.generate(HEALTHY, **options)
        assert caught.value.code_name == "NOT_A_NUMBER"
    cache = model.engine.cache
    assert cache.free_blocks == cache.config.num_blocks


def test_the_failing_step_is_named(tmp_path: Path) -> None:
    """The model goes to the poisoned token by itself, so that its second token fails."""

    def chain(values: dict[str, Any], ids: dict[str, int]) -> None:
        for name in values:
            if "o_proj" in name or "down_proj" in name:
                values[name][:] = 0.0
        values["model.norm.weight"][:] = 1.0
        values["lm_head.weight"][:] = 0.0
        values["lm_head.weight"][ids[SICK]] = values["model.embed_tokens.weight"][ids["o"]]
        poison_a_token(values, ids)

    write(tmp_path, chain)
    model = load_generative(tmp_path, LoadOptions(max_seq=64))
    stream = model.stream_generate(HEALTHY, max_new_tokens=8)
    assert next(stream) == SICK
    with pytest.raises(InternalError, match=r"token 2 of the reply \(position 6\)"):
        next(stream)


def test_requests_beside_and_after_it_are_untouched(tmp_path: Path) -> None:
    write(tmp_path, poison_a_token)
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 0.0}
    model = load_generative(tmp_path, LoadOptions(max_seq=64, max_sequences=3))
    alone = model.generate(HEALTHY, **options)
    sick = model.stream_generate("ax" * 8, **options)
    beside = model.stream_generate(HEALTHY, **options)
    with pytest.raises(InternalError, match="NaN"):
        list(sick)
    assert "".join(beside) == alone
    assert np.isnan(model.engine.cache.pools[0][0].numpy()).any()
    # The cache blocks that held NaN serve the next requests, whose lengths end inside a block.
    for text in (HEALTHY, "h", HEALTHY * 3):
        fresh = load_generative(tmp_path, LoadOptions(max_seq=64))
        assert model.generate(text, **options) == fresh.generate(text, **options)
        assert np.isfinite(model.logits(text)).all()
