/*
 * flags.h - what the compiler is told about the rest of a file: its instruction set, and what else its loops need.
 *
 * A file that needs more than the flags of csrc.go defines which of these, includes this first, and ends with
 * flags_end.h if it has a set. They are in the source because cgo lets few flags pass, and each for a whole folder.
 *
 *	FLAGS_AVX2 .. FLAGS_RVV256  one set, with those that it needs
 *	FLAGS_VECTORS             a choice between two floats is one, so that loops with choices are vectorised; else
 *	                          comparisons have to trap. No bit of a result depends on that, and nobody reads traps
 *	FLAGS_ROOTS               likewise roots: none is of a number below 0, and nobody reads errno
 *	FLAGS_REGISTERS           products and sums stay in the order of the source: GCC moves all products of a loop
 *	                          before all of its additions, and the registers do not hold them
 */
#if defined(FLAGS_ROOTS)
/* Said of the functions too: GCC's pragma, unlike its flag, leaves calls as they are. */
float sqrtf(float x) __attribute__((const));
double sqrt(double x) __attribute__((const));
#endif

#define SET_AVX2 "avx2,fma,f16c"
#define SET_AVX512 SET_AVX2 ",avx512f,avx512bw,avx512dq,avx512vl"

#if defined(__clang__)

/* It sees no traps in floats as it is, and schedules in its own way. */
#if defined(FLAGS_AVX2)
#define FLAGS_SET SET_AVX2
#elif defined(FLAGS_AVXVNNI)
#define FLAGS_SET SET_AVX2 ",avxvnni"
#elif defined(FLAGS_AVX512)
#define FLAGS_SET SET_AVX512
#elif defined(FLAGS_AVX512VNNI)
#define FLAGS_SET SET_AVX512 ",avx512vnni"
#elif defined(FLAGS_AVX512BF16)
#define FLAGS_SET SET_AVX512 ",avx512bf16"
#elif defined(FLAGS_AMX)
#define FLAGS_SET SET_AVX512 ",avx512vnni,amx-tile,amx-int8,amx-bf16"
#elif defined(FLAGS_DOTPROD)
#define FLAGS_SET "dotprod"
#elif defined(FLAGS_I8MM)
#define FLAGS_SET "dotprod,i8mm"
#elif defined(FLAGS_RVV)
#define FLAGS_SET "arch=+v"
#elif defined(FLAGS_RVV256)
#define FLAGS_SET "arch=+v,+zvl256b"
#endif
#if defined(__x86_64__)
#include <immintrin.h> /* first: what it defines has sets of its own */
#elif defined(__aarch64__) && __clang_major__ >= 16
#include <arm_neon.h>
#elif defined(FLAGS_SET) && defined(__aarch64__) /* these take the set of the file, which they look for */
#define __ARM_FEATURE_DOTPROD 1
#if defined(FLAGS_I8MM)
#define __ARM_FEATURE_MATMUL_INT8 1
#endif
#endif
#if defined(FLAGS_SET)
#pragma clang attribute push(__attribute__((target(FLAGS_SET))), apply_to = function)
#endif

#elif defined(__GNUC__)

#if defined(FLAGS_AVX2) || defined(FLAGS_AVXVNNI)
#pragma GCC target("avx2,fma,f16c")
#elif defined(FLAGS_AVX512) || defined(FLAGS_AVX512VNNI) || defined(FLAGS_AVX512BF16) || defined(FLAGS_AMX)
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#if defined(FLAGS_AVXVNNI)
#pragma GCC target("avxvnni")
#elif defined(FLAGS_AVX512VNNI)
#pragma GCC target("avx512vnni")
#elif defined(FLAGS_AVX512BF16)
#pragma GCC target("avx512bf16")
#elif defined(FLAGS_AMX)
#pragma GCC target("avx512vnni,amx-tile,amx-int8,amx-bf16")
#elif defined(FLAGS_DOTPROD)
#pragma GCC target("arch=armv8.2-a+dotprod")
#elif defined(FLAGS_I8MM)
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif
#if defined(FLAGS_VECTORS)
#pragma GCC optimize("no-trapping-math")
#endif
#if defined(FLAGS_ROOTS)
#pragma GCC optimize("no-math-errno")
#endif
#if defined(FLAGS_REGISTERS) && defined(__x86_64__)
#pragma GCC optimize("no-tree-ter,no-tree-reassoc")
#elif defined(FLAGS_REGISTERS) && defined(__aarch64__)
#pragma GCC optimize("no-schedule-insns")
#endif

#endif
