// Talks to a server with the AI SDK and its provider for servers that are compatible with
// OpenAI's. The model answers by the scripts of the test that runs this.
//
//	node ai.mjs URL
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, cosineSimilarity, embed, embedMany, generateObject, generateText, Output, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;
const options = { name: "quern", baseURL: `${process.argv[2]}/v1`, apiKey: "a-secret-key", includeUsage: true, supportsStructuredOutputs: true };
const quern = createOpenAICompatible(options);
const ask = { model: quern("any"), prompt: "Tell me something.", maxRetries: 0 };
const fact = "A day on Venus is longer than its year.";

// A text, whole and as it comes.
const whole = await generateText(ask);
assert.equal(whole.text, fact);
assert.equal(whole.reasoningText, "What do they know?");
assert.equal(whole.finishReason, "stop");
assert.ok(whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0);
assert.equal(whole.usage.totalTokens, whole.usage.inputTokens + whole.usage.outputTokens);
assert.ok(whole.usage.outputTokenDetails.reasoningTokens > 0);
const streamed = streamText(ask);
let said = "", thought = "";
for await (const part of streamed.fullStream) {
	if (part.type === "text-delta") said += part.text;
	if (part.type === "reasoning-delta") thought += part.text;
	assert.notEqual(part.type, "error", JSON.stringify(part));
}
assert.equal(said, fact);
assert.equal(thought, whole.reasoningText);
const usage = await streamed.usage;
assert.equal(usage.outputTokens, whole.usage.outputTokens);
assert.ok(usage.inputTokenDetails.cacheReadTokens > 0, "the second time the prompt is in the cache");
const cut = await generateText({ ...ask, maxOutputTokens: 3 });
assert.equal(cut.finishReason, "length");
assert.equal(cut.usage.outputTokens, 3);
assert.equal((await generateText({ ...ask, stopSequences: ["longer"] })).text, "A day on Venus is ");

// A tool: the client runs it and gives the result back, until there is an answer.
const places = [];
const tools = {
	get_time: tool({ description: "The time of a place", inputSchema: z.object({ place: z.string() }), execute: async ({ place }) => (places.push(place), "noon") }),
};
const question = { ...ask, prompt: "What time is it in Rome?", tools, stopWhen: stepCountIs(4) };
const steps = await generateText(question);
assert.deepEqual(steps.steps.map((step) => step.finishReason), ["tool-calls", "stop"]);
assert.deepEqual(steps.steps[0].toolCalls.map((call) => [call.toolName, call.input]), [["get_time", { place: "Rome" }]]);
assert.equal(steps.text, "It is noon in Rome.");
const run = streamText(question);
let input = "";
for await (const part of run.fullStream) {
	if (part.type === "tool-input-delta") input += part.delta;
}
assert.deepEqual(JSON.parse(input), { place: "Rome" });
assert.equal(await run.text, "It is noon in Rome.");
assert.deepEqual(places, ["Rome", "Rome"]);
const forced = await generateText({ ...question, toolChoice: { type: "tool", toolName: "get_time" }, stopWhen: stepCountIs(1) });
assert.equal(forced.toolCalls[0].toolName, "get_time");
assert.equal(typeof forced.toolCalls[0].input.place, "string");
assert.equal((await generateText({ ...question, toolChoice: "none" })).toolCalls.length, 0);

// An object by a schema, whole and as it comes; one of a list of words.
const planet = z.object({ name: z.string(), moons: z.number().int().min(0) });
const described = { ...ask, prompt: "Describe a planet.", schema: planet };
const venus = { name: "Venus", moons: 0 };
assert.deepEqual((await generateObject(described)).object, venus);
const partial = streamObject(described);
let latest, before = "";
for await (const object of partial.partialObjectStream) {
	latest = object;
	assert.ok(JSON.stringify(object).length >= before.length);
	before = JSON.stringify(object);
}
assert.deepEqual(latest, venus);
assert.deepEqual(await partial.object, venus);
assert.deepEqual((await generateText({ ...ask, prompt: "Describe a planet.", output: Output.object({ schema: planet }) })).output, venus);
const word = await generateObject({ ...ask, output: "enum", enum: ["rocky", "gaseous"] });
assert.ok(["rocky", "gaseous"].includes(word.object));

// Vectors.
const texts = quern.embeddingModel("any");
const { embedding } = await embed({ model: texts, value: "a cat", maxRetries: 0 });
const { embeddings, usage: counted } = await embedMany({ model: texts, values: ["a dog", "a cat"], maxRetries: 0 });
assert.deepEqual(embeddings[1], embedding);
assert.ok(cosineSimilarity(embedding, embeddings[0]) < 0.999);
assert.ok(counted.tokens > 0);

// A stream that is given up.
const stop = new AbortController();
let parts = 0;
const long = streamText({ ...ask, abortSignal: stop.signal, providerOptions: { quern: { ignore_eos: true } } });
for await (const part of long.fullStream) {
	if (++parts === 8) stop.abort();
	if (part.type === "abort") break;
}
assert.ok(parts < 600);
await assert.rejects(generateText({ ...ask, abortSignal: AbortSignal.timeout(1), providerOptions: { quern: { ignore_eos: true } } }), (e) => /Abort|Timeout/.test(e.name));

// Errors.
const failed = (status, words) => (e) => APICallError.isInstance(e) && e.statusCode === status && words.test(e.message) && !e.isRetryable;
await assert.rejects(generateText({ ...ask, temperature: 500 }), failed(400, /temperature/));
await assert.rejects(generateObject({ ...ask, schema: z.object({ a: z.array(z.any()) }).meta({ uniqueItems: 7, minItems: "x" }) }), failed(400, /minItems|uniqueItems/));
await assert.rejects(generateText({ ...ask, messages: [{ role: "user", content: [{ type: "image", image: new Uint8Array([137, 80, 78, 71]) }] }], prompt: undefined }), failed(400, /text only/));
const stranger = createOpenAICompatible({ ...options, apiKey: "wrong-key-here" });
await assert.rejects(generateText({ ...ask, model: stranger("any") }), failed(401, /key/));

console.log("ok");
