"""Random trees for hypothesis, and the classes that stand in them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

from hypothesis import strategies as st

NAMESPACE = "tests"


class Pair(NamedTuple):
    left: Any
    right: Any


Triple = namedtuple("Triple", "a b c")


class Point:
    """Registered by the tests, with entries."""

    def __init__(self, x: Any, y: Any, label: str) -> None:
        self.x, self.y, self.label = x, y, label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self) -> str:
        return f"Point({self.x!r}, {self.y!r}, {self.label!r})"

    @staticmethod
    def flatten(point: Point) -> tuple[Any, ...]:
        return (point.x, point.y), point.label, ("x", "y")


class Stranger:
    """Never registered."""


LEAVES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.builds(Stranger),
    st.just(float("nan")),
    st.just(range(3)),
    st.just(frozenset((1, 2))),
)
KEYS = st.one_of(
    st.text("abc", min_size=1, max_size=2),
    st.integers(-2, 3),
    st.tuples(st.integers(0, 2), st.text("ab", max_size=1)),
)


COUNT = st.integers(0, 3)
CONTAINERS = st.sampled_from(
    [list, tuple, dict, OrderedDict, defaultdict, deque, Pair, Triple, Point]
)


@st.composite
def trees(draw: st.DrawFn, depth: int) -> Any:
    """A tree of at most so many levels; written out, as st.recursive describes itself at length."""
    if depth == 0 or draw(COUNT) == 0:
        return draw(LEAVES)
    child = trees(depth - 1)
    kind = draw(CONTAINERS)
    if kind in (Pair, Triple):
        return kind(*[draw(child) for _ in kind._fields])
    if kind is Point:
        return Point(draw(child), draw(child), draw(st.sampled_from("ab")))
    if kind in (list, tuple, deque):
        items = [draw(child) for _ in range(draw(COUNT))]
        return kind(items, draw(st.sampled_from([None, 5]))) if kind is deque else kind(items)
    pairs = [(key, draw(child)) for key in draw(st.lists(KEYS, max_size=3, unique=True))]
    if kind is defaultdict:
        return defaultdict(draw(st.sampled_from([None, int])), pairs)
    return kind(pairs)


TREES = trees(3)
SMALL = trees(1)
