"""Reference, cases and bound of every operator, in the groups that ``_kit`` loads."""
