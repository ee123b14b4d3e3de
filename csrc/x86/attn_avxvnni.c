/* attn_avxvnni.c - attention over integers, a dot product per instruction. Flags: AVX2, AVX-VNNI. */
#include "x86/ints_ymm.h"
#include "x86/set.h"

#define VEC(name) name##_avxvnni
#define ATTN_VECS 1

typedef ints bytes;
typedef pair quad;

#define KEYS_OFFSET 1

/* As text: GCC 12 copies the sums of its builtins from register to register, and to the stack. */
#define DOT(name, insn)                                                                    \
	static inline v16i name(v16i sum, ints a, pair b)                                  \
	{                                                                                  \
		__asm__("%{vex%} " insn " %2, %1, %0" : "+x"(sum.lo) : "x"(a.lo), "x"(b)); \
		__asm__("%{vex%} " insn " %2, %1, %0" : "+x"(sum.hi) : "x"(a.hi), "x"(b)); \
		return sum;                                                                \
	}
DOT(ints_dot, "vpdpwssd")
DOT(bytes_dot, "vpdpbusd")
#undef DOT

static inline bytes bytes_load(const uint8_t *p) { return ints_load((const int16_t *)p); }
static inline quad quad_of(const void *p) { return pair_of(p); }

#include "v16_attn_int.h"

void attn_init_avxvnni(struct kernels *k)
{
	attn_int_fill_avxvnni(k);
}
