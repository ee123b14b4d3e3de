// Tests of the installed package: node --test test.mjs in the folder that has it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";
import { Device, Model, QuernError, version } from "quern";

const story = { prompt: "Once upon a time", max_tokens: 40, seed: 7 };
const phases = new Set();
const model = await Model.open("demo", { context_length: 512, progress: (e) => phases.add(e.phase) });
const code = (code) => (err) => err instanceof QuernError && err.code === code && err.message.length > 5;

test("open", () => {
	assert.ok(version);
	assert.equal(model.info.context_length, 512);
	assert.deepEqual([...phases], ["load"]);
});

test("events", async () => {
	let text = "";
	const call = model.chat({ messages: [{ role: "user", content: "Tell me a story." }], max_tokens: 40, seed: 7 });
	for await (const event of call) if (event.type === "text") text += event.text;
	assert.equal(call.result.message.content, text);
	assert.equal(call.result.usage.completion_tokens, 40);
});

test("100 at a time", async () => {
	const want = (await model.complete(story)).message;
	const all = await Promise.all(Array.from({ length: 100 }, () => model.complete(story)));
	for (const one of all) assert.deepEqual(one.message, want);
});

test("vectors", async () => {
	const v = await model.embed(["The cat sleeps.", "A cat is asleep.", "The cat sleeps."]);
	assert.deepEqual(v[0], v[2]);
	assert.notDeepEqual(v[0], v[1]);
	assert.ok(Math.abs(Math.hypot(...v[1]) - 1) < 1e-5);
	assert.deepEqual(await model.embed([]), []);
});

test("reads", async () => {
	const tokens = await model.tokenize("Once upon a time");
	assert.equal((await model.detokenize(tokens)).trim(), "Once upon a time");
	assert.deepEqual((await model.rerank("a cat", ["A dog.", "a cat"])).map((r) => r.index), [1, 0]);
	assert.equal((await model.decide("Once upon a", [" zebra", " time"]))[0].answer, " time");
	await assert.rejects(model.detokenize([-1]), code("INVALID"));
	await assert.rejects(async () => { for await (const _ of model.transcribe(Buffer.from("RIFF"))); }, code("UNSUPPORTED"));
});

test("sessions", async () => {
	const options = { max_tokens: 8, temperature: 0 };
	const session = await model.session({ ...options, messages: [{ role: "system", content: "Tell stories." }] });
	const first = await session.complete("A story of a cat, please.");
	const fork = session.fork();
	await fork.complete([{ role: "user", content: "And of a dog." }]);
	assert.deepEqual([session.messages.length, fork.messages.length], [3, 5]);
	assert.deepEqual(session.messages[2], first.message);
	await fork.save("saved");
	const again = await model.session({ ...options, restore: "saved" });
	assert.deepEqual((await again.complete("Go on.")).message, (await fork.complete("Go on.")).message);
	await session.close();
	assert.throws(() => session.fork(), code("CLOSED"));
	await assert.rejects(model.session({ restore: "/nonexistent" }), code("FILE"));
});

test("devices", async () => {
	const device = new Device({ threads: 2, memory: 2 ** 30 });
	const models = [];
	for (let i = 0; i < 2; i++) models.push(await Model.open("demo", { device, context_length: 256 }));
	assert.deepEqual((await models[0].complete(story)).message, (await models[1].complete(story)).message);
	assert.deepEqual([device.info.threads, device.info.models], [2, 2]);
	await device.close();
	await assert.rejects(models[0].complete(story), code("CLOSED"));
	assert.throws(() => new Device({ threads: -1 }), code("INVALID"));
});

test("ends", async () => {
	const call = model.chat(story);
	call.cancel();
	await assert.rejects(async () => { for await (const _ of call); }, code("CANCELLED"));
	assert.throws(() => call.cancel(), code("CLOSED"));
	for await (const _ of model.chat(story)) break;
	const other = await Model.open("demo");
	const open = other.chat(story);
	await other.close();
	await other.close();
	await assert.rejects(async () => { for await (const _ of open); }, code("CLOSED"));
	assert.throws(() => other.chat(story), code("CLOSED"));
	await assert.rejects(other.embed(["x"]), code("CLOSED"));
});

test("errors", async () => {
	await assert.rejects(Model.open("/nonexistent.gguf"), QuernError);
	await assert.rejects(Model.open("demo", { contxt_length: 5 }), /no field "contxt_length"/);
	await assert.rejects(model.complete({ prompt: "x", temprature: 1 }), /no field "temprature"/);
	await assert.rejects(model.complete({ prompt: "a long story ".repeat(1000) }), code("CONTEXT_FULL"));
	await assert.rejects(model.embed(["a long story ".repeat(1000)]), code("CONTEXT_FULL"));
	await assert.rejects(model.complete({ messages: [] }), code("INVALID"));
});

test("the program", () => {
	const args = ["run", "-n", "5", "-p", "Once"];
	const out = execFileSync("node_modules/.bin/quern", args, { encoding: "utf8", stdio: "pipe" });
	assert.match(out, / upon a time/);
});

test.after(() => model.close());
