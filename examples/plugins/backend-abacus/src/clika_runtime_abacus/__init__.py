"""The abacus backend: the registration is in `plugin`, the kernels in `kernels`; neither is
imported here."""
