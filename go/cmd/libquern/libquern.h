/*
 * libquern.h - large language models on CPUs, for C and whatever calls C
 *
 * A program opens a model, begins calls, and takes the events of each:
 *
 *	int64_t model = quern_open("model.gguf", NULL);
 *	const char *why = "{\"messages\": [{\"role\": \"user\", \"content\": \"Why is the sky blue?\"}]}";
 *	int64_t call = quern_chat(model, why);
 *	char *event;
 *	int status;
 *	while ((status = quern_next(call, -1, &event)) > 0) {
 *		puts(event);
 *		quern_free(event);
 *	}
 *	if (status < 0)
 *		fprintf(stderr, "%s\n", quern_last_error());
 *	quern_close(model);
 *
 * Requests and events are JSON in UTF-8: the fields of both are in docs/bindings.md. Requests have the form of
 * OpenAI's chat completions. A session is a conversation with a model whose beginning stays evaluated; a device is
 * the threads and the memory that several models share.
 *
 * Handles are numbers above 0. Each is checked where it is used, and none is given twice: one that was closed, or
 * that is none, is an error and no crash. All functions may be called by several threads at the same time, with the
 * same handles. Calls of one model share each pass over its weights, so many at a time are served faster than one
 * after the other.
 *
 * Errors are values below 0, and quern_last_error() says in a line what is wrong. What is not a valid pointer is as
 * undefined as anywhere in C; NULL where a pointer is needed is QUERN_INVALID.
 *
 * A string or an array that a function takes is read before it returns, and stays the caller's. A string that a
 * function returns by a pointer is the caller's too, who frees it by quern_free(). The results of quern_version()
 * and quern_last_error() are the library's.
 *
 * What the library does to the process. It has threads of its own, and Go's runtime within it. That installs
 * handlers of signals when the library is loaded: see docs/bindings.md. A child of fork() has none of those
 * threads: there every function but quern_version(), quern_abi(), quern_last_error() and quern_free() returns
 * QUERN_FORKED. Programs that are started by exec or posix_spawn have no such limit. The library stays in the
 * process after dlclose(). It prints nothing.
 */
#ifndef LIBQUERN_H
#define LIBQUERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of what is in this header: the number in the name libquern.so.1. A library with the same number has
 * all of these functions with the same meaning. It may have more of them, more fields in JSON and more kinds of
 * events, which callers have to pass by.
 */
#define QUERN_ABI 1

enum {
	QUERN_OK = 0,
	QUERN_INVALID = -1,      /* the request, an argument, or a handle that was never given */
	QUERN_CLOSED = -2,       /* the handle, or the model of the call, was closed */
	QUERN_CONTEXT_FULL = -3, /* the text does not fit in the context of the model */
	QUERN_MEMORY = -4,       /* there is not enough memory */
	QUERN_BUSY = -5,         /* too many calls wait, or another thread is in quern_next() with the handle */
	QUERN_UNSUPPORTED = -6,  /* the model, or this version, cannot do that */
	QUERN_FILE = -7,         /* a file cannot be read, or is no model */
	QUERN_CANCELLED = -8,    /* quern_cancel() was called */
	QUERN_TIMEOUT = -9,      /* nothing came in time; the call goes on */
	QUERN_FORKED = -10,      /* this process is a child of fork() */
	QUERN_INTERNAL = -11     /* a fault in the library */
};

/* quern_version() returns the version of the library, such as "v1.2.0". */
const char *quern_version(void);

/* quern_abi() returns the QUERN_ABI that the library was built with: for those who load it by dlopen(). */
int quern_abi(void);

/*
 * quern_last_error() returns what was wrong in the last call of a function by this thread that returned an error: a
 * line of at most 1023 bytes. It is valid until the next call of a function by this thread. Without an error it is
 * "".
 */
const char *quern_last_error(void);

/*
 * quern_device() returns the handle of a device. 'options' is a JSON object, such as {"threads": 8, "memory":
 * 17179869184}, or NULL: then it is all that the process may use. Models are opened on it by {"device": handle} in
 * the options of quern_open().
 *
 * Returns the handle, or QUERN_INVALID.
 */
int64_t quern_device(const char *options);

/*
 * quern_open() begins to open a model, and returns its handle at once. 'name' is the path of a file or a folder, a
 * name such as hf.co/ORG/REPO:QUANT, which is downloaded, or "demo", a tiny model that is in the library. 'options'
 * is a JSON object, such as {"context_length": 8192}, or NULL.
 *
 * The handle may be used at once: functions wait until the model is open. If it cannot be opened, they return the
 * error. quern_info() does so and nothing else; quern_next() with the handle of a model tells of the progress as
 * well. The handle of a model that could not be opened is closed as any other.
 *
 * Returns the handle, or QUERN_INVALID.
 */
