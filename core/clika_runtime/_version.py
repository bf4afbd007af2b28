"""The version of every clika distribution, kept in step by ``scripts/bump_version.py``."""

__version__ = "0.1.0"
