import { callTool } from "./api.js";

// Calls of tools, which the model asks for and the reader allows.

export const refusal = "not called: the user refused";

// granted are the calls that the reader has allowed and that were not yet made. It is never stored:
// a page that was closed asks again.
export const granted = new WeakSet();

// A Run makes calls that are granted, one after the other. It stands where a Turn does while an answer
// is being written.
export class Run {
	status = { is: "calling", call: undefined };
	#abort = new AbortController();
	#calls;

	// changed is called whenever a call begins or ends.
	constructor(conversation, message, calls, changed) {
		this.conversation = conversation;
		this.message = message;
		this.changed = changed;
		this.#calls = calls;
	}

	stop() {
		this.#abort.abort();
	}

	async run({ key }) {
		const { signal } = this.#abort;
		for (const call of this.#calls) {
			if (signal.aborted) break;
			this.status.call = call;
			this.changed();
			const started = Date.now();
			try {
				const { text, media } = await callTool(call.name, call.arguments, key, signal);
				if (media.length) call.media = media;
				call.result = text;
			} catch (err) {
				if (signal.aborted) break;
				call.result = `error: ${err.message}`; // the model may try something else
			}
			call.took = Date.now() - started;
		}
		for (const call of this.#calls) granted.delete(call); // what was stopped is asked for again
		this.changed();
	}
}
