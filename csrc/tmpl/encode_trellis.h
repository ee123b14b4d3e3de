/*
 * encode_trellis.h - the loops of encode/trellis.h in vectors of W floats. Included after tmpl/encode.h, by a file that
 * defines TRELLIS_INIT too.
 */
#include "encode/trellis.h"

static inline vf trellis_score(const float *v, int dims, const float *p, const float *q)
{
	vf sum = {0};

	for (int i = 0; i < dims; i++)
		sum += load(v + 16 * i) * (load(v + 16 * i) * p[i] + q[i]);
	return sum;
}

static inline void scores_of(float *score, const float *lines, int n, int dims, const float *p, const float *q)
{
	for (int i = 0; i < n; i++)
		for (int r = 0; r < 16; r += W)
			store(score + 16 * i + r, trellis_score(lines + 16 * dims * i + r, dims, p, q));
}

static inline void least_of(struct trellis_least *best, const float *lines, int at, int n, int dims, const float *p,
                            const float *q)
{
	vf least = all(best->score);
	vi where = (vi){0} + best->at, here;

	for (int r = 0; r < W; r++)
		here[r] = 16 * at + r;
	for (int i = 0; i < n * 16 / W; i++) {
		const int line = at + i * W / 16, r = i * W % 16;
		const vf score = trellis_score(lines + 16 * dims * line + r, dims, p, q);
		const vi less = score < least;

		least = pick(less, score, least);
		where = (where & ~less) | (here & less);
		here += W;
	}
	for (int r = 0; r < W; r++)
		if (least[r] < best->score || (least[r] == best->score && where[r] < best->at))
			*best = (struct trellis_least){least[r], where[r]};
}

static void trellis_scores(float *score, const float *lines, int n, int dims, const float *p, const float *q)
{
	if (dims == 4)
		scores_of(score, lines, n, 4, p, q);
	else
		scores_of(score, lines, n, 8, p, q);
}

static void trellis_least(struct trellis_least *best, const float *lines, int at, int n, int dims, const float *p,
                          const float *q)
{
	if (dims == 4)
		least_of(best, lines, at, n, 4, p, q);
	else
		least_of(best, lines, at, n, 8, p, q);
}

void TRELLIS_INIT(struct trellis_loops *l)
{
	l->scores = trellis_scores;
	l->least = trellis_least;
}
