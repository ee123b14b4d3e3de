// The functions of libquern.h: each checks what can be checked without Go, and calls the Go function of its name. Go is
// not entered in a child of fork(), where its threads are not: that would wait forever.
#include "door.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "_cgo_export.h"

static _Thread_local char last[DOOR_ERROR];

static atomic_int forked;

static void in_child(void)
{
	atomic_store(&forked, 1);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

static int refuse(int code, const char *why)
{
	snprintf(last, sizeof last, "%s", why);
	return code;
}

static int check(int null)
{
	if (atomic_load(&forked))
		return refuse(QUERN_FORKED, "this process is a child of fork(), which has no threads of the library: "
					    "load it after the fork, or start a program instead");
	if (null)
		return refuse(QUERN_INVALID, "an argument is NULL, and may not be");
	return QUERN_OK;
}

// Where *out is what a function returns.
static int check_out(int null, char **out)
{
	if (out)
		*out = NULL;
	return check(null || !out);
}

const char *quern_version(void)
{
	static char version[64];
	static atomic_int made;
	if (!atomic_load(&made) && !atomic_load(&forked)) {
		doorVersion(version, sizeof version); // the same bytes each time, whoever else writes them
		atomic_store(&made, 1);
	}
	return version;
}

int quern_abi(void)
{
	return QUERN_ABI;
}

const char *quern_last_error(void)
{
	return last;
}

void quern_free(void *string)
{
	free(string);
}

int64_t quern_open(const char *name, const char *options)
{
	int bad = check(!name);
	return bad ? bad : doorOpen(name, options, last);
}

int64_t quern_device(const char *options)
{
	int bad = check(0);
	return bad ? bad : doorDevice(options, last);
}

int quern_info(int64_t handle, char **info)
{
	int bad = check_out(0, info);
	return bad ? bad : doorInfo(handle, info, last);
}

int64_t quern_session(int64_t of, const char *options)
{
	int bad = check(0);
	return bad ? bad : doorSession(of, options, last);
}

int quern_save(int64_t session, const char *path)
{
	int bad = check(!path);
	return bad ? bad : doorSave(session, path, last);
}

int quern_read(int64_t model, const char *request, char **result)
{
	int bad = check_out(!request, result);
	return bad ? bad : doorRead(model, request, result, last);
}

int64_t quern_chat(int64_t of, const char *request)
{
	int bad = check(!request);
	return bad ? bad : doorChat(of, request, last);
}

int quern_next(int64_t handle, int timeout, char **event)
{
	int bad = check_out(0, event);
	return bad ? bad : doorNext(handle, timeout, event, last);
}

int quern_complete(int64_t of, const char *request, char **result)
{
	int bad = check_out(!request, result);
	return bad ? bad : doorComplete(of, request, result, last);
}

int quern_embed(int64_t model, const char *request, float *vectors, size_t count)
{
	int bad = check(!request || !vectors);
	return bad ? bad : doorEmbed(model, request, vectors, count, last);
}

int quern_cancel(int64_t handle)
{
	int bad = check(0);
	return bad ? bad : doorCancel(handle, last);
}

int quern_close(int64_t handle)
{
	int bad = check(0);
	return bad ? bad : doorClose(handle, last);
}
