// What libquern.h promises, seen from C: linked with libquern.so or libquern.a, or with -DLOAD taken from argv[1] by
// dlopen. With "leaks" as the last argument it also opens 200 models.
// HF_ENDPOINT in the environment is an address where nobody answers, so that opening hf.co/none/none waits.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libquern.h"

#ifdef LOAD
#define FUNCTIONS(F)                                                                                                   \
	F(abi) F(version) F(last_error) F(device) F(open) F(info) F(session) F(save) F(chat) F(next) F(complete)       \
	F(read) F(embed) F(cancel) F(close) F(free)
#define DECLARE(name) static __typeof__(quern_##name) *p_##name;
FUNCTIONS(DECLARE)
#define quern_abi p_abi
#define quern_version p_version
#define quern_last_error p_last_error
#define quern_open p_open
#define quern_device p_device
#define quern_info p_info
#define quern_session p_session
#define quern_save p_save
#define quern_read p_read
#define quern_chat p_chat
#define quern_next p_next
#define quern_complete p_complete
#define quern_embed p_embed
#define quern_cancel p_cancel
#define quern_close p_close
#define quern_free p_free
#endif

// want fails the test with the line, and what the library had to say.
#define want(condition) want_at((condition) != 0, #condition, __LINE__)

static void want_at(int ok, const char *condition, int line)
{
	if (ok)
		return;
	fprintf(stderr, "test.c:%d: want %s; the last error: %s\n", line, condition, quern_last_error());
	exit(1);
}

#define STORY "{\"prompt\": \"Once upon a time\", \"max_tokens\": 40, \"seed\": 7}"

// story takes an answer, and returns the number of events with text.
static int story(int64_t model)
{
	int64_t call = quern_chat(model, STORY);
	want(call > 0);
	char *event;
	int texts = 0, results = 0, status;
	while ((status = quern_next(call, -1, &event)) > 0) {
		texts += strstr(event, "\"type\":\"text\"") != NULL;
		results += strstr(event, "\"finish_reason\":\"length\"") != NULL;
		quern_free(event);
	}
	want(status == 0 && event == NULL && results == 1);
	want(quern_next(call, -1, &event) == 0);
	want(quern_close(call) == QUERN_OK);
	want(quern_close(call) == QUERN_CLOSED && quern_next(call, 0, &event) == QUERN_CLOSED);
	return texts;
}

