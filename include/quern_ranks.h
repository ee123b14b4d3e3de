/*
 * quern_ranks.h - processes ("ranks") that run the same plans together, each with a slice of the model. What they tell
 * each other is messages, in order, and in a pass the pieces of QN_OP_SHARE.
 *
 * A rank is one struct qn_ranks. One thread at a time calls these functions for it, but qn_ranks_break(), which any
 * thread may call at any time before qn_ranks_close().
 */
#ifndef QUERN_RANKS_H
#define QUERN_RANKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	QN_RANKS_MAX = 64,
	QN_RANKS_HEAD = 64, /* bytes before each piece, which are the transport's */
};

/* What the functions return beside QN_OK, QN_EINVAL and QN_ENOMEM. */
enum qn_ranks_status {
	QN_EBROKEN = -16,  /* a rank has ended, or cannot be reached, or qn_ranks_break() was called */
	QN_EDESYNC = -17,  /* ranks are not at the same operation of the same pass */
	QN_ETIMEOUT = -18, /* nothing came in time */
	QN_ETOOLONG = -19, /* a message is longer than the room for it; it is dropped */
};

struct qn_ranks;

/* ranks: [n], 1 .. QN_RANKS_MAX, filled with ranks 0 .. n - 1, which are threads of this process. Each is closed. */
int qn_ranks_self(struct qn_ranks **ranks, int32_t n);

/*
 * The ranks of an MPI job, of which this process is one; MPI is initialised, and finalised when it is closed. Programs
 * that are built without MPI have no such function.
 */
int qn_ranks_mpi(struct qn_ranks **g);

int32_t qn_ranks_rank(const struct qn_ranks *g);
int32_t qn_ranks_count(const struct qn_ranks *g);

/*
 * A pass begins: it ends early, on all ranks behind the same plan, once *ask is not 0 on rank 0. Any thread may set it,
 * atomically. NULL: nobody asks. Returns what qn_run() takes as its `stop`.
 */
const uint32_t *qn_ranks_begin(struct qn_ranks *g, const uint32_t *ask);

/*
 * at[r], n[r]: the piece of rank r, n[r] bytes behind QN_RANKS_HEAD others; each 64-byte aligned. This rank's is
 * sent, those of others are written. With to >= 0, only rank `to` receives, from the ranks whose pieces are not empty;
 * nobody waits for the others. All ranks call it with the same n and to, and with the same `step`, which says what for.
 * An error is that of all exchanges after it, and stops the pass and all others: QN_ETIMEOUT where others take 20 times
 * as long as this rank ever did between two exchanges, and what qn_ranks_patience() says at least.
 */
int qn_ranks_exchange(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, uint32_t step);

/* How long a rank waits for others at least, in ns; 5 s unless this is called. */
void qn_ranks_patience(struct qn_ranks *g, int64_t least_ns);

/* A pass has ended: what the rank did since the last exchange is time that it computed. */
void qn_ranks_end(struct qn_ranks *g);

/* The error of the exchanges, QN_OK where there was none. */
int qn_ranks_failed(const struct qn_ranks *g);

/*
 * What a rank has done in passes since it was opened: it computed between exchanges, was in exchanges, where it waited
 * for others most of the time, and sent bytes of its own pieces to each. Of another rank the times are what it said of
 * itself in the last exchange whose pieces this one received. Any thread may ask.
 */
struct qn_ranks_load {
	int64_t computed_ns, waited_ns, bytes;
};
struct qn_ranks_load qn_ranks_load(const struct qn_ranks *g, int32_t rank);

/* The number of exchanges since the rank was opened. Any thread may ask. */
int64_t qn_ranks_shares(const struct qn_ranks *g);

/* Sends a message to rank `to`, -1: to all others. */
int qn_ranks_send(struct qn_ranks *g, int32_t to, const void *msg, size_t n);

/* Waits for the next message of rank `from`, timeout_ns at most (0: forever), and writes *n bytes of it. */
int qn_ranks_recv(struct qn_ranks *g, int32_t from, void *msg, size_t room, size_t *n, int64_t timeout_ns);

/* Exchanges and receptions return QN_EBROKEN, those that wait at once. */
void qn_ranks_break(struct qn_ranks *g);
void qn_ranks_close(struct qn_ranks *g);

#ifdef __cplusplus
}
#endif

#endif /* QUERN_RANKS_H */
