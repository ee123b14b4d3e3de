// Runs two coding agents' loops against a server, as Claude Code and Codex run theirs: each
// turn streamed, each tool run by the client, the whole conversation sent again. The model
// answers by the scripts of the test that runs this.
//
//	node agents.mjs URL
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

// What the tools answer, and what the model says after the last.
const files = { "main.go": "package main\n\nfunc main() {}\n" };
const run = (name, input) => {
	if (name === "list_files") return Object.keys(files).join("\n");
	if (name === "read_file") return files[input.path];
	assert.equal(name, "apply_patch");
	return `patched: ${input.input ?? input}`;
};
const wanted = ["list_files", "read_file", "apply_patch"];
const last = "The comment is there now.";
const rules = "Be careful with files. ".repeat(20);
const parameters = { type: "object", properties: { path: { type: "string" } } };
const patch = "*** Begin Patch\n+// main does nothing.\n*** End Patch\n";

async function claude() {
	const client = new Anthropic({ baseURL: process.argv[2], apiKey: "a-secret-key", maxRetries: 0 });
	const tools = ["list_files", "read_file"].map((name) => ({ name, description: name, input_schema: parameters }));
	tools.push({ name: "apply_patch", input_schema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] } });
	const messages = [{ role: "user", content: [{ type: "text", text: "Comment the program." }] }];
	const called = [], cached = [], prompts = [];
	for (let turn = 0; turn < 8; turn++) {
		for (const message of messages) for (const block of message.content) delete block.cache_control; // the mark moves to the end
		messages.at(-1).content.at(-1).cache_control = { type: "ephemeral" };
		const stream = client.beta.messages.stream({
			model: "claude-any", max_tokens: 400, betas: ["claude-code-20250219"], messages, tools, thinking: { type: "adaptive" },
			system: [
				{ type: "text", text: `x-anthropic-billing-header: cc_version=2.1.37.${turn}; cc_entrypoint=cli; cch=${turn}${turn};` },
				{ type: "text", text: "You are Claude Code. " + rules, cache_control: { type: "ephemeral" } },
			],
		});
		const inputs = {}; // as a terminal shows them while they come
		stream.on("streamEvent", (event) => {
			if (event.type === "content_block_delta" && event.delta.type === "input_json_delta") inputs[event.index] = (inputs[event.index] ?? "") + event.delta.partial_json;
		});
		const message = await stream.finalMessage();
		cached.push(message.usage.cache_read_input_tokens);
		prompts.push(message.usage.cache_read_input_tokens + message.usage.input_tokens);
		messages.push({ role: "assistant", content: message.content });
		if (message.stop_reason === "end_turn") {
			assert.equal(message.content.at(-1).text, last);
			break;
		}
		assert.equal(message.stop_reason, "tool_use");
		const results = [];
		message.content.forEach((block, i) => {
			if (block.type !== "tool_use") return;
			assert.deepEqual(JSON.parse(inputs[i]), block.input);
			called.push(block.name);
			results.push({ type: "tool_result", tool_use_id: block.id, content: run(block.name, block.input) });
		});
		messages.push({ role: "user", content: results });
	}
	assert.deepEqual(called, wanted);
	// All of a turn's prompt is in the cache when the next one comes.
	for (let i = 1; i < cached.length; i++) assert.ok(cached[i] > cached[i - 1] && cached[i] >= 0.9 * prompts[i - 1], JSON.stringify({ cached, prompts }));
}

async function codex() {
	const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "a-secret-key", maxRetries: 0 });
	const tools = [
		...["list_files", "read_file"].map((name) => ({ type: "function", name, strict: false, parameters })),
		{ type: "custom", name: "apply_patch", description: "Edits files", format: { type: "text" } },
	];
	const input = [{ type: "message", role: "user", content: [{ type: "input_text", text: "Comment the program." }] }];
	const called = [], cached = [], prompts = [];
	for (let turn = 0; turn < 8; turn++) {
		const stream = await client.responses.create({
			model: "any", store: false, stream: true, tools, tool_choice: "auto", parallel_tool_calls: true, instructions: "You are Codex. " + rules, input,
			reasoning: { effort: "medium", summary: "auto" }, include: ["reasoning.encrypted_content"], prompt_cache_key: "a-conversation",
		});
		const calls = [];
		let text = "", deltas = "";
		for await (const event of stream) {
			if (event.type === "response.function_call_arguments.delta" || event.type === "response.custom_tool_call_input.delta") deltas += event.delta;
			if (event.type === "response.output_item.done") {
				input.push(event.item);
				if (event.item.type.endsWith("_call")) calls.push(event.item);
				if (event.item.type === "message") text += event.item.content[0].text;
			}
			if (event.type === "response.completed") {
				cached.push(event.response.usage.input_tokens_details.cached_tokens);
				prompts.push(event.response.usage.input_tokens);
			}
		}
		if (calls.length === 0) {
			assert.equal(text, last);
			break;
		}
		assert.equal(deltas, calls.map((call) => call.input ?? call.arguments).join(""));
		for (const call of calls) {
			called.push(call.name);
			if (call.type === "custom_tool_call") {
				assert.equal(call.input, patch);
				input.push({ type: "custom_tool_call_output", call_id: call.call_id, output: run(call.name, call.input) });
			} else {
				input.push({ type: "function_call_output", call_id: call.call_id, output: run(call.name, JSON.parse(call.arguments)) });
			}
		}
	}
	assert.deepEqual(called, wanted);
	for (let i = 1; i < cached.length; i++) assert.ok(cached[i] > cached[i - 1] && cached[i] >= 0.9 * prompts[i - 1], JSON.stringify({ cached, prompts }));
}

await claude();
await codex();
console.log("ok");
