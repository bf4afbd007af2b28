"""The conformance kit of model families: what every family must show, whoever wrote it.

A family's tests bring an engine over its model (see ``clika_runtime.modelverse.engine.Engine``) and
a reference: a function from token ids to logits, float32 ``[tokens, vocabulary]``. The checks raise
``AssertionError`` with the numbers when they fail.

    check_against_reference(engine, reference, ids, tolerance=1e-4)
    check_same_bits(engine, ids)
    check_cache_edits(engine, ids)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "check_against_reference",
    "check_batch",
    "check_cache_edits",
    "check_same_bits",
    "check_traced_steps",
    "relative_error",
]

Reference = Callable[[Sequence[int]], Any]


def relative_error(got: Any, expected: Any) -> float:
    """The largest difference, over the largest magnitude expected."""
    import numpy as np

    if got.shape != expected.shape:
        raise AssertionError(f"shapes differ: got {got.shape}, expected {expected.shape}")
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()
    return float(difference / np.abs(expected).max())


def _assert_close(what: str, got: Any, expected: Any, tolerance: float) -> None:
    error = relative_error(got, expected)
    # A NaN fails the comparison.
    if not error <= tolerance:
        raise AssertionError(
            f"{what}: error {error:.3g} of the largest logit, allowed is {tolerance:.3g}"
        )


def _assert_bits(what: str, got: Any, expected: Any) -> None:
    import numpy as np

    if got.shape != expected.shape:
        raise AssertionError(f"{what}: shapes differ: got {got.shape}, expected {expected.shape}")
    differing = int((got.view(np.uint32) != expected.view(np.uint32)).sum())
    if differing:
        raise AssertionError(f"{what}: {differing} of {got.size} logits differ in their bits")


def check_against_reference(
    engine: Any, reference: Reference, ids: Sequence[int], tolerance: float, decode: int = 8
) -> None:
    """Prefill of all but the last ``decode`` ids, then one step per id, each against the
    reference."""
    import numpy as np

    expected = reference(ids)
    start = len(ids) - decode
    sequence = engine.cache.add()
    try:
        parts = [engine.extend([sequence], [ids[:start]])[0]]
        _assert_close("prefill", parts[0], expected[:start], tolerance)
        parts += [engine.extend([sequence], [[token]])[0] for token in ids[start:]]
    finally:
        engine.cache.free(sequence)
    _assert_close("cached decode", np.concatenate(parts), expected, tolerance)


def check_batch(
    engine: Any,
    reference: Reference,
    prompts: Sequence[Sequence[int]],
    tolerance: float,
    decode: int = 8,
) -> None:
    """Prompts of unequal lengths side by side: one prefill step, then ``decode`` steps over all of
    them."""
    import numpy as np

    sequences = [engine.cache.add() for _ in prompts]
    try:
        parts = [[rows] for rows in engine.extend(sequences, [ids[:-decode] for ids in prompts])]
        for step in range(decode):
            tokens = [[ids[len(ids) - decode + step]] for ids in prompts]
            for held, rows in zip(parts, engine.extend(sequences, tokens), strict=True):
                held.append(rows)
    finally:
        for sequence in sequences:
            engine.cache.free(sequence)
    for number, (ids, rows) in enumerate(zip(prompts, parts, strict=True)):
        _assert_close(
            f"sequence {number} of a batch", np.concatenate(rows), reference(ids), tolerance
        )


def check_traced_steps(engine: Any, ids: Sequence[int], decode: int = 3) -> None:
    """A prefill and decode steps give the same bits eagerly, as plans of the engine, and compiled
    by `clika_runtime.compile` (without the transforms)."""
    import clika_runtime as crt

    compiled = crt.compile(engine.eager, optimize=False)
    runs = {"eager": engine.eager, "traced": None, "compiled": compiled}
    sequences = {name: engine.cache.add() for name in runs}
    start = len(ids) - decode
    try:
        for piece in (ids[:start], *([token] for token in ids[start:])):
            found = {
                name: engine.extend([sequences[name]], [piece], run)[0]
                for name, run in runs.items()
            }
            for name in ("traced", "compiled"):
                _assert_bits(f"{name} step of {len(piece)}", found[name], found["eager"])
        if compiled.state.name != "Compiled":
            raise AssertionError("compile: the forward pass was served eagerly")
    finally:
        for sequence in sequences.values():
            engine.cache.free(sequence)


def check_same_bits(engine: Any, ids: Sequence[int], chunks: Sequence[int] = (1, 5, 64)) -> None:
    """The numerics policy: chunking, batch size and the rows wanted leave no trace in the bits."""
    import numpy as np

    cache = engine.cache
    sequence = cache.add()
    whole = engine.extend([sequence], [ids])[0]
    cache.free(sequence)
    for chunk in chunks:
        sequence = cache.add()
        parts = [
            engine.extend([sequence], [ids[start : start + chunk]])[0]
            for start in range(0, len(ids), chunk)
        ]
        cache.free(sequence)
        _assert_bits(f"prefill in chunks of {chunk}", np.concatenate(parts), whole)
    batch = min(7, cache.free_sequences)
    sequences = [cache.add() for _ in range(batch)]
    # Neighbours of other lengths and contents, so that every row position is another one.
    others = [list(reversed(ids[: len(ids) - number])) for number in range(batch - 1)]
    rows = engine.extend(sequences, [*others, ids])
    for sequence in sequences:
        cache.free(sequence)
    _assert_bits(f"batch of {batch} against 1", rows[-1], whole)
    if batch > 1:
        _check_rows_wanted(engine, ids)


def _check_rows_wanted(engine: Any, ids: Sequence[int]) -> None:
    """The last block may leave out what does not lead to a row wanted."""
    import numpy as np

    import clika_runtime as crt

    cache = engine.cache
    sequences = [cache.add(), cache.add()]
    texts = [ids[: len(ids) // 2], ids]
    arrays = cache.prepare_step(sequences, [len(text) for text in texts])
    device = cache.config.device
    tokens = crt.tensor(np.concatenate(texts).astype(np.int32), device=device)
    positions = crt.tensor(arrays.positions, device=device)
    rows = crt.tensor(arrays.cu_seqlens[2:] - 1, device=device)
    found = []
    for bounds in (None, np.array([0, 0, 1], np.int32)):
        step = cache.step(arrays)
        step.row_bounds = None if bounds is None else crt.tensor(bounds, device=device)
        hidden = engine.model(tokens, positions, step, rows)
        found.append(hidden.to(crt.float32).cpu().numpy())
    for sequence in sequences:
        cache.free(sequence)
    _assert_bits("rows wanted alone", found[1], found[0])


def check_cache_edits(engine: Any, ids: Sequence[int]) -> None:
    """Truncate, fork, snapshot and restore: what follows is as if the edits had been made on the
    text."""
    import numpy as np

    cache = engine.cache
    free = cache.free_blocks
    half = len(ids) // 2
    sequence = cache.add()
    whole = engine.extend([sequence], [ids])[0]
    cache.truncate(sequence, half)
    _assert_bits("truncate", engine.extend([sequence], [ids[half:]])[0], whole[half:])

    cache.truncate(sequence, half)
    twin = cache.fork(sequence)
    other = [(token + 1) % engine.model.vocab_size for token in ids[half:]]
    engine.extend([twin], [other])
    _assert_bits("fork", engine.extend([sequence], [ids[half:]])[0], whole[half:])
    cache.free(twin)

    cache.truncate(sequence, half)
    kept = cache.snapshot(sequence)
    engine.extend([sequence], [other])
    cache.restore(sequence, kept)
    cache.release(kept)
    _assert_bits("snapshot", engine.extend([sequence], [ids[half:]])[0], whole[half:])
    cache.free(sequence)
    if cache.free_blocks != free:
        raise AssertionError(f"the edits lost blocks: {cache.free_blocks} are free, {free} were")
    if not np.isfinite(whole).all():
        raise AssertionError("the logits are not finite")