static void bad_input(int64_t model)
{
	char *out = "set to NULL";
	float v[1];
	int64_t call = quern_chat(model, STORY);
	want(quern_open(NULL, NULL) == QUERN_INVALID && strstr(quern_last_error(), "NULL"));
	want(quern_open("demo", "{\"ctx\": 5}") == QUERN_INVALID && strstr(quern_last_error(), "no field \"ctx\""));
	want(quern_chat(model, NULL) == QUERN_INVALID && quern_next(call, 0, NULL) == QUERN_INVALID);
	want(quern_complete(model, NULL, &out) == QUERN_INVALID && out == NULL);
	want(quern_complete(model, STORY, NULL) == QUERN_INVALID && quern_info(model, NULL) == QUERN_INVALID);
	want(quern_embed(model, NULL, v, 1) == QUERN_INVALID);
	want(quern_embed(model, "{\"input\": \"x\"}", NULL, 1) == QUERN_INVALID);
	want(quern_embed(model, "{\"input\": \"x\"}", v, 1) == QUERN_INVALID);
	want(strstr(quern_last_error(), "room for 1 floats"));
	want(quern_chat(model, "{\"messages\": [") == QUERN_INVALID && strstr(quern_last_error(), "not JSON"));
	want(quern_chat(model, "hello") == QUERN_INVALID && quern_chat(model, "{} {}") == QUERN_INVALID);
	want(quern_chat(model, "{\"prompt\": \"\xff\"}") == QUERN_INVALID && strstr(quern_last_error(), "UTF-8"));
	want(quern_chat(call, STORY) == QUERN_INVALID && strstr(quern_last_error(), "want that of a model"));
	want(quern_session(call, NULL) == QUERN_INVALID && quern_save(model, "/tmp/x") == QUERN_INVALID);
	want(quern_session(model, "{\"restore\": \"/nonexistent\"}") == QUERN_FILE);
	want(quern_read(model, "{}", &out) == QUERN_INVALID && quern_read(model, NULL, &out) == QUERN_INVALID);
	want(quern_read(model, "{\"tokens\": [-1]}", &out) == QUERN_INVALID && out == NULL);
	want(quern_device("{\"threads\": -1}") == QUERN_INVALID && strstr(quern_last_error(), "threads"));
	want(quern_device("{\"numa\": \"mirror\"}") == QUERN_INVALID && strstr(quern_last_error(), "numa is"));
	want(quern_open("demo", "{\"device\": 1152921504606846976}") == QUERN_INVALID);
	want(quern_chat(model, "{\"audio\": \"UklGRg==\"}") > 0);
	want(quern_chat(0, STORY) == QUERN_INVALID && quern_chat(-5, STORY) == QUERN_INVALID);
	want(quern_chat(1LL << 60, STORY) == QUERN_INVALID && quern_close(1LL << 60) == QUERN_INVALID);
	want(quern_cancel(0) == QUERN_INVALID && quern_close(0) == QUERN_INVALID);
	want(quern_next(0, 0, &out) == QUERN_INVALID && out == NULL);
	want(quern_complete(model, "{\"prompt\": \"x\", \"top_p\": 7}", &out) == QUERN_INVALID && out == NULL);
	quern_free(NULL);
	want(quern_close(call) == QUERN_OK);

	int64_t missing = quern_open("/nonexistent.gguf", NULL);
	want(missing > 0 && quern_info(missing, &out) < 0 && strstr(quern_last_error(), "nonexistent"));
	want(quern_next(missing, -1, &out) < 0 && quern_complete(missing, STORY, &out) < 0);
	call = quern_chat(missing, STORY);
	want(call > 0 && quern_next(call, -1, &out) < 0 && strstr(quern_last_error(), "nonexistent"));
	want(quern_close(missing) == QUERN_OK && quern_next(call, -1, &out) == QUERN_CLOSED);
}

// says fails the test unless a JSON text has another one in it, and frees it.
static void says(char *json, const char *part)
{
	if (!strstr(json, part))
		fprintf(stderr, "%s has no %s\n", json, part);
	want(strstr(json, part));
	quern_free(json);
}

#define TURN "{\"messages\": [{\"role\": \"user\", \"content\": \"A story of a cat, please.\"}]}"

// first of them is closed with its model.
static void sessions(int64_t model)
{
	char *one, *two, path[] = "/tmp/quern-session-XXXXXX";
	int64_t first = quern_session(model, "{\"messages\": [{\"role\": \"system\", \"content\": \"Tell.\"}],"
					     " \"max_tokens\": 8, \"temperature\": 0}");
	want(first > 0 && quern_complete(first, TURN, &one) == QUERN_OK);
	quern_free(one);
	int64_t fork = quern_session(first, NULL), call = quern_chat(fork, TURN);
	int status;
	while ((status = quern_next(call, -1, &one)) > 0)
		quern_free(one);
	want(fork > first && status == 0 && quern_session(first, "{}") == QUERN_INVALID);
	want(quern_complete(first, "{\"prompt\": \"x\"}", &one) == QUERN_INVALID && !one);
	int file = mkstemp(path);
	want(file >= 0 && quern_save(fork, path) == QUERN_OK && quern_save(fork, "/nonexistent/x") == QUERN_FILE);
	char options[128];
	snprintf(options, sizeof options, "{\"restore\": \"%s\", \"max_tokens\": 8, \"temperature\": 0}", path);
	int64_t again = quern_session(model, options);
	want(again > 0 && quern_info(fork, &one) == QUERN_OK && quern_info(again, &two) == QUERN_OK);
	want(!strcmp(one, two) && quern_info(first, &two) == QUERN_OK && strlen(two) < strlen(one));
	quern_free(one);
	says(two, "{\"role\":\"system\",\"content\":\"Tell.\"}");
	want(quern_complete(again, TURN, &one) == QUERN_OK);
	says(one, "\"finish_reason\":\"length\"");
	want(quern_cancel(again) == QUERN_OK && quern_close(again) == QUERN_OK && quern_close(again) == QUERN_CLOSED);
	want(quern_close(fork) == QUERN_OK && quern_next(call, 0, &one) == QUERN_CLOSED);
	close(file);
	unlink(path);
}

