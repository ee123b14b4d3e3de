/* ranks.h - what a transport of ranks is made of. */
#ifndef QN_RANKS_RANKS_H
#define QN_RANKS_RANKS_H

#include "quern_ranks.h"

struct transport {
	/*
	 * See qn_ranks_exchange(). at[r] is where the head of a piece begins, and n[r] counts it; 0: there is none, and
	 * nothing is sent. Only ranks that send or receive something call it.
	 */
	int (*exchange)(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, int64_t timeout_ns);
	int (*send)(struct qn_ranks *g, int32_t to, const void *msg, size_t n); /* to one */
	int (*recv)(struct qn_ranks *g, int32_t from, void *msg, size_t room, size_t *n, int64_t timeout_ns);
	void (*interrupt)(struct qn_ranks *g);
	void (*close)(struct qn_ranks *g); /* and frees it */
};

/* The first member of a transport's own struct. */
struct qn_ranks {
	const struct transport *by;
	int32_t rank, n;
	int failed;
	uint64_t sequence;   /* of exchanges */
	uint64_t pass;
	const uint32_t *ask; /* of qn_ranks_begin() */
	uint32_t stop;
	int64_t shares;                         /* exchanges */
	struct qn_ranks_load load[QN_RANKS_MAX]; /* of others what they last said, and of all the bytes */
	int64_t since;      /* the end of the last exchange, or of a pass */
	int64_t least_ns;   /* of patience; 0: the usual */
	int64_t longest_ns; /* what this rank lately computed between two at most */
};

#endif
