/*
 * vectors.h - the vector operations that texts for all sets are written in: tmpl/decode.h, tmpl/unpack.h,
 * tmpl/matmul_int.h. A set defines them, as static functions, before it includes one of those.
 *
 *	bytes   64 weights: a line, or a word taken out of one
 *	acts    4 activations of a token, for all rows
 *	ints    16 int32
 *	floats  16 floats
 *
 *	bytes_load(p) bytes_store(p, a) bytes_and(a, mask) bytes_or_and(a, b, mask) bytes_shr(a, n) bytes_shl(a, n)
 *	    shifts may move bits across the bytes of a 16-bit pair: a mask follows
 *	bytes_iq4(a)           table value + 128 of each nibble; bytes_mxfp4(a): table value + 12, of NVFP4 as well
 *	bytes_lookup(a, t, n)  entry of a table of 16 n bytes, n 1, 2 or 4, for each byte; 0 for bytes from 128 on
 *	bytes_add(a, b)
 *	bytes_signed(a, s)     64 + a, or 64 - a where bit i % 8 of s[i / 8] is set; a at most 64
 *	bytes_signed128(a, s)  128 + |a - 128|, or 128 - |a - 128| where the top bit of the byte of s is set
 *	bytes_widen(p, n)      16 uint16, each plus n, as 32-bit words
 *	bytes_mul32(a, m)      32-bit words times m
 *	bytes_sums(a, b, c, d, n)    for each 32-bit word: n + the sums of the four bytes, at most 63, of a, b, c, d
 *	bytes_shifted(a, s)    57 + 8 a, or 55 + 8 a where the bit is set; a at most 2
 *	bytes_unzip(p, a, b)   stores two lines: the even 32-bit words of a and b, then the odd ones
 *	rows    16 bytes, one of each row
 *	rows_load(p) rows_store(p, a) rows_and(a, mask) rows_or(a, b) rows_sub(a, n)
 *	rows_shr(a, n, mask) rows_shl(a, n, mask)    shifted, then masked
 *	rows_zip(p, a, b)      stores a and b interleaved
 *	    in fours, bytes of 4 times 16 rows, where ROWS_IN_FOURS is 1: rows_even(a, b) rows_odd(a, b), every second
 *	    16 bytes of both; rows_store_zip16(p, a, b) rows_store_zip(p, a, b), by 16 bytes and by bytes in turn
 *	rows_unzip4(p, a)      stores the first bytes of 16 times 4, then the second, third, fourth
 *	acts_load(p)           4 int8, or 2 int16
 *
 *	ints_zero() ints_set1(x) ints_of8(p)    the last from 16 int8
 *	ints_dot(acc, w, x)    acc + w . x, 4 by 4; w unsigned below 128, x int8
 *	ints_dot8(acc, w, x)   the same for w up to 255 that stands for w - 128. MM_DOT8_OFFSET is 1
 *	                       where it leaves the offset to the caller
 *	ints_pair(acc, a, x)   acc + a . x, 2 by 2; a the address of [16][2] int8, x int16
 *	ints_add(a, b) ints_muladd(acc, a, b)    the last acc + a * b
 *	ints_sra(a, n)         shifted, with the sign, where MM_FEW is set
 *	    where MM_TWOS is 1: ints_up(a), shifted by 16; ints_twos(acc, a, b, s), acc + (a + b) . s, 2 by 2 int16,
 *	    the low ones of a + b with their highest bits inverted; ints_both(acc, a, b, s), the same of the low
 *	    halves of b and of a; rows_zip16(p, a, b), as rows_zip(), of int16
 *	floats_set1(x) floats_f16(p) floats_of(ints) floats_mul(a, b)
 *	floats_bits(ints)      floats that have these bits
 *	floats_e8m0(p)         2^(e - 128) of 16 bytes
 *	floats_ue4m3(p)        of 16 bytes below 128, halved: see math/fp16.h
 *	floats_fma(a, b, c) floats_fnma(a, b, c) floats_load(p) floats_store(p, a)
 */
#ifndef QN_TMPL_VECTORS_H
#define QN_TMPL_VECTORS_H

#include "inline.h"

#endif
