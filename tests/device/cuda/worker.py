"""Runs the cases of operators in a process of its own: a fault takes the device out of use for the
process that it happens in, and so for one operator alone."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from tests.device.cuda.conftest import ROOT, _register

MOST = 8  # processes at a time, each with a context of its own on the GPU
SERVE = "import sys; sys.path[:0] = {path!r}; from tests.device.cuda import worker; worker.serve()"


class Worker:
    """Cases of one operator after the other, in one process as long as it is well."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, name: str) -> dict[str, Any]:
        """What became of an operator's cases: ``passed``, ``refused``, ``beside_cpu``, ``wrong``;
        ``fault`` where the process or its device is lost."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                break
        else:
            answer = {"fault": f"{name}: the process ended with status {self._process.wait()}"}
        if "fault" in answer:
            self.close()
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Workers:
    """Several workers, which are ahead of who asks: the cases wait for the host more than for the
    GPU."""

    def __init__(self, names: Sequence[str]) -> None:
        count = max(1, min(MOST, (os.cpu_count() or 1) // 2, len(names)))
        self._workers = [Worker() for _ in range(count)]
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._pool = ThreadPoolExecutor(count)
        self._answers: dict[str, Future[dict[str, Any]]] = {
            name: self._pool.submit(self._asked, name) for name in names
        }

    def _asked(self, name: str) -> dict[str, Any]:
        worker = self._idle.get()
        try:
            return worker.ask(name)
        finally:
            self._idle.put(worker)

    def ask(self, name: str) -> dict[str, Any]:
        """`Worker.ask`, which has begun before."""
        return self._answers[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()


def serve() -> None:
    """One line of JSON for each operator's name that is read."""
    _register()
    for line in sys.stdin:
        begun = time.perf_counter()
        answer = cases_of(line.strip())
        answer["seconds"] = round(time.perf_counter() - begun, 2)
        print(json.dumps(answer), flush=True)


def difference(case: Any) -> float:
    """The largest distance between the two backends' results, in units of the largest value."""
    from clika_runtime.testing import _kit

    worst = 0.0
    there, _ = _kit.call(case, "cuda")
    here, _ = _kit.call(case, "cpu")
    for a, b in zip(there, here, strict=True):
        x, y = (_kit.read(t).astype(np.float64) for t in (a, b))
        finite = np.isfinite(x) & np.isfinite(y)
        if finite.any():
            scale = max(float(np.abs(y[finite]).max()), 1e-30)
            worst = max(worst, float(np.abs(x[finite] - y[finite]).max()) / scale)
    return worst


def cases_of(name: str) -> dict[str, Any]:
    """The cases of an operator on the GPU, against the reference and the CPU backend."""
    from clika_runtime.errors import InternalError, UnsupportedError
    from clika_runtime.testing import _kit

    counts: dict[str, Any] = {"passed": 0, "refused": 0, "beside_cpu": 0.0, "wrong": []}
    try:
        cases = _kit.cases(name)
    except ImportError as error:
        return {**counts, "skip": f"the cases need a package: {error}"}
    for case in cases:
        for planned in (False, True):
            try:
                _kit.check_case(case, "cuda", planned=planned)
            except UnsupportedError as error:
                counts["refused"] += 1
                of_values = planned and "a recording has no values" in str(error)
                if not of_values and "cuda" not in str(error).lower():
                    counts["wrong"].append(f"{case}: refused without its device: {error}")
            except AssertionError as error:
                counts["wrong"].append(f"planned={planned}: {error}")
            except InternalError as error:
                return {**counts, "fault": f"{case} planned={planned}: {error}"}
            else:
                counts["passed"] += 1
        try:
            counts["beside_cpu"] = max(counts["beside_cpu"], difference(case))
        except UnsupportedError:
            pass
        except InternalError as error:
            return {**counts, "fault": f"{case} beside the CPU: {error}"}
    return counts
