//go:build ucx

/*
 * ucx.c - ranks that are processes joined by UCX: RDMA, TCP, or shared memory on one machine. How they find each other
 * is the caller's affair, who gives each the addresses of all. Pieces go to all others at once, as tagged messages. A
 * process that waits looks for a while and then sleeps. UCX keeps memory registered with an adapter for RDMA, and does
 * not notice what Go unmaps: pieces are in memory that stays until the rank is closed.
 */
#define _GNU_SOURCE
#define RDMA_STATIC_PROVIDERS all /* declares them */
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include "quern.h"
#include "quern_ucx.h"
#include "ranks/ranks.h"

/* Tags: what a message is, above the rank that sends it. */
enum { TAG_HELLO = 1, TAG_PIECE = 2, TAG_MESSAGE = 3 };

/*
 * How long a process looks before it sleeps: within a pass, and after one, the next message is near, and to be woken
 * costs some 50 us. A process that has nothing to do sleeps at once.
 */
static const int64_t look_ns = 2000000;

struct qn_ucx {
	struct qn_ranks g;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_address_t *address;
	size_t address_bytes;
	ucp_ep_h ends[QN_RANKS_MAX];
	int poll;     /* wakes for the worker, and for `wake` */
	int wake;     /* written by qn_ranks_break() */
	int broken;   /* so was asked */
	int lost;     /* UCX says that another rank is */
	int in_pass;  /* there was an exchange since the last message */
};

static struct qn_ucx *of(struct qn_ranks *g)
{
	return (struct qn_ucx *)g;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int is_broken(struct qn_ucx *u)
{
	return __atomic_load_n(&u->broken, __ATOMIC_RELAXED);
}

static ucp_tag_t tag_of(int kind, int32_t from)
{
	return (ucp_tag_t)kind << 32 | (uint32_t)from;
}

/* What is done while nothing comes, since `start`: nothing for a while, then sleep, until `end` (0: forever). */
static void idle(struct qn_ucx *u, int64_t start, int64_t look, int64_t end)
{
	struct epoll_event event;
	const int64_t now = now_ns();
	int64_t ms = -1;

	if (now - start < look || ucp_worker_arm(u->worker) != UCS_OK) /* something has come meanwhile */
		return;
	if (end) {
		ms = end > now ? (end - now) / 1000000 + 1 : 0;
		if (ms > INT_MAX)
			ms = INT_MAX;
	}
	epoll_wait(u->poll, &event, 1, (int)ms);
}

/* A request under way, or what came of it at once. `bytes` is what a reception has to bring, 0 for anything else. */
struct under_way {
	void *request;
	size_t bytes;
};

static int of_status(ucs_status_t s)
{
	return s == UCS_OK ? QN_OK : s == UCS_ERR_MESSAGE_TRUNCATED ? QN_EDESYNC : QN_EBROKEN;
}

/* Whether it is done, and then how, in *rc. */
static int is_done(struct under_way *w, int *rc)
{
	ucp_tag_recv_info_t got = {.length = w->bytes};
	ucs_status_t s = UCS_OK;

	if (UCS_PTR_IS_ERR(w->request)) {
		s = UCS_PTR_STATUS(w->request);
	} else if (w->request) {
		s = w->bytes ? ucp_tag_recv_request_test(w->request, &got) : ucp_request_check_status(w->request);
		if (s == UCS_INPROGRESS)
			return 0;
		ucp_request_free(w->request);
	}
	*rc = of_status(s);
	if (*rc == QN_OK && got.length != w->bytes)
		*rc = QN_EDESYNC;
	return 1;
}

/* Waits for all. Those of a broken group are left to the end of the process, as is the memory that they name. */
static int await(struct qn_ucx *u, struct under_way *all, int n, int64_t timeout_ns)
{
	const int64_t start = now_ns(), end = start + timeout_ns;

	for (unsigned i = 1;; i++) {
		const unsigned some = ucp_worker_progress(u->worker);
		int rc = QN_OK;

		for (; n > 0 && is_done(&all[n - 1], &rc); n--)
			if (rc != QN_OK)
				return rc;
		if (n == 0)
			return QN_OK;
		if (is_broken(u) || (u->lost && !some)) /* who has ended may have sent what is awaited before */
			return QN_EBROKEN;
		if ((!some || i % 1024 == 0) && now_ns() > end)
			return QN_ETIMEOUT;
		if (!some)
			idle(u, start, look_ns, end);
	}
}

static void expect(struct qn_ucx *u, struct under_way *w, int kind, int32_t from, void *at, size_t bytes)
{
	/* A request in any case: it has the length. */
	const ucp_request_param_t p = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};