int64_t quern_open(const char *name, const char *options);

/*
 * quern_info() sets *info to what is known of a handle, as JSON. Of a model, for which it waits until that is open:
 * its name, "context_length", "vector_size" and others; of a session its "messages"; of a device its "threads" and
 * the use of its memory. Returns QUERN_OK, or an error, and then *info is NULL.
 */
int quern_info(int64_t handle, char **info);

/*
 * quern_session() returns the handle of a session. Of a model it begins one: 'options' is a JSON object with
 * "messages" that come first and the fields of a request that each turn has, or NULL; with "restore", the path of a
 * file that quern_save() wrote, it goes on with that one. Of a session it makes a fork, which begins as that one and
 * costs what comes after, and 'options' is NULL. It waits until the model is open.
 *
 * Returns the handle or an error.
 */
int64_t quern_session(int64_t of, const char *options);

/*
 * quern_save() writes a session to a file, in place of one that is there: what was said, in the clear, and what the
 * model has evaluated of it. It waits for a turn that is under way. Returns QUERN_OK or an error.
 */
int quern_save(int64_t session, const char *path);

/*
 * quern_chat() begins to answer a request and returns the handle of the call at once: the answer is what
 * quern_next() gives. Of a model, 'request' is a JSON object with "messages", with "prompt", a text that is
 * continued, or with "audio", a file of sound in base64 in which a model of speech writes down what is said. Of a
 * session it has "messages" alone, which follow what was said; turns follow one another, and one that fails or is
 * cancelled is no part of the session.
 *
 * Returns the handle, or QUERN_INVALID or QUERN_CLOSED. Whatever else is wrong is an error of quern_next().
 */
int64_t quern_chat(int64_t of, const char *request);

/*
 * quern_next() waits for the next event of a call, or of a model that is being opened, for at most 'timeout'
 * milliseconds (0: not at all; below 0: for as long as it takes), and sets *event to it.
 *
 * Returns 1 with an event; 0 after the last one, where nothing went wrong; or an error, and the same one each time
 * after. QUERN_TIMEOUT and QUERN_BUSY end nothing. In all cases but the first *event is NULL.
 *
 * An answer does not wait for the one who asks for its events, and one that is not fetched costs memory, for at
 * most the tokens of a context.
 */
int quern_next(int64_t handle, int timeout, char **event);

/*
 * quern_complete() is quern_chat() for those who want the whole answer: it sets *result to the last event of one.
 * Returns QUERN_OK, or an error, and then *result is NULL.
 */
int quern_complete(int64_t of, const char *request, char **result);

/*
 * quern_read() reads texts without an answer, and sets *result to a JSON object. 'request' is one too, with
 *	"query" and "documents": "results" has the documents by "index", the best first, each with a
 *	"relevance_score";
 *	"text": "tokens" has the numbers of its tokens, as a prompt has them;
 *	"tokens": "text" is what these print;
 *	"answers" with "messages" or "prompt": "answers" says how likely the model is to give each, the
 *	likeliest first.
 * Returns QUERN_OK, or an error, and then *result is NULL.
 */
int quern_read(int64_t model, const char *request, char **result);

/*
 * quern_embed() computes a vector of length 1 for each text. 'request' is a JSON object whose "input" is a text or
 * a list of texts. 'vectors' has room for 'count' floats, which has to be the number of texts times the
 * "vector_size" of quern_info(): one vector after the other. Returns QUERN_OK or an error.
 */
int quern_embed(int64_t model, const char *request, float *vectors, size_t count);

/*
 * quern_cancel() ends a call; of a model, its opening and all that it computes, also what other threads wait for in
 * quern_complete(), quern_read() and quern_embed(); of a session or a device, what is under way there. What waits, as
 * quern_next(), ends with QUERN_CANCELLED; events that nobody has fetched may be lost. To cancel what has ended does
 * nothing. Returns QUERN_OK or an error.
 */
int quern_cancel(int64_t handle);

/*
 * quern_close() ends a call and frees it; of a session, a model or a device, it ends and frees all that it has too:
 * calls, sessions, models. It returns when nothing is left. Threads that wait for it return QUERN_CLOSED. Returns
 * QUERN_OK or an error: closing a handle twice is QUERN_CLOSED.
 */
int quern_close(int64_t handle);

/* quern_free() frees a string that a function returned by a pointer. NULL is nothing. */
void quern_free(void *string);

#ifdef __cplusplus
}
#endif

#endif /* LIBQUERN_H */
