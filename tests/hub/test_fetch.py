"""Fetching whole models into the cache, and what the cache looks like afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path

import huggingface_hub
import pytest

from clika_runtime.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from clika_runtime.modelverse import hub as public
from clika_runtime.modelverse.sources import resolve
from tests.hub.content import GGUF, REPO, TAKEN, dense_files, gguf_files


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_repository_brings_companions_and_weights_and_nothing_else(dense, cache):
    found = resolve(REPO, quiet=True)
    assert (found.kind, found.origin, found.name) == ("safetensors", "hub", "Otter-1B")
    assert (found.repo, found.commit) == (REPO, dense.repos[REPO].commit)
    folder = cache / "models--otters--Otter-1B" / "snapshots" / found.commit
    assert found.folder == found.snapshot == folder
    assert content(folder) == {n: d for n, d in dense_files().items() if n in TAKEN}
    assert (folder.parents[1] / "refs" / "main").read_text() == found.commit
    assert (folder / "config.json").is_symlink()
    assert not list(cache.rglob("*.incomplete"))


def test_the_second_fetch_asks_once_and_moves_nothing(dense):
    resolve(REPO, quiet=True)
    dense.requests.clear()
    resolve(REPO, quiet=True)
    assert [request.path for request in dense.requests] == [f"/api/models/{REPO}"]


def test_other_tools_of_the_hub_find_everything_in_this_cache(dense, cache):
    """Against huggingface_hub's own client: same paths, nothing fetched again, no complaint."""
    found = resolve(REPO, quiet=True)
    dense.requests.clear()
    theirs = huggingface_hub.snapshot_download(
        REPO, cache_dir=cache, endpoint=dense.url, allow_patterns=sorted(TAKEN), token=False
    )
    assert Path(theirs) == found.snapshot
    assert not dense.asked("/resolve/|/blob/")
    for name in TAKEN:
        path = huggingface_hub.try_to_load_from_cache(REPO, name, cache_dir=cache)
        assert path == str(found.snapshot / name)
    offline = huggingface_hub.snapshot_download(
        REPO, cache_dir=cache, allow_patterns=sorted(TAKEN), local_files_only=True
    )
    assert Path(offline) == found.snapshot
    (repo,) = huggingface_hub.scan_cache_dir(cache).repos
    (revision,) = repo.revisions
    assert (repo.repo_id, repo.nb_files) == (REPO, len(TAKEN))
    assert (revision.commit_hash, revision.refs) == (found.commit, {"main"})
    assert not huggingface_hub.scan_cache_dir(cache).warnings


def test_what_other_tools_have_fetched_is_not_fetched_again(dense, cache):
    theirs = huggingface_hub.snapshot_download(
        REPO, cache_dir=cache, endpoint=dense.url, allow_patterns=sorted(TAKEN), token=False
    )
    dense.requests.clear()
    found = resolve(REPO, quiet=True)
    assert found.snapshot == Path(theirs)
    assert [request.path for request in dense.requests] == [f"/api/models/{REPO}"]


def test_their_offline_client_is_content_too(dense, cache):
    found = resolve(REPO, quiet=True)
    theirs = huggingface_hub.snapshot_download(REPO, cache_dir=cache, local_files_only=True)
    assert Path(theirs) == found.snapshot
    path = huggingface_hub.hf_hub_download(
        REPO, "config.json", cache_dir=cache, local_files_only=True
    )
    assert path == str(found.snapshot / "config.json")


def test_a_listing_without_sizes_is_completed_file_by_file(dense):
    """As mirrors answer that leave the files' metadata out."""
    names = [{"rfilename": name} for name in dense.repos[REPO].files]
    dense.repos[REPO].siblings = names
    found = resolve(REPO, quiet=True)
    assert content(found.snapshot) == {n: d for n, d in dense_files().items() if n in TAKEN}
    assert len(dense.asked("HEAD /")) == len(TAKEN)
    dense.requests.clear()
    assert resolve(REPO, quiet=True) == found
    assert not dense.asked("GET /(?!api)")


