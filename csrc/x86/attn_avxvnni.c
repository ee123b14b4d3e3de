/* attn_avxvnni.c - attention over integers, a dot product per instruction. Flags: AVX2, AVX-VNNI. */
#define FLAGS_AVXVNNI
#include "flags.h"

#include "x86/ints_ymm.h"
#include "x86/set.h"

#define VEC(name) name##_avxvnni
#define ATTN_VECS 1

typedef __m256i pair;
typedef ints bytes;
typedef pair quad;

#define KEYS_OFFSET 1

/* As text: GCC 12 copies the sums of its builtins from register to register, and to the stack. */
#define DOT(sum, insn, a, b)                                                           \
	__asm__("%{vex%} " insn " %2, %1, %0" : "+x"(sum.lo) : "x"(a.lo), "x"(b)); \
	__asm__("%{vex%} " insn " %2, %1, %0" : "+x"(sum.hi) : "x"(a.hi), "x"(b))

static inline v16i ints_dot(v16i sum, ints a, pair b)
{
	DOT(sum, "vpdpwssd", a, b);
	return sum;
}

static inline v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	(void)part;
	DOT(sum, "vpdpbusd", a, b);
	return sum;
}
#undef DOT

static inline pair pair_of(const void *p)
{
	int32_t x;

	memcpy(&x, p, sizeof x);
	return _mm256_set1_epi32(x);
}

static inline bytes bytes_load(const uint8_t *p) { return ints_load((const int16_t *)p); }
static inline quad quad_of(const void *p) { return pair_of(p); }

#include "tmpl/attn_int.h"

void attn_init_avxvnni(struct kernels *k)
{
	attn_int_fill_avxvnni(k);
}

#include "flags_end.h"
