/*
 * check.c - compares the kernels of every instruction set this CPU has with the scalar ones, and
 * the scalar ones with the formulas. With --bench it also measures each kernel alone.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "host.h"

#define LINES_MAX 12 /* failures of a family that get a line; the rest are counted */
#define LIMIT_SECONDS 600 /* of CPU: a family, or one type's products, that takes more hangs; an emulator takes 100 */

static const struct {
	const char *name;
	uint32_t isa;
	void (*more)(struct kernels *k); /* what the check adds to it, or NULL */
} ladder[] = {
	{"scalar", 0, NULL},
#if defined(__x86_64__)
	{"avx2", QN_AVX2, NULL},
	{"avxvnni", QN_AVX2 | QN_AVXVNNI, NULL},
	{"avx512", QN_AVX2 | QN_AVX512, NULL},
	{"avx512vnni", QN_AVX2 | QN_AVX512 | QN_AVX512VNNI, NULL},
	{"avx512bf16", QN_AVX2 | QN_AVX512 | QN_AVX512VNNI | QN_AVX512BF16, NULL},
	{"tiles in C", QN_AVX2 | QN_AVX512 | QN_AVX512VNNI, check_init_tiles},
	{"amx", QN_AVX2 | QN_AVX512 | QN_AVX512VNNI | QN_AVX512BF16 | QN_AMX, NULL},
#elif defined(__aarch64__)
	{"neon", QN_NEON, NULL},
	{"dotprod", QN_NEON | QN_DOTPROD, NULL},
	{"i8mm", QN_NEON | QN_DOTPROD | QN_I8MM, NULL},
#elif defined(__riscv)
	{"rvv", QN_RVV, NULL},
	{"rvv256", QN_RVV | QN_RVV256, NULL},
#endif
};

struct set check_sets[COUNT(ladder)];
int check_n_sets;
int check_quick;

static uint64_t seed, state;
static int failures, lines;
static char context[200];
static struct set *context_set;

/* ------------------------------------------------------------------ verdicts */

void check_at(struct set *s, const char *format, ...)
{
	va_list args;
	int n = snprintf(context, sizeof context, "%s: ", s->name);

	va_start(args, format);
	vsnprintf(context + n, sizeof context - (size_t)n, format, args);
	va_end(args);
	context_set = s;
}

int check_true(int ok, const char *format, ...)
{
	va_list args;

	if (ok)
		return 1;
	context_set->failed++;
	failures++;
	if (lines++ < LINES_MAX) {
		printf("FAIL %s: ", context);
		va_start(args, format);
		vprintf(format, args);
		va_end(args);
		printf("; seed %llu\n", (unsigned long long)seed);
	} else if (lines == LINES_MAX + 1) {
		printf("FAIL and more, which are counted only\n");
	}
	return 0;
}

int check_floats(const char *what, const float *got, const float *want, int64_t n)
{
	if (!memcmp(got, want, sizeof *got * (size_t)n))
		return 1;
	for (int64_t i = 0; i < n; i++)
		if (memcmp(&got[i], &want[i], sizeof *got) && !(isnan(got[i]) && isnan(want[i])))
			return check_true(0, "%s[%lld] of %lld = %a, want %a", what, (long long)i,
			                  (long long)n, (double)got[i], (double)want[i]);
	return 1;
}

