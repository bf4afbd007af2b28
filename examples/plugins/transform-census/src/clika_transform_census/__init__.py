"""The transform census: the registration is in `plugin`, the function in `census`; neither is
imported here."""
