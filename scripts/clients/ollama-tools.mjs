// Talks to a server with Ollama's own client for Node: thoughts, tools, forms and log-probabilities. The model answers
// by the scripts of the test that runs this.
//
//	node ollama-tools.mjs URL
import assert from "node:assert/strict";
import { Ollama } from "ollama";

const client = new Ollama({ host: process.argv[2], headers: { Authorization: "Bearer a-secret-key" } });
const fact = "A day on Venus is longer than its year.";
const says = (content) => [{ role: "user", content }];
const ask = { model: (await client.list()).models[0].name, options: { temperature: 0 } };

// All of a stream, put together.
async function streamed(request) {
	const all = { content: "", thinking: "", calls: [], logprobs: [] };
	for await (const part of await client.chat({ ...request, stream: true })) {
		all.content += part.message.content;
		all.thinking += part.message.thinking ?? "";
		all.calls.push(...(part.message.tool_calls ?? []));
		all.logprobs.push(...(part.logprobs ?? []));
		all.last = part;
	}
	return all;
}

// Thoughts apart from the answer, whole and as they come; and none.
const whole = await client.chat({ ...ask, messages: says("Tell me something."), think: true });
assert.equal(whole.message.content, fact);
assert.equal(whole.message.thinking, "What do they know?");
assert.equal(whole.done_reason, "stop");
const parts = await streamed({ ...ask, messages: says("Tell me something."), think: true });
assert.equal(parts.content, fact);
assert.equal(parts.thinking, whole.message.thinking);
assert.equal(parts.last.eval_count, whole.eval_count);
const plain = await client.chat({ ...ask, messages: says("Tell me something."), think: false });
assert.equal(plain.message.content, fact);
assert.ok(!plain.message.thinking);
const generated = await client.generate({ ...ask, prompt: "Tell me something.", think: true });
assert.equal(generated.response, fact);
assert.equal(generated.thinking, whole.message.thinking);

// A tool: its call, the result, the answer.
const tools = [{ type: "function", function: { name: "get_time", description: "The time", parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] } } }];
const question = says("What time is it in Rome?");
const called = await client.chat({ ...ask, messages: question, tools });
assert.deepEqual(called.message.tool_calls.map((call) => [call.function.name, call.function.arguments]), [["get_time", { place: "Rome" }]]);
assert.equal(called.message.content, "One moment.");
assert.equal(called.message.thinking, "I have a tool for that.");
const run = await streamed({ ...ask, messages: question, tools });
assert.deepEqual(run.calls.map((call) => call.function), called.message.tool_calls.map((call) => call.function));
assert.equal(run.content, called.message.content);
const answer = await client.chat({ ...ask, tools, messages: [...question, called.message, { role: "tool", tool_name: "get_time", content: "noon" }] });
assert.equal(answer.message.content, "It is noon in Rome.");

// An object by a schema, and any object.
const format = { type: "object", properties: { name: { type: "string" }, moons: { type: "integer", minimum: 0, maximum: 99 } }, required: ["name", "moons"] };
const venus = { name: "Venus", moons: 0 };
assert.deepEqual(JSON.parse((await client.chat({ ...ask, messages: says("Describe a planet."), format })).message.content), venus);
assert.deepEqual(JSON.parse((await streamed({ ...ask, messages: says("Describe a planet."), format: "json" })).content), venus);
assert.deepEqual(JSON.parse((await client.generate({ ...ask, prompt: "Describe a planet.", format })).response), venus);
const other = JSON.parse((await client.chat({ ...ask, think: false, messages: says("What is Venus?"), format })).message.content); // to which the answer would be a text
assert.ok(typeof other.name === "string" && Number.isInteger(other.moons), JSON.stringify(other));
await assert.rejects(client.chat({ ...ask, messages: question, format: { type: "integer", multipleOf: 123456789 } }), (e) => e.status_code === 400 && /multipleOf/.test(e.message));

// Log-probabilities, whole and as they come.
const probable = { ...ask, messages: says("Tell me something."), think: false, logprobs: true, top_logprobs: 2 };
const logs = (await client.chat(probable)).logprobs;
assert.equal(logs.map((log) => log.token).join("").trim(), fact);
for (const log of logs) assert.ok(log.logprob <= 0 && log.top_logprobs.length === 2 && log.top_logprobs[0].logprob >= log.logprob - 1e-6);
assert.deepEqual((await streamed(probable)).logprobs, logs);

console.log("ok");
