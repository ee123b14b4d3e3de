/*
 * check_twelve.c - panels of BF16 in 12 bits: products have the bits of those of BF16 panels, with every set, and what
 * does not fit is refused. A panel of any bytes is read within its bounds.
 */
#include <string.h>

#include "format/twelve.h"
#include "check.h"

enum { N_MAX = 1312, TOKENS = QN_TILE_MAX };

/* How exponents lie: of random numbers, of few, of as many as fit, and of one more in one block. */
enum spread { SPREAD_NORMAL, SPREAD_ZEROS, SPREAD_WIDE, SPREAD_FULL, SPREAD_OVER, N_SPREADS };

static uint16_t weight(int exponent)
{
	return (uint16_t)((rnd() & TWELVE_KEPT) | exponent << 7);
}

static void fill(uint16_t *rows, int64_t n_in, enum spread spread)
{
	/* Of the last block: as many weights as may escape a table of 16 exponents that all have more. */
	const int64_t from = (n_in - 1) / QN_ACT_BLOCK * QN_ACT_BLOCK;
	const int escapes = TWELVE_ESCAPES + (spread == SPREAD_OVER);

	for (int64_t i = 0; i < QN_PANEL * n_in; i++) {
		const float x = rnd_normal();
		uint32_t u;

		memcpy(&u, &x, sizeof u);
		rows[i] = (uint16_t)(u >> 16);
		if (spread == SPREAD_ZEROS)
			rows[i] = rnd_below(8) ? (uint16_t)(rnd() & 0x8000) : weight(120 + rnd_below(3));
		if (spread >= SPREAD_FULL)
			rows[i] = weight(110 + (int)(i % n_in) % 8 * 2 + (int)(i / n_in % 2)); /* each of 110 .. 125 */
		if (spread == SPREAD_WIDE)
			rows[i] = weight(100 + 2 * rnd_below(16));
	}
	for (int i = 0; spread >= SPREAD_FULL && i < escapes; i++) { /* some a row; what is below 2^-56 counts as 0 */
		const int64_t r = i % QN_PANEL, some = (n_in - from) / 4;
		const int64_t k = from + i / QN_PANEL * some + rnd_below((int)some);

		rows[r * n_in + k] = i % 4 == 0 ? (uint16_t)(rnd() & 0x83ff) : weight(i % 4 == 1 ? 254 : 72 + i);
	}
}

