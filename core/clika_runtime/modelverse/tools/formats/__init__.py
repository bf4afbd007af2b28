"""Formats of families that have no package of their own, and of many families."""
