/* encode_avx2.c - encoders of weights in vectors of 8 floats. */
#define FLAGS_AVX2
#define FLAGS_VECTORS
#define FLAGS_ROOTS
#include "flags.h"

#define W 8
#define ENCODE_INIT encode_init_avx2
#define SEARCH_INIT search_init_avx2
#define TRELLIS_INIT trellis_init_avx2
#include "tmpl/encode.h"
#include "tmpl/encode_search.h"
#include "tmpl/encode_trellis.h"

#include "flags_end.h"
