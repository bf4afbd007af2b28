"""clika_runtime: an inference runtime for models on your own hardware."""

from ._version import __version__