static void reads(int64_t model)
{
	char *tokens, *out;
	want(quern_read(model, "{\"text\": \"Once upon a time\"}", &tokens) == QUERN_OK);
	want(quern_read(model, tokens, &out) == QUERN_OK);
	quern_free(tokens);
	says(out, "Once upon a time");
	want(quern_read(model, "{\"query\": \"a cat\", \"documents\": [\"A dog.\", \"a cat\"]}", &out) == QUERN_OK);
	says(out, "{\"results\":[{\"index\":1,");
	const char *ask = "{\"prompt\": \"Once upon a\", \"answers\": [\" zebra\", \" time\"]}";
	want(quern_read(model, ask, &out) == QUERN_OK);
	says(out, "{\"answers\":[{\"index\":1,\"answer\":\" time\",");
}

// devices opens models on one device: its threads are there once, and it frees all.
static void devices(void)
{
	char *info, options[64];
	int64_t device = quern_device("{\"threads\": 2, \"memory\": 1073741824, \"numa\": \"off\"}"), models[2];
	snprintf(options, sizeof options, "{\"context_length\": 256, \"device\": %lld}", (long long)device);
	for (int i = 0; i < 2; i++) {
		models[i] = quern_open("demo", options);
		want(story(models[i]) > 3);
	}
	want(quern_info(device, &info) == QUERN_OK && strstr(info, "\"memory\":1073741824"));
	says(info, "{\"threads\":2,\"models\":2,");
	want(quern_chat(device, STORY) == QUERN_INVALID && quern_open("demo", "{\"device\": 1}") == QUERN_INVALID);
	want(quern_close(models[0]) == QUERN_OK && quern_info(device, &info) == QUERN_OK);
	says(info, "\"models\":1,");
	int64_t call = quern_chat(models[1], STORY);
	want(quern_close(device) == QUERN_OK && quern_close(models[1]) == QUERN_CLOSED);
	want(quern_next(call, -1, &info) == QUERN_CLOSED && quern_open("demo", options) == QUERN_CLOSED);
}

// Threads that wait for a model that never opens.
static int64_t stuck;

static void *waits_next(void *status)
{
	char *event;
	do // the other thread may be in there for a moment
		*(int *)status = quern_next(stuck, -1, &event);
	while (*(int *)status == QUERN_BUSY);
	return NULL;
}

static void *waits_complete(void *status)
{
	char *result;
	*(int *)status = quern_complete(stuck, STORY, &result);
	return NULL;
}

static void ends_from_another_thread(int (*end)(int64_t), int code)
{
	pthread_t reader, caller;
	int read, called;
	char *event;
	stuck = quern_open("hf.co/none/none", NULL);
	want(quern_next(stuck, 0, &event) == QUERN_TIMEOUT && quern_next(stuck, 5, &event) == QUERN_TIMEOUT);
	int64_t call = quern_chat(stuck, STORY);
	pthread_create(&reader, NULL, waits_next, &read);
	pthread_create(&caller, NULL, waits_complete, &called);
	while (quern_next(stuck, 0, &event) != QUERN_BUSY) // until that thread is in there
		usleep(1000);
	want(strstr(quern_last_error(), "another thread") != NULL);
	want(quern_next(call, 0, &event) == QUERN_TIMEOUT);
	want(end(stuck) == QUERN_OK);
	pthread_join(reader, NULL);
	pthread_join(caller, NULL);
	want(read == code && (called == code || called == QUERN_CLOSED));
	want(quern_next(call, -1, &event) == code);
	want(quern_close(stuck) == (code == QUERN_CLOSED ? QUERN_CLOSED : QUERN_OK));
}

