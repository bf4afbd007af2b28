"""What the benchmarks beside other programs share: turns, rows of a table, ceilings, the JSON file.

A row says how fast ours is, how fast its peers are in the same minutes, the ratio to the fastest of
them, the target, and how near ours is to what the machine can do. Rows are kept in
``benchmarks/results/NAME.json``: a run replaces those that it measures anew, so a table may be
measured in parts. ``python -m benchmarks.tables`` makes docs/benchmarks.md of them.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import ceilings

RESULTS = Path(__file__).resolve().parent / "results"
SCHEMA = 1
PAUSE = 0.03  # seconds between turns: threads of the other side spin that long after theirs
PACKAGES = {"llama.cpp": "llama_cpp", "transformers": "transformers", "torch": "torch"}
_DISTRIBUTIONS = ("llama-cpp-python", "torch", "transformers", "numpy")


@dataclass(frozen=True)
class Spread:
    """The median of some measurements, and the smallest and largest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """
        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
        """
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.low:.4g} .. {self.high:.4g})"


@dataclass(frozen=True)
class Ceiling:
    """``rate`` a second is what the machine can do at best, ``reached`` what ours did. ``target``
    is the least percentage wanted."""

    what: str
    rate: float
    reached: float
    target: float | None = None

    @property
    def percent(self) -> float:
        return 100 * self.reached / self.rate

    @property
    def met(self) -> bool:
        return self.target is None or self.percent >= self.target


Reached = Callable[[float], Ceiling]


