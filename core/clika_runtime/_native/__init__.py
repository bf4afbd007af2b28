"""The native core: Cython and C++, one extension module ``_core``."""
