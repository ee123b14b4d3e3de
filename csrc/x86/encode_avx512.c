/* encode_avx512.c - encoders of weights in vectors of 16 floats. */
#define W 16
#define ENCODE_INIT encode_init_avx512
#define SEARCH_INIT search_init_avx512
#include "tmpl/encode.h"
#include "tmpl/encode_search.h"
