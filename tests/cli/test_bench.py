"""``SOURCE bench``: rows, columns and refusals, on a tiny llama that counts for ever."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.cli.harness import call, run
from tests.cli.tiny import COUNTING, write_model

# The columns of the page on benchmarks, in its order.
HEADER = (
    "isl,osl,concurrency,first_call_ms,ttft_ms,prefill_tok_s,itl_p50_ms,itl_p99_ms,"
    "prefill_chunk_ms_p50,prefill_chunk_ms_max,decode_tok_s,speedup_vs_c1,batching_efficiency,"
    "admitted_tok,retires,peak_active_bytes,num_allocs,num_inflight_park_waits,status,reason,notes"
)


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "counter", COUNTING, template=None)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_row_for_each_cell_and_number_of_sessions(counter, tmp_path):
    words = ("--cells", "8:6,40:3", "--concurrency", "1,3", "--warmup", "1", "--iters", "2")
    result = run(counter, "bench", *words, "--prefill-chunk", "16", "--output", tmp_path / "out")
    assert result.status == 0, result.err
    assert result.lines()[0] == HEADER
    rows = rows_of(result.out)
    shapes = [tuple(int(row[name]) for name in ("isl", "osl", "concurrency")) for row in rows]
    assert shapes == [(8, 6, 1), (8, 6, 3), (40, 3, 1), (40, 3, 3)]
    for row in rows:
        assert (row["status"], row["reason"]) == ("ok", "")
        assert row["notes"].startswith("prompts=cold (a fresh prompt every iteration;")
        assert "% of what reading weights and cache" in row["notes"]
        assert int(row["retires"]) == 3 * int(row["concurrency"])
        assert (row["admitted_tok"], row["num_inflight_park_waits"]) == ("", "")
        assert int(row["peak_active_bytes"]) > 0
        times = [float(row[name]) for name in ("first_call_ms", "ttft_ms", "itl_p50_ms")]
        assert min(times) > 0
        assert float(row["itl_p99_ms"]) >= float(row["itl_p50_ms"])
        # The rates are those of the times: 6 significant digits of each are shown.
        ingest = int(row["isl"]) / float(row["ttft_ms"]) * 1e3
        assert float(row["prefill_tok_s"]) == pytest.approx(ingest, rel=1e-4)
        efficiency = float(row["speedup_vs_c1"]) / int(row["concurrency"])
        assert float(row["batching_efficiency"]) == pytest.approx(efficiency, rel=1e-4)
        # A prompt of 40 takes three steps of 16, one of 8 none that is followed by another.
        chunked = int(row["isl"]) > 16 or int(row["concurrency"]) > 2
        assert (float(row["prefill_chunk_ms_max"]) > 0) == chunked
    assert [row["speedup_vs_c1"] for row in rows[::2]] == ["1", "1"]
    assert (tmp_path / "out.csv").read_text() == result.out
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["schema"] == 1
    assert [row["decode_tok_s"] > 0 for row in document["rows"]] == [True] * 4


def test_a_quantized_cache(counter):
    words = ("--cells", "8:4", "--concurrency", "2", "--warmup", "0", "-v")
    result = call(counter, "bench", *words, "--kv-quant", "q8_0")
    assert result.status == 0, result.err
    assert [row["status"] for row in rows_of(result.out)] == ["ok"]
    assert "= q8_0 (load)" in result.err


def test_repeated_prompts_are_said(counter):
    words = ("--isl", "8", "--osl", "2", "--concurrency", "1", "--warmup", "0")
    result = call(counter, "bench", *words, "--repeat-prompts", "-q")
    (row,) = rows_of(result.out)
    assert row["notes"].startswith("prompts=repeated (every pass has the same prompts)")


def test_a_cell_that_does_not_fit_leaves_the_others(counter):
    words = ("--cells", "64:4,8:2", "--concurrency", "1", "--warmup", "0", "--max-seq", "32")
    result = call(counter, "bench", *words)
    first, second = rows_of(result.out)
    assert result.status == 1
    assert first["status"] == "error"
    assert "64 tokens, the context window holds 32" in first["reason"]
    assert first["ttft_ms"] == ""
    assert second["status"] == "ok"
    assert "cell 64:4 with 1 sessions" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cells", "8"), "no PROMPT:REPLY"),
        (("--cells", "8:0"), "out of range"),
        (("--cells", "8:x"), "not a whole number"),
        (("--concurrency", "1,,2"), "not a whole number"),
        (("--concurrency", "0"), "out of range"),
        (("--isl", "8"), "give both"),
        (("--cells", "8:8", "--isl", "8", "--osl", "8"), "exclude each other"),
        (("--unique-prompts", "--repeat-prompts"), "not allowed with"),
        (("--iters", "0"), "out of range"),
        (("--kv-quant", "q8_1"), "invalid choice: 'q8_1'"),
        (("--output", "absent-folder/out"), "absent-folder"),
        (("--output", ""), ""),
    ],
)
def test_refusals_come_before_the_load(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = call(tmp_path / "absent.gguf", "bench", *words)
    assert result.status != 0
    assert "Traceback" not in result.err
    assert message in result.err
