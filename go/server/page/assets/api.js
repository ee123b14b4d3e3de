// The server's HTTP API, as much of it as the page asks. Addresses are relative to the page's own, so
// that it works below any prefix.

// An ApiError is an answer that is not one: status is HTTP's, 0 if there was none; retryAfter is in
// seconds and set if it is worth asking again without being told to; fault is the server's type of the error.
export class ApiError extends Error {
	constructor(status, message, retryAfter, fault) {
		super(message);
		this.status = status;
		this.retryAfter = retryAfter;
		this.fault = fault;
	}
}

async function ask(path, key, init = {}) {
	const headers = { ...init.headers };
	if (key) headers.Authorization = `Bearer ${key}`;
	let response;
	try {
		response = await fetch(new URL(path, document.baseURI), { ...init, headers });
	} catch (err) {
		if (init.signal?.aborted) throw err;
		throw new ApiError(0, "The server cannot be reached.");
	}
	if (!response.ok) throw await refusal(response);
	return response;
}

// refusal reads an error response: the API's JSON, or whatever a proxy on the way wrote instead.
async function refusal(response) {
	const { status } = response;
	let message;
	let fault;
	try {
		({ message, type: fault } = (await response.json()).error);
	} catch {
		// not JSON, or not of that form
	}
	if (typeof message !== "string" || !message) message = `${status} ${response.statusText}`.trim();
	if (status !== 429 && status !== 503) return new ApiError(status, message, undefined, fault);
	const seconds = Number.parseInt(response.headers.get("Retry-After"), 10);
	return new ApiError(status, message, seconds >= 0 ? Math.min(seconds, 3600) : 2);
}

// models returns the models that are served: {id, chats, takes}, the last what they take besides text: image, audio. Those that do not chat compute vectors.
export async function models(key) {
	const { data } = await (await ask("v1/models", key)).json();
	return (Array.isArray(data) ? data : []).filter((model) => typeof model?.id === "string").map((model) => ({
		id: model.id,
		takes: new Set((model.architecture?.input_modalities ?? []).filter((what) => what === "image" || what === "audio")),
		chats: !model.architecture?.output_modalities?.every((what) => what === "embeddings"),
	}));
}

// props returns the context's size in tokens, the sampling parameters used where none are given, and
// whether there are tools; what the server does not say is left out.
export async function props(key) {
	const { default_generation_settings: settings, endpoint_mcp: hasTools } = await (await ask("props", key)).json();
	return { context: settings?.n_ctx, defaults: settings?.params ?? settings ?? {}, hasTools };
}

// tools returns the tools of the server's MCP servers: {server, function: {name, description, parameters}}.
export async function tools(key) {
	const { data } = await (await ask("v1/mcp/tools", key)).json();
	return Array.isArray(data) ? data.filter((tool) => typeof tool?.function?.name === "string") : [];
}

// callTool calls one of them with the JSON of its arguments, and returns what it answers: {text, media}.
export async function callTool(name, args, key, signal) {
	const response = await ask("v1/mcp/call", key, { ...json({ name, arguments: args }), signal });
	const { content, parts } = await response.json();
	const media = (Array.isArray(parts) ? parts : []).flatMap(({ image_url: image, input_audio: audio }) => {
		if (image) return [{ kind: "image", name, url: `data:image/png;base64,${image.url.split(",").at(-1)}` }]; // of whatever format
		return audio ? [{ kind: "audio", name, url: `data:audio/wav;base64,${audio.data}` }] : [];
	});
	return { text: String(content), media };
}

const json = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// chat asks for an answer and yields the chunks of it as they come. It throws an ApiError if the
// server refuses, says so midway, or stops before the end.
export async function* chat(body, key, signal) {
	const response = await ask("v1/chat/completions", key, {
		...json({
			...body,
			stream: true,
			stream_options: { include_usage: true },
			timings_per_token: true,
			return_progress: true,
		}),
		signal,
	});
	let finished = false;
	try {
		for await (const data of events(response.body)) {
			if (data === "[DONE]") return;
			const chunk = JSON.parse(data);
			if (chunk.error) throw new ApiError(chunk.error.code ?? 500, chunk.error.message ?? data);
			finished ||= Boolean(chunk.choices?.[0]?.finish_reason);
			yield chunk;
		}
	} catch (err) {
		if (signal.aborted || err instanceof ApiError) throw err;
		if (err instanceof SyntaxError) throw new ApiError(0, "The server sent something that is not JSON.");
		throw new ApiError(0, "The connection broke before the answer was complete.");
	}
	if (!finished) throw new ApiError(0, "The connection ended before the answer was complete.");
}

// events yields the data of server-sent events. Comments, which keep the connection open, and other
// fields are passed over.
export async function* events(stream) {
	let rest = "";
	let data = [];
	for await (const text of texts(stream)) {
		const lines = (rest + text).split("\n");
		rest = lines.pop();
		for (const ended of lines) {
			const line = ended.endsWith("\r") ? ended.slice(0, -1) : ended;
			if (line.startsWith("data:")) {
				data.push(line.slice(line[5] === " " ? 6 : 5));
			} else if (line === "" && data.length) {
				yield data.join("\n");
				data = [];
			}
		}
	}
}

// texts decodes a stream of bytes. (Streams are not iterable everywhere.)
async function* texts(stream) {
	const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
	try {
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			yield value;
		}
	} finally {
		reader.cancel().catch(() => {}); // the reader of the text may have stopped early
	}
}
