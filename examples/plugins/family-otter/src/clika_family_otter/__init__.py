"""The otter model family: the registration is in `plugin`, the model in `otter`; neither is
imported here."""
