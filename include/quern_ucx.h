/*
 * quern_ucx.h - ranks that are processes joined by UCX. Programs that are built without UCX have none of these
 * functions.
 */
#ifndef QUERN_UCX_H
#define QUERN_UCX_H

#include "quern_ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A process that has an address, by which others join it. One thread at a time calls these functions. */
struct qn_ucx;

/* devices: those of the network that are used, such as "eth0,mlx5_0:1"; NULL: all. */
int qn_ucx_open(struct qn_ucx **u, const char *devices);

const uint8_t *qn_ucx_address(const struct qn_ucx *u, size_t *bytes);

/*
 * Joins the others: this is rank `rank` of n, and addresses has those of all, one behind the other, bytes[r] each.
 * near[r]: rank r is on the same machine, and both say so of each other; it may be reached by shared memory, where the
 * caller alone notices that it has ended. All join at the same time; where some do not, it ends within some 10 s with
 * QN_EBROKEN or QN_ETIMEOUT, and *missing is one of them: the process then has to end. Otherwise *g is there, and
 * qn_ranks_close() closes it with u.
 */
int qn_ucx_join(struct qn_ucx *u, int32_t rank, int32_t n, const uint8_t *addresses, const size_t *bytes,
                const uint8_t *near, struct qn_ranks **g, int32_t *missing);

/* Closes one that has not joined. */
void qn_ucx_close(struct qn_ucx *u);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_UCX_H */
