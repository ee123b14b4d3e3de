/* flags_end.h - the end of what flags.h said of a set: Clang asks for it. */
#if defined(__clang__) && defined(FLAGS_SET)
#pragma clang attribute pop
#endif
