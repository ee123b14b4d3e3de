/*
 * quern.h - language-model arithmetic for CPUs: with quern_types.h, quern_ops.h and quern_ranks.h the whole contract
 * between Go and C.
 *
 * A forward pass is a list of operations (a plan) run over a batch of tokens by a pool of
 * threads. The caller owns every buffer. Nothing here allocates (but qn_pool_create), logs,
 * or reads the environment. Pointers inside structs are borrowed for as long as the struct is
 * used and must point outside any garbage-collected heap.
 *
 * Arithmetic is batch-invariant: a token's result does not depend on the other tokens of the
 * batch, on the number of threads, or on the instruction set.
 */
#ifndef QUERN_H
#define QUERN_H

#include <stddef.h>
#include <stdint.h>

#include "quern_ops.h"
#include "quern_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Instruction sets beyond the baseline, as bits. */
enum qn_isa {
	QN_AVX2 = 1 << 0,       /* with FMA and F16C */
	QN_AVXVNNI = 1 << 1,    /* 256-bit VNNI; needs AVX2 */
	QN_AVX512 = 1 << 2,     /* F, BW, DQ, VL; needs AVX2 */
	QN_AVX512VNNI = 1 << 3, /* needs AVX512 */
	QN_AVX512BF16 = 1 << 5, /* needs AVX512VNNI */
	QN_AMX = 1 << 4,        /* AMX-TILE, -INT8 and -BF16, granted by the OS; needs AVX512BF16 */
	QN_NEON = 1 << 8,
	QN_DOTPROD = 1 << 9, /* needs NEON */
	QN_I8MM = 1 << 10,   /* needs DOTPROD */
	QN_RVV = 1 << 16,    /* RISC-V's V, of 128 bits at least */
	QN_RVV256 = 1 << 17, /* the same of 256 bits; needs RVV */
};

/* What this CPU and this OS support. */
uint32_t qn_cpu_isa(void);

/*
 * Chooses the kernels for this CPU and returns the instruction sets in use. Only sets in
 * `allow` are considered: 0 runs the scalar specification, UINT32_MAX the best. Not thread
 * safe: call it before anything else, and never while a plan runs.
 */
uint32_t qn_init(uint32_t allow);

/* ------------------------------------------------------------------ batches */

/*
 * One kind of state that every sequence has, in units of unit_bytes. Either a unit is a block of
 * QN_KV_BLOCK positions, and table[s][i] is the unit of positions 64 i .. 64 i + 63; a block that no token
 * of the batch sees may be anything. Or a unit is the whole state of a sequence, cols is 2, and an operation
 * reads unit table[s][0], where -1 is zeros, and writes table[s][1].
 *
 * A group that has nothing but keys and values may be divided by their heads, which each layer has a multiple of
 * `places` of: each place has the same number of every layer's, in their order, in parts of units, place_stride bytes
 * after those of the place before. unit_bytes is then of a part, and an offset is divided by places.
 */
struct qn_group {
	void *data;
	int64_t unit_bytes;
	const int32_t *table; /* [n_seq][cols] */
	int32_t cols;
	int32_t places; /* that it is divided among; 0 and 1: it is not */
	int64_t place_stride;
};

/* What one forward pass holds: tokens of any mix of sequences and positions. */
struct qn_batch {
	const int32_t *tok; /* [n_tok] token ids, each below the vocabulary's size */
	const int32_t *pos; /* [n_tok] position of each token in its sequence */
	const int32_t *seq; /* [n_tok] row of the groups' tables; the tokens of a sequence are adjacent,
	                       their positions ascend by one */
	const int32_t *out; /* [n_out] ascending indices of the tokens whose logits are wanted */
	const struct qn_group *groups; /* [n_group] */
	const int32_t *source;         /* [n_seq] how many first positions are a source: see enum qn_side */
	const int32_t *second;         /* [n_seq] where the second text of a pair begins; 0: there is none */
	const int32_t *prompt;         /* [n_seq] where blocks of queries of a prompt end (struct qn_blocks). NULL: 0 */
	const float *const *in;        /* [n_tok] rows of floats that tokens bring: see QN_OP_INPUT. NULL: none does */
	const int32_t *place;          /* [n_tok][QN_AXES] where tokens are: see QN_OP_ROPE_TABLE. NULL: at pos */
	const int32_t *span;           /* [n_tok][2] first and last position of the span that a token is in, which is in
	                                  the batch whole: see enum qn_sight. NULL: each is alone */
	const int32_t *adapter;        /* [n_seq][n_adapter] numbers in qn_adapt.low, -1 for none: see QN_OP_ADAPT */
	const float *adapter_scale;    /* [n_seq][n_adapter] */
	int32_t n_tok, n_seq, n_out, n_group, n_adapter;
};

