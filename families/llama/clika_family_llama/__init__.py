"""The llama model family. The registration is in `plugin`, the model in `llama`; neither is
imported here."""
