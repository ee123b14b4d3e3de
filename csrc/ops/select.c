/*
 * select.c - the positions that a token attends to, where it does not attend to all (DeepSeek-AI 2025, "DeepSeek-V3.2":
 * the lightning indexer).
 *
 * Positions are ranked, and no two ranks are equal, so the best are the same whoever finds them: a thread all of a
 * token's where there are many tokens, else a team of threads. Each of a team finds the best of its own positions; then
 * all find the score of the last that is among the best of these, digit by digit. Of equal scores the first positions
 * are chosen, and the team has positions in the order of its threads.
 */
#include <math.h>
#include <string.h>

#include "ops/entries.h"
#include "ops/rank.h"
#include "run/operation.h"

/*
 * What a thread tells its team: how many of its ranks have which digit of the score, of those whose digits before are
 * the last chosen one's.
 */
enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, ROUNDS = 32 / DIGIT_BITS };

struct tally {
	int32_t n[ROUNDS][DIGITS];
};

static int64_t padded(int64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static int64_t heap_bytes(const struct qn_select *op)
{
	return padded(op->selection.n * (int64_t)sizeof(uint64_t));
}

/*
 * A thread's heap, what it tells its team, queries, their scales and sums, scores of a block for some heads, a block of
 * expanded codes, and one of entries.
 */
struct work {
	uint64_t *heap;
	struct tally *tally;
	uint8_t *q;
	float *qd;
	int32_t *qsum;
	float *e;
	uint8_t *k, *entries;
};

static int64_t work_of(const struct qn_select *op, uint8_t *scratch, struct work *w)
{
	const int64_t each = padded(op->heads.n_head * (int64_t)sizeof(float));
	int64_t at = heap_bytes(op);

	w->heap = (uint64_t *)scratch;
	w->tally = (struct tally *)(scratch + at);
	at += padded((int64_t)sizeof *w->tally);
	w->q = scratch + at;
	at += op->heads.n_head * kv_query_bytes(op->heads.head_dim);
	w->qd = (float *)(scratch + at);
	w->qsum = (int32_t *)(scratch + at + each);
	at += 2 * each;
	w->e = (float *)(scratch + at);
	at += QN_ATTN_ROWS * QN_KV_BLOCK * (int64_t)sizeof(float);
	w->k = scratch + at;
	at += op->heads.k_type == QN_KV_Q4 ? kv_k_bytes(QN_KV_Q8, kv_pad(op->heads.head_dim, 8)) : 0;
	w->entries = scratch + at;
	return at + (op->selection.entries.every ? kv_k_bytes(op->heads.k_type, op->heads.head_dim) : 0);
}

static size_t scratch(const struct qn_op *o)
{
	const struct qn_select *op = &o->select;
	static uint8_t nowhere[1];
	struct work w;

	return (size_t)work_of(op, nowhere, &w);
}

/* Heads of a choice. */
static int heads_of(const struct qn_select *op)
{
	return op->heads.n_head / choices_of(&op->selection);
}

static int check(const struct plan *p, const struct qn_op *o)
{
	const struct qn_select *op = &o->select;
	const struct qn_selection *s = &op->selection;

	return op->heads.n_head > 0 && op->heads.head_dim > 0 && op->heads.head_dim <= KV_HEAD_DIM_MAX &&
	       op->heads.k_type >= 0 && op->heads.k_type < QN_N_KV_TYPES && place_ok(&op->heads.kv) && s->n > 0 &&
	       cols_ok(p, op->q, (int64_t)op->heads.n_head * op->heads.head_dim) &&
	       (op->weight == -1 || buf_ok(p, op->weight, op->heads.n_head)) &&
	       (s->entries.every == 0 || entries_ok(&s->entries)) &&
	       (s->each == 0 || (spans_ok(s) && op->heads.n_head % choices_of(s) == 0 &&
	                         (s->each % QN_KV_BLOCK == 0 || QN_KV_BLOCK % s->each == 0))) &&
	       buf_ok(p, op->dst, (int64_t)choices_of(s) * s->n);
}

/* Ready for a choice of token t: its queries, and a heap of nothing. */
static void begin(const struct run *c, const struct qn_select *op, int64_t t, int choice, struct work *w)
{
	const int n = heads_of(op);

	memset(w->heap, 0, sizeof *w->heap * (size_t)op->selection.n);
	for (int h = 0; h < n; h++)
		kv_query(op->heads.k_type, w->q + h * kv_query_bytes(op->heads.head_dim), &w->qd[h], &w->qsum[h],
		         cols_row(c, op->q, t) + (int64_t)(choice * n + h) * op->heads.head_dim, op->heads.head_dim);
}

/* What token t chooses among. */
static int64_t among(const struct run *c, const struct qn_select *op, int64_t t)
{
	return choosable(&op->selection, c->batch->pos[t]);
}

/* Their keys. */
static int64_t seen(const struct run *c, const struct qn_select *op, int64_t t)
{
	return among(c, op, t) * (op->selection.each ? op->selection.each : 1);
}

/* K of block b of these. */
static const uint8_t *keys_of(const struct run *c, const struct qn_select *op, int64_t t, const struct work *w,
                              int64_t b)
{
	const int64_t at = b * QN_KV_BLOCK, left = seen(c, op, t) - at;

	if (!op->selection.entries.every)
		return kv_part(c, &op->heads.kv, t, at);
	for (int p = 0; p < (left < QN_KV_BLOCK ? left : QN_KV_BLOCK); p++)
		kv_lay_k(op->heads.k_type, w->entries, p,
		         entry_at(c, &op->selection.entries, op->heads.k_type, op->heads.head_dim, t, at + p),
		         op->heads.head_dim);
	return w->entries;
}

/* The scores of a block's positions by a choice's heads, which are added in their order. */
static void score(const struct run *c, const struct qn_select *op, int64_t t, int choice, const struct work *w,
                  const uint8_t *k, float sum[QN_KV_BLOCK])
{
	const int heads = heads_of(op);
	const float *weight = op->weight < 0 ? NULL : buf_row(c, op->weight, t) + choice * heads;
	const float least = op->selection.each ? -INFINITY : 0;

	if (op->heads.k_type == QN_KV_Q4) {
		kv_expand_k(w->k, k, op->heads.head_dim, k);
		k = w->k;
	}
	memset(sum, 0, sizeof *sum * QN_KV_BLOCK);
	for (int h0 = 0; h0 < heads; h0 += QN_ATTN_ROWS) {
		const int n = heads - h0 < QN_ATTN_ROWS ? heads - h0 : QN_ATTN_ROWS;
		const struct attn_rows a = {
			.e = w->e,
			.q = w->q + h0 * kv_query_bytes(op->heads.head_dim),
			.qd = w->qd + h0,
			.qsum = w->qsum + h0,
			.n = n,
			.head_dim = op->heads.head_dim,
			.q_bytes = kv_query_bytes(op->heads.head_dim),
			.ahead = k,
		};

		qn_kernels.attn_scores[kv_expanded(op->heads.k_type)](&a, k);
		for (int h = 0; h < n; h++)
			for (int p = 0; p < QN_KV_BLOCK; p++) {
				const float s = w->e[h * QN_KV_BLOCK + p];

				sum[p] += (weight ? weight[h0 + h] : 1) * (s < least ? least : s); /* NaN stays one */
			}
	}
}

static void rank_one(const struct qn_select *op, struct work *w, float score, int64_t i)
{
	const uint64_t r = rank_of(score, (int32_t)i);

	if (r > w->heap[0])
		sift(w->heap, op->selection.n, r);
}

/* Stretches of what token t chooses among: as long as a block, or as a span that is longer. */
static int64_t stretch_of(const struct qn_select *op)
{
	return op->selection.each > QN_KV_BLOCK ? op->selection.each : QN_KV_BLOCK;
}

static int64_t stretches(const struct run *c, const struct qn_select *op, int64_t t)
{
	return (seen(c, op, t) + stretch_of(op) - 1) / stretch_of(op);
}

/* Puts what token t chooses among into the heap of the best: of stretches from .. to. */
static void rank_blocks(const struct run *c, const struct qn_select *op, int64_t t, int choice, struct work *w,
                        int64_t from, int64_t to)
{
	const int64_t n = seen(c, op, t), each = op->selection.each ? op->selection.each : 1;
	const int64_t blocks = stretch_of(op) / QN_KV_BLOCK;
	float sum[QN_KV_BLOCK], best = -INFINITY;

	for (int64_t b = from * blocks; b < to * blocks && b * QN_KV_BLOCK < n; b++) {
		const int64_t at = b * QN_KV_BLOCK, left = n - at;

		score(c, op, t, choice, w, keys_of(c, op, t, w, b), sum);
		for (int64_t p = 0; p < (left < QN_KV_BLOCK ? left : QN_KV_BLOCK); p++) {
			best = sum[p] <= best || best != best ? best : sum[p]; /* NaN stays one */
			if ((at + p + 1) % each)
				continue;
			rank_one(op, w, best, (at + p) / each);
			best = -INFINITY;
		}
	}
}

/* The numbers that n ranks are of, rising. */
static void in_order(int32_t *y, uint64_t *heap, int n)
{
	for (int i = 0; i < n; i++)
		heap[i] = ~(uint64_t)(uint32_t)ranked(heap[i]); /* the largest position is the smallest */
	for (int i = n / 2; i-- > 0;)
		sift_from(heap, n, i, heap[i]);
	for (int i = n - 1; i >= 0; i--) {
		y[i] = (int32_t)(uint32_t)~heap[0];
		sift(heap, i, heap[i]);
	}
}

static int32_t *chosen_row(const struct run *c, const struct qn_select *op, int64_t t, int choice)
{
	return (int32_t *)buf_row(c, op->dst, t) + choice * op->selection.n;
}

/* Threads first .. end of the pool, for one choice. */
struct team {
	int first, end;
};

static const struct tally *tally_of(const struct run *c, const struct work *w, int ith)
{
	return (const struct tally *)((const uint8_t *)w->tally + (ith - c->ith) * (int64_t)c->scratch_each);
}

/* Of the n best of a team: the score of the last, how many of that score a thread adds, and how many are before it. */
struct cut {
	uint32_t score;
	int64_t ties, before;
};

/* All teams go through as many barriers. Rank 0 is nothing. */
static struct cut find_cut(struct run *c, const struct team *team, const struct work *w, int n)
{
	struct cut cut = {0};
	int64_t want = n, ties = 0; /* ties: of threads before */

	for (int round = 0; round < ROUNDS; round++) {
		const int shift = 64 - (round + 1) * DIGIT_BITS;
		int32_t *count = w->tally->n[round];
		int64_t sum[DIGITS] = {0};
		int digit = DIGITS - 1;

		memset(count, 0, sizeof w->tally->n[round]);
		for (int i = 0; i < n; i++)
			if (w->heap[i] && (round == 0 || w->heap[i] >> (shift + DIGIT_BITS) == cut.score))
				count[w->heap[i] >> shift & (DIGITS - 1)]++;
		run_barrier(c);
		for (int k = team->first; k < team->end; k++)
			for (int i = 0; i < DIGITS; i++)
				sum[i] += tally_of(c, w, k)->n[round][i];
		for (; digit > 0 && sum[digit] < want; digit--)
			want -= sum[digit];
		for (int k = team->first; k < c->ith; k++)
			for (int i = digit + 1; i < DIGITS; i++)
				cut.before += tally_of(c, w, k)->n[round][i];
		cut.score = cut.score << DIGIT_BITS | (uint32_t)digit;
	}
	for (int k = team->first; k < c->ith; k++)
		ties += tally_of(c, w, k)->n[ROUNDS - 1][cut.score & (DIGITS - 1)];
	ties = ties < want ? ties : want;
	cut.before += ties;
	cut.ties = want - ties;
	return cut;
}

/* Leaves the `most` largest of n ranks, first of all. */
static int largest(uint64_t *heap, int n, int64_t most)
{
	for (int i = n / 2; i-- > 0;)
		sift_from(heap, n, i, heap[i]);
	for (; n > most; n--)
		sift(heap, n - 1, heap[n - 1]);
	return n;
}

/* A choice of token t by a team, each of which has stretches that follow each other. */
static void together(struct run *c, const struct qn_select *op, int64_t t, int choice, const struct team *team,
                     struct work *w)
{
	const int64_t all = stretches(c, op, t), size = team->end - team->first, i = c->ith - team->first;
	struct cut cut;
	int n = 0, above;

	begin(c, op, t, choice, w);
	rank_blocks(c, op, t, choice, w, all * i / size, all * (i + 1) / size);
	cut = find_cut(c, team, w, op->selection.n);
	for (int k = 0; k < op->selection.n; k++) /* those above to the front, then ties */
		if (w->heap[k] && w->heap[k] >> 32 > cut.score) {
			const uint64_t r = w->heap[k];

			w->heap[k] = w->heap[n];
			w->heap[n++] = r;
		}
	above = n;
	for (int k = above; k < op->selection.n; k++)
		if (w->heap[k] && w->heap[k] >> 32 == cut.score)
			w->heap[n++] = w->heap[k];
	n = above + largest(w->heap + above, n - above, cut.ties);
	in_order(chosen_row(c, op, t, choice) + cut.before, w->heap, n);
}

/* Choice number i of those that there are to make: of which token, and which of its choices. */
static int64_t nth_choice(const struct run *c, const struct qn_select *op, int64_t i, int *choice)
{
	const int choices = choices_of(&op->selection);

	for (int64_t t = 0;; t++) {
		const int n = among(c, op, t) > op->selection.n ? choices : 0;

		if (i < n) {
			*choice = (int)i;
			return t;
		}
		i -= n;
	}
}

static void run(struct run *c, const struct qn_op *o)
{
	const struct qn_select *op = &o->select;
	const struct qn_batch *b = c->batch;
	const int choices = choices_of(&op->selection);
	struct deal d = deal_begin(c->pool, c->ith, (int64_t)b->n_tok * choices);
	struct work w;
	int64_t n = 0, i;

	work_of(op, c->scratch, &w);
	for (int64_t t = 0; t < b->n_tok; t++)
		n += among(c, op, t) > op->selection.n ? choices : 0;
	if (n == 0)
		return;
	if (n < c->nth) {
		int choice;

		i = c->ith * n / c->nth;
		const struct team team = {(int)((i * c->nth + n - 1) / n), (int)(((i + 1) * c->nth + n - 1) / n)};
		const int64_t t = nth_choice(c, op, i, &choice);

		together(c, op, t, choice, &team, &w);
		return;
	}
	while ((i = deal_next(c->pool, c->step, &d)) >= 0) {
		const int64_t t = i / choices;
		const int choice = (int)(i % choices);

		if (among(c, op, t) <= op->selection.n)
			continue;
		begin(c, op, t, choice, &w);
		rank_blocks(c, op, t, choice, &w, 0, stretches(c, op, t));
		in_order(chosen_row(c, op, t, choice), w.heap, op->selection.n);
	}
}

/* Each token meets the keys of all positions that it sees. */
static struct qn_ticks_op moves(const struct run *c, const struct qn_op *o)
{
	const struct qn_select *op = &o->select;
	struct qn_ticks_op m = {0};

	for (int64_t t = 0; t < c->batch->n_tok; t++) {
		const int64_t n = seen(c, op, t);

		if (among(c, op, t) <= op->selection.n)
			continue;
		m.bytes += (n + QN_KV_BLOCK - 1) / QN_KV_BLOCK * kv_k_bytes(op->heads.k_type, op->heads.head_dim);
		m.madds += n * op->heads.n_head * op->heads.head_dim;
	}
	return m;
}

const struct operation op_select = {.check = check, .scratch = scratch, .counters = 1, .moves = moves, .run = run};
