/* kernels.c - chooses the kernels, and measures the machine with them. */
#include <string.h>

#include "kernels.h"
#include "platform/platform.h"
#include "run/pool.h"
#include "scalar/set.h"

struct kernels qn_kernels;
int32_t qn_ahead, qn_ahead_short, qn_ahead_pair, qn_ahead_lanes;

void kernels_init_scalar(struct kernels *k)
{
	mm_init_scalar(k);
	vec_init_scalar(k);
	attn_init_scalar(k);
	delta_init_scalar(k);
	scan_init_scalar(k);
	product_init_scalar(k);
	logits_init_scalar(k);
}

/* Each set with those it builds on: its kernels hand work down to theirs. */
static const struct {
	uint32_t set, needs;
} ladder[] = {
	{QN_AVXVNNI, QN_AVX2},
	{QN_AVX512, QN_AVX2},
	{QN_AVX512VNNI, QN_AVX512},
	{QN_AVX512BF16, QN_AVX512VNNI},
	{QN_AMX, QN_AVX512BF16},
	{QN_DOTPROD, QN_NEON},
	{QN_I8MM, QN_DOTPROD},
	{QN_RVV256, QN_RVV},
};

uint32_t qn_init(uint32_t allow)
{
	uint32_t isa = qn_cpu_isa() & allow;

	for (unsigned i = 0; i < sizeof ladder / sizeof *ladder; i++)
		if ((isa & ladder[i].needs) != ladder[i].needs)
			isa &= ~ladder[i].set;

	kernels_init_scalar(&qn_kernels);
#if defined(__x86_64__)
	kernels_init_x86(&qn_kernels, isa);
#elif defined(__aarch64__)
	kernels_init_arm(&qn_kernels, isa);
#elif defined(__riscv)
	kernels_init_riscv(&qn_kernels, isa);
#endif
	return isa;
}

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(__riscv)
uint32_t qn_cpu_isa(void)
{
	return 0;
}
#endif

static double seconds(void)
{
	return (double)sys_ns() * 1e-9;
}

struct measure {
	const uint64_t *buf;
	uint64_t *dst; /* of a copy */
	size_t n;      /* words */
	int64_t rounds;
};

/* Runs fn, which does `amount` of something with all threads together. */
static double per_second(struct qn_pool *pool, job_fn *fn, struct measure *m, double amount)
{
	double t = seconds();

	pool_run(pool, fn, m);
	t = seconds() - t;
	return t > 0 ? amount / t : 0;
}

/* The words of thread ith: whole cache lines. */
static size_t part_start(const struct measure *m, int ith, int nth)
{
	return m->n * (size_t)ith / (size_t)nth / 8 * 8;
}

static void read_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct measure *m = arg;
	const size_t from = part_start(m, ith, nth), to = part_start(m, ith + 1, nth);
	uint64_t sum[8] = {0};
	volatile uint64_t sink;

	(void)pool;
	for (int64_t r = 0; r < m->rounds; r++)
		for (size_t i = from; i < to; i += 8) {
			/* As the kernels ask for weights: without it some CPUs read at half their speed. */
			if (qn_ahead_lanes)
				ask_in_lanes((const uint8_t *)&m->buf[i], 64);
			else if (qn_ahead_short)
				__builtin_prefetch((const uint8_t *)&m->buf[i] + qn_ahead_short);
			for (int j = 0; j < 8; j++)
				sum[j] ^= m->buf[i + (size_t)j];
		}
	sink = sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
	(void)sink;
}

double qn_measure_read(struct qn_pool *pool, const void *buf, size_t n, int32_t rounds)
{
	struct measure m = {.buf = buf, .n = n / sizeof(uint64_t), .rounds = rounds};

	return per_second(pool, read_job, &m, (double)n * rounds);
}

static void copy_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct measure *m = arg;
	const size_t from = part_start(m, ith, nth), to = part_start(m, ith + 1, nth);

	(void)pool;
	for (int64_t r = 0; r < m->rounds; r++)
		memcpy(m->dst + from, m->buf + from, (to - from) * sizeof *m->buf);
}

double qn_measure_copy(struct qn_pool *pool, void *dst, const void *src, size_t n, int32_t rounds)
{
	struct measure m = {.buf = src, .dst = dst, .n = n / sizeof(uint64_t), .rounds = rounds};

	return per_second(pool, copy_job, &m, (double)n * rounds);
}

static void int8_job(struct qn_pool *pool, void *arg, int ith, int nth)
{
	const struct measure *m = arg;

	(void)pool, (void)ith, (void)nth;
	qn_kernels.int8_rounds(m->rounds);
}

double qn_measure_int8(struct qn_pool *pool, int64_t rounds)
{
	struct measure m = {.rounds = rounds};

	return per_second(pool, int8_job, &m, (double)rounds * qn_kernels.int8_per_round * qn_pool_threads(pool));
}
