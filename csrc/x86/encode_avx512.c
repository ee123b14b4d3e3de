/* encode_avx512.c - encoders of weights in vectors of 16 floats. */
#define FLAGS_AVX512
#define FLAGS_VECTORS
#define FLAGS_ROOTS
#include "flags.h"

#define W 16
#define ENCODE_INIT encode_init_avx512
#define SEARCH_INIT search_init_avx512
#define TRELLIS_INIT trellis_init_avx512
#include "tmpl/encode.h"
#include "tmpl/encode_search.h"
#include "tmpl/encode_trellis.h"

#include "flags_end.h"
