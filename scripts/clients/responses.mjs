// Talks to a server with OpenAI's own client for Node, by the Responses API, the way its
// users and Codex do. The model answers by the scripts of the test that runs this.
//
//	node responses.mjs URL
//
// It ends with 1 and says what was wrong at the first thing that is not as OpenAI has it.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "a-secret-key", maxRetries: 0 });
const ask = { model: "any", input: "Tell me something." };
const kinds = (response) => response.output.map((item) => item.type);
const fact = "A day on Venus is longer than its year.";

// A response, whole, and as it was stored.
const whole = await client.responses.create({ ...ask, instructions: "Be brief.", metadata: { a: "b" } });
assert.equal(whole.object, "response");
assert.equal(whole.status, "completed");
assert.equal(whole.output_text, fact);
assert.deepEqual(kinds(whole), ["reasoning", "message"]);
assert.equal(whole.output[0].content[0].text, "What do they know?");
assert.equal(whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens);
const { output_text: _, ...same } = await client.responses.retrieve(whole.id);
assert.deepEqual(same.output, whole.output);
assert.deepEqual(same.metadata, { a: "b" });
const count = await client.responses.inputTokens.count({ ...ask, instructions: "Be brief." });
assert.equal(count.input_tokens, whole.usage.input_tokens);

// The same as a stream, put together by the client; the prompt is in the cache now.
const stream = client.responses.stream({ ...ask, instructions: "Be brief." });
let said = "", numbers = [];
stream.on("response.output_text.delta", (event) => (said += event.delta));
stream.on("event", (event) => numbers.push(event.sequence_number));
const streamed = await stream.finalResponse();
assert.equal(said, fact);
assert.equal(streamed.output_text, fact);
assert.deepEqual(numbers, numbers.map((_, i) => i));
assert.ok(streamed.usage.input_tokens_details.cached_tokens > 0);
assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);

// A conversation that is stored goes on; its items can be listed.
const next = await client.responses.create({ model: "any", input: "More.", previous_response_id: whole.id, stream: false });
assert.equal(next.previous_response_id, whole.id);
assert.ok(next.usage.input_tokens > whole.usage.input_tokens - 10);
const items = [];
for await (const item of client.responses.inputItems.list(next.id, { order: "asc", limit: 2 })) items.push(item);
assert.deepEqual(items.map((item) => item.type), ["message", "reasoning", "message", "message"]);
await client.responses.delete(whole.id);
await assert.rejects(client.responses.retrieve(whole.id), OpenAI.NotFoundError);

// A tool: its call, the result, the answer; and what Codex sends: tools of all kinds, and
// the conversation in full each time, since nothing is stored.
const tools = [
	{ type: "function", name: "get_time", strict: false, parameters: { type: "object", properties: { place: { type: "string" } } } },
	{ type: "custom", name: "apply_patch", description: "Edits files", format: { type: "text" } },
	{ type: "namespace", name: "mcp__git", description: "Git", tools: [{ type: "function", name: "log", strict: false, parameters: { type: "object", properties: {} } }] },
	{ type: "web_search", external_web_access: false },
];
const codex = {
	model: "any", store: false, stream: true, tools, tool_choice: "auto", parallel_tool_calls: false, instructions: "You are Codex.",
	reasoning: { effort: "medium", summary: "auto" }, include: ["reasoning.encrypted_content"], prompt_cache_key: "1234", text: { verbosity: "low" },
};
const input = [
	{ type: "message", role: "developer", content: [{ type: "input_text", text: "The sandbox is read-only." }] },
	{ type: "message", role: "user", content: [{ type: "input_text", text: "What time is it?" }] },
];
const turn = async (items) => {
	let done, output = [];
	for await (const event of await client.responses.create({ ...codex, input: items })) {
		if (event.type === "response.output_item.done") output.push(event.item);
		if (event.type === "response.completed") done = event.response;
	}
	assert.deepEqual(output, done.output);
	return output;
};
const called = await turn(input);
assert.deepEqual(called.map((item) => item.type), ["reasoning", "message", "function_call"]);
assert.equal(called[0].summary[0].text, "I have a tool for that.");
assert.ok(called[0].encrypted_content.length > 0);
assert.equal(called[2].name, "get_time");
assert.deepEqual(JSON.parse(called[2].arguments), { place: "Rome" });
const results = [...input, ...called, { type: "function_call_output", call_id: called[2].call_id, output: "12:00" }];
assert.equal((await turn(results)).at(-1).content[0].text, "It is noon in Rome.");
const patch = await turn([{ role: "user", content: "Patch it." }]);
assert.equal(patch.at(-1).type, "custom_tool_call");
assert.equal(patch.at(-1).input, "*** Begin Patch\n+1\n");
const log = await turn([{ role: "user", content: "Show the log." }]);
assert.equal(log.at(-1).namespace, "mcp__git");
assert.equal(log.at(-1).name, "log");

