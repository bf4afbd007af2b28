"""CPU backend of clika-runtime. The kernels stand in the extension module ``_kernels``."""

__all__: list[str] = []