@dataclass(frozen=True)
class Row:
    """One measurement beside its peers.

    ``lower`` means that less is better. ``target`` is for the ratio to the best peer, for ours
    itself where ``absolute`` is set. ``beside`` names the kind of the peers."""

    subject: str
    work: str
    threads: int
    unit: str
    ours: Spread
    beside: str = ""
    peers: Mapping[str, Spread] = field(default_factory=dict)
    lower: bool = False
    target: float | None = None
    absolute: bool = False
    ceiling: Ceiling | None = None

    @classmethod
    def of(
        cls,
        subject: str,
        work: str,
        threads: int,
        unit: str,
        found: Mapping[str, Spread],
        ceiling: Reached | None = None,
        **more: Any,
    ) -> Row:
        """The row of what was found: ours and the peers by name. ``ceiling`` makes a `Ceiling` of
        our median; ``more`` are other fields."""
        ours = found["ours"]
        peers = {name: spread for name, spread in found.items() if name != "ours"}
        reached = ceiling(ours.median) if ceiling is not None else None
        return cls(subject, work, threads, unit, ours, peers=peers, ceiling=reached, **more)

    @property
    def peer(self) -> str:
        """The name of the best peer; empty without any."""
        best = min if self.lower else max
        return best(self.peers, key=lambda name: self.peers[name].median) if self.peers else ""

    @property
    def ratio(self) -> float | None:
        """Ours over the best peer."""
        return self.ours.median / self.peers[self.peer].median if self.peers else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or no peer was measured."""
        value = self.ours.median if self.absolute else self.ratio
        if self.target is None or value is None:
            return None
        return value <= self.target if self.lower else value >= self.target

    @property
    def missed(self) -> bool:
        return self.met is False or (self.ceiling is not None and not self.ceiling.met)

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        document: dict[str, Any] = {
            "subject": self.subject,
            "work": self.work,
            "threads": self.threads,
            "unit": self.unit,
            "beside": self.beside,
            "ours": vars(self.ours),
            "peers": {name: vars(spread) for name, spread in self.peers.items()},
            "lower": self.lower,
            "peer": self.peer,
            "ratio": self.ratio,
            "target": self.target,
            "absolute": self.absolute,
            "met": self.met,
        }
        if self.ceiling is not None:
            document["ceiling"] = {
                **vars(self.ceiling),
                "percent": self.ceiling.percent,
                "met": self.ceiling.met,
            }
        return document

    def __str__(self) -> str:
        named = f"{self.subject}, {self.work}, {self.threads} thread(s)"
        lines = [f"  {named}: ours {self.ours} {self.unit}"]
        lines += [f"      {name} {spread}" for name, spread in self.peers.items()]
        told = []
        if self.ratio is not None:
            told.append(f"ratio {self.ratio:.2f}")
        if self.target is not None:
            word = {True: "met", False: "MISSED", None: "not measured"}[self.met]
            told.append(f"target {'<=' if self.lower else '>='} {self.target:g}: {word}")
        if self.ceiling is not None:
            told.append(f"{self.ceiling.percent:.0f} % of {self.ceiling.what}")
            if self.ceiling.target is not None:
                word = "met" if self.ceiling.met else "MISSED"
                told.append(f"target {self.ceiling.target:g} %: {word}")
        return "\n".join([*lines, *([f"      {', '.join(told)}"] if told else [])])


# ---------------------------------------------------------------- turns
def take_turns(calls: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each call returned in each round. The calls alternate, every other round in reverse; a
    first round warms up and does not count."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name in list(calls)[:: -1 if turn % 2 else 1]:
            time.sleep(PAUSE)
            value = calls[name]()
            if turn:
                found[name].append(value)
    return found


def rates(seconds: Mapping[str, Iterable[float]], amount: float) -> dict[str, Spread]:
    """``amount`` by the seconds that each took.

    >>> rates({"ours": [2.0, 4.0]}, 8)
    {'ours': Spread(median=3.0, low=2.0, high=4.0)}
    """
    return {name: Spread.of(amount / value for value in taken) for name, taken in seconds.items()}


def prompt(tokens: int, vocabulary: int, seed: int = 0) -> list[int]:
    """Random ids, but for the first sixteenth of a vocabulary, where special tokens are."""
    return random.Random(seed).choices(range(vocabulary // 16, vocabulary), k=tokens)


def environment(threads: int) -> dict[str, str]:
    """What a worker process with some threads runs in."""
    count = str(threads)
    # Settings of the caller's NumPy, and what keeps Python from caching modules.
    dropped = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "CLIKA_RT_NUM_THREADS": count, "OMP_NUM_THREADS": count}


# ---------------------------------------------------------------- ceilings
class Ceilings:
    """The ceilings of this machine, each measured once in a run and printed. The best of many
    short loops: a neighbour's work may slow some of them."""

    ROUNDS = 60

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], float] = {}

    def read(self, nbytes: int, threads: int) -> tuple[str, float]:
        """Its name, and bytes a second of the best read loop over a buffer of that size."""
        what = f"the read loop over {nbytes / 1e6:.0f} MB"
        rate = self._rate(
            what, threads, lambda: ceilings.read_bandwidth(nbytes, threads, self.ROUNDS)
        )
        return f"{what} ({rate / 1e9:.1f} GB/s)", rate

    def dot(self, threads: int) -> tuple[str, float]:
        """Its name, and operations a second of int8 dot products in registers."""
        what = "the int8 dot peak"
        rate = self._rate(what, threads, lambda: ceilings.dot_rate(threads, self.ROUNDS))
        return f"{what} ({rate / 1e9:.0f} Gop/s)", rate

    def multiply(self, threads: int) -> tuple[str, float]:
        """Its name, and operations a second of float32 multiply-adds in registers."""
        what = "the float32 multiply-add peak"
        rate = self._rate(what, threads, lambda: ceilings.fma_rate(threads, self.ROUNDS))
        return f"{what} ({rate / 1e9:.0f} GFLOP/s)", rate

    def _rate(self, what: str, threads: int, measured: Callable[[], float]) -> float:
        key = what, threads
        if key not in self._found:
            self._found[key] = measured()
            print(f"  {what}, {threads} thread(s): {self._found[key] / 1e9:.1f} G/s", flush=True)
        return self._found[key]


# ---------------------------------------------------------------- the command line and its file
def parser(doc: str, rounds: int, threads: str = "1,2") -> argparse.ArgumentParser:
    """The options of every benchmark beside other programs."""
    made = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    made.add_argument("--threads", type=numbers, default=numbers(threads), metavar="LIST")
    made.add_argument("--rounds", type=number, default=rounds, metavar="N", help="timed rounds")
    made.add_argument(
        "--no-peer",
        action="store_true",
        help="ours alone: no ratios, and no file but that of --json",
    )
    made.add_argument(
        "--json", type=Path, metavar="FILE", help="default: benchmarks/results/NAME.json"
    )
    return made


