// Talks to a server with Anthropic's own client for Node, the way its users and Claude Code
// do. The model answers by the scripts of the test that runs this.
//
//	node anthropic.mjs URL
//
// It ends with 1 and says what was wrong at the first thing that is not as Anthropic has it.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";

const options = { baseURL: process.argv[2], apiKey: "a-secret-key", maxRetries: 0 };
const client = new Anthropic(options);
const ask = { model: "any", max_tokens: 200, messages: [{ role: "user", content: "Tell me something." }] };
const kinds = (message) => message.content.map((block) => block.type);

// A message, whole.
const whole = await client.messages.create(ask);
assert.equal(whole.type, "message");
assert.equal(whole.role, "assistant");
assert.deepEqual(kinds(whole), ["thinking", "text"]);
assert.equal(whole.content[0].thinking, "What do they know?");
assert.ok(whole.content[0].signature.length > 0);
assert.equal(whole.content[1].text, "A day on Venus is longer than its year.");
assert.equal(whole.stop_reason, "end_turn");
assert.equal(whole.stop_sequence, null);
assert.ok(whole.usage.output_tokens > 0);
assert.ok(whole._request_id.startsWith("req_"));

// Tokens are counted as they are in the usage.
const counted = await client.messages.countTokens({ model: ask.model, messages: ask.messages });
assert.equal(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);

// The same as a stream, put together by the client; the prompt is in the cache now.
const stream = client.messages.stream(ask);
let said = "", thought = "";
stream.on("text", (piece) => (said += piece)).on("thinking", (piece) => (thought += piece));
const streamed = await stream.finalMessage();
assert.deepEqual(streamed.content, whole.content);
assert.equal(said, whole.content[1].text);
assert.equal(thought, whole.content[0].thinking);
assert.equal(streamed.stop_reason, "end_turn");
assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
assert.ok(streamed.usage.cache_read_input_tokens > 0);

// Thinking can be turned off, and an answer cut short or stopped.
const plain = await client.messages.create({ ...ask, thinking: { type: "disabled" } });
assert.deepEqual(kinds(plain), ["text"]);
const cut = await client.messages.create({ ...ask, max_tokens: 3 });
assert.equal(cut.stop_reason, "max_tokens");
assert.equal(cut.usage.output_tokens, 3);
const stopped = await client.messages.create({ ...ask, stop_sequences: ["longer"] });
assert.equal(stopped.stop_reason, "stop_sequence");
assert.equal(stopped.stop_sequence, "longer");
assert.equal(stopped.content[1].text, "A day on Venus is ");

// A tool: its call, the result, the answer.
const tools = [
	{ name: "get_time", description: "The time of a place", input_schema: { type: "object", properties: { place: { type: "string" } }, required: ["place"] } },
	{ name: "get_weather", input_schema: { type: "object", properties: {} }, cache_control: { type: "ephemeral" } },
];
const call = await client.messages.stream({ ...ask, tools }).finalMessage();
assert.deepEqual(kinds(call), ["thinking", "text", "tool_use"]);
assert.equal(call.stop_reason, "tool_use");
const use = call.content[2];
assert.equal(use.name, "get_time");
assert.deepEqual(use.input, { place: "Rome" });
assert.deepEqual((await client.messages.create({ ...ask, tools })).content[2].input, use.input);
const result = { type: "tool_result", tool_use_id: use.id, content: [{ type: "text", text: "12:00" }] };
const turns = [...ask.messages, { role: "assistant", content: call.content }, { role: "user", content: [result] }];
const answer = await client.messages.create({ ...ask, tools, messages: turns });
assert.equal(answer.content.at(-1).text, "It is noon in Rome.");
assert.equal(answer.stop_reason, "end_turn");

// An answer by a schema, by the client's own helper as well, as a stream, and as it was asked for at first.
const schema = { type: "object", properties: { name: { type: "string" }, moons: { type: "integer", minimum: 0, maximum: 99 } }, required: ["name", "moons"], additionalProperties: false };
const format = { type: "json_schema", schema };
const planet = { ...ask, messages: [{ role: "user", content: "Describe a planet." }] };
const venus = { name: "Venus", moons: 0 };
assert.deepEqual(JSON.parse((await client.messages.create({ ...planet, output_config: { format } })).content.at(-1).text), venus);
assert.deepEqual((await client.messages.parse({ ...planet, output_config: { format: jsonSchemaOutputFormat(schema) } })).parsed_output, venus);
assert.deepEqual(JSON.parse(await client.messages.stream({ ...planet, output_config: { format } }).finalText()), venus);
assert.deepEqual(JSON.parse((await client.messages.create({ ...planet, output_format: format })).content.at(-1).text), venus);
const other = JSON.parse((await client.messages.create({ ...ask, thinking: { type: "disabled" }, output_config: { format } })).content.at(-1).text); // to which the answer would be a text
assert.ok(typeof other.name === "string" && Number.isInteger(other.moons), JSON.stringify(other));
const multiple = { type: "json_schema", schema: { type: "integer", multipleOf: 123456789 } };
await assert.rejects(client.messages.create({ ...ask, output_config: { format: multiple } }), (e) => e instanceof Anthropic.BadRequestError && /multipleOf/.test(e.message));