/*
 * A buffer of the forward pass. Kinds by use:
 *   rows of floats     [n][width], width a multiple of 16
 *   float activations  [width/256][n][256] floats             (qn_act_bytes)
 *   8-bit activations  [width/256][n] blocks of 320 bytes     (qn_act_bytes)
 *   16-bit activations [width/256][n][2] of these blocks      (qn_act_bytes)
 * n is the number of rows an operation works on. All are 64-byte aligned.
 */
struct qn_buf {
	void *data;
	int64_t width; /* columns */
};

size_t qn_act_bytes(enum qn_act kind, int64_t n, int64_t width);

/* ------------------------------------------------------------------ plans */

/* Bytes of the routing of n_tok tokens (QN_OP_MOE_ROUTE). */
size_t qn_route_bytes(int64_t n_tok, int32_t n_expert, int32_t n_used);

/*
 * Bytes of one layer's keys and values in a KV block, a multiple of 64; 0 for types that there are
 * not. v_dim is 0 where values are channels of keys. What lies in them is the kernels' business.
 */
size_t qn_kv_bytes(int32_t k_type, int32_t v_type, int32_t n_head_kv, int32_t head_dim, int32_t v_dim);

/* Bytes of one layer's entries in a block, see QN_OP_COMPRESS; a multiple of 64. */
size_t qn_entry_bytes(int32_t k_type, int32_t head_dim, int32_t every);

/* QN_OK where every size, type, layout and buffer number of ops is one the kernels can take. */
int qn_plan_check(const struct qn_op *ops, int32_t n_ops, const struct qn_buf *bufs, int32_t n_bufs);

/* Bytes of scratch that one thread needs to run ops. */
size_t qn_plan_scratch(const struct qn_op *ops, int32_t n_ops, int32_t n_tok_max);

/* ------------------------------------------------------------------ threads */

struct qn_pool; /* worker threads */

enum { QN_PLACES_MAX = 64 };

/*
 * Where a thread of a pool runs: on which CPUs, and in which place. A place is threads that share memory which is
 * nearer to them than to others: a NUMA node. Threads are in order of places, from 0 on, and each has one at least.
 */
struct qn_thread {
	const int32_t *cpus; /* [n_cpus]; those that are not ours to use leave the thread where it may run anyway */
	int32_t n_cpus;      /* 0: any */
	int32_t place;       /* below QN_PLACES_MAX */
};

/*
 * A pool of n threads, of which the calling thread of qn_run() is the first: n - 1 are started
 * here. threads: [n], or NULL for any CPUs and one place; the CPUs of the first are not used, for the
 * caller's thread is the caller's. Idle workers sleep. One run at a time in a pool.
 */
int qn_pool_create(struct qn_pool **pool, const struct qn_thread *threads, int32_t n);
void qn_pool_destroy(struct qn_pool *pool);
int32_t qn_pool_threads(const struct qn_pool *pool);

/* Where the time of a plan's operations went, and what they moved: sums over runs, which begin at 0. */
struct qn_ticks {
	struct qn_ticks_op {
		int64_t bytes; /* of weights, keys and values that it read */
		int64_t madds; /* multiply-adds with them */
	} *ops;                /* [n_ops] */
	struct qn_ticks_time {
		int64_t busy_ns; /* of a thread in an operation */
		int64_t wait_ns; /* at its end, and inside, for the other threads */
	} *times;                /* [n_ops][threads] */
};

/*
 * What a product multiplied by: squares of its inputs, added up by column, for each of its n_mat matrices apart; and
 * where somebody asks, products of each two columns of the same span: of each matrix and each of its spans
 * [span][span] floats, the last span's narrower, of which the blocks of 256 on and above the diagonal are added to.
 * n_in is then a multiple of 32, and span of 256 where there is more than one.
 */
