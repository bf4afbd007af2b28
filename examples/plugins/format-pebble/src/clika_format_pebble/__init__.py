"""Example of a format of tool calls."""
