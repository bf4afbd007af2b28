"""What the benchmarks beside other programs share, and the page made of their results."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness, tables
from benchmarks.harness import Ceiling, Report, Row, Spread


def row(ours: float = 2.0, threads: int = 1, **more: Any) -> Row:
    named: dict[str, Any] = {"beside": "llama.cpp", "target": 1.5, **more}
    found = {"ours": Spread.of([ours]), "a": Spread.of([1.0]), "b": Spread.of([0.5])}
    return Row.of("tiny Q4_0", "decode", threads, "tokens/s", found=found, **named)


def report(path: Path) -> Report:
    options = argparse.Namespace(json=path, rounds=1, no_peer=True)
    return Report("some_table", "A table.\n\nMore.", options)


def test_the_page_is_that_of_the_results() -> None:
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page()


def test_the_best_peer_counts() -> None:
    fast = row()
    assert (fast.peer, fast.ratio, fast.met, fast.missed) == ("a", 2.0, True, False)
    assert row(1.2).missed
    quick = row(0.6, lower=True, target=1.2)
    assert (quick.peer, quick.ratio, quick.met) == ("b", 1.2, True)
    assert row(0.7, lower=True, target=1.2).missed
    small = row(100.0, lower=True, target=101.0, absolute=True)
    assert (small.ratio, small.met) == (200.0, True)
    assert row(100.0, lower=True, target=99.0, absolute=True).missed


def test_without_a_peer_a_ratio_stays_open() -> None:
    alone = Row.of("m", "decode", 1, "s", found={"ours": Spread.of([1.0])}, target=2.0)
    assert (alone.peer, alone.ratio, alone.met, alone.missed) == ("", None, None, False)
    assert "not measured" in str(alone)


def test_ceilings_have_targets_of_their_own() -> None:
    low = row(ceiling=lambda rate: Ceiling("reads", 10.0, 3 * rate, 70))
    assert low.ceiling is not None and low.ceiling.percent == 60
    assert low.met and low.missed
    assert "60 % of reads, target 70 %: MISSED" in str(low)


def test_turns_alternate_and_the_first_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "PAUSE", 0.0)
    order: list[str] = []

    def call(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = harness.take_turns({"a": lambda: call("a"), "b": lambda: call("b")}, 2)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [4.0, 5.0], "b": [3.0, 6.0]}


def test_a_run_replaces_the_rows_that_it_measures(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    first = report(path)
    first.add(row(2.0))
    first.add(row(3.0, threads=2))
    assert first.close() == 0
    second = report(path)
    second.add(row(1.0, threads=2))
    assert second.close() == 1  # a target was missed
    document = json.loads(path.read_text())
    assert [(one["threads"], one["ours"]["median"]) for one in document["rows"]] == [
        (1, 2.0),
        (2, 1.0),
    ]
    text = tables.page(tmp_path)
    assert "## some_table\n\nA table.\n" in text
    assert (
        "| tiny Q4_0 | decode, tokens/s | 2 | 1 | 1, a | 1.00 | ≥ 1.5 **missed** |  | "
        f"{document['rows'][1]['date']} |" in text
    )
    assert text.count("**missed**") == 2  # one of them in the words above the tables


def test_a_table_of_another_machine_stands_behind_the_first_one(tmp_path: Path) -> None:
    for name in ("some_table.json", "some_table_small.json"):
        made = report(tmp_path / name)
        made.add(row())
        made.close()
    path = tmp_path / "some_table_small.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "note": "Without a fan."}))
    text = tables.page(tmp_path)
    assert text.index("## some_table\n") < text.index("## some_table_small\n")
    assert text.count("Without a fan.") == 1


def test_results_of_another_machine_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    report(path).add(row())
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "machine": "an abacus"}))
    with pytest.raises(SystemExit, match="another machine \\(an abacus\\)"):
        report(path)
    path.write_text("[]")
    with pytest.raises(SystemExit, match="no file of results"):
        report(path)
    assert "Other results\n\nIn forms of their own" in tables.page(tmp_path)


def test_ours_alone_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    options = argparse.Namespace(json=None, rounds=1, no_peer=True)
    Report("some_table", "A table.", options).add(row())
    assert not list(tmp_path.iterdir())
    options.no_peer = False
    Report("some_table", "A table.", options, peers=()).add(row())
    assert [path.name for path in tmp_path.iterdir()] == ["some_table.json"]


@pytest.mark.parametrize("words", [("--rounds", "0"), ("--threads", "1,x"), ("--threads", "")])
def test_numbers_begin_at_one(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        harness.parser("A table.", 3).parse_args(words)
    assert "is no whole number from 1 on" in capsys.readouterr().err


def test_a_peer_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(harness.PACKAGES, "llama.cpp", "an_absent_package")
    with pytest.raises(SystemExit, match=r"peer llama.cpp is not installed .*--no-peer"):
        harness.require("llama.cpp")
