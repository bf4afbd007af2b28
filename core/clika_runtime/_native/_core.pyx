# cython: language_level=3
# distutils: language = c++
"""The native core of clika_runtime."""

cdef extern from "clika_runtime/plugin.h":
    int CLIKA_PLUGIN_ABI


def abi():
    """The version of the plugin ABI that this core was built with."""
    return CLIKA_PLUGIN_ABI
