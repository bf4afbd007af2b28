"""``SOURCE bench``: rows, columns and refusals, on a tiny llama that counts for ever."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from clika_runtime.modelverse import benchmark
from clika_runtime.modelverse.engine import Engine
from clika_runtime.modelverse.scheduler import Scheduler
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
        admitted = (int(row["isl"]) - 1) // 16 * 16 * int(row["concurrency"])
        assert (row["admitted_tok"], row["num_inflight_park_waits"]) == (str(admitted), "")
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


def recorded(monkeypatch) -> list[list[int]]:
    """The prompts of all requests from now on."""
    prompts: list[list[int]] = []
    submit = Scheduler.submit

    def kept(self, request):
        prompts.append(list(request.tokens))
        submit(self, request)

    monkeypatch.setattr(Scheduler, "submit", kept)
    return prompts


SMALL = ("--isl", "8", "--osl", "2", "--concurrency", "2", "--warmup", "1", "--iters", "2")


def test_prompts_of_a_pass_share_their_beginning(counter, monkeypatch):
    prompts = recorded(monkeypatch)
    assert call(counter, "bench", *SMALL, "--shared-prefix", "5", "-q").status == 0
    assert len(prompts) == 6  # three passes of two sessions
    for first, second in zip(prompts[::2], prompts[1::2], strict=True):
        assert first[:5] == second[:5] and first[5:] != second[5:]
    assert prompts[0][:5] != prompts[2][:5]  # a pass has a prefix of its own


@pytest.mark.parametrize(
    ("flag", "repeated"), [("--repeat-prompts", True), ("--unique-prompts", False)]
)
def test_prompts_are_repeated_or_fresh(counter, monkeypatch, flag, repeated):
    prompts = recorded(monkeypatch)
    assert call(counter, "bench", *SMALL, flag, "-q").status == 0
    assert (prompts[:2] == prompts[2:4] == prompts[4:]) == repeated
    assert len({tuple(prompt) for prompt in prompts}) == (2 if repeated else 6)


@pytest.mark.parametrize(
    ("words", "held"),
    [
        (("--kvcache", "continuous"), {"layout": "continuous"}),
        ((), {"layout": "paged", "max_tokens": 10}),  # the longest cell is the window
        (("--max-seq", "64"), {"max_tokens": 64}),
        (("--dtype", "bfloat16"), {"dtype": "bfloat16"}),
    ],
)
def test_load_flags_apply(counter, monkeypatch, words, held):
    configs = []
    measured = benchmark._measure

    def kept(model, *more):
        configs.append(model.engine.cache.config)
        measured(model, *more)

    monkeypatch.setattr(benchmark, "_measure", kept)
    assert call(counter, "bench", *SMALL, *words, "-q").status == 0
    (config,) = configs
    assert {name: getattr(config, name) for name in held} == held


def test_a_step_takes_no_more_tokens_than_its_budget(counter, monkeypatch):
    steps = []
    step = Engine.step

    def kept(self, work):
        steps.append(sum(len(item.tokens) for item in work))
        return step(self, work)

    monkeypatch.setattr(Engine, "step", kept)
    words = ("--isl", "20", "--osl", "2", "--concurrency", "1", "--warmup", "0")
    result = call(counter, "bench", *words, "--step-token-budget", "6")
    assert steps == [6, 6, 6, 2, 1]
    (row,) = rows_of(result.out)
    assert float(row["prefill_chunk_ms_max"]) >= float(row["prefill_chunk_ms_p50"]) > 0


def test_rows_that_are_done_outlive_the_run(counter, tmp_path, monkeypatch):
    measured = benchmark._measure

    def stopped(model, device, row, *more):
        if row.osl == 3:
            raise KeyboardInterrupt
        measured(model, device, row, *more)

    monkeypatch.setattr(benchmark, "_measure", stopped)
    words = ("--cells", "8:2,8:3", "--concurrency", "1", "--warmup", "0")
    result = call(counter, "bench", *words, "--output", tmp_path / "out")
    assert result.status == 130
    (row,) = rows_of((tmp_path / "out.csv").read_text())
    assert (row["osl"], row["status"]) == ("2", "ok")
    (kept,) = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert kept["decode_tok_s"] == pytest.approx(float(row["decode_tok_s"]), rel=1e-5)


def test_memory_stages(counter, tmp_path):
    """After the weights are bound, after one forward pass, after the first generation."""
    path = tmp_path / "stages"
    assert call(counter, "bench", *SMALL, "--memory-stages", path, "-q").status == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["stage"] for line in lines] == ["weights", "forward", "generation"]
    counts = [line["devices"][0]["allocations"] for line in lines]
    assert counts[0] < counts[1] < counts[2]


def test_diagnostics_say_load_and_peak(counter):
    result = call(counter, "bench", *SMALL, "-v")
    assert "load-seconds" in result.err
    assert "peak memory of the process" in result.err
    assert "load-seconds" not in call(counter, "bench", *SMALL).err


def test_profile(counter):
    """One pass more of each cell, beside the rows: what its operators took."""
    words = ("--cells", "8:4,40:3", "--concurrency", "2", "--prefill-chunk", "16")
    result = call(counter, "bench", *words, "--profile", "-q")
    assert result.status == 0
    assert [row["retires"] for row in rows_of(result.out)] == ["6", "6"]
    lines = result.err.splitlines()
    start = lines.index("Profiling Report Summary:")
    # 8:4 is a step for both prompts and three for the other tokens; 40:3 is five steps of 16 at
    # most and then what is left of the slower reply.
    steps = int(re.match(r"  (\d+) steps in [\d.]+ ms, [\d.]+ ms of it", lines[start + 1])[1])
    assert steps >= 4 + 5 + 2
    assert lines[start + 2] == "  top_ops:"
    ranks = [
        re.match(r" +(\d+)\. (\w+): ([\d.]+) ms \(([\d.]+) %\)", x) for x in lines[start + 3 :]
    ]
    ranks = [found for found in ranks if found]
    seconds = [float(found[3]) for found in ranks]
    assert seconds == sorted(seconds, reverse=True)
    named = {found[2] for found in ranks}
    assert len({"linear", "linears", "gated_linear", "paged_attention", "sample"} & named) >= 3
    head = next(i for i, x in enumerate(lines) if x.startswith("Step "))
    assert "AvgSelf(us)" in lines[head]
    split = [re.split(r"  +", x.strip()) for x in lines[head + 1 :]]
    rows = {(cells[0], cells[1]): cells for cells in split}
    assert {step for step, _ in rows} >= {"decode step", "sample step", "fill step"}
    for cells in rows.values():
        calls, own, average = int(cells[2]), float(cells[3]), float(cells[4])
        assert average == pytest.approx(own / calls, abs=0.01 + 0.1 / calls)
    # One layer: a step samples once, and attention runs once.
    assert rows["decode step", "sample"][2] == rows["decode step", "paged_attention"][2]


def test_the_media_sweep_is_refused_by_name(counter):
    result = call(counter, "mm_bench")
    assert result.status == 3
    assert "family 'llama' (text->text) provides no mm_bench (it provides: " in result.err


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
        (("--profile-pipeline",), "steps of one engine, not as a pipeline with nodes; --profile"),
        (("--audio-seconds", "5,30"), "the model reads text; its sweep is --cells"),
        (("--output", ""), ""),
    ],
)
def test_refusals_come_before_the_load(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = call(tmp_path / "absent.gguf", "bench", *words)
    assert result.status != 0
    assert "Traceback" not in result.err
    assert message in result.err


def test_the_columns_are_explained(counter):
    text = call(counter, "bench", "--help").out
    assert "default: the longest cell" in text
    legend = text[text.index("columns of the table") :]
    entries = re.findall(r"^  (\w+)  +\S", legend, re.MULTILINE)
    result = call(
        counter, "bench", "--isl", "4", "--osl", "2", "--concurrency", "1", "--warmup", "0"
    )
    assert entries == result.lines()[0].split(",")
    assert max(map(len, text.splitlines())) <= 100
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
    for name in entries:
        assert f"| `{name}` | " in page