// What Claude Code sends: a beta, an attribution that differs each time, a system prompt in
// blocks, reminders among the messages. All but the last turn comes from the cache.
const claude = (attribution, messages) => client.beta.messages.create({
	model: "claude-any", max_tokens: 20, betas: ["claude-code-20250219", "mid-conversation-system-2026-04-07"],
	system: [
		{ type: "text", text: `x-anthropic-billing-header: cc_version=2.1.37.${attribution}; cc_entrypoint=cli; cch=${attribution};` },
		{ type: "text", text: "You are Claude Code. " + "Be careful with files. ".repeat(20), cache_control: { type: "ephemeral" } },
	],
	messages, tools: tools.map((tool) => ({ ...tool, eager_input_streaming: true })), thinking: { type: "adaptive" },
	metadata: { user_id: "user" }, context_management: { edits: [] }, output_config: { effort: "high" },
});
const first = await claude("0d9a1", ask.messages);
assert.equal(first.usage.cache_creation_input_tokens, 0);
const later = await claude("fa690", [...ask.messages, { role: "assistant", content: first.content }, { role: "user", content: "Go on." }, { role: "system", content: "90 tokens left" }]);
const all = later.usage.input_tokens + later.usage.cache_read_input_tokens;
assert.ok(later.usage.cache_read_input_tokens > 0.8 * (first.usage.input_tokens + first.usage.cache_read_input_tokens), JSON.stringify([first.usage, later.usage]));
assert.ok(all > 200);

// A stream that is given up.
let events = 0;
const abandoned = await client.messages.create({ ...ask, max_tokens: 600, stream: true, ignore_eos: true });
for await (const _ of abandoned) {
	if (++events === 4) abandoned.controller.abort();
}
assert.ok(events < 600);

// Errors have Anthropic's classes and types.
const image = [{ role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "aaaa" } }] }];
await assert.rejects(client.messages.create({ ...ask, messages: image }), (e) => e instanceof Anthropic.BadRequestError && /text only/.test(e.message) && e.type === "invalid_request_error");
await assert.rejects(client.messages.create({ model: "any", messages: ask.messages }), (e) => e instanceof Anthropic.BadRequestError && /max_tokens/.test(e.message));
await assert.rejects(client.messages.create({ ...ask, temperature: "hot" }), Anthropic.BadRequestError);
await assert.rejects(client.models.retrieve("no-such-model"), Anthropic.NotFoundError);
await assert.rejects(new Anthropic({ ...options, apiKey: "wrong-key-here" }).messages.create(ask), (e) => e instanceof Anthropic.AuthenticationError && e.type === "authentication_error");
const bearer = new Anthropic({ ...options, apiKey: null, authToken: "a-secret-key" });
assert.equal((await bearer.messages.create(ask)).content[1].text, whole.content[1].text);
assert.ok((await client.models.list()).data[0].id.length > 0);

// A PDF of one page.
const pdf = btoa(`%PDF-1.7
1 0 obj << /Type /Catalog /Pages << /Kids [2 0 R] >> >> endobj
2 0 obj << /Type /Page /Contents 3 0 R /Resources << /Font << /F << /Subtype /Type1 /BaseFont /Helvetica >> >> >> >> endobj
3 0 obj << >> stream
BT /F 12 Tf 72 720 Td (Venus turns backwards.) Tj ET
endstream endobj
trailer << /Root 1 0 R >>`);
const read = await client.messages.create({ ...ask, messages: [{ role: "user", content: [
	{ type: "document", title: "venus.pdf", source: { type: "base64", media_type: "application/pdf", data: pdf } },
	{ type: "text", text: "How does it turn?" },
] }] });
assert.equal(read.content.at(-1).text, "It turns backwards.");

console.log("ok");
