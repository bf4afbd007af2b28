"""How ids and URLs of the hub are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clika_runtime.errors import ClikaRTError, InvalidArgumentError, UnsupportedError
from clika_runtime.modelverse.sources.reference import endpoint, is_url, parse_id, parse_url
from clika_runtime.modelverse.sources.wheel import unsafe_name


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("Qwen/Qwen3-4B-GGUF", ("Qwen/Qwen3-4B-GGUF", None, "", "")),
        ("Qwen/Qwen3-4B-GGUF:Q6_K", ("Qwen/Qwen3-4B-GGUF", None, "", "Q6_K")),
        ("Qwen/Qwen3-4B-GGUF:*Q8*", ("Qwen/Qwen3-4B-GGUF", None, "", "*Q8*")),
        ("o/r:latest", ("o/r", None, "", "latest")),
        ("o/r@v1.0", ("o/r", "v1.0", "", "")),
        ("o/r@v1.0:Q6_K", ("o/r", "v1.0", "", "Q6_K")),
        ("o/r@refs/pr/3", ("o/r", "refs/pr/3", "", "")),
        ("o/r@refs/pr/3/m.gguf", ("o/r", "refs/pr/3", "m.gguf", "")),
        ("o/r/m-Q6_K.gguf", ("o/r", None, "m-Q6_K.gguf", "")),
        ("o/r/BF16/m.gguf", ("o/r", None, "BF16/m.gguf", "")),
        ("o/r/BF16/", ("o/r", None, "BF16", "")),
        ("o.x_y-z/r.1_2-3", ("o.x_y-z/r.1_2-3", None, "", "")),
    ],
)
def test_ids(spec, expected):
    found = parse_id(spec)
    assert found is not None
    assert (found.repo, found.revision, found.path, found.selector) == expected


@pytest.mark.parametrize(
    "spec",
    ["name", "./o/r", "/o/r", "../o/r", "o//r", "-o/r", "o/-r", "o/r:", "o/r@", "o/r::x", "o\\r",
     "o/r--x", "o/r..x", "o/r.", "C:/models/x", "~/o/r", "o/r:a:b", "ö/r", "o/r \n", " o/r"],
)  # fmt: skip
def test_what_is_no_id(spec):
    assert parse_id(spec) is None


@pytest.mark.parametrize("path", ["../../etc/passwd", "a/../b", "./a", "a//b", "a\\b", "con", "a."])
def test_paths_that_leave_are_refused(path):
    with pytest.raises(InvalidArgumentError, match="is not plain"):
        parse_id(f"o/r/{path}")


HUB = "https://huggingface.co"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{HUB}/o/r", ("o/r", None, "", "")),
        (f"{HUB}/o/r/", ("o/r", None, "", "")),
        (f"{HUB}/o/r:Q6_K", ("o/r", None, "", "Q6_K")),
        ("http://www.huggingface.co/o/r", ("o/r", None, "", "")),
        ("https://hf.co/o/r/tree/main", ("o/r", "main", "", "")),
        (f"{HUB}/o/r/tree/main/BF16", ("o/r", "main", "BF16", "")),
        (f"{HUB}/o/r/tree/refs%2Fpr%2F1", ("o/r", "refs/pr/1", "", "")),
        (f"{HUB}/o/r/tree/refs/pr/1/x", ("o/r", "refs/pr/1", "x", "")),
        (f"{HUB}/o/r/blob/v1/m.gguf", ("o/r", "v1", "m.gguf", "")),
        (f"{HUB}/o/r/resolve/main/m%2B1.gguf?download=true#x", ("o/r", "main", "m+1.gguf", "")),
        (f"{HUB}/o/r/raw/main/m.gguf", ("o/r", "main", "m.gguf", "")),
        ("hf://o/r@v1/m.gguf", ("o/r", "v1", "m.gguf", "")),
        ("hf://models/o/r", ("o/r", None, "", "")),
    ],
)  # fmt: skip
def test_urls(url, expected):
    assert is_url(url)
    found = parse_url(url)
    assert (found.repo, found.revision, found.path, found.selector) == expected
    assert found.spec == url


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [
        ("https://example.org/o/r", UnsupportedError, "another host"),
        ("https://huggingface.co.evil.org/o/r", UnsupportedError, "another host"),
        ("https://huggingface.co@evil.org/o/r", InvalidArgumentError, "a user or a password"),
        ("ftp://huggingface.co/o/r", UnsupportedError, "another host"),
        ("file:///o/r", UnsupportedError, "another host"),
        (f"{HUB}/datasets/o/r", UnsupportedError, r"no model repository \(datasets\)"),
        (f"{HUB}/spaces/o/r/blob/main/x", UnsupportedError, r"no model repository \(spaces\)"),
        (HUB, InvalidArgumentError, "names no model repository"),
        (f"{HUB}/o", InvalidArgumentError, "names no model repository"),
        (f"{HUB}/o/r/discussions/1", InvalidArgumentError, "names no model repository"),
        (f"{HUB}/o/r/blob/main/../../x", InvalidArgumentError, "is not plain"),
        (f"{HUB}/o/r/blob/main/%2e%2e/x", InvalidArgumentError, "is not plain"),
        (f"{HUB}/o/r/tree/..", InvalidArgumentError, "is not plain"),
        ("hf://datasets/o/r", InvalidArgumentError, "names no model repository"),
        ("http://[::1/o/r", InvalidArgumentError, "is no URL"),
    ],
)
def test_urls_that_are_refused(url, kind, message):
    with pytest.raises(kind, match=message):
        parse_url(url)


def test_a_hub_of_ones_own(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.local:8080/")
    assert endpoint() == "http://hub.local:8080"
    assert parse_url("http://hub.local:8080/o/r/blob/main/m.gguf").path == "m.gguf"
    with pytest.raises(UnsupportedError, match=r"another host than http://hub\.local:8080"):
        parse_url("http://hub.local:8081/o/r")
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.local/api/models")
    assert parse_url("https://mirror.local/api/models/o/r/tree/v1").revision == "v1"
    assert parse_url("https://huggingface.co/o/r").repo == "o/r"


@given(st.text(max_size=60))
def test_any_text_is_an_id_a_refusal_or_neither(text):
    for spec in (text, f"o/r/{text}", f"o/r@{text}", f"{HUB}/{text}", f"hf://{text}"):
        for read in (parse_id, parse_url):
            try:
                found = read(spec)
            except ClikaRTError:
                continue
            if found is not None and found.path:
                assert unsafe_name(found.path) is None
            if found is not None:
                assert found.repo.count("/") == 1
                assert ".." not in found.repo
