// Large language models on CPUs: a thin layer over libquern, the C library, in this process.
import { fileURLToPath } from "node:url";
import koffi from "koffi";

const lib = koffi.load(fileURLToPath(new URL("lib/libquern.so.1", import.meta.url)));
koffi.disposable("quern_string", "str", lib.func("void quern_free(void *string)"));
const c = {
	abi: lib.func("int quern_abi()"),
	version: lib.func("const char *quern_version()"),
	lastError: lib.func("const char *quern_last_error()"),
	open: lib.func("int64_t quern_open(const char *name, const char *options)"),
	info: lib.func("int quern_info(int64_t model, _Out_ quern_string *info)"),
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
				if (event.type === "result") this.result = event;
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

/** An open model. */
export class Model {
	#handle;

	/** What is known of the model. */
	info;

	constructor(handle, info) {
		this.#handle = handle;
		this.info = info;
		left.register(this, handle, this);
	}

	/**
	 * Opens a model: a file, a folder, a name such as hf.co/ORG/REPO:QUANT, or "demo". The options are those of
	 * quern_open, such as { context_length: 8192 }, and `progress`, which is called with events on the way.
	 */
	static async open(name, { progress, ...options } = {}) {
		const handle = Number(check(c.open(name, JSON.stringify(options))));
		try {
			for (let event; (event = await next(handle)) !== null; ) progress?.(event);
			const info = [null];
			check(c.info(handle, info));
			return new Model(handle, JSON.parse(info[0]));
		} catch (err) {
			c.close(handle);
			throw err;
		}
	}

	/** Begins to answer a request in the form of OpenAI's chat completions, and returns a Call. */
	chat(request) {
		return new Call(Number(check(c.chat(this.#handle, JSON.stringify(request)))));
	}

	/** The whole answer, which is the last event of chat(). */
	async complete(request) {
		const call = this.chat(request);
		for await (const _ of call);
		return call.result;
	}

	/** The vectors of texts, each a Float32Array of length 1. */
	async embed(texts) {
		if (texts.length === 0) return [];
		const size = this.info.vector_size;
		const all = new Float32Array(texts.length * size);
		const args = [this.#handle, JSON.stringify({ input: texts }), all, all.length];
		const status = await onThread(c.embed, ...args);
		if (["CANCELLED", "CLOSED"].includes(codes[status])) {
			throw new QuernError(status, "it was cancelled, or the model was closed");
		}
		if (status < 0) check(c.embed(...args)); // the same error here, with its text
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