struct qn_tap {
	double *sums;    /* [n_mat][n_in]; NULL: nobody asks */
	int64_t *counts; /* [n_mat] how many rows were added */
	float *products; /* [n_mat][span by span]; NULL: nobody asks */
	int64_t span;
	uint32_t isa;    /* of the instruction sets that add products; the sums are the same with all */
};

struct qn_plan {
	const struct qn_op *ops; /* which have passed qn_plan_check() */
	const struct qn_ticks *ticks; /* is added to; NULL: nothing is measured */
	const struct qn_tap *taps;    /* [n_ops], are added to, those of QN_OP_MATMUL; NULL: none is */
	int32_t n_ops;
};

/*
 * Runs plans over the batch, in order. scratch: threads * bytes, where bytes is the most that qn_plan_scratch() says of
 * any, 64-byte aligned. Before each plan *stop is read, which any thread may set meanwhile, atomically: where it is
 * not 0, no further plan is run. NULL: all are. Returns how many were run.
 */
int32_t qn_run(struct qn_pool *pool, const struct qn_plan *plans, int32_t n_plans, const struct qn_buf *bufs,
               const struct qn_batch *batch, void *scratch, size_t scratch_bytes, const uint32_t *stop);

/*
 * Packs n_mat * n_out rows, of layout QN_ROWS, into n_mat * ceil(n_out / 16) panels of dst, of another layout and the
 * same type and columns, with every thread of the pool, those of a place what lies there. Panels are counted over all
 * matrices of dst, and the first is number `first`. Returns an error of one.
 */
int qn_pack_mat(struct qn_pool *pool, const struct qn_mat *dst, int64_t first, const struct qn_mat *src);

/* One layer's keys and values in the blocks of a group. */
struct qn_kv {
	int64_t offset;      /* in a unit, as that of qn_heads.kv */
	const double *freq;  /* [n_rot / 2], where keys are rotated */
	const float *mul;    /* [n_head_kv][head_dim] that keys were multiplied by after that, none 0; or NULL */
	int32_t k_type, v_type, n_head_kv, head_dim, v_dim, v_in_k;
	int32_t rope, rope_at, n_rot;
};

/*
 * Keys and values of a sequence from positions at + by .. end - 1 + by to positions at .. end - 1, by > 0, in all
 * layers: keys are rotated back by as many positions. The numbers of the blocks, units of the group, are in from and
 * to, by position; a position whose block is -1 in either is left out. The two tables may have blocks in common. By all
 * threads of the pool. The group's table is not used.
 */
int qn_kv_shift(struct qn_pool *pool, const struct qn_group *group, const int32_t *to, const int32_t *from,
                int64_t at, int64_t end, int64_t by, const struct qn_kv *layers, int32_t n_layers);

/* A block and what its layers keep in it. */
struct qn_kv_block {
	struct qn_group group; /* whose table is not used */
	const struct qn_kv *layers;
	int32_t unit;
};

/* A whole block in other types: n_layers layers, each as `from` has it, as `to` has it. */
int qn_kv_convert(struct qn_pool *pool, const struct qn_kv_block *to, const struct qn_kv_block *from, int32_t n_layers);

/*
 * Files of ik_llama.cpp may have 4 or 8 rows of a type interleaved, as _R4 and _R8: how many together, 1 where
 * there is no such form.
 */
int32_t qn_rows_together(int32_t type);

/* Takes such rows apart into n_rows rows as in GGUF, a multiple of so many, in as many bytes elsewhere. */
int qn_rows_apart(int32_t type, void *rows, const void *together, int64_t n_rows, int64_t n_in);

/* ------------------------------------------------------------------ logits */

/*
 * What samplers ask of the logits of a vocabulary, by the thread that calls. Those of a list of candidates are `step`
 * floats apart, others 1. NaN is outside of any range.
 */
enum { QN_LOGITS_CHUNK = 1024, QN_LOGITS_BLOCK = 256, QN_LOGITS_LANES = 16 };

/*
 * peak[16 c + j] = the largest of the logits 1024 c + j, 1024 c + 16 + j and so on of chunk c, -inf where there is
 * none. The k-th largest peak has k logits or more that are as large.
 */
void qn_logits_peaks(float *peak, const float *x, int64_t n);

