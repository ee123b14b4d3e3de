/* encode.c - encoders of weights in the baseline's vectors. */
#define W 4
#define ENCODE_INIT encode_init_scalar
#define SEARCH_INIT search_init_scalar
#include "encode_tmpl.h"
#include "search_tmpl.h"
