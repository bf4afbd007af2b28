"""Packages that were made to do harm by being installed: they are listed as broken, and the rest
works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import Result, environment, install_family, install_plugin, run

HOOK = """
from clika_runtime.hooks import hookimpl

@hookimpl
def clika_register_families(register):
    {}
"""
# Name -> (code of the entry module, what is said of it).
MODULES = {
    "base": ("class Odd(BaseException): pass\nraise Odd('x')", "failed to load: Odd: x"),
    "generator": ("raise GeneratorExit", "failed to load: GeneratorExit"),
    "exit": ("raise SystemExit('\\x1b[31m')", "failed to load: SystemExit: [31m"),
    "screen": (
        "raise RuntimeError('\\x1b[2J evil\\n  * Vendor: me' + 'a' * 100_000)",
        "failed to load: RuntimeError: [2J evil * Vendor: meaaa",
    ),
    "mute": (
        "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd",
        "failed to load: Odd: (its text fails too)",
    ),
    "attribute": ("def __getattr__(name): raise RuntimeError(name)", "implements no hook"),
    "folder": ("def __dir__(): raise RuntimeError('dir')", "failed to load: RuntimeError: dir"),
    "number": ("clika_register_families = 5", "is not marked"),
    "endless": (HOOK.format("clika_register_families(register)"), "RecursionError"),
    "garbage": (HOOK.format("register(5)"), "takes a FamilySpec, got int"),
    "shown": (
        HOOK.format(
            "register(name=type('N', (), {'__repr__': lambda s: 1 / 0})(), contract=1, "
            "vendor='v', tasks=(), modalities=())"
        ),
        "FamilySpec: name a N must be",
    ),
}
# Name -> (fields of a declaration, what is said of it).
DECLARATIONS = {
    "vendor": ({"vendor": 5}, "'vendor' must be printable text"),
    "lines": ({"vendor": "x\n  * Vendor: y"}, "'vendor' must be printable text"),
    "colour": ({"license_page": "\x1b[2J"}, "'license_page' must be printable text"),
    "nothing": ({"description": None}, "'description' must be printable text"),
    "long": ({"description": "a" * 10**6}, "of at most 4000 characters"),
    "hidden": ({"hidden": "no"}, "'hidden' must be True or False"),
    "types": ({"model_types": ("a\x1b[31m",)}, "'model_types' must be a tuple of strings"),
    "huge": ({"architectures": ("x" * 10**6,)}, "of at most 200 characters each"),
    "many": ({"architectures": ("x",) * 2000}, "at most 1000"),
    "verbs": ({"verbs": ["prompt"]}, "'verbs' must be a tuple of strings"),
}


def checked(result: Result) -> Result:
    for text in (result.out, result.err):
        assert "Traceback" not in text
        assert "internal error" not in text
        assert all(c.isprintable() or c == "\n" for c in text)
        assert len(text) < 60_000
    return result


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    for name, (code, _) in MODULES.items():
        install_plugin(site, f"hostile-{name}", "1.0", "clika_runtime.families", name, code)
    for name, (fields, _) in DECLARATIONS.items():
        install_family(site, name, **fields)
    install_family(site, "good", description="Several\nlines.")
    return site


def test_all_of_them_are_broken_and_nothing_else_is(site: Path) -> None:
    document = json.loads(checked(run("list", "--json", env=environment(site))).out)
    reasons = {row["plugin"]: row["reason"] for row in document["broken"]}
    expected = {**MODULES, **DECLARATIONS}
    assert set(expected) <= set(reasons)
    for name, (_, said) in expected.items():
        assert said in reasons[name], name
    assert "good" in {row["family"] for row in document["families"]}


@pytest.mark.parametrize("words", [("list", "--full"), ("doctor",), ("info", "/no/such/model")])
def test_what_people_see_of_them(site: Path, words: tuple[str, ...]) -> None:
    result = checked(run(*words, env=environment(site)))
    if words[0] != "info":
        assert "Several lines." in result.out or words[0] == "doctor"
        assert "(its text fails too)" in result.out


@pytest.mark.parametrize(
    "text",
    [
        b"[clika_runtime.families]\nno value\n",
        b"[clika_runtime.families]\nf\xff = x\n",
        b"[clika_runtime.families]\n\x1b[31m = a b:c\n",
        b"[[[[\n= x\n",
    ],
)
def test_damaged_metadata_of_one_package_hides_no_other(tmp_path: Path, text: bytes) -> None:
    install_family(tmp_path, "good")
    info = tmp_path / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_bytes(b"Name: odd\x1b[2J\nVersion: \xff\n")
    (info / "entry_points.txt").write_bytes(text)
    result = checked(run("list", env=environment(tmp_path)))
    assert result.status == 0
    assert "\ngood identity-only\n" in result.out