/* mass[i] = that of logits 256 i .. 256 i + 255, of those from .. to; scale > 0, top >= to. */
void qn_logits_weigh(struct qn_mass *mass, const float *x, int64_t n, int64_t step, float top, float scale, float from,
                     float to);

/* How many logits are finite, their mean and their mean square distance from it. */
struct qn_spread {
	double n, mean, variance;
};

void qn_logits_spread(struct qn_spread *s, const float *x, int64_t n, int64_t step);

/*
 * y = the tokens whose logits are from .. to, by id, as many as there is room for. Returns how many there are. peak:
 * what qn_logits_peaks() says.
 */
int64_t qn_logits_select(struct qn_token *y, int64_t room, const float *x, int64_t n, const float *peak, float from,
                         float to);

/*
 * A logit that k of n logits reach, or a few more where halving a range finds that soon, else many more; `from`, which
 * is finite, where few more than k reach it. top: the largest of them, finite. They may be peaks.
 */
float qn_logits_bound(const float *x, int64_t n, int64_t k, float from, float top);

/*
 * y = the first k of n tokens, all of them if they are fewer: the larger logits first, and of equal ones the first in
 * the list. None is NaN, n is QN_LOGITS_ORDER at most, and y may be x.
 */
enum { QN_LOGITS_ORDER = 256 };

void qn_logits_order(struct qn_token *y, int64_t k, const struct qn_token *x, int64_t n);

/*
 * mass[b] = the sum of the weights, as of qn_logits_weigh(), of the logits from .. to of which (to - x) per begins
 * with b; the last bin has all beyond it as well. mass: [QN_LOGITS_BINS][QN_LOGITS_SUMS], of which the first
 * QN_LOGITS_BINS are the result. scale 0: each weighs 1.
 */
enum { QN_LOGITS_BINS = 2048, QN_LOGITS_SUMS = 4 };

void qn_logits_bins(double *mass, const float *x, int64_t n, int64_t step, float top, float scale, float per,
                    float from, float to);

/* ------------------------------------------------------------------ training */

/*
 * A step of AdamW (Loshchilov and Hutter 2019): of n numbers x with gradient d, and first and second moments m
 * and v, with g = scale * d
 *	m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
 *	x = x - rate * decay * x - rate * (correction1 m) / (sqrt(correction2 v) + eps)
 * correction1 and correction2 are 1 / (1 - beta^step). By all threads of the pool.
 */
struct qn_adamw {
	float *x, *m, *v; /* [n] */
	const float *d;   /* [n] */
	int64_t n;
	float scale, beta1, beta2, correction1, correction2, rate, decay, eps;
};

void qn_adamw(struct qn_pool *pool, const struct qn_adamw *s);

/*
 * A step of Muon (Jordan and others 2024): of a matrix x with gradient d and momentum m. With g = scale * d
 *	m = beta m + g,  u = g + beta m, divided by its norm and made nearly orthogonal,  x = keep * x - move * u
 * by QN_MUON_ROUNDS of u = 3.4445 u + u (-4.7750 s + 2.0315 s^2), s = u^T u, where u is transposed if it has more
 * columns than rows. All products are chains of fma in order. By all threads of the pool.
 */
struct qn_muon {
	float *x, *m;   /* [n_out][n_in] */
	const float *d; /* [n_out][n_in] */
	float *work;    /* [qn_muon_work(n_out, n_in)] */
	int64_t n_out, n_in;
	float scale, beta, keep, move;
};

#define QN_MUON_ROUNDS 5

int64_t qn_muon_work(int64_t n_out, int64_t n_in);
void qn_muon(struct qn_pool *pool, const struct qn_muon *s);

/* ------------------------------------------------------------------ measurements */

/* Bytes per second at which the pool reads [n] bytes, each thread its own part, `rounds` times. */
double qn_measure_read(struct qn_pool *pool, const void *buf, size_t n, int32_t rounds);

/* Bytes per second at which the pool copies [n] bytes, each thread its own part, `rounds` times. */
double qn_measure_copy(struct qn_pool *pool, void *dst, const void *src, size_t n, int32_t rounds);

/* int8 multiply-adds per second that the pool reaches in registers with the set in use. */
double qn_measure_int8(struct qn_pool *pool, int64_t rounds);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_H */
