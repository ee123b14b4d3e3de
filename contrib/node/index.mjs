// Large language models on CPUs: a thin layer over libquern, the C library, in this process.
import { fileURLToPath } from "node:url";
import koffi from "koffi";

const lib = koffi.load(fileURLToPath(new URL("lib/libquern.so.1", import.meta.url)));
koffi.disposable("quern_string", "str", lib.func("void quern_free(void *string)"));
const c = {
	abi: lib.func("int quern_abi()"),
	version: lib.func("const char *quern_version()"),
	lastError: lib.func("const char *quern_last_error()"),
	device: lib.func("int64_t quern_device(const char *options)"),
	open: lib.func("int64_t quern_open(const char *name, const char *options)"),
	info: lib.func("int quern_info(int64_t model, _Out_ quern_string *info)"),
	session: lib.func("int64_t quern_session(int64_t of, const char *options)"),
	save: lib.func("int quern_save(int64_t session, const char *path)"),
	read: lib.func("int quern_read(int64_t model, const char *request, _Out_ quern_string *result)"),
	chat: lib.func("int64_t quern_chat(int64_t model, const char *request)"),
	next: lib.func("int quern_next(int64_t handle, int timeout, _Out_ quern_string *event)"),
	embed: lib.func("int quern_embed(int64_t model, const char *request, _Out_ float *vectors, size_t count)"),
	cancel: lib.func("int quern_cancel(int64_t handle)"),
	close: lib.func("int quern_close(int64_t handle)"),
};
if (c.abi() !== 1) throw new Error(`libquern has ABI ${c.abi()}, want 1`);

/** The version of the library. */
export const version = c.version();

const codes = {
	[-1]: "INVALID", [-2]: "CLOSED", [-3]: "CONTEXT_FULL", [-4]: "MEMORY", [-5]: "BUSY", [-6]: "UNSUPPORTED",
	[-7]: "FILE", [-8]: "CANCELLED", [-9]: "TIMEOUT", [-10]: "FORKED", [-11]: "INTERNAL",
};

/** What libquern says is wrong. Its `code` is a name of libquern.h without QUERN_, such as "CLOSED". */
export class QuernError extends Error {
	constructor(status, message) {
		super(message);
		this.name = "QuernError";
		this.code = codes[status] ?? "INTERNAL";
	}
}

// The text of an error is that of the thread which made the call.
function check(status) {
	if (status < 0) throw new QuernError(status, c.lastError());
	return status;
}

// onThread makes a call on a thread of libuv, and returns its status.
const onThread = (f, ...args) =>
	new Promise((done, fail) => f.async(...args, (err, status) => (err ? fail(err) : done(status))));

// checkOnThread is check of a call on such a thread. An error is made again here, for its text, but where it ends with
// what it was called on.
async function checkOnThread(f, ...args) {
	const status = await onThread(f, ...args);
	if (["CANCELLED", "CLOSED"].includes(codes[status])) {
		throw new QuernError(status, "it was cancelled, or closed");
	}
	return status < 0 ? check(f(...args)) : status;
}

const TIMEOUT = -9;

// Threads of libuv are four, and serve files and names too: at most two wait for events, for a quarter of a second at a
// time. Those besides look every few milliseconds, which costs a microsecond each.
let waiting = 0;

/** The next event of a handle, or null after the last. */
async function next(handle) {
	const out = [null];
	for (;;) {
		let status = c.next(handle, 0, out);
		if (status === TIMEOUT && waiting < 2) {
			waiting++;
			try {
				status = await onThread(c.next, handle, 250, out);
			} finally {
				waiting--;
			}
			if (status < 0) continue; // an error is the same here, with its text
		}
		if (status === 1) return JSON.parse(out[0]);
		if (status !== TIMEOUT) return check(status), null;
		await new Promise((done) => setTimeout(done, 4));
	}
}

/** The answer to a request: an async iterator of events. Leaving its loop ends the answer. */
export class Call {
	#handle;

	/** The last event, once it was there. */
	result = null;

	constructor(handle) {
		this.#handle = handle;
	}

