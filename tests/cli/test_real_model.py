"""A real model through the command line: what the README shows."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.harness import call, run
from tests.readme import example


def test_it_answers_a_question(smollm2_gguf):
    result = run(smollm2_gguf, "prompt", "Name the capital of France.", "--greedy")
    assert (result.status, result.out) == (0, "The capital of France is Paris.\n")
    assert re.search(r"36 prompt tokens, .* 7 new tokens", result.err)


def test_the_exact_path_and_a_seed(smollm2_gguf):
    words = ("prompt", "Name three rivers.", "--max-new-tokens", "8", "--temperature", "0.8", "-q")
    first = call(smollm2_gguf, *words, "--seed", "3", "--exact")
    assert (first.status, first.err) == (0, "")
    assert first.out.strip()
    assert call(smollm2_gguf, *words, "--seed", "3", "--exact").out == first.out


def test_conversations_from_python(smollm2_gguf, tmp_path, monkeypatch, capsys):
    pytest.importorskip("llguidance")
    (tmp_path / "model.gguf").symlink_to(smollm2_gguf)
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(example('model = mv.AutoModelForCausalLM.from_pretrained("./model.gguf", device='), found)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The capital of France is Paris."
    assert lines[1:3] == ["stop 7", "Paris"]
    assert "Italy" in lines[3] or "Rome" in lines[3]
    assert lines[4] == "(2, 576)"
    assert found["session"].messages == found["messages"]


def test_the_checkpoints_own_license_is_said(smollm2_gguf):
    result = call(smollm2_gguf, "prompt", "Hi", "--max-new-tokens", "1")
    assert "license of the checkpoint: apache-2.0" in result.err
    assert "license page:" not in result.err


def test_info(smollm2_gguf):
    result = call("info", smollm2_gguf)
    assert result.status == 0
    lines = result.lines()
    assert lines[1:4] == [
        "family=llama architecture=llama",
        "variant: dense",
        "components: tokenizer=yes image=no audio=no video=no",
    ]
    assert "license: apache-2.0" in lines
    assert "context: 8192 tokens" in lines
    (model,) = json.loads(call("info", "--json", smollm2_gguf).out)["models"]
    assert model["parameters"] == 134_515_008
    assert model["variants"][0]["tensor_types"] == {"Q4_1": 210, "F32": 61, "Q8_0": 1}


def test_devices():
    result = call("devices")
    assert result.status == 0
    lines = result.lines()
    assert lines[:2] == ["== compute devices on this machine ==", "CPU available"]
    header = next(line for line in lines if line.startswith("device "))
    assert header.split()[-1] == "status"
    (row,) = [line for line in lines if line.startswith("CPU:0")]
    assert row.split()[-1] == "ok"
    (device,) = json.loads(call("devices", "--json").out)["devices"]
    assert device["memory_gb"] > 0
    assert device["sm_count"] >= 1
