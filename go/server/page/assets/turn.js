import { ApiError, chat } from "./api.js";
import { branch, callsOf } from "./conversation.js";
import { refusal } from "./tools.js";

const alternatives = 5; // to each token, where probabilities are asked for
const maxTokens = 4096; // of which an answer keeps the probabilities

// A Turn writes one answer. A server that is busy or still loading its model is asked again when it
// said to, until the reader stops it; any other error ends the turn and stays in the message, with
// what was written before it.
export class Turn {
	status = { is: "waiting" }; // or reading {done}, writing, busy {message, until}
	#abort = new AbortController();
	#pieces = 0;
	#first = 0; // when the first piece came, of the answer or its reasoning
	#thinking = 0;
	#decoder = new TextDecoder(); // of tokens, which may end within a character

	// changed is called whenever the message or the status did.
	constructor(conversation, message, changed) {
		this.conversation = conversation;
		this.message = message;
		this.started = Date.now();
		this.changed = changed;
	}

	stop() {
		this.#abort.abort();
	}

	async run(settings) {
		const { message } = this;
		const { signal } = this.#abort;
		const clock = setInterval(this.changed, 1000); // the view shows seconds
		try {
			const body = request(this.conversation, message, settings);
			while (!(await this.#attempt(body, settings.key))) await this.#wait();
		} catch (err) {
			if (signal.aborted) {
				message.finish = "stopped";
			} else {
				message.finish = "error";
				message.error = err.message;
				message.status = err.status;
				if (typeof err.fault === "string") message.fault = err.fault;
				if (!(err instanceof ApiError)) console.error(err);
			}
		} finally {
			clearInterval(clock);
			this.#stopThinking();
			this.changed();
		}
	}

	// #attempt returns false if the server asked to come again.
	async #attempt(body, key) {
		try {
			for await (const chunk of chat(body, key, this.#abort.signal)) this.#take(chunk);
			this.message.finish ??= "stop";
			return true;
		} catch (err) {
			if (err.retryAfter === undefined || this.#pieces) throw err;
			this.status = { is: "busy", message: err.message, until: Date.now() + 1000 * err.retryAfter };
			this.changed();
			return false;
		}
	}

	#wait() {
		const { signal } = this.#abort;
		return new Promise((resolve, reject) => {
			const stop = () => reject(signal.reason);
			if (signal.aborted) return stop();
			signal.addEventListener("abort", stop, { once: true });
			setTimeout(() => {
				signal.removeEventListener("abort", stop);
				this.status = { is: "waiting" };
				resolve();
			}, this.status.until - Date.now());
		});
	}

	#take(chunk) {
		const { message } = this;
		const choice = chunk.choices?.[0];
		const { content, reasoning_content: reasoning } = choice?.delta ?? {};
		const calls = choice?.delta?.tool_calls;
		if (content || reasoning || calls) {
			this.#pieces++;
			this.#first ||= Date.now();
			this.status = { is: "writing" };
		}
		if (reasoning) {
			this.#thinking ||= Date.now();
			message.reasoning = (message.reasoning ?? "") + reasoning;
		}
		if (content) {
			this.#stopThinking();
			message.content += content;
		}
		if (calls) {
			this.#stopThinking();
			for (const delta of calls) this.#call(delta);
		}
		for (const token of choice?.logprobs?.content ?? []) this.#token(token);
		if (choice?.finish_reason) message.finish = choice.finish_reason;
		const { prompt_progress: progress } = chunk;
		if (progress?.total && this.status.is !== "writing") {
			this.status = { is: "reading", done: progress.processed / progress.total };
		}
		this.#count(chunk);
		this.changed();
	}

	#call({ index, id, function: { name, arguments: args } }) {
		const calls = (this.message.calls ??= []);
		const call = (calls[index] ??= { id, name, arguments: "" });
		call.arguments += args ?? "";
	}

	#token({ bytes, logprob, top_logprobs: likeliest }) {
		const tokens = (this.message.tokens ??= []);
		if (tokens.length === maxTokens) return;
		const text = this.#decoder.decode(Uint8Array.from(bytes), { stream: true });
		tokens.push([text, logprob, likeliest.map((t) => [t.token, t.logprob])]);
	}

	#stopThinking() {
		if (this.#thinking) this.message.thought = (this.message.thought ?? 0) + Date.now() - this.#thinking;
		this.#thinking = 0;
	}

	// #count keeps the server's numbers. Where it sends none until the end, a piece counts as a token.
	#count({ timings, usage }) {
		const stats = (this.message.stats ??= {});
		if (timings) {
			stats.cached = timings.cache_n ?? 0;
			stats.prompt = stats.cached + timings.prompt_n;
			stats.promptMs = timings.prompt_ms;
			stats.predicted = timings.predicted_n;
			stats.speed = timings.predicted_per_second;
			stats.drafted = timings.draft_n;
			stats.accepted = timings.draft_n_accepted;
		} else if (usage) {
			stats.prompt = usage.prompt_tokens;
			stats.predicted = usage.completion_tokens;
		} else if (stats.promptMs === undefined) {
			stats.predicted = this.#pieces;
			const seconds = (Date.now() - this.#first) / 1000;
			if (this.#pieces > 1 && seconds > 0) stats.speed = (this.#pieces - 1) / seconds;
		}
	}
}

// request returns the body that asks for message, the answer to those before it.
function request(conversation, message, settings) {
	const before = branch(conversation).filter((m) => m !== message);
	const question = before.findLastIndex((m) => m.role === "user");
	const messages = before.flatMap((m, i) => wire(m, i > question));
	if (settings.system) messages.unshift({ role: "system", content: settings.system });
	const body = { messages, ...settings.sampling };
	if (settings.model) body.model = settings.model;
	if (settings.tools.length) body.tools = settings.tools;
	if (settings.schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: settings.schema } };
	if (settings.probabilities) Object.assign(body, { logprobs: true, top_logprobs: alternatives });
	return body;
}

// wire returns a message as the API takes it, and after it the results of its calls. Thoughts are sent
// back only within the answer that is being written: between calls a model goes on from them.
function wire(message, current) {
	const { role, content, reasoning } = message;
	const calls = callsOf(message);
	const media = partsOf(message.media);
	const sent = { role, content: media.length ? [...media, ...(content ? [{ type: "text", text: content }] : [])] : content };
	if (!calls.length) return [sent];
	if (reasoning && current) sent.reasoning_content = reasoning;
	sent.tool_calls = calls.map(({ id, name, arguments: args }) => ({ id, type: "function", function: { name, arguments: args } }));
	const results = calls.map(({ id, name, result, media: shown }) => ({
		role: "tool", tool_call_id: id, name,
		content: shown?.length ? [{ type: "text", text: result }, ...partsOf(shown)] : result ?? refusal,
	}));
	return [sent, ...results];
}

// partsOf returns media as the API takes them.
const partsOf = (media) => (media ?? []).map(({ kind, url }) => (kind === "image"
	? { type: "image_url", image_url: { url } } : { type: "audio_url", audio_url: { url } }));
