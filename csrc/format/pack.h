/* pack.h - packing of panels that nobody reads soon. */
#ifndef QN_FORMAT_PACK_H
#define QN_FORMAT_PACK_H

#include <stdint.h>

/* As qn_pack(), but the panel is written past the caches. */
int pack_away(int32_t type, void *panel, const void *rows, int32_t n_rows, int64_t n_in);

#endif