static void *stories(void *model)
{
	for (int i = 0; i < 5; i++)
		want(story(*(int64_t *)model) > 3);
	want(quern_chat(0, STORY) == QUERN_INVALID && strstr(quern_last_error(), "0 is no handle"));
	return NULL;
}

// status returns a number of /proc/self/status.
static long status(const char *name)
{
	char line[256];
	long n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, name, strlen(name)))
			n = atol(line + strlen(name));
	if (f)
		fclose(f);
	return n;
}

static void nothing_is_left(void)
{
	long kb = 0, threads = 0;
	for (int i = 0; i < 200; i++) {
		if (i == 50) { // Go's heap has its size by then
			kb = status("VmRSS:");
			threads = status("Threads:");
		}
		int64_t model = quern_open("demo", "{\"threads\": 2}");
		story(model);
		int64_t left = quern_chat(model, STORY); // is closed with its model
		want(left > 0 && quern_close(model) == QUERN_OK);
	}
	long grown = status("VmRSS:") - kb, more = status("Threads:") - threads;
	printf("150 models: %ld KB and %ld threads more, of %ld KB and %ld threads\n", grown, more, kb, threads);
	want(grown < 8192 && more < 8);
}

static void forks(int64_t model)
{
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		char *out;
		float v[1];
		int status[] = {
			quern_open("demo", NULL), quern_info(model, &out), quern_chat(model, STORY),
			quern_next(model, -1, &out), quern_complete(model, STORY, &out), quern_embed(model, "{}", v, 1),
			quern_cancel(model), quern_close(model), quern_device(NULL), quern_session(model, NULL),
			quern_save(model, "x"), quern_read(model, "{}", &out),
		};
		for (size_t i = 0; i < sizeof status / sizeof *status; i++)
			if (status[i] != QUERN_FORKED)
				_exit(1);
		_exit(quern_abi() == QUERN_ABI && *quern_version() && strstr(quern_last_error(), "fork()") ? 0 : 1);
	}
	int end;
	waitpid(child, &end, 0);
	want(WIFEXITED(end) && WEXITSTATUS(end) == 0);
	want(story(model) > 3);
}

// The program's own handlers stay: those of faults are Go's only where Go's code faults.
static sigjmp_buf back;

static void own(int sig)
{
	siglongjmp(back, sig);
}

static void set_handlers(void)
{
	struct sigaction a = {.sa_handler = own};
	int all[] = {SIGSEGV, SIGINT, SIGTERM, SIGPIPE, SIGUSR1};
	for (int i = 0; i < 5; i++)
		sigaction(all[i], &a, NULL);
}

// caught raises a signal, and reports whether own was called.
static int caught(int sig)
{
	if (sigsetjmp(back, 1))
		return 1;
	if (sig == SIGSEGV)
		*(volatile int *)8 = 0;
	else
		raise(sig);
	return 0;
}

static void handlers_are_kept(void)
{
	want(caught(SIGINT) && caught(SIGTERM) && caught(SIGPIPE) && caught(SIGUSR1) && caught(SIGSEGV));
}

int main(int argc, char **argv)
{
	set_handlers();
#ifdef LOAD
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!lib) {
		fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "want the path of libquern.so");
		return 1;
	}
#define TAKE(name) p_##name = dlsym(lib, "quern_" #name);
	FUNCTIONS(TAKE)
#endif
	want(quern_abi() == QUERN_ABI && *quern_version() && !*quern_last_error());
	int64_t model = quern_open("demo", NULL);
	char *info;
	want(model > 0 && quern_info(model, &info) == QUERN_OK && strstr(info, "\"context_length\":"));
	quern_free(info);
	want(story(model) > 3);
	bad_input(model);
	reads(model);
	sessions(model);
	devices();
	handlers_are_kept();
	ends_from_another_thread(quern_cancel, QUERN_CANCELLED);
	ends_from_another_thread(quern_close, QUERN_CLOSED);
	pthread_t threads[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, stories, &model);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	forks(model);
	want(quern_close(model) == QUERN_OK && quern_chat(model, STORY) == QUERN_CLOSED);
	if (argc > 1 && !strcmp(argv[argc - 1], "leaks"))
		nothing_is_left();
	return 0;
}
