/* trellis.h - the encoder of the trellis types, and its two loops, of which each instruction set has its own. */
#ifndef QN_ENCODE_TRELLIS_H
#define QN_ENCODE_TRELLIS_H

#include <stdint.h>

/* The entry with the least score. Of equal ones it is the first, so vectors of any length find the same. */
struct trellis_least {
	float score;
	int32_t at;
};

/*
 * Entries lie in lines of sixteen, [dims][16], dims 4 or 8. The score of an entry v is the sum over i of
 * v[i] (v[i] p[i] + q[i]), added in that order.
 */
struct trellis_loops {
	void (*scores)(float *score, const float *lines, int n, int dims, const float *p, const float *q);
	/* Lines at .. at + n - 1. */
	void (*least)(struct trellis_least *best, const float *lines, int at, int n, int dims, const float *p,
	              const float *q);
};

void trellis_init_scalar(struct trellis_loops *l);
void trellis_init_avx2(struct trellis_loops *l);
void trellis_init_avx512(struct trellis_loops *l);

/* 1 for IQ1_KT, IQ2_KT, IQ3_KT and IQ4_KT. */
int encode_is_trellis(int32_t type);

/* Rows that encode_check() has passed. `search` takes longer, for less error. Returns QN_OK or QN_ENOMEM. */
int encode_trellis(uint32_t isa, int32_t type, void *dst, const float *rows, int64_t n_rows, int64_t n_in,
                   const float *importance, int search);

#endif
