"""The gemma model family. The registration is in `plugin`, the model in `gemma`; neither is
imported here."""