// In the background: polled until it is done, and cancelled.
let background = await client.responses.create({ ...ask, background: true });
while (background.status === "queued" || background.status === "in_progress") {
	await new Promise((wake) => setTimeout(wake, 20));
	background = await client.responses.retrieve(background.id);
}
assert.equal(background.status, "completed");
assert.equal(background.output_text, fact);
const long = await client.responses.create({ ...ask, background: true, ignore_eos: true });
assert.equal((await client.responses.cancel(long.id)).status, "cancelled");
assert.equal((await client.responses.retrieve(long.id)).status, "cancelled");

// In the background and streamed: another client goes on where the first one left.
const followed = await client.responses.create({ ...ask, background: true, stream: true });
let left, spoken = "";
for await (const event of followed) {
	left = { id: event.response?.id ?? left.id, after: event.sequence_number };
	if (event.sequence_number === 1) break;
}
for await (const event of await client.responses.retrieve(left.id, { stream: true, starting_after: left.after })) {
	assert.equal(event.sequence_number, ++left.after);
	if (event.type === "response.output_text.delta") spoken += event.delta;
}
assert.equal(spoken, fact);

// Log-probabilities of the text, and of nothing else.
const likely = await client.responses.create({ ...ask, include: ["message.output_text.logprobs"], top_logprobs: 2 });
const { logprobs } = likely.output.at(-1).content[0];
assert.equal(logprobs.map((token) => token.token).join("").trim(), fact);
assert.ok(logprobs.every((token) => token.logprob <= 0 && token.top_logprobs.length === 2));

// A stream that is given up; an answer that is cut short.
let events = 0;
const abandoned = await client.responses.create({ ...ask, stream: true, ignore_eos: true });
for await (const _ of abandoned) {
	if (++events === 6) abandoned.controller.abort();
}
assert.ok(events < 600);
const cut = await client.responses.create({ ...ask, max_output_tokens: 3 });
assert.equal(cut.status, "incomplete");
assert.equal(cut.incomplete_details.reason, "max_output_tokens");

// Errors have OpenAI's classes.
await assert.rejects(client.responses.create({ ...ask, temperature: "hot" }), (e) => e instanceof OpenAI.BadRequestError && /temperature/.test(e.message));
await assert.rejects(client.responses.create({ ...ask, tools: [{ type: "file_search", vector_store_ids: [] }] }), (e) => e instanceof OpenAI.BadRequestError && /file_search/.test(e.message));
await assert.rejects(client.responses.create({ ...ask, previous_response_id: "resp_none" }), OpenAI.NotFoundError);

// A PDF of one page.
const pdf = btoa(`%PDF-1.7
1 0 obj << /Type /Catalog /Pages << /Kids [2 0 R] >> >> endobj
2 0 obj << /Type /Page /Contents 3 0 R /Resources << /Font << /F << /Subtype /Type1 /BaseFont /Helvetica >> >> >> >> endobj
3 0 obj << >> stream
BT /F 12 Tf 72 720 Td (Venus turns backwards.) Tj ET
endstream endobj
trailer << /Root 1 0 R >>`);
const read = await client.responses.create({ ...ask, input: [{ role: "user", content: [
	{ type: "input_file", filename: "venus.pdf", file_data: `data:application/pdf;base64,${pdf}` },
	{ type: "input_text", text: "How does it turn?" },
] }] });
assert.equal(read.output_text, "It turns backwards.");

console.log("ok");
