/*
 * check.h - what the checks share.
 *
 * Every vector kernel equals the scalar one bit for bit, so results of different sets are compared
 * for equality. Tolerances belong to oracles only: formulas in double, written apart from the
 * kernels. They are relative to the sum of |terms|, for a sum of large terms may cancel.
 */
#ifndef QN_TESTS_CHECK_H
#define QN_TESTS_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels.h"
#include "quern.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ------------------------------------------------------------------ sets */

/* An instruction set of this CPU, and its kernels. */
struct set {
	const char *name;
	uint32_t isa; /* for qn_init() */
	struct kernels k;
	int failed;
};

#if defined(__x86_64__)
void check_init_tiles(struct kernels *k); /* as mm_init_amx(), with tiles in C: see tiles.c */
#endif

extern struct set check_sets[]; /* the first is scalar, the reference */
extern int check_n_sets;
extern int check_quick; /* fewer sizes, for emulators */

#define EACH_SET(s) for (struct set *s = check_sets; s < check_sets + check_n_sets; s++)

/* ------------------------------------------------------------------ verdicts */

/* Says what is being checked: the start of the lines about failures, and of that about a crash. */
__attribute__((format(printf, 2, 3))) void check_at(struct set *s, const char *format, ...);

/* Starts the time that the next checks may take: a run that hangs ends. */
void check_limit(void);

/* Counts a failure of what check_at() said, unless ok. Returns ok. */
__attribute__((format(printf, 2, 3))) int check_true(int ok, const char *format, ...);

/* The same bits; any NaN equals any other. */
int check_floats(const char *what, const float *got, const float *want, int64_t n);
int check_bytes(const char *what, const void *got, const void *want, int64_t n);

/* |got - want| <= error. */
int check_near(const char *what, int64_t i, double got, double want, double error);

/* ------------------------------------------------------------------ memory */

/* Memory that ends where an unmapped page begins: an access beyond its end faults. */
struct guard {
	uint8_t *map, *end;
	size_t bytes; /* of the last guard_fill() */
};

struct guard guard_new(size_t most);
void guard_free(struct guard *g);

/* The last `bytes` of the memory; all of it is filled with a pattern. */
void *guard_fill(struct guard *g, size_t bytes);

/* The pattern before those bytes is still there. */
int guard_intact(const char *what, const struct guard *g);

/* A new guard's bytes, for what is freed all at once by guard_free_all(). */
void *guard_alloc(size_t bytes);
void guard_free_all(void);

/* ------------------------------------------------------------------ random data */

uint64_t rnd(void);
int rnd_below(int n);
float rnd_uniform(void); /* -1 .. 1 */
float rnd_normal(void);
float rnd_sized(void);   /* mostly small, sometimes large, sometimes zero */
void rnd_bytes(void *p, size_t n);

/* A type of weights: where its block keeps what must be finite. */
struct type {
	const char *name;
	int type;      /* enum qn_type */
	int elems, bytes;
	int d, m;      /* offsets of the scale, see put_scale(), and of the minimum; -1: none */
	float top;     /* largest |integer| that d multiplies */
	int head;      /* bytes of a scale before the blocks of a row: then blocks have none */
};

extern const struct type check_types[];
extern const int check_n_types;

#define EACH_TYPE(t) for (const struct type *t = check_types; t < check_types + check_n_types; t++)

/* n random GGUF rows whose weights are about `size` at most; any bits are valid but for scales. */
void rnd_weights(const struct type *t, void *rows, int64_t n, int64_t n_in, float size);

/* Block i of rows, counted over all of them. */
uint8_t *block_at(const struct type *t, void *rows, int64_t n_in, int64_t i);

/* Sets the scale of block i, or of its row, to h, or to what is nearest for the type. */
void put_scale(const struct type *t, void *rows, int64_t n_in, int64_t i, uint16_t h);

/* Halves in and out by plain arithmetic, apart from math/fp16.h. Rounds to nearest even, saturates. */
double half_value(uint16_t h);
uint16_t half_nearest(double x);

/* The Hadamard transform of each 2^m of x, the largest power that divides n <= 1024: by signs, no butterflies. */
void check_hadamard(double *x, int n);

/* Activation block from 256 values of -127 .. 127. */
void act8_of(struct act8 *y, enum qn_act kind, const int8_t *q, float d);

/* Activation k of a block of that kind. */
double act_value(const void *block, enum qn_act kind, int k);

/* ------------------------------------------------------------------ families */

void check_half(void);
void check_sincos(void);
void check_dequant(void);
void check_pack(void);
void check_vec(void);
void check_mm(void);
void check_twelve(void);
void check_attn(void);
void check_kept(void);
void check_delta(void);
void check_scan(void);
void check_media(void);
void check_select(void);
void check_blocks(void);
void check_waves(void);
void check_compress(void);
void check_share(void);
void check_adapt(void);
void check_back(void);
void check_back_weights(void);
void check_back_moe(void);
void check_logits(void);
void check_pool(void);
void check_ops(void);
void check_plan(void);

void check_bench(const char *only); /* "mm", "twelve", "attn", "vec", or NULL for all */

/* A group that is not divided among places. */
static inline struct qn_group group_of(void *data, int64_t unit_bytes, const int32_t *table, int32_t cols)
{
	return (struct qn_group){.data = data, .unit_bytes = unit_bytes, .table = table, .cols = cols};
}

/* Packs whole matrices into panels that lie one after the other. */
static inline int pack_rows(struct qn_pool *pool, void *dst, const struct qn_mat *src)
{
	struct qn_mat to = *src;

	to.data = dst;
	to.layout = QN_X16;
	return qn_pack_mat(pool, &to, 0, src);
}

/* Threads of a pool in places: so many in each, 16 at most. Ends the program where there is none. */
struct qn_pool *pool_in_places(const int *each, int places);

/* Runs one plan. */
static inline void run_ops(struct qn_pool *pool, const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs,
                           const struct qn_batch *batch, void *scratch, size_t bytes, const struct qn_ticks *ticks)
{
	const struct qn_plan plan = {ops, ticks, NULL, n_ops};

	qn_run(pool, &plan, 1, bufs, batch, scratch, bytes, NULL);
}

#endif