def test_shards_are_taken_by_the_index(hub):
    files = dense_files(shards=3)
    files["model-extra.safetensors"] = b"x" * 5000  # of no tensor
    hub.add(REPO, files)
    found = resolve(REPO, quiet=True)
    names = [f"model-{i:05d}-of-00003.safetensors" for i in (1, 2, 3)]
    assert [path.name for path in found.weights] == names
    assert found.entry.name == "model.safetensors.index.json"
    assert [path.read_bytes() for path in found.weights] == [files[name] for name in names]
    assert not hub.asked("model-extra|bin|onnx|png|README")


def test_the_index_names_the_files_whatever_they_are_called(hub):
    files = dense_files(shards=2)
    odd = {"weights/a.safetensors": b"a" * 2000, "model-00001-of-00002.safetensors": b"b" * 2000}
    files |= odd
    table = {"one": "weights/a.safetensors", "two": "model-00001-of-00002.safetensors"}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": table}).encode()
    hub.add(REPO, files)
    found = resolve(REPO, quiet=True)
    assert [path.relative_to(found.snapshot).as_posix() for path in found.weights] == sorted(odd)


def test_a_module_chain_brings_its_folders(hub):
    files = dense_files()
    files["modules.json"] = b"[]"
    files["1_Pooling/config.json"] = b'{"pooling_mode_cls_token": true}'
    files["2_Dense/model.safetensors"] = b"d" * 2000
    files["2_Dense/notes.md"] = b"no"
    hub.add(REPO, files)
    found = resolve(REPO, quiet=True)
    assert set(content(found.snapshot)) == TAKEN | {
        "modules.json",
        "1_Pooling/config.json",
        "2_Dense/model.safetensors",
    }
    assert [path.name for path in found.weights] == ["model.safetensors"]


# ---------------------------------------------------------------- GGUF


@pytest.mark.parametrize(
    ("spec", "weights"),
    [
        (f"{GGUF}:Q6_K", None),
        (f"{GGUF}:q6_k", None),
        (f"{GGUF}:*Q6*", None),
        (f"{GGUF}:Otter-1B-Q6_K", None),
        (f"{GGUF}/Otter-1B-Q6_K.gguf", None),
        (f"{GGUF}/Q6_K.gguf", None),
        (f"{GGUF}@main:Q6_K", None),
        (GGUF, "Q6_K"),
        (GGUF, "Otter-1B-Q6_K.gguf"),
        (f"hf://{GGUF}/Otter-1B-Q6_K.gguf", None),
        (f"https://huggingface.co/{GGUF}/blob/main/Otter-1B-Q6_K.gguf", None),
        (f"https://huggingface.co/{GGUF}/resolve/main/Otter-1B-Q6_K.gguf?download=true", None),
        (f"https://huggingface.co/{GGUF}:Q6_K", None),
        (f"https://huggingface.co/{GGUF}/tree/main", "Q6_K"),
    ],
)
def test_every_way_to_name_one_quantization(quantized, spec, weights):
    found = resolve(spec, weights=weights, quiet=True)
    assert (found.kind, found.path.name) == ("gguf", "Otter-1B-Q6_K.gguf")
    assert found.path.read_bytes() == gguf_files()["Otter-1B-Q6_K.gguf"]
    assert len(content(found.snapshot)) == 1


def test_latest_is_the_hubs_default(quantized):
    assert resolve(f"{GGUF}:latest", quiet=True).path.name == "Otter-1B-Q4_K_M.gguf"