static void same(struct guard *x12, struct guard *x16, struct guard *acts, int64_t n_in, enum spread spread)
{
	static float want[2 * TOKENS * QN_PANEL], x[QN_ACT_BLOCK];
	const int64_t blocks = (n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK;
	const size_t row = (size_t)n_in * 2;
	uint16_t *rows = guard_alloc(QN_PANEL * row), *turned = guard_alloc(QN_PANEL * row);
	const size_t bytes = qn_twelve_bytes(n_in), plain = qn_panel_bytes(QN_BF16, n_in);
	uint8_t *panel[2] = {guard_fill(x12, bytes), guard_alloc(bytes)};
	uint8_t *raw[2] = {guard_fill(x16, plain), guard_alloc(plain)};
	struct actb *act;
	struct guard out = guard_new(sizeof want);

	check_at(check_sets, "panels in 12 bits, n_in %lld, spread %d", (long long)n_in, spread);
	fill(rows, n_in, spread);
	for (size_t r = 0; r < QN_PANEL; r++)
		memcpy((uint8_t *)turned + r * row, (uint8_t *)rows + (QN_PANEL - 1 - r) * row, row);
	for (int i = 0; i < 2; i++) {
		const int status = qn_pack_twelve(panel[i], i ? turned : rows, QN_PANEL, n_in);

		check_true(status == (spread == SPREAD_OVER ? QN_EWIDE : QN_OK), "qn_pack_twelve returns %d", status);
		check_true(qn_pack(QN_BF16, raw[i], i ? turned : rows, QN_PANEL, n_in) == QN_OK, "qn_pack refuses");
	}
	guard_intact("panel", x12);
	EACH_SET(s) {
		const int tile = s->k.mm_tile[QN_MM_TWELVE], most = tile < 48 || n_in == 288 ? tile : 48;

		for (int n = 1; n <= most && spread != SPREAD_OVER; n += n < 30 || n_in == 288 ? 1 : 9) {
			float *got = guard_fill(&out, sizeof *got * QN_PANEL * (size_t)n);

			if (s == check_sets && n % 5 != 1)
				continue;
			act = guard_fill(acts, qn_act_bytes(QN_ACT_BF16, n, n_in));
			for (int64_t i = 0; i < n * blocks; i++) {
				const int64_t left = n_in - i / n * QN_ACT_BLOCK;

				for (int k = 0; k < QN_ACT_BLOCK; k++)
					x[k] = rnd_sized();
				s->k.quantize(&act[i], x, (int)(left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK),
				              QN_ACT_BF16);
			}
			check_at(s, "panels in 12 bits, n_in %lld, %d tokens, spread %d", (long long)n_in, n, spread);
			for (int i = 0; i < 2; i++)
				s->k.mm[QN_BF16](want + i * n * QN_PANEL, raw[i], act, n_in, n, n);
			s->k.mm[QN_MM_TWELVE](got, panel[0], act, n_in, n, n);
			check_floats("[token][row]", got, want, n * QN_PANEL);
			guard_intact("out", &out);
			if (!s->k.mm_pair[QN_MM_TWELVE] || n < QN_PAIR_MIN)
				continue;
			got = guard_fill(&out, 2 * sizeof *got * QN_PANEL * (size_t)n);
			s->k.mm_pair[QN_MM_TWELVE](got, panel[0], panel[1], act, n_in, n, n);
			check_floats("[panel][token][row]", got, want, 2 * n * QN_PANEL);
			guard_intact("out", &out);
		}
	}
	guard_free(&out);
	guard_free_all();
}

/* Any bytes are a panel: all sets read the same weights, none beyond it, and no escape lies outside the lines. */
static void any_bytes(int64_t n_in)
{
	enum { SOME = 3 };
	const size_t bytes = qn_twelve_bytes(n_in);
	uint8_t *panel = guard_alloc(bytes);
	struct actb *act = guard_alloc(qn_act_bytes(QN_ACT_BF16, SOME, n_in));
	float want[SOME * QN_PANEL], got[SOME * QN_PANEL], x[QN_ACT_BLOCK];

	rnd_bytes(panel, bytes);
	for (int64_t k = 0; k < n_in; k += QN_ACT_BLOCK) { /* of numbers that all sets take as they are */
		struct twelve_head *h = (struct twelve_head *)(panel + (twelve_block(panel, k) - panel));

		for (int i = 0; i < 16; i++)
			h->exponent[i] = (uint8_t)(80 + h->exponent[i] % 80);
		for (int i = 0; i < TWELVE_ESCAPES; i++)
			h->escape[i] = (uint8_t)(80 + h->escape[i] % 80);
		h->n = (uint8_t)(rnd_below(2) ? TWELVE_ESCAPES : rnd());
	}
	for (int64_t i = 0; i < SOME * ((n_in + QN_ACT_BLOCK - 1) / QN_ACT_BLOCK); i++) {
		const int64_t left = n_in - i / SOME * QN_ACT_BLOCK;

		for (int k = 0; k < QN_ACT_BLOCK; k++)
			x[k] = rnd_normal();
		check_sets[0].k.quantize(&act[i], x, (int)(left < QN_ACT_BLOCK ? left : QN_ACT_BLOCK), QN_ACT_BF16);
	}
	check_sets[0].k.mm[QN_MM_TWELVE](want, panel, act, n_in, SOME, SOME);
	EACH_SET(s) {
		check_at(s, "a panel of any bytes in 12 bits, n_in %lld", (long long)n_in);
		s->k.mm[QN_MM_TWELVE](got, panel, act, n_in, SOME, SOME);
		check_floats("[token][row]", got, want, SOME * QN_PANEL);
	}
	guard_free_all();
}

static void sizes(void)
{
	check_at(check_sets, "qn_twelve_bytes");
	for (int64_t n = -32; n <= 1056; n++) {
		const int64_t rest = n % 256, whole = n / 256 * (128 + 32 * 192);
		const size_t want = n > 0 && n % 32 == 0 ? (size_t)(whole + (rest ? 128 + rest / 8 * 192 : 0)) : 0;

		check_true(qn_twelve_bytes(n) == want, "%zu for %lld", qn_twelve_bytes(n), (long long)n);
	}
	check_true(qn_twelve_bytes(INT64_MAX / 32 * 32) == 0, "rows of 2^63 are ok");
}

static void refused(void)
{
	enum { N = 320 };
	uint16_t *rows = guard_alloc(sizeof *rows * QN_PANEL * N);
	uint8_t *panel = guard_alloc(qn_twelve_bytes(N));

	check_at(check_sets, "qn_pack_twelve");
	check_true(qn_pack_twelve(panel, rows, 0, N) == QN_EINVAL, "takes no rows");
	check_true(qn_pack_twelve(panel, rows, 17, N) == QN_EINVAL, "takes 17 rows");
	check_true(qn_pack_twelve(panel, rows, 1, 0) == QN_EINVAL, "takes rows of nothing");
	check_true(qn_pack_twelve(panel, rows, 1, 48) == QN_EINVAL, "takes rows of 48");
	for (int i = 0; i < 64; i++) {
		const int n = 1 + rnd_below(QN_PANEL);

		fill(rows, N, SPREAD_NORMAL);
		check_true(qn_pack_twelve(panel, rows, n, N) == QN_OK, "refused before");
		rows[rnd_below(n * N)] = (uint16_t)(0x7f80 | (rnd() & 0x8000) | (rnd() & 1 ? 0 : 1 + rnd_below(127)));
		check_true(qn_pack_twelve(panel, rows, n, N) == QN_ENOTFINITE, "not QN_ENOTFINITE");
	}
	guard_free_all();
}

/* Whole matrices, by all threads and past the caches: the same panels, and one that does not fit is told. */
static void matrices(struct qn_pool *pool)
{
	enum { IN = 288, OUT = 37, MATS = 2, PANELS = (OUT + 15) / 16 };
	const size_t bytes = qn_twelve_bytes(IN);
	uint16_t *src = guard_alloc(sizeof *src * (PANELS * QN_PANEL) * MATS * IN);
	uint8_t *got = guard_alloc(MATS * PANELS * bytes), *want = guard_alloc(bytes);
	const struct qn_mat from = {
		.data = src, .type = QN_BF16, .layout = QN_ROWS, .n_in = IN, .n_out = OUT, .n_mat = MATS,
	};
	struct qn_mat to = from;

	check_at(check_sets, "qn_pack_mat to 12 bits");
	for (int i = 0; i < PANELS * MATS; i++)
		fill(src + i * QN_PANEL * IN, IN, SPREAD_NORMAL);
	to.data = got;
	to.layout = QN_X12;
	check_true(qn_pack_mat(pool, &to, 0, &from) == QN_OK, "refused");
	for (int p = 0; p < MATS * PANELS; p++) {
		const int first = p % PANELS * QN_PANEL, left = OUT - first;

		qn_pack_twelve(want, src + (p / PANELS * OUT + first) * IN, left < QN_PANEL ? left : QN_PANEL, IN);
		check_bytes("panel", got + (size_t)p * bytes, want, (int64_t)bytes);
	}
	fill(src + QN_PANEL * IN, IN, SPREAD_OVER);
	check_true(qn_pack_mat(pool, &to, 0, &from) == QN_EWIDE, "not QN_EWIDE");
	to.type = QN_F16;
	check_true(qn_pack_mat(pool, &to, 0, &from) == QN_EINVAL, "takes F16");
	guard_free_all();
}

void check_twelve(void)
{
	static const int64_t sizes_in[] = {32, 96, 256, 288, 1024, N_MAX};
	struct guard x12 = guard_new(qn_twelve_bytes(N_MAX)), x16 = guard_new(qn_panel_bytes(QN_BF16, N_MAX));
	struct guard acts = guard_new(qn_act_bytes(QN_ACT_BF16, TOKENS, N_MAX));
	struct qn_pool *pool;

	sizes();
	refused();
	if (check_true(qn_pool_create(&pool, NULL, 3) == QN_OK, "no pool")) {
		matrices(pool);
		qn_pool_destroy(pool);
	}
	for (int i = 0; i < COUNT(sizes_in); i++) {
		check_limit();
		for (enum spread s = 0; s < N_SPREADS; s++)
			same(&x12, &x16, &acts, sizes_in[i], s);
		for (int k = 0; k < 20; k++)
			any_bytes(sizes_in[i]);
	}
	guard_free(&x12);
	guard_free(&x16);
	guard_free(&acts);
}
