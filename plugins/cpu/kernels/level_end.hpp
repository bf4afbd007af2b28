// Closes a kernel file: the namespaces and the level's pragma. g++ instantiates templates at the end of
// the unit, so its pragma stays in force to the end.
}  // namespace
}  // namespace CLIKA_LEVEL_NAME
}  // namespace clika_cpu
#if CLIKA_LEVEL > 0 && defined(__clang__)
#pragma clang attribute pop
#endif