TABLE = """\
'otters/Otter-1B-GGUF' ships 3 weight options; pick one:
option           files  size     selector
Otter-1B-Q4_K_M  1      4.2 KiB  :Q4_K_M
Otter-1B-Q6_K    1      4.4 KiB  :Q6_K
Otter-1B-Q8_0    1      4.5 KiB  :Q8_0
2 sidecar files are no option (mmproj, imatrix, adapters)
pick by tag (":Q6_K" / --weights Q6_K; must match one option), by glob (":*Q8*"), by exact file \
(org/repo/<file>.gguf, a /blob|/resolve URL, or --weights <file>.gguf), or ":latest" for the hub \
default"""


def test_without_a_selector_the_table_is_shown_and_nothing_is_fetched(quantized, cache):
    with pytest.raises(InvalidArgumentError) as caught:
        resolve(GGUF, quiet=True)
    assert str(caught.value) == TABLE
    assert not quantized.asked("/resolve/|/blob/")
    assert not cache.exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (f"{GGUF}:Q", r"':Q' matches 3 options, .*Otter-1B-Q8_0 \(Otter-1B-Q8_0.gguf\)"),
        (f"{GGUF}:Q2_K", r"':Q2_K' matches no option"),
        (f"{GGUF}:mmproj", r"matches no option"),
        (f"{GGUF}/gguf", r"'gguf' fits 3 options, it must fit one: Otter-1B-Q4_K_M \("),
    ],
)
def test_a_selector_must_fit_one_option(quantized, spec, message):
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        resolve(spec, quiet=True)
    assert caught.value.code_name == "INVALID_ARGUMENT"


def test_a_file_that_is_not_there(quantized):
    with pytest.raises(NotFoundError, match=r"no weight file or folder 'absent\.gguf'"):
        resolve(f"{GGUF}/absent.gguf", quiet=True)


def test_parts_and_folders_are_one_option(hub):
    parts = {f"BF16/m-BF16-{i:05d}-of-00002.gguf": b"p" * 2000 for i in (1, 2)}
    flat = {f"m-Q8_0-{i:05d}-of-00003.gguf": b"q" * 2000 for i in (1, 2, 3)}
    hub.add(GGUF, {**parts, **flat, "m-Q4_0.gguf": b"r" * 2000, "config.json": b"{}"})
    with pytest.raises(InvalidArgumentError) as caught:
        resolve(GGUF, quiet=True)
    rows = [line.split() for line in str(caught.value).splitlines()[2:5]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("m-Q4_0", "1", ":Q4_0"),
        ("m-Q8_0", "3", ":Q8_0"),
        ("BF16", "2", ":BF16"),
    ]
    for spec in (f"{GGUF}:BF16", f"{GGUF}/BF16", f"https://hf.co/{GGUF}/tree/main/BF16"):
        found = resolve(spec, quiet=True)
        assert [p.name for p in found.weights] == [name[5:] for name in parts]
    assert len(resolve(f"{GGUF}:Q8_0", quiet=True).weights) == 3


def test_a_split_that_lacks_a_part_is_refused(hub):
    hub.add(GGUF, {"m-00001-of-00003.gguf": b"x" * 2000, "m-00003-of-00003.gguf": b"x" * 2000})
    with pytest.raises(NotFoundError, match="has only 2 of 3 parts of m"):
        resolve(GGUF, quiet=True)
    assert not hub.asked("/resolve/|/blob/")


def test_a_checkpoint_with_copies_beside_it_stands_for_itself(hub):
    hub.add(REPO, {**dense_files(), **gguf_files()})
    assert resolve(REPO, quiet=True).kind == "safetensors"
    assert resolve(f"{REPO}:Q8_0", quiet=True).kind == "gguf"


def test_a_pipeline_of_several_models_is_refused_by_name(hub):
    files = {f"{part}/model.safetensors": b"w" * 2000 for part in ("vae", "text_encoder")}
    files |= {f"{part}/config.json": b"{}" for part in ("vae", "text_encoder")}
    hub.add("o/Pipeline", {**files, "model_index.json": b"{}"})
    with pytest.raises(UnsupportedError, match=r"a pipeline of several models \(text_encoder, vae"):
        resolve("o/Pipeline", quiet=True)
    found = resolve("o/Pipeline/vae", quiet=True)
    assert (found.folder.name, [path.name for path in found.files]) == (
        "vae",
        ["config.json", "model.safetensors"],
    )


