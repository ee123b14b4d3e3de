/*
 * product.c - one call of one product between two marks, for predict.py.
 *
 *	product ISA TYPE TOKENS COLUMNS PANELS
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"
#include "quern.h"
#include "quern_encode.h"

__attribute__((noinline)) void mark_begin(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void mark_end(void) { __asm__ volatile("" ::: "memory"); }

static void *get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		exit(3);
	return p;
}

/* n numbers between -1 and 1. */
static float *numbers(int64_t n)
{
	static uint32_t state = 1;
	float *x = get(sizeof *x * (size_t)n);

	for (int64_t i = 0; i < n; i++)
		x[i] = (float)(int32_t)(state = state * 1664525 + 1013904223) * 0x1p-31f;
	return x;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	const uint32_t isa = (uint32_t)strtoul(argv[1], NULL, 0);
	const int type = atoi(argv[2]), n = atoi(argv[3]), n_in = atoi(argv[4]), panels = atoi(argv[5]);
	const enum qn_act kind = qn_type_act(type);
	const float *w = numbers((int64_t)QN_PANEL * n_in), *x = numbers((int64_t)n * n_in);
	void *rows = get(QN_PANEL * qn_row_bytes(type, n_in)), *panel = get(qn_panel_bytes(type, n_in));
	uint8_t *act = get(qn_act_bytes(kind, n, n_in));
	float *out = get(sizeof *out * (size_t)(2 * n * QN_PANEL));

	if (qn_init(isa) != isa) {
		fprintf(stderr, "product: the CPU lacks a set of %#x\n", isa);
		return 2;
	}
	if (qn_encode(isa, type, rows, w, QN_PANEL, n_in, NULL) || qn_pack(type, panel, rows, QN_PANEL, n_in)) {
		fprintf(stderr, "product: no rows of type %d\n", type);
		return 2;
	}
	for (int b = 0; b < n * (n_in / QN_ACT_BLOCK); b++)
		qn_kernels.quantize(act + b * act_bytes(kind), x + b * QN_ACT_BLOCK, QN_ACT_BLOCK, kind);
	mark_begin();
	if (panels == 2)
		qn_kernels.mm_pair[type](out, panel, panel, act, n_in, n, n);
	else
		qn_kernels.mm[type](out, panel, act, n_in, n, n);
	mark_end();
	return 0;
}
