"""JSON of unknown origin and names found inside files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clika_runtime.errors import InvalidArgumentError, NotFoundError
from clika_runtime.io import read_json
from clika_runtime.io._files import check_inside, parse_json, shown


def test_reads_objects(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"a": [1, 2.5, "ü", null, true], "a": 2}')
    assert read_json(path) == {"a": 2}
    with pytest.raises(InvalidArgumentError, match="'a' stands twice"):
        read_json(path, unique_keys=True)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[" * 100_000, b"nul", b'{"a":' + b"1" * 10_000 + b"}", b"[1,]"]
)
def test_wrong_json_names_the_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(InvalidArgumentError) as caught:
        read_json(path)
    assert str(caught.value).startswith(str(path))


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[" + " " * 100 + "]")
    with pytest.raises(InvalidArgumentError, match="has 102 bytes, more than the limit of 50"):
        read_json(path, 50)
    with pytest.raises(NotFoundError):
        read_json(tmp_path / "absent.json")


def test_parse_json_takes_views() -> None:
    assert parse_json(memoryview(b"[1]"), "x") == [1]


def test_names_inside_the_directory() -> None:
    for name in ("a.bin", "sub/a.bin", "a b.bin", "ü.bin", "..a", "a..b"):
        assert check_inside(name, "index") == name


def test_messages_stay_readable() -> None:
    assert len(shown("x" * 10_000)) == 120 and shown(3) == "3"