def test_an_onnx_repository_is_refused_before_anything_moves(hub, cache):
    names = ["model", "model_bnb4", "model_fp16", "model_int8", "model_q4", "model_q4f16"]
    hub.add("o/Onnx", {f"onnx/{n}.onnx": b"x" for n in names} | {"config.json": b"{}"})
    with pytest.raises(UnsupportedError) as caught:
        resolve("o/Onnx", quiet=True)
    assert str(caught.value) == (
        "'o/Onnx' ships its weights only in formats the loaders do not read: ONNX "
        "(onnx/model.onnx, onnx/model_bnb4.onnx, onnx/model_fp16.onnx and 3 more). "
        "The loaders read safetensors and GGUF"
    )
    assert not cache.exists()


# ---------------------------------------------------------------- revisions, blobs, folders

OLD, NEW = "a" * 40, "b" * 40


def test_revisions(hub, cache):
    hub.add(GGUF, {"m.gguf": b"1" * 2000}, commit=OLD, refs={"main": "", "v1.0": ""})
    for spec in (f"{GGUF}@v1.0", f"{GGUF}@{OLD}", f"https://huggingface.co/{GGUF}/tree/v1.0"):
        assert resolve(spec, quiet=True).commit == OLD
    assert resolve(GGUF, revision="v1.0", quiet=True).commit == OLD
    with pytest.raises(NotFoundError, match=r"has no revision 'v2' on http://127"):
        resolve(f"{GGUF}@v2", quiet=True)
    with pytest.raises(InvalidArgumentError, match="'v1' is given beside it"):
        resolve(f"{GGUF}@v1.0", revision="v1", quiet=True)
    refs = cache / "models--otters--Otter-1B-GGUF" / "refs"
    assert [path.name for path in refs.iterdir()] == ["v1.0"]
    resolve(GGUF, quiet=True)
    assert (refs / "main").read_text() == OLD


def test_a_new_commit_fetches_what_changed(hub):
    files = {"config.json": b"{}", "model.safetensors": b"w" * 5000, "tokenizer.json": b"old"}
    repo = hub.add(REPO, files, commit=OLD)
    before = resolve(REPO, quiet=True)
    repo.commit = NEW
    repo.files["tokenizer.json"] = b"new"
    hub.requests.clear()
    after = resolve(REPO, quiet=True)
    assert after.commit == NEW
    assert (after.snapshot / "tokenizer.json").read_bytes() == b"new"
    assert (before.snapshot / "tokenizer.json").read_bytes() == b"old"
    assert [r.path for r in hub.requests if "/api/" not in r.path] == [
        f"/{REPO}/resolve/{NEW}/tokenizer.json"
    ]


def test_equal_files_are_fetched_once(hub):
    table = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    files = dict.fromkeys(table.values(), b"same" * 1000)
    files["model.safetensors.index.json"] = json.dumps({"weight_map": table}).encode()
    hub.add(REPO, {**files, "config.json": b"{}"})
    found = resolve(REPO, quiet=True)
    assert [path.read_bytes() for path in found.weights] == [b"same" * 1000] * 2
    assert len(hub.asked("GET /blob/")) == 1


def test_a_folder_of_ones_own_can_be_copied_away(dense, tmp_path):
    """As the page does it: fetch with --cache-dir, copy the printed folder, drop the cache."""
    found = public.snapshot(REPO, cache_dir="staged", quiet=True)
    assert found.local_dir == found.path
    assert Path(found.local_dir) == tmp_path / "staged" / "models--otters--Otter-1B" / (
        f"snapshots/{found.commit}"
    )
    assert not [path for path in Path(found.local_dir).rglob("*") if path.is_symlink()]
    os.system(f'cp -r "{found.local_dir}" moved && rm -r staged')
    assert content(tmp_path / "moved") == {n: d for n, d in dense_files().items() if n in TAKEN}
    assert resolve(tmp_path / "moved", offline=True).kind == "safetensors"


