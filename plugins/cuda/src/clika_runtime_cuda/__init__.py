"""CUDA backend of clika-runtime. The driver's side stands in the extension module ``_backend``, the
kernels in ``device``."""

__all__: list[str] = []
