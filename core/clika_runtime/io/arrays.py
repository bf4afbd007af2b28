"""Single tensors as NumPy's ``.npy`` files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clika_runtime.errors import InvalidArgumentError

from ._files import invalid, missing

if TYPE_CHECKING:
    from clika_runtime._native._core import Tensor

__all__ = ["load_npy", "save_npy"]


def load_npy(path: str | os.PathLike[str], device: Any = "cpu") -> Tensor:
    """Load the array of a ``.npy`` file as a tensor of its shape and dtype.

    Objects are never unpickled. Errors: ``NotFoundError`` (``NO_SUCHFILE``) for a missing file,
    ``InvalidArgumentError`` for one that is damaged or holds something else than numbers.

    Source: the npy format of NumPy (NEP 1).

    >>> import tempfile, pathlib
    >>> import clika_runtime as crt
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.npy"
    >>> save_npy(crt.tensor([[1.0, 2.0]]), path)
    >>> load_npy(path).tolist()
    [[1.0, 2.0]]
    """
    import numpy as np

    import clika_runtime as crt

    where = Path(path)
    if not where.is_file():
        raise missing(where)
    try:
        # Mapped first: a header that promises more than the file has is refused, not allocated.
        array = np.load(where, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError) as problem:
        raise invalid(where, f"is no .npy file of numbers: {problem}") from None
    if not isinstance(array, np.ndarray):
        raise invalid(where, "is an archive of several arrays; a .npy file holds one")
    try:
        return crt.tensor(np.array(array), device=device)
    except TypeError as problem:
        raise invalid(where, str(problem)) from None


def save_npy(tensor: Tensor, path: str | os.PathLike[str]) -> None:
    """Save one dense tensor as a ``.npy`` file, which appears only when it is complete.

    Pending work is settled first. Errors: ``InvalidArgumentError`` for what is no tensor,
    ``TypeError`` for a dtype that NumPy lacks (bfloat16: convert it first).
    """
    import numpy as np

    from clika_runtime._native._core import Tensor

    if not isinstance(tensor, Tensor):
        raise InvalidArgumentError(
            f"save_npy: expected a tensor, found {type(tensor).__name__}; make one with "
            "clika_runtime.tensor()"
        )
    array = tensor.to("cpu").numpy()
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, array, allow_pickle=False)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
