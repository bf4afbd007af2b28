"""One pytest item per operator case, on the backend that ``--clika-backend`` names.

pytest finds this module by its entry point (group ``pytest11``) wherever the runtime is installed.

    python -m pytest --clika-backend otter
    ... --clika-ops softmax,matmul      only these operators
    ... --clika-strict                  a case that the backend declines fails instead of being
                                        skipped
"""

from __future__ import annotations

from typing import Any

import pytest

from ..errors import UnsupportedError


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("clika", "operator cases of clika_runtime")
    group.addoption("--clika-backend", metavar="NAME", help="run the operator cases on a backend")
    group.addoption("--clika-ops", metavar="A,B", help="only the cases of these operators")
    group.addoption("--clika-strict", action="store_true", help="a declined case fails")


class CaseItem(pytest.Item):
    """One case on one backend."""

    def __init__(self, *, case: Any, backend: str, strict: bool, **options: Any) -> None:
        super().__init__(**options)
        self.case = case
        self.backend = backend
        self.strict = strict

    def runtest(self) -> None:
        from ._kit import check_case

        try:
            check_case(self.case, self.backend)
        except UnsupportedError as error:
            if self.strict:
                raise
            pytest.skip(str(error))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.backend}: {self.case}"


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    backend = config.getoption("--clika-backend")
    if not backend:
        return
    from ._kit import cases

    chosen = config.getoption("--clika-ops")
    names = [None] if chosen is None else [name.strip() for name in chosen.split(",")]
    strict = bool(config.getoption("--clika-strict"))
    for name in names:
        for case in cases(name):
            items.append(
                CaseItem.from_parent(
                    session,
                    name=f"{backend}[{case}]",
                    case=case,
                    backend=backend,
                    strict=strict,
                )
            )
