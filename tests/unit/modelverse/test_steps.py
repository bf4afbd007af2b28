"""Arrays of decode steps that do not belong together are refused, and nothing is half taken."""

import numpy as np
import pytest

from clika_runtime._native._steps import DecodeRows, SequenceState, StepArrays, Work


def arrays(size: int) -> list[np.ndarray]:
    return [np.zeros(size, np.int32) for _ in range(3)]


def step(rows: int) -> StepArrays:
    positions, slots, lengths = arrays(rows)
    states = [SequenceState([0], 1) for _ in range(rows)]
    return StepArrays(positions, slots, None, None, lengths, range(rows), states)


def rows_of(step: StepArrays, rows: int) -> DecodeRows:
    tokens, index = np.zeros(rows, np.int32), np.zeros(rows, np.int64)
    return DecodeRows(step, [None] * rows, tokens, index, 8, 40)


def test_sequences_without_states() -> None:
    with pytest.raises(ValueError, match="0 sequences have 1 states"):
        StepArrays(*arrays(1)[:2], None, None, arrays(1)[0], (), [SequenceState([0], 1)])


def test_shorter_arrays_leave_the_step_as_it_is() -> None:
    held = step(3)
    before = held.positions
    short, long = np.zeros(2, np.int32), np.zeros(3, np.int32)
    for given in ((short, long, long), (long, short, long), (long, long, short)):
        with pytest.raises(ValueError):
            held.lie_in(*given)
        with pytest.raises(ValueError):
            states = [SequenceState([0], 1) for _ in range(3)]
            held.__init__(*given[:2], None, None, given[2], range(3), states)  # type: ignore[misc]
    assert held.positions is before
    held.move_on()
    assert held.positions.tolist() == held.slots.tolist() == held.kv_lens.tolist() == [1, 1, 1]
    assert (short.tolist(), long.tolist()) == ([0, 0], [0, 0, 0])


def test_rows_of_another_number() -> None:
    held = step(2)
    with pytest.raises(ValueError, match="a step of 2 sequences needs as many rows"):
        rows_of(held, 3)
    rows = rows_of(held, 2)
    with pytest.raises(ValueError):
        rows.__init__(held, [None] * 5, np.zeros(2, np.int32), np.zeros(2, np.int64), 8, 40)  # type: ignore[misc]
    assert rows.follow([Work(0, [5]), Work(1, [6])])
    assert not rows.follow([Work(0, [5])] * 5)


def test_tokens_that_are_no_numbers_of_32_bits() -> None:
    held = step(1)
    rows = rows_of(held, 1)
    for token, error in ((1 << 31, OverflowError), ("7", TypeError), (None, TypeError)):
        with pytest.raises(error):
            rows.follow([Work(0, [token])])
    assert held.states[0].length == 1
    assert held.positions.tolist() == [0]
