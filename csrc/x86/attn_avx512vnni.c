/* attn_avx512vnni.c - attention over integers, a dot product per instruction. Flags: AVX-512, VNNI. */
#define FLAGS_AVX512VNNI
#include "flags.h"

#include "x86/ints_zmm.h"
#include "x86/set.h"

#define VEC(name) name##_avx512vnni
#define ATTN_VECS 4

typedef __m512i bytes;
typedef __m512i quad;

#define KEYS_OFFSET 1

/* As text: GCC 12 copies the sums of its builtins from register to register, and to the stack. */
static inline v16i ints_dot(v16i sum, ints a, pair b)
{
	__asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
}

static inline bytes bytes_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline quad quad_of(const void *p) { return pair_of(p); }

static inline v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	(void)part;
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
	return sum;
}

#include "tmpl/attn_int.h"

void attn_init_avx512vnni(struct kernels *k)
{
	attn_int_fill_avx512vnni(k);
}

#include "flags_end.h"