	w->bytes = bytes;
	w->request = ucp_tag_recv_nbx(u->worker, at, bytes, tag_of(kind, from), ~UINT64_C(0), &p);
}

static void post(struct qn_ucx *u, struct under_way *w, int kind, int32_t to, const void *from, size_t bytes)
{
	const ucp_request_param_t p = {0};

	w->bytes = 0;
	w->request = ucp_tag_send_nbx(u->ends[to], from, bytes, tag_of(kind, u->g.rank), &p);
}

static int ucx_exchange(struct qn_ranks *g, uint8_t *const *at, const size_t *n, int32_t to, int64_t timeout_ns)
{
	struct qn_ucx *u = of(g);
	struct under_way all[2 * QN_RANKS_MAX];
	int count = 0;

	u->in_pass = 1;
	if (is_broken(u))
		return QN_EBROKEN;
	for (int32_t i = 1; i < g->n; i++) {
		const int32_t from = (g->rank + g->n - i) % g->n;

		if (n[from] && (to < 0 || to == g->rank))
			expect(u, &all[count++], TAG_PIECE, from, at[from], n[from]);
	}
	for (int32_t i = 1; i < g->n; i++) {
		const int32_t r = (g->rank + i) % g->n;

		if (n[g->rank] && (to < 0 || to == r))
			post(u, &all[count++], TAG_PIECE, r, at[g->rank], n[g->rank]);
	}
	return await(u, all, count, timeout_ns);
}

static void ucx_interrupt(struct qn_ranks *g)
{
	const uint64_t one = 1;

	__atomic_store_n(&of(g)->broken, 1, __ATOMIC_RELAXED);
	(void)!write(of(g)->wake, &one, sizeof one);
}

/* Sends a copy, which stays for as long as UCX may read it: if it cannot be sent, to the end of the process. */
static int ucx_send(struct qn_ranks *g, int32_t to, const void *msg, size_t n)
{
	struct qn_ucx *u = of(g);
	struct under_way one;
	void *copy;
	int rc;

	if (is_broken(u) || u->lost)
		return QN_EBROKEN;
	copy = malloc(n ? n : 1);
	if (!copy)
		return QN_ENOMEM;
	memcpy(copy, msg, n);
	post(u, &one, TAG_MESSAGE, to, copy, n);
	rc = await(u, &one, 1, INT64_C(10000000000));
	if (rc == QN_OK)
		free(copy);
	else
		ucx_interrupt(g);
	return rc;
}

/* Takes a message that is there, whose bytes are *n. One that is too long is read all the same, and dropped. */
static int take(struct qn_ucx *u, ucp_tag_message_h message, void *msg, size_t room, size_t n)
{
	const ucp_request_param_t p = {0};
	struct under_way one = {0};
	void *at = n <= room ? msg : malloc(n);
	int rc;

	if (!at)
		return QN_ENOMEM;
	one.request = ucp_tag_msg_recv_nbx(u->worker, at, n, message, &p);
	rc = await(u, &one, 1, INT64_C(10000000000));
	if (at == msg)
		return rc;
	if (rc == QN_OK)
		free(at);
	return rc == QN_OK ? QN_ETOOLONG : rc;
}