	async *[Symbol.asyncIterator]() {
		try {
			for (let event; (event = await next(this.#handle)) !== null; ) {
				if (event.type === "result" || event.type === "transcript") this.result = event;
				yield event;
			}
		} finally {
			this.close();
		}
	}

	/** Ends the answer: its loop gets an error of the code CANCELLED. */
	cancel() {
		check(c.cancel(this.#handle));
	}

	/** Ends the answer and frees it. Closing again does nothing. */
	close() {
		c.close(this.#handle);
	}
}

// What was left without a close ends when nobody has it.
const left = new FinalizationRegistry((handle) => c.close.async(handle, () => {}));

const info = (handle) => {
	const out = [null];
	check(c.info(handle, out));
	return JSON.parse(out[0]);
};

async function last(call) {
	for await (const _ of call);
	return call.result;
}

const begin = (handle, request) => new Call(Number(check(c.chat(handle, JSON.stringify(request)))));

/** Threads and memory that models share: new Device({ threads: 8, memory: 2 ** 34 }). It closes its models. */
export class Device {
	#handle;

	constructor(options = {}) {
		this.#handle = Number(check(c.device(JSON.stringify(options))));
		left.register(this, this.#handle, this);
	}

	/** Its threads and the use of its memory. */
	get info() {
		return info(this.#handle);
	}

	/** What the options of a model have. */
	toJSON() {
		return this.#handle;
	}

	/** Closes its models and frees it. Closing again does nothing. */
	async close() {
		left.unregister(this);
		await onThread(c.close, this.#handle);
	}
}

/** A conversation with a model, whose beginning stays evaluated: a turn costs its own tokens. */
export class Session {
	#handle;
	#model; // is closed when nobody has it

	constructor(handle, model) {
		this.#handle = handle;
		this.#model = model;
		left.register(this, handle, this);
	}

	/** What was said so far. */
	get messages() {
		return info(this.#handle).messages;
	}

	/** Begins to answer messages, which follow those of the session, or a text of the user, and returns a Call. */
	chat(messages) {
		if (typeof messages === "string") messages = [{ role: "user", content: messages }];
		return begin(this.#handle, { messages });
	}

	/** The whole answer, which is the last event of chat(). */
	complete(messages) {
		return last(this.chat(messages));
	}

	/** A session that begins as this one, at the cost of what comes after. */
	fork() {
		return new Session(Number(check(c.session(this.#handle, null))), this.#model);
	}

	/** Writes the session to a file, from which model.session({ restore: path }) goes on. */
	async save(path) {
		await checkOnThread(c.save, this.#handle, path);
	}

	/** Ends the session and its calls. Closing again does nothing. */
	async close() {
		left.unregister(this);
		await onThread(c.close, this.#handle);
	}
}

/** An open model. */
export class Model {
	#handle;
	#device; // is closed when nobody has it

	/** What is known of the model. */
	info;

	constructor(handle, info, device) {
		this.#handle = handle;
		this.#device = device;
		this.info = info;
		left.register(this, handle, this);
	}

	/**
	 * Opens a model: a file, a folder, a name such as hf.co/ORG/REPO:QUANT, or "demo". The options are those of
	 * quern_open, such as { context_length: 8192 }, `device`, a Device, and `progress`, which is called with events on
	 * the way.
	 */
	static async open(name, { progress, ...options } = {}) {
		const handle = Number(check(c.open(name, JSON.stringify(options))));
		try {
			for (let event; (event = await next(handle)) !== null; ) progress?.(event);
			return new Model(handle, info(handle), options.device);
		} catch (err) {
			c.close(handle);
			throw err;
		}
	}

	/** Begins to answer a request in the form of OpenAI's chat completions, and returns a Call. */
	chat(request) {
		return begin(this.#handle, request);
	}

	/** The whole answer, which is the last event of chat(). */
	async complete(request) {
		return last(this.chat(request));
	}

	/**
	 * Begins a Session, a conversation: `messages` that come first, and what each turn has, as the fields of chat().
	 * With `restore`, the path of a file, it goes on with one that was saved.
	 */
	async session(options = {}) {
		const out = await onThread(c.session, this.#handle, JSON.stringify(options));
		return new Session(Number(out < 0 ? check(c.session(this.#handle, JSON.stringify(options))) : out), this);
	}

	/**
	 * Begins to write down what is said in a file of sound (a Buffer), with a model of speech, and returns a Call: its
	 * events are segments with their times, and the transcript. The options are such as { language: "de" }.
	 */
	transcribe(audio, options = {}) {
		return begin(this.#handle, { ...options, audio: Buffer.from(audio).toString("base64") });
	}

	/** Documents by what they have to say on a query, the best first: each { index, relevance_score }. */
	async rerank(query, documents) {
		return (await this.#read({ query, documents })).results;
	}

	/**
	 * How likely the model is to give each of some answers to messages, or to go on so after a text, the likeliest
	 * first: each { index, answer, probability, logprob }.
	 */
	async decide(messages, answers) {
		const asked = typeof messages === "string" ? { prompt: messages } : { messages };
		return (await this.#read({ ...asked, answers })).answers;
	}

	/** The numbers of the tokens of a text, as a prompt has them. */
	async tokenize(text) {
		return (await this.#read({ text })).tokens;
	}

	/** The text of tokens. */
	async detokenize(tokens) {
		return (await this.#read({ tokens })).text;
	}

	async #read(request) {
		const out = [null];
		await checkOnThread(c.read, this.#handle, JSON.stringify(request), out);
		return JSON.parse(out[0]);
	}

	/** The vectors of texts, each a Float32Array of length 1. */
	async embed(texts) {
		if (texts.length === 0) return [];
		const size = this.info.vector_size;
		const all = new Float32Array(texts.length * size);
		await checkOnThread(c.embed, this.#handle, JSON.stringify({ input: texts }), all, all.length);
		return texts.map((_, i) => all.subarray(i * size, (i + 1) * size));
	}

	/** Ends all that the model computes, with errors of the code CANCELLED. */
	cancel() {
		check(c.cancel(this.#handle));
	}

	/** Ends all of the model's calls and frees it. Closing again does nothing. */
	async close() {
		left.unregister(this);
		await onThread(c.close, this.#handle);
	}
}
