/*
 * base.h - what holds in every file, which the compiler includes first (csrc.go).
 *
 * No contraction: a*b+c is rounded twice unless a kernel asks for an FMA, so every instruction set and every
 * compiler gives the bits of the scalar specification. GCC contracts nothing in ISO C; Clang has to be told. For the
 * same reason, never -ffast-math; and never -march=native, which breaks the choice of a set.
 */
#ifndef __STRICT_ANSI__
#error "compile as ISO C: -std=c11"
#endif
#ifdef __FAST_MATH__
#error "compile without -ffast-math"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