/* Messages that have come are there even where who sent them has ended since. */
static int ucx_recv(struct qn_ranks *g, int32_t from, void *msg, size_t room, size_t *n, int64_t timeout_ns)
{
	struct qn_ucx *u = of(g);
	const int64_t start = now_ns(), end = timeout_ns ? start + timeout_ns : 0;
	const int64_t look = u->in_pass ? look_ns : 0;

	u->in_pass = 0;
	for (;;) {
		const unsigned some = ucp_worker_progress(u->worker);
		ucp_tag_recv_info_t info;
		ucp_tag_message_h message;

		message = ucp_tag_probe_nb(u->worker, tag_of(TAG_MESSAGE, from), ~UINT64_C(0), 1, &info);
		if (message) {
			*n = info.length;
			return take(u, message, msg, room, *n);
		}
		if (is_broken(u))
			return QN_EBROKEN;
		if (some)
			continue;
		if (u->lost)
			return QN_EBROKEN;
		if (end && now_ns() > end)
			return QN_ETIMEOUT;
		idle(u, start, look, end);
	}
}

static void release(struct qn_ucx *u)
{
	if (u->address)
		ucp_worker_release_address(u->worker, u->address);
	if (u->worker)
		ucp_worker_destroy(u->worker);
	if (u->context)
		ucp_cleanup(u->context);
	if (u->poll >= 0)
		close(u->poll);
	if (u->wake >= 0)
		close(u->wake);
	free(u);
}

/*
 * What was sent is delivered before the ends are closed. Where ranks have failed, nothing waits for them, and what UCX
 * may still read or write is left to the end of the process.
 */
static void ucx_close(struct qn_ranks *g)
{
	struct qn_ucx *u = of(g);
	const ucp_request_param_t flush = {0};
	struct under_way ends[QN_RANKS_MAX] = {{0}};
	int count = 0;

	if (g->failed != QN_OK || is_broken(u) || u->lost)
		return;
	for (int32_t r = 0; r < g->n; r++)
		if (u->ends[r])
			ends[count++].request = ucp_ep_close_nbx(u->ends[r], &flush);
	(void)await(u, ends, count, INT64_C(1000000000));
	if (!u->lost)
		release(u);
}

static const struct transport ucx = {
	.exchange = ucx_exchange,
	.send = ucx_send,
	.recv = ucx_recv,
	.interrupt = ucx_interrupt,
	.close = ucx_close,
};

/* UCX's own lines, which go to standard output by default. */
static ucs_log_func_rc_t say(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                             const ucs_log_component_config_t *component, const char *text, va_list args)
{
	char said[512];

	(void)file, (void)line, (void)function, (void)component;
	if (level > UCS_LOG_LEVEL_WARN && !getenv("UCX_LOG_LEVEL"))
		return UCS_LOG_FUNC_RC_STOP;
	vsnprintf(said, sizeof said, text, args);
	fprintf(stderr, "quern: ucx: %s\n", said);
	return UCS_LOG_FUNC_RC_STOP;
}

/* Sets what users can set by a variable UCX_NAME, which then decides. */
static void prefer(ucp_config_t *c, const char *name, const char *value)
{
	char variable[64];

	snprintf(variable, sizeof variable, "UCX_%s", name);
	if (value && !getenv(variable))
		ucp_config_modify(c, name, value);
}

static int open_worker(struct qn_ucx *u, const char *devices)
{
	const ucp_params_t context = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = 8,
	};
	const ucp_worker_params_t worker = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	ucp_config_t *config;
	ucs_status_t s;

	if (ucp_config_read(NULL, NULL, &config) != UCS_OK)
		return QN_EINVAL;
	prefer(config, "NET_DEVICES", devices);
	/* Pieces of some 100 KB are sent as they are: asking first whether they fit costs two ways more. */
	prefer(config, "RNDV_THRESH", "inf");
	s = ucp_init(&context, config, &u->context);
	ucp_config_release(config);
	if (s != UCS_OK || ucp_worker_create(u->context, &worker, &u->worker) != UCS_OK)
		return QN_EINVAL;
	return ucp_worker_get_address(u->worker, &u->address, &u->address_bytes) == UCS_OK ? QN_OK : QN_EINVAL;
}