def test_links_of_other_tools_become_files_in_a_folder_of_ones_own(dense, tmp_path):
    theirs = huggingface_hub.snapshot_download(
        REPO, cache_dir=tmp_path / "staged", endpoint=dense.url, token=False
    )
    assert (Path(theirs) / "config.json").is_symlink()
    found = resolve(REPO, cache_dir="staged", quiet=True)
    assert [path.is_symlink() for path in found.files] == [False] * len(TAKEN)


def test_where_links_cannot_be_made(dense, cache, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("not here")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(os, "link", refuse)
    found = resolve(REPO, quiet=True)
    assert content(found.snapshot) == {n: d for n, d in dense_files().items() if n in TAKEN}
    dense.requests.clear()
    assert resolve(REPO, quiet=True) == found
    assert not dense.asked("/resolve/")


# ---------------------------------------------------------------- what is there is checked


def test_a_cached_file_of_another_size_is_fetched_again(dense, caplog):
    found = resolve(REPO, quiet=True)
    real = (found.snapshot / "model.safetensors").resolve()
    real.write_bytes(b"short")
    again = resolve(REPO, quiet=True)
    assert again.weights[0].read_bytes() == dense_files()["model.safetensors"]
    assert "another size" in caplog.text


def test_damage_of_a_small_file_is_always_seen(dense, caplog):
    found = resolve(REPO, quiet=True)
    (found.snapshot / "config.json").resolve().write_bytes(
        dense_files()["config.json"].replace(b"otter", b"adder")
    )
    resolve(REPO, quiet=True)
    assert (found.snapshot / "config.json").read_bytes() == dense_files()["config.json"]
    assert "damaged" in caplog.text


def test_damage_of_a_large_file_is_seen_with_verify(hub):
    weights = bytes(2 << 20)
    hub.add(REPO, {"config.json": b"{}", "model.safetensors": weights})
    found = resolve(REPO, quiet=True)
    path = found.weights[0]
    path.resolve().write_bytes(b"\1" + weights[1:])
    assert resolve(REPO, quiet=True).weights[0].read_bytes() != weights
    assert resolve(REPO, quiet=True, verify=True).weights[0].read_bytes() == weights


# ---------------------------------------------------------------- the public functions


def test_snapshot_download_returns_the_folder(dense, cache):
    import clika_runtime.modelverse as mv

    folder = mv.snapshot_download(REPO, quiet=True)
    assert Path(folder).parent == cache / "models--otters--Otter-1B" / "snapshots"
    assert mv.hub.snapshot(folder).local_dir == folder
    assert {"hub", "snapshot_download"} <= set(dir(mv))


def test_snapshot_of_a_quantization_names_the_file(quantized):
    found = public.snapshot(GGUF, weights="Q8_0", quiet=True)
    assert Path(found.path).name == "Otter-1B-Q8_0.gguf"
    assert Path(found.local_dir).name == found.commit
    assert found.files == (found.path,)


def test_a_local_directory_passes_through(tmp_path, caplog):
    """Whatever it holds: which of its options is meant is asked when it is loaded."""
    caplog.set_level("INFO")
    folder = tmp_path / "m"
    folder.mkdir()
    for name in ("a-Q4_0.gguf", "b-Q8_0.gguf"):
        (folder / name).write_bytes(b"x")
    found = public.snapshot(folder)
    assert (found.local_dir, found.repo, found.commit) == (str(folder), None, None)
    assert len(found.files) == 2
    assert f"hub: '{folder}' already on disk; loading from {folder}" in caplog.text
    assert public.snapshot(folder, weights="Q8_0").path == str(folder / "b-Q8_0.gguf")
