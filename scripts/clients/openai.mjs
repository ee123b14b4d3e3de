// Talks to a server with OpenAI's own client for Node, the way its users do.
//
//	node openai.mjs URL
//
// It ends with 1 and says what was wrong at the first thing that is not as OpenAI has it.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "a-secret-key", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Tell me a story about a dog." }];
const ask = { model, messages, temperature: 0, max_tokens: 24 };

// A chat, whole.
const chat = await client.chat.completions.create(ask);
assert.equal(chat.object, "chat.completion");
assert.equal(chat.choices[0].message.role, "assistant");
assert.ok(chat.choices[0].message.content.length > 0);
assert.match(chat.choices[0].finish_reason, /^(stop|length)$/);
assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + chat.usage.completion_tokens);

// The same as a stream: the pieces are the whole, usage comes last.
let text = "", usage, finish;
for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
	text += chunk.choices[0]?.delta?.content ?? "";
	finish = chunk.choices[0]?.finish_reason ?? finish;
	usage = chunk.usage ?? usage;
}
assert.equal(text, chat.choices[0].message.content);
assert.equal(finish, chat.choices[0].finish_reason);
assert.equal(usage.completion_tokens, chat.usage.completion_tokens);
assert.ok(usage.prompt_tokens_details.cached_tokens > 0, "the second time the prompt is in the cache");

// The helper that puts a stream together.
const helper = client.chat.completions.stream(ask);
assert.equal(await helper.finalContent(), text);

// A stream that is given up.
let pieces = 0;
const abandoned = await client.chat.completions.create({ ...ask, max_tokens: 400, stream: true });
for await (const _ of abandoned) {
	if (++pieces === 3) abandoned.controller.abort();
}
assert.ok(pieces < 400); // some had come already

// Logprobs.
const logs = await client.chat.completions.create({ ...ask, max_tokens: 4, logprobs: true, top_logprobs: 3 });
assert.equal(logs.choices[0].logprobs.content.length, 4);
for (const token of logs.choices[0].logprobs.content) {
	assert.equal(token.top_logprobs.length, 3);
	assert.equal(token.top_logprobs[0].token, token.token);
	assert.ok(token.logprob <= 0 && token.logprob === token.top_logprobs[0].logprob);
	assert.equal(Buffer.from(token.bytes).toString(), token.token);
}

// An answer that is kept: had again, found by its metadata, with its messages, labelled, deleted.
const kept = await client.chat.completions.create({ ...ask, store: true, metadata: { kind: "story" } });
const again = await client.chat.completions.retrieve(kept.id);
assert.deepEqual(again.choices, kept.choices);
assert.deepEqual(again.metadata, { kind: "story" });
const found = [];
for await (const one of client.chat.completions.list({ metadata: { kind: "story" } })) found.push(one.id);
assert.deepEqual(found, [kept.id]);
const asked = [];
for await (const message of client.chat.completions.messages.list(kept.id)) asked.push(message.content);
assert.deepEqual(asked, [messages[0].content]);
assert.deepEqual((await client.chat.completions.update(kept.id, { metadata: { kind: "tale" } })).metadata, { kind: "tale" });
assert.equal((await client.chat.completions.delete(kept.id)).deleted, true);
await assert.rejects(client.chat.completions.retrieve(kept.id), OpenAI.NotFoundError);

// Several answers; the same seed gives the same ones.
const several = { ...ask, n: 3, temperature: 1, seed: 7 };
const [a, b] = await Promise.all([client.chat.completions.create(several), client.chat.completions.create(several)]);
assert.deepEqual(a.choices.map((c) => c.message.content), b.choices.map((c) => c.message.content));
assert.deepEqual(a.choices.map((c) => c.index), [0, 1, 2]);
assert.ok(new Set(a.choices.map((c) => c.message.content)).size > 1);

// Stop words, and a text.
const format = (schema) => ({ type: "json_schema", json_schema: { name: "person", strict: true, schema } });
const person = { type: "object", properties: { name: { type: "string", maxLength: 8 }, age: { type: "integer", minimum: 0, maximum: 150 } }, required: ["name", "age"], additionalProperties: false };
const shaped = JSON.parse((await client.chat.completions.create({ ...ask, max_tokens: 100, temperature: 2, response_format: format(person) })).choices[0].message.content);
assert.deepEqual(Object.keys(shaped), ["name", "age"]);
assert.ok(typeof shaped.name === "string" && Number.isInteger(shaped.age) && shaped.age >= 0 && shaped.age <= 150, JSON.stringify(shaped));
await assert.rejects(client.chat.completions.create({ ...ask, response_format: format({ type: "integer", multipleOf: 123456789 }) }), (e) => e instanceof OpenAI.BadRequestError && e.param === "response_format" && /multipleOf/.test(e.message));

const stopped = await client.chat.completions.create({ ...ask, stop: text.slice(4, 8) });
assert.equal(stopped.choices[0].message.content, text.slice(0, text.indexOf(text.slice(4, 8))));
assert.equal(stopped.choices[0].finish_reason, "stop");
const completion = await client.completions.create({ model, prompt: "Once upon a time", max_tokens: 8, temperature: 0, echo: true });
assert.ok(completion.choices[0].text.startsWith("Once upon a time"));

// Many at a time.
const many = await Promise.all(Array.from({ length: 12 }, () => client.chat.completions.create(ask)));
for (const answer of many) assert.equal(answer.choices[0].message.content, text);

// Vectors: the client asks for base64 by itself, and makes numbers of it.
const one = await client.embeddings.create({ model, input: "a cat" });
const floats = await client.embeddings.create({ model, input: ["a dog", "a cat"], encoding_format: "float" });
assert.equal(one.data[0].embedding.length, floats.data[1].embedding.length);
one.data[0].embedding.forEach((x, i) => assert.ok(Math.abs(x - floats.data[1].embedding[i]) < 1e-7));
assert.equal(floats.data[1].index, 1);
assert.ok(one.usage.prompt_tokens > 0 && one.usage.total_tokens === one.usage.prompt_tokens);
await assert.rejects(client.embeddings.create({ model, input: [] }), OpenAI.BadRequestError);

// Errors have OpenAI's classes.
await assert.rejects(client.chat.completions.create({ ...ask, temperature: "hot" }), (e) => e instanceof OpenAI.BadRequestError && /temperature/.test(e.message));
await assert.rejects(client.chat.completions.create({ ...ask, messages: [] }), OpenAI.BadRequestError);
await assert.rejects(client.models.retrieve("no-such-model"), OpenAI.NotFoundError);
await assert.rejects(new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "wrong-key-here", maxRetries: 0 }).chat.completions.create(ask), OpenAI.AuthenticationError);

console.log("ok");