def add_work(made: argparse.ArgumentParser) -> None:
    """Where files that a benchmark makes stand."""
    made.add_argument(
        "--work", type=Path, metavar="DIR", help="files made (default: the user's cache folder)"
    )


def work_folder(given: Path | None) -> Path:
    """The folder of files that benchmarks make, outside the checkout."""
    from clika_runtime.modelverse.sources.cache import cache_root

    folder = given or cache_root() / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def number(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 on")
    return int(text)


def numbers(text: str) -> list[int]:
    """
    >>> numbers("1,2")
    [1, 2]
    """
    return [number(word) for word in text.split(",")]


def choice(names: Iterable[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes some of the names.

    >>> choice(("Q4_0", "Q8_0"))("Q8_0")
    ['Q8_0']
    """
    known = list(names)

    def some(text: str) -> list[str]:
        for word in text.split(","):
            if word not in known:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(known)}")
        return text.split(",")

    return some


def require(peer: str) -> None:
    """Ends the run where a peer cannot be measured: a table without it would say nothing."""
    if importlib.util.find_spec(PACKAGES[peer]) is None:
        raise SystemExit(
            f"the peer {peer} is not installed (package {PACKAGES[peer]}); install it, or measure "
            "ours alone with --no-peer"
        )


def machine() -> str:
    """This machine in a line: processor, level of the kernels, cores, memory."""
    from clika_runtime_cpu import _kernels  # type: ignore[import-untyped]

    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {platform.machine()}, {_kernels.level()} kernels, {cores} cores"


def versions() -> dict[str, str]:
    """The releases of the peers that are installed."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Report:
    """Prints rows as they come and keeps them in the JSON file. ``peers`` have to be installed,
    unless the options say otherwise; ``peer`` is whether they are measured."""

    def __init__(
        self,
        name: str,
        doc: str,
        options: argparse.Namespace,
        peers: tuple[str, ...] = ("llama.cpp",),
    ) -> None:
        self.peer: bool = not options.no_peer
        default = RESULTS / f"{name}.json" if self.peer else None
        self.path: Path | None = options.json or default
        self.name, self.title = name, doc.split("\n\n")[0].replace("\n", " ")
        self.rounds = options.rounds
        self.ceilings = Ceilings()
        for wanted in peers if self.peer else ():
            require(wanted)
        self.machine = machine()
        self.missed = 0
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}
        if self.path is not None and self.path.is_file():
            self._take_earlier(json.loads(self.path.read_text(encoding="utf-8")))
        print(f"{self.title}\n{self.machine}", flush=True)

    def _take_earlier(self, document: Any) -> None:
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise SystemExit(f"{self.path} is no file of results; give another --json")
        if document["machine"] != self.machine:
            raise SystemExit(
                f"{self.path} holds results of another machine ({document['machine']}); this one "
                f"is {self.machine}. Give another --json, or remove the file"
            )
        self._rows = {_key(row): row for row in document["rows"]}

    def add(self, row: Row) -> None:
        """Prints a row, and writes the file with it."""
        print(row, flush=True)
        self.missed += row.missed
        if self.path is None:
            return
        document = row.document()
        document["rounds"] = self.rounds
        document["date"] = datetime.date.today().isoformat()
        self._rows[_key(document)] = document
        whole = {
            "schema": SCHEMA,
            "name": self.name,
            "title": self.title,
            "command": f"python -m benchmarks.{self.name}",
            "machine": self.machine,
            "versions": versions(),
            "rows": [self._rows[key] for key in sorted(self._rows)],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.path)

    def close(self) -> int:
        """The exit status: 1 where a target was missed."""
        if self.path is not None and self.path.parent == RESULTS:
            print("python -m benchmarks.tables writes the rows into docs/benchmarks.md")
        if self.missed:
            print(f"{self.missed} row(s) miss a target", file=sys.stderr)
        return int(self.missed > 0)


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["subject"], row["work"], row["beside"], f"{row['threads']:4d}")
