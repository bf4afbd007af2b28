"""The qwen model family. The registration is in `plugin`, the model in `qwen`; neither is
imported here."""
