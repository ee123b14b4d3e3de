// Fine-tunes a model of a server, with OpenAI's own client for Node, the way its users do.
//
//	node tune.mjs URL
//
// It ends with 1 and says what was wrong at the first thing that is not as OpenAI has it.
import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "a-secret-key", maxRetries: 0 });
const { jobs } = client.fineTuning;
const model = (await client.models.list()).data[0].id;

const numbers = ["One", "Two", "Three", "Four", "Five", "Six"];
const question = (n) => `How many hats has cat ${n}?`;
const says = (role, content) => ({ role, content });
const upload = async (name, lines) =>
	(await client.files.create({ file: await toFile(Buffer.from(lines.map((l) => JSON.stringify(l)).join("\n")), name), purpose: "fine-tune" })).id;
const examples = await upload("examples.jsonl", numbers.map((n) => ({ messages: [says("user", question(n)), says("assistant", `${n} blue hats.`)] })));
const pairs = await upload("pairs.jsonl", numbers.map((n) => ({
	input: { messages: [says("user", question(n))], tools: [], parallel_tool_calls: true },
	preferred_output: [says("assistant", `${n} blue hats.`)], non_preferred_output: [says("assistant", "No hats.")],
})));

const ended = async (job) => {
	while (!["succeeded", "failed", "cancelled"].includes(job.status)) {
		await new Promise((then) => setTimeout(then, 50));
		job = await jobs.retrieve(job.id);
	}
	return job;
};
const all = async (pages) => {
	const list = [];
	for await (const item of pages) list.push(item);
	return list;
};

// A job by examples, from its settings to its model.
const hyperparameters = { n_epochs: 100, batch_size: "auto", learning_rate_multiplier: 50 };
const begun = await jobs.create({
	model, training_file: examples, validation_file: examples, suffix: "hats", seed: 7, metadata: { for: "cats" }, integrations: null,
	method: { type: "supervised", supervised: { hyperparameters } },
});
assert.equal(begun.object, "fine_tuning.job");
assert.deepEqual([begun.seed, begun.user_provided_suffix, begun.metadata], [7, "hats", { for: "cats" }]);
assert.deepEqual(begun.method.supervised.hyperparameters, hyperparameters);
const job = await ended(begun);
assert.equal(job.status, "succeeded", JSON.stringify(job));
assert.ok(job.fine_tuned_model.startsWith(`ft:${model}:hats:`) && job.trained_tokens > 0 && job.finished_at >= job.created_at);
assert.ok(job.hyperparameters.batch_size >= 1 && job.method.supervised.hyperparameters.n_epochs === 100);
const chat = await client.chat.completions.create({ model: job.fine_tuned_model, messages: [says("user", question("Four"))], temperature: 0 });
assert.equal(chat.choices[0].message.content, "Four blue hats.");
assert.equal((await client.models.retrieve(job.fine_tuned_model)).id, job.fine_tuned_model);

// What happened, in pages, the last first; and the step whose numbers the model has.
const events = await all(jobs.listEvents(job.id, { limit: 7 }));
assert.ok(events.length > 50 && events[0].message.startsWith("The job has succeeded"));
assert.equal(new Set(events.map((e) => e.id)).size, events.length);
assert.ok(events.some((e) => e.type === "metrics" && e.data.train_loss > 0) && events.some((e) => e.data?.valid_loss > 0));
const [point, ...none] = await all(jobs.checkpoints.list(job.id));
assert.deepEqual(none, []);
assert.equal(point.fine_tuned_model_checkpoint, job.fine_tuned_model);
assert.ok(point.metrics.full_valid_loss > 0 && point.step_number === point.metrics.step);

// A job that waits, goes on and is given up.
const long = await jobs.create({ model, training_file: examples, hyperparameters: { n_epochs: 5000 } });
assert.equal((await jobs.pause(long.id)).status, "paused");
assert.match((await jobs.resume(long.id)).status, /^(queued|validating_files|running)$/);
assert.equal((await jobs.cancel(long.id)).status, "cancelled");
assert.equal((await ended(long)).status, "cancelled");
await assert.rejects(jobs.cancel(long.id), OpenAI.ConflictError);
assert.deepEqual((await all(jobs.checkpoints.list(long.id))), []);

// A job by pairs.
const dpo = await ended(await jobs.create({
	model, training_file: pairs, method: { type: "dpo", dpo: { hyperparameters: { beta: 0.3, n_epochs: 2, batch_size: "auto" } } },
}));
assert.equal(dpo.status, "succeeded", JSON.stringify(dpo));
assert.equal(dpo.method.dpo.hyperparameters.beta, 0.3);
assert.deepEqual((await all(jobs.list({ limit: 1 }))).map((j) => j.id), [dpo.id, long.id, job.id]);

// What is not taken names the field.
for (const [wrong, param] of [
	[{ method: { type: "reinforcement", reinforcement: { grader: {} } } }, "method"],
	[{ integrations: [{ type: "wandb", wandb: { project: "x" } }] }, "integrations"],
	[{ suffix: "two words" }, "suffix"],
	[{ hyperparameters: { n_epochs: 0 } }, "hyperparameters"],
]) {
	await assert.rejects(jobs.create({ model, training_file: examples, ...wrong }), (e) => e instanceof OpenAI.BadRequestError && e.param === param);
}
await assert.rejects(jobs.retrieve("ftjob-none"), OpenAI.NotFoundError);

// The model is deleted, once.
assert.deepEqual(await client.models.delete(job.fine_tuned_model), { id: job.fine_tuned_model, object: "model", deleted: true });
await assert.rejects(client.models.delete(job.fine_tuned_model), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ model: job.fine_tuned_model, messages: [says("user", "Hi")] }), OpenAI.NotFoundError);
assert.equal((await jobs.retrieve(job.id)).fine_tuned_model, job.fine_tuned_model);

console.log("ok");
