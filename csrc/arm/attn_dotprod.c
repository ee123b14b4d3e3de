/* attn_dotprod.c - attention over integers, bytes by SDOT. Flags: dotprod. */
#define FLAGS_DOTPROD
#define FLAGS_REGISTERS
#include "flags.h"

#include "arm/ints_neon.h"
#include "arm/set.h"

#define VEC(name) name##_dotprod
#define ATTN_VECS 1

static inline v16i bytes_dot(v16i sum, int part, bytes a, quad b)
{
	(void)part;
	for (int i = 0; i < 4; i++)
		sum.q[i] = vdotq_s32(sum.q[i], a.q[i], b);
	return sum;
}

#include "tmpl/attn_int.h"

void attn_init_dotprod(struct kernels *k)
{
	attn_int_fill_dotprod(k);
}

#include "flags_end.h"
