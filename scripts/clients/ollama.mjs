// Talks to a server with Ollama's own client for Node, the way its users do.
//
//	node ollama.mjs URL
//
// It ends with 1 and says what was wrong at the first thing that is not as Ollama has it.
import assert from "node:assert/strict";
import { Ollama } from "ollama";

const headers = { Authorization: "Bearer a-secret-key" };
const client = new Ollama({ host: process.argv[2], headers });

// Models.
const { models } = await client.list();
assert.equal(models.length, 1);
const model = models[0].name;
assert.match(model, /:latest$/);
assert.ok(models[0].size > 0 && new Date(models[0].modified_at) > 0);
const shown = await client.show({ model });
assert.ok(shown.capabilities.includes("completion"));
assert.ok(shown.model_info["llama.context_length"] > 0);
assert.equal((await client.ps()).models[0].name, model);
assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);

// A chat, whole, and the same as it comes.
const messages = [{ role: "user", content: "Tell me a story about a dog." }];
const ask = { model, messages, options: { temperature: 0, num_predict: 24 }, keep_alive: "5m" };
const chat = await client.chat(ask);
assert.equal(chat.message.role, "assistant");
assert.ok(chat.message.content.length > 0 && chat.done && chat.eval_count > 0 && chat.prompt_eval_count > 0);
assert.match(chat.done_reason, /^(stop|length)$/);
assert.ok(chat.total_duration >= chat.eval_duration && chat.eval_duration > 0);
let text = "", last;
for await (const part of await client.chat({ ...ask, stream: true })) {
	text += part.message.content;
	last = part;
}
assert.equal(text, chat.message.content);
assert.equal(last.eval_count, chat.eval_count);

// A text, and one that goes on from it.
const first = await client.generate({ model, prompt: "Once upon a time", options: { temperature: 0, num_predict: 8 } });
assert.ok(first.response.length > 0 && first.context.length > 8);
const second = await client.generate({ model, prompt: "And then?", context: first.context, options: { num_predict: 4 } });
assert.ok(second.prompt_eval_count > first.context.length);
assert.equal((await client.generate({ model, prompt: "" })).done_reason, "load");

// Vectors.
const vectors = await client.embed({ model, input: ["a cat", "a dog"] });
assert.equal(vectors.embeddings.length, 2);
assert.ok(Math.abs(Math.hypot(...vectors.embeddings[0]) - 1) < 1e-5);
assert.equal((await client.embeddings({ model, prompt: "a cat" })).embedding.length, vectors.embeddings[0].length);

// A stream that is given up.
const own = new Ollama({ host: process.argv[2], headers });
let pieces = 0;
await assert.rejects(async () => {
	for await (const _ of await own.chat({ ...ask, options: { num_predict: 400 }, stream: true })) {
		if (++pieces === 3) own.abort();
	}
}, { name: "AbortError" });

// Errors.
await assert.rejects(client.chat({ ...ask, options: { temperature: "hot" } }), (e) => e.status_code === 400 && /temperature/.test(e.message));
await assert.rejects(client.show({ model: "no-such-model" }), (e) => e.status_code === 404 && /no-such-model/.test(e.message));
await assert.rejects(client.chat({ ...ask, messages: [{ role: "user", content: "a", images: ["aGk="] }] }), /reads text only/);

console.log("ok");