int check_bytes(const char *what, const void *got, const void *want, int64_t n)
{
	const uint8_t *a = got, *b = want;

	if (!memcmp(a, b, (size_t)n))
		return 1;
	for (int64_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return check_true(0, "%s: byte %lld of %lld = %#x, want %#x", what, (long long)i,
			                  (long long)n, a[i], b[i]);
	return 1;
}

int check_near(const char *what, int64_t i, double got, double want, double error)
{
	return check_true(fabs(got - want) <= error || (isnan(got) && isnan(want)),
	                  "%s[%lld] = %.9g, want %.9g within %.2g", what, (long long)i, got, want, error);
}

/*
 * A kernel that runs off its buffers ends here, and threads that wait for each other for ever. Only
 * calls that a signal handler may make.
 */
static void end_in(const char *head)
{
	static const char tail[] = "; seed ";
	char digits[21];
	int n = 0;

	for (uint64_t rest = seed; rest || !n; rest /= 10)
		digits[sizeof digits - (size_t)++n] = (char)('0' + rest % 10);
	host_say(head, strlen(head));
	host_say(context, strlen(context));
	host_say(tail, sizeof tail - 1);
	host_say(digits + sizeof digits - n, (size_t)n);
	host_say("\n", 1);
	host_end(1);
}

static void crashed(void)
{
	end_in("FAIL crash in ");
}

/* ------------------------------------------------------------------ memory */

#define PATTERN 0xa5

static struct guard allocated[256];
static int n_allocated;

struct guard guard_new(size_t most)
{
	const size_t page = host_page();
	const size_t bytes = (most + page - 1) / page * page;
	struct guard g;

	g.map = host_map(bytes, page);
	if (!g.map) {
		fprintf(stderr, "check: no memory\n");
		exit(2);
	}
	g.end = g.map + bytes;
	g.bytes = 0;
	return g;
}

void guard_free(struct guard *g)
{
	host_unmap(g->map, (size_t)(g->end - g->map), host_page());
}

void *guard_fill(struct guard *g, size_t bytes)
{
	memset(g->map, PATTERN, (size_t)(g->end - g->map));
	g->bytes = bytes;
	return g->end - bytes;
}

int guard_intact(const char *what, const struct guard *g)
{
	const size_t before = (size_t)(g->end - g->map) - g->bytes;

	if (!before || (*g->map == PATTERN && !memcmp(g->map, g->map + 1, before - 1)))
		return 1;
	for (const uint8_t *p = g->map; p < g->end - g->bytes; p++)
		if (*p != PATTERN)
			return check_true(0, "%s: wrote %lld bytes before its start", what,
			                  (long long)(g->end - g->bytes - p));
	return 1;
}

void *guard_alloc(size_t bytes)
{
	if (n_allocated == COUNT(allocated)) {
		fprintf(stderr, "check: more than %d buffers\n", COUNT(allocated));
		exit(2);
	}
	allocated[n_allocated] = guard_new(bytes);
	return guard_fill(&allocated[n_allocated++], bytes);
}

void guard_free_all(void)
{
	while (n_allocated)
		guard_free(&allocated[--n_allocated]);
}

/* ------------------------------------------------------------------ random data */

uint64_t rnd(void) /* splitmix64 */
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

int rnd_below(int n)
{
	return (int)(rnd() >> 33) % n;
}

float rnd_uniform(void)
{
	return (float)((double)(int64_t)rnd() * 0x1p-63);
}

float rnd_normal(void)
{
	return (rnd_uniform() + rnd_uniform() + rnd_uniform()); /* variance 1 */
}

float rnd_sized(void)
{
	switch (rnd_below(16)) {
	case 0:
		return 0;
	case 1:
		return 100 * rnd_normal();
	case 2:
		return 0x1p-20f * rnd_normal();
	default:
		return rnd_normal();
	}
}

void rnd_bytes(void *p, size_t n)
{
	uint8_t *b = p;

	for (; n >= 8; n -= 8, b += 8) {
		const uint64_t r = rnd();

		memcpy(b, &r, 8);
	}
	while (n--)
		*b++ = (uint8_t)rnd();
}

static double limit_begin, limit_seen; /* CPU time of the process at the last look */

void check_limit(void)
{
	limit_begin = limit_seen = host_cpu_seconds();
	host_alarm(LIMIT_SECONDS);
}

/* Others may have the CPUs: what hangs has used as much of one as it may, or none since the last look. */
static void late(void)
{
	const double now = host_cpu_seconds();

	if (now - limit_begin >= LIMIT_SECONDS || now - limit_seen < 1)
		end_in("FAIL no end in ");
	limit_seen = now;
	host_alarm(LIMIT_SECONDS);
}

/* ------------------------------------------------------------------ the program */

/* bench: to be measured, so without what the check adds. */
static void open_sets(const char *only, int bench)
{
	int found = 0;

	for (int i = 0; i < COUNT(ladder); i++) {
		struct set *s = &check_sets[check_n_sets], *same = NULL;

		if (bench && ladder[i].more)
			continue;
		if (only && !strcmp(only, ladder[i].name))
			found = 1;
		else if (only && i)
			continue;
		if ((qn_cpu_isa() & ladder[i].isa) != ladder[i].isa) {
			printf("%-10s  not on this CPU\n", ladder[i].name);
			if (only)
				exit(2); /* asked for by name: a run without it proves nothing */
			continue;
		}
		*s = (struct set){.name = ladder[i].name, .isa = ladder[i].isa};
		check_at(s, "qn_init");
		check_true(qn_init(s->isa) == s->isa, "does not return the sets it was allowed");
		memcpy(&s->k, &qn_kernels, sizeof s->k);
		if (ladder[i].more)
			ladder[i].more(&s->k);
		for (int j = 0; j < check_n_sets; j++)
			if (!memcmp(&check_sets[j].k, &s->k, sizeof s->k))
				same = &check_sets[j];
		if (same) {
			printf("%-10s  the same kernels as %s\n", s->name, same->name);
			continue;
		}
		check_n_sets++;
	}
	check_at(&check_sets[0], "qn_init");
	check_true(qn_init(UINT32_MAX) == qn_cpu_isa(), "the best is not all that the CPU has");
	if (only && !found) {
		fprintf(stderr, "check: no set %s here; they are", only);
		for (int i = 0; i < COUNT(ladder); i++)
			fprintf(stderr, " %s", ladder[i].name);
		fprintf(stderr, "\n");
		exit(2);
	}
}

static void usage(void)
{
	fprintf(stderr,
	        "usage: check [--bench[=mm|twelve|attn|vec]] [--quick] [--only|--skip FAMILY,...] [--isa NAME]\n"
	        "             [--seed N]\n"
	        "  --bench     measure each kernel after the checks, or those of one kind\n"
	        "  --quick     fewer sizes: for emulators\n"
	        "  --only, --skip  some families of checks, or all but these: both together are all\n"
	        "  --isa NAME  this set against scalar, and no other; fails where the CPU lacks it\n"
	        "  --seed N    of the random data; also CHECK_SEED in the environment\n");
	exit(2);
}

static double seconds(void)
{
	return (double)sys_ns() * 1e-9;
}

/* Whether name is in list, whose entries stand between commas; and how many there are. */
static int listed(const char *list, const char *name)
{
	const size_t n = strlen(name);

	for (const char *p = list;; p++) {
		if (!strncmp(p, name, n) && (p[n] == ',' || !p[n]))
			return 1;
		p = strchr(p, ',');
		if (!p)
			return 0;
	}
}

static int entries(const char *list)
{
	int n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} families[] = {
		{"half", check_half}, {"sincos", check_sincos}, {"dequant", check_dequant},
		{"pack", check_pack}, {"vec", check_vec},       {"mm", check_mm},
		{"twelve", check_twelve},
		{"attn", check_attn}, {"kept", check_kept},     {"pool", check_pool},
		{"ops", check_ops},   {"plan", check_plan},     {"delta", check_delta},
		{"scan", check_scan}, {"media", check_media},   {"select", check_select},
		{"blocks", check_blocks},
		{"waves", check_waves}, {"compress", check_compress}, {"share", check_share},
		{"adapt", check_adapt}, {"back", check_back}, {"logits", check_logits},
		{"back_weights", check_back_weights}, {"back_moe", check_back_moe},
	};
	const char *only = NULL, *chosen = NULL, *seed_text = getenv("CHECK_SEED"), *bench_only = NULL;
	int bench = 0, skip = 0, known = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--bench"))
			bench = 1;
		else if (!strcmp(argv[i], "--bench=mm") || !strcmp(argv[i], "--bench=twelve") ||
		         !strcmp(argv[i], "--bench=attn") || !strcmp(argv[i], "--bench=vec"))
			bench = 1, bench_only = strchr(argv[i], '=') + 1;
		else if (!strcmp(argv[i], "--quick"))
			check_quick = 1;
		else if ((!strcmp(argv[i], "--only") || !strcmp(argv[i], "--skip")) && i + 1 < argc && !chosen)
			skip = !strcmp(argv[i], "--skip"), chosen = argv[++i];
		else if (!strcmp(argv[i], "--isa") && i + 1 < argc)
			only = argv[++i];
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			seed_text = argv[++i];
		else
			usage();
	}
	for (int i = 0; i < COUNT(families); i++)
		known += chosen && listed(chosen, families[i].name);
	if (chosen && known != entries(chosen))
		usage();
	seed = seed_text ? strtoull(seed_text, NULL, 10) : (uint64_t)time(NULL);
	setvbuf(stdout, NULL, _IONBF, 0); /* Windows knows no lines */
	printf("seed %llu\n", (unsigned long long)seed);
	host_watch(crashed, late);

	open_sets(only, bench);
	for (int i = 0; i < COUNT(families); i++) {
		const double start = seconds();
		const int before = failures;

		if (chosen && skip == listed(chosen, families[i].name))
			continue;
		lines = 0;
		check_limit();
		state = seed * COUNT(families) + (uint64_t)i; /* a family's data depend on no other */
		families[i].run();
		printf("  %-8s %s, %.1f s\n", families[i].name, failures > before ? "FAILED" : "ok",
		       seconds() - start);
	}
	EACH_SET(s)
		printf("%-10s  %s\n", s->name, s->failed ? "FAILED" : "ok");
	if (bench && !failures)
		check_bench(bench_only);
	if (failures)
		printf("%d failures; seed %llu\n", failures, (unsigned long long)seed);
	return failures != 0;
}
