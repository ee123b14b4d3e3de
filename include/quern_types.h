/*
 * quern_types.h - the part of quern.h that kernels need as well: types of weights, of activations, of keys and values,
 * and packed panels. What changes in plans and operations is no reason to compile kernels again.
 */
#ifndef QUERN_TYPES_H
#define QUERN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum qn_status {
	QN_OK = 0,
	QN_EINVAL = -1,  /* a size, a type or a layout that the kernels cannot take */
	QN_ENOMEM = -2,  /* threads or memory for the pool could not be had */
	QN_ENOTFINITE = -3, /* a weight or the scale of a weight block is NaN or infinite */
	QN_EWIDE = -4,   /* weights have too many exponents for panels of QN_X12 */
};

/* Types of weights. The numbers are GGUF's. */
enum qn_type {
	QN_F32 = 0, QN_F16 = 1, QN_Q4_0 = 2, QN_Q4_1 = 3, QN_Q5_0 = 6, QN_Q5_1 = 7, QN_Q8_0 = 8,
	QN_Q2_K = 10, QN_Q3_K = 11, QN_Q4_K = 12, QN_Q5_K = 13, QN_Q6_K = 14,
	QN_IQ2_XXS = 16, QN_IQ2_XS = 17, QN_IQ3_XXS = 18, QN_IQ1_S = 19, QN_IQ4_NL = 20, QN_IQ3_S = 21,
	QN_IQ2_S = 22, QN_IQ4_XS = 23, QN_IQ1_M = 29, QN_BF16 = 30, QN_TQ1_0 = 34, QN_TQ2_0 = 35, QN_MXFP4 = 39,
	QN_NVFP4 = 40, QN_Q1_0 = 41, QN_Q2_0 = 42,
	/* ik_llama.cpp's */
	QN_IQ2_K = 137, QN_IQ3_K = 138, QN_IQ4_K = 139, QN_IQ5_K = 140, QN_IQ6_K = 141, QN_IQ4_KS = 144,
	QN_IQ2_KS = 145, QN_IQ4_KSS = 146, QN_IQ5_KS = 152, QN_IQ2_KT = 153, QN_IQ3_KT = 154, QN_IQ4_KT = 155,
	QN_IQ3_KS = 156, QN_IQ2_KL = 157, QN_IQ1_KT = 158,
};

enum {
	QN_PANEL = 16,     /* rows of a packed panel */
	QN_ACT_BLOCK = 256, /* columns of an activation block */
	QN_KV_BLOCK = 64,  /* positions of a KV block */
};

/* The types that the kernels know: number i of them, -1 at the end of the list. */
int32_t qn_type_at(int32_t i);

/* GGUF's name of a type, such as "Q4_K", NULL where the kernels do not know it. */
const char *qn_type_name(int32_t type);

/* 1 where the kernels can take rows of n_in elements of this type. */
int qn_type_ok(int32_t type, int64_t n_in);

/* How the activations of a product are kept. Which way that is, is up to the type of its weights. */
enum qn_act {
	QN_ACT_F32 = 0,    /* floats: weights of F32 and F16 */
	QN_ACT_Q8_256 = 1, /* 8 bits, a scale for each 256: super-blocks of 256 weights */
	QN_ACT_Q8_32 = 2,  /* 8 bits, a scale for each 32: blocks of 32 weights and more with one scale */
	QN_ACT_Q8_32_16 = 3, /* the same with sums of each 16: weights with a scale for each 16 */
	QN_ACT_BF16 = 4, /* rounded to BF16, what is below 2^-56 to 0: weights of BF16 */
	/*
	 * 16 bits: two blocks of the kind of 8 bits with the same scales, the first of the numbers and the second of
	 * what it leaves of them. Products with weights of that kind take either.
	 */
	QN_ACT_Q16_256 = 5,
	QN_ACT_Q16_32 = 6,
	QN_ACT_Q16_32_16 = 7,
	QN_N_ACT = 8,
};

/* What products with this type take. */
enum qn_act qn_type_act(int32_t type);

/* Bytes of one GGUF row of n_in elements. */
size_t qn_row_bytes(int32_t type, int64_t n_in);

/* Bytes of one packed panel of 16 rows of n_in elements. */
size_t qn_panel_bytes(int32_t type, int64_t n_in);

/*
 * Packs n_rows (1..16) rows of n_in elements into one panel; missing rows become zeros.
 * rows: n_rows GGUF rows, one after the other. panel: qn_panel_bytes(), 64-byte aligned.
 * Returns QN_ENOTFINITE if a weight or a block's scale is NaN or infinite.
 */
int qn_pack(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in);

/* Bytes of one panel of 16 rows of n_in elements of BF16 in 12 bits (QN_X12); 0 where n_in is no multiple of 32. */
size_t qn_twelve_bytes(int64_t n_in);

/*
 * As qn_pack() of rows of BF16, into a panel of QN_X12: qn_twelve_bytes(). Returns QN_EWIDE if weights have more
 * exponents than it has room for; the panel then says nothing.
 */
int qn_pack_twelve(void *panel, const void *rows, int32_t n_rows, int64_t n_in);

/* y[n_in] = one GGUF row as floats. */
void qn_dequantize(int32_t type, float *y, const void *row, int64_t n_in);

/*
 * How keys or values are kept. I16, Q8 and Q4 are integers of 16, 8 and 4 bits with a scale for each
 * position of a head; their products are integer ones, at two and four times the rate of floats.
 */
enum qn_kv_type { QN_KV_F16 = 0, QN_KV_F32 = 1, QN_KV_BF16 = 2, QN_KV_I16 = 3, QN_KV_Q8 = 4, QN_KV_Q4 = 5 };

/* Functions of one number, by whose result another is multiplied. */
enum qn_fn {
	QN_FN_NONE = -1,   /* x, where an operation takes it */
	QN_FN_SILU = 0,    /* x / (1 + e^-x) */
	QN_FN_SIGMOID = 1, /* 1 / (1 + e^-x) */
	QN_FN_GELU = 2,    /* the form with tanh: x / (1 + e^-2z), z = sqrt(2 / pi) (x + 0.044715 x^3) */
	QN_FN_GELU_ERF = 3, /* x / 2 (1 + erf(x / sqrt 2)) */
	QN_FN_RELU2 = 4,   /* max(x, 0)^2 */
	QN_FN_SWIGLU_CLAMP = 5, /* x / (1 + e^-1.702 x) of x at most 7; a factor u counts as 1 + u, of u within 7 */
	QN_FN_RELU = 6,    /* max(x, 0) */
	QN_FN_SOFTPLUS = 7, /* ln(1 + e^x) */
	QN_FN_GELU_QUICK = 8, /* x / (1 + e^-1.702 x) */
	QN_N_FN = 9,
};

/* A token of the vocabulary that may be chosen. */
struct qn_token {
	int32_t id;
	float logit;
};

/* Of some logits: the sum of the weights w = 2^v, v = (x - top) * scale, and of w * v. */
struct qn_mass {
	float sum, moment;
};

#ifdef __cplusplus
}
#endif

#endif /* QUERN_TYPES_H */
