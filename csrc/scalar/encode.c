/* encode.c - encoders of weights in the baseline's vectors. */
#define FLAGS_VECTORS
#define FLAGS_ROOTS
#include "flags.h"

#define W 4
#define ENCODE_INIT encode_init_scalar
#define SEARCH_INIT search_init_scalar
#define TRELLIS_INIT trellis_init_scalar
#include "tmpl/encode.h"
#include "tmpl/encode_search.h"
#include "tmpl/encode_trellis.h"
