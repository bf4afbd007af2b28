"""Single tensors as NumPy's ``.npy`` files."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clika_runtime.errors import InvalidArgumentError

from ._files import invalid, missing, write_atomic

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

    Pending work is settled first. Errors: ``InvalidArgumentError`` for what is no tensor and for a
    name that cannot be written to, ``NotFoundError`` for a missing folder,
    ``TypeError`` for a dtype that NumPy lacks (bfloat16: convert it first).
    """
    import numpy as np

    from clika_runtime._native._core import Tensor

    if not isinstance(tensor, Tensor):
        raise InvalidArgumentError(
            f"save_npy: expected a tensor, found {type(tensor).__name__}; make one with "
            "clika_runtime.tensor()"
        )
    array = np.require(tensor.to("cpu").numpy(), requirements="C")
    head = io.BytesIO()
    form = np.lib.format
    form.write_array_header_1_0(head, form.header_data_from_array_1_0(array))
    write_atomic(os.fspath(path), [head.getvalue(), array.reshape(-1).view(np.uint8).data])