static int open_poll(struct qn_ucx *u)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd;

	u->poll = epoll_create1(EPOLL_CLOEXEC);
	u->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (u->poll < 0 || u->wake < 0 || ucp_worker_get_efd(u->worker, &fd) != UCS_OK ||
	    epoll_ctl(u->poll, EPOLL_CTL_ADD, fd, &event) || epoll_ctl(u->poll, EPOLL_CTL_ADD, u->wake, &event))
		return QN_EINVAL;
	return QN_OK;
}

int qn_ucx_open(struct qn_ucx **out, const char *devices)
{
	static int had;
	struct qn_ucx *u = calloc(1, sizeof *u);
	int rc;

	if (!u)
		return QN_ENOMEM;
	u->poll = u->wake = -1;
	if (!had) {
		had = 1;
		ucs_log_push_handler(say);
		/* The drivers of a static libibverbs are those that the program names. */
		ibv_static_providers(NULL, &verbs_provider_mlx5, &verbs_provider_mlx4, &verbs_provider_bnxt_re,
		                     &verbs_provider_irdma, &verbs_provider_efa, &verbs_provider_rxe, NULL);
	}
	rc = open_worker(u, devices);
	if (rc == QN_OK)
		rc = open_poll(u);
	if (rc != QN_OK) {
		release(u);
		return rc;
	}
	*out = u;
	return QN_OK;
}

const uint8_t *qn_ucx_address(const struct qn_ucx *u, size_t *bytes)
{
	*bytes = u->address_bytes;
	return (const uint8_t *)u->address;
}

void qn_ucx_close(struct qn_ucx *u)
{
	if (u)
		release(u);
}

static void on_error(void *arg, ucp_ep_h end, ucs_status_t status)
{
	struct qn_ucx *u = arg;

	(void)end, (void)status;
	u->lost = 1;
}

/* All ranks greet all others: connections are made while both ends look after them. */
static int greet(struct qn_ucx *u, int32_t *missing)
{
	struct under_way all[2];
	uint8_t mine = 0, theirs[QN_RANKS_MAX];
	int rc = QN_OK;

	for (int32_t i = 1; i < u->g.n && rc == QN_OK; i++) {
		const int32_t to = (u->g.rank + i) % u->g.n;

		*missing = to;
		post(u, &all[0], TAG_HELLO, to, &mine, 1);
		rc = await(u, all, 1, INT64_C(10000000000));
	}
	for (int32_t i = 1; i < u->g.n && rc == QN_OK; i++) {
		const int32_t from = (u->g.rank + i) % u->g.n;

		*missing = from;
		expect(u, &all[0], TAG_HELLO, from, &theirs[from], 1);
		rc = await(u, all, 1, INT64_C(10000000000));
	}
	return rc;
}

int qn_ucx_join(struct qn_ucx *u, int32_t rank, int32_t n, const uint8_t *addresses, const size_t *bytes,
                const uint8_t *near, struct qn_ranks **g, int32_t *missing)
{
	ucp_ep_params_t end = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
		              UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.err_handler = {.cb = on_error, .arg = u},
	};
	int rc;

	if (n < 2 || n > QN_RANKS_MAX || rank < 0 || rank >= n)
		return QN_EINVAL;
	u->g = (struct qn_ranks){.by = &ucx, .rank = rank, .n = n};
	for (int32_t r = 0; r < n; addresses += bytes[r], r++) {
		if (r == rank)
			continue;
		*missing = r;
		end.address = (const ucp_address_t *)addresses;
		/* Shared memory does not notice the end of a process, and UCX would not take it if asked to. */
		end.err_mode = near[r] ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
		if (ucp_ep_create(u->worker, &end, &u->ends[r]) != UCS_OK)
			return QN_EBROKEN;
	}
	rc = greet(u, missing);
	if (rc == QN_OK)
		*g = &u->g;
	return rc;
}
