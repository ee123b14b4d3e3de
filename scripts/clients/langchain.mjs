// Talks to a server with LangChain's classes for OpenAI. The model answers by the scripts of
// the test that runs this.
//
//	node langchain.mjs URL
import assert from "node:assert/strict";
import { HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";

const options = { model: "any", apiKey: "a-secret-key", maxRetries: 0, configuration: { baseURL: `${process.argv[2]}/v1` } };
const fact = "A day on Venus is longer than its year.";
const getTime = tool(async () => "noon", { name: "get_time", description: "The time of a place", schema: z.object({ place: z.string() }) });
const planet = z.object({ name: z.string(), moons: z.number().int().min(0) });

// By chat completions and by responses.
for (const useResponsesApi of [false, true]) {
	const model = new ChatOpenAI({ ...options, useResponsesApi });

	// A message, whole and as it comes.
	const whole = await model.invoke([new SystemMessage("Be brief."), new HumanMessage("Tell me something.")]);
	assert.equal(whole.text, fact);
	assert.ok(whole.usage_metadata.output_tokens > 0);
	assert.equal(whole.usage_metadata.total_tokens, whole.usage_metadata.input_tokens + whole.usage_metadata.output_tokens);
	let all, chunks = 0;
	for await (const chunk of await model.stream("Tell me something.")) {
		all = all ? all.concat(chunk) : chunk;
		chunks++;
	}
	assert.equal(all.text, fact);
	assert.ok(chunks > 4);
	assert.ok(all.usage_metadata.output_tokens > 0);
	assert.equal((await model.batch(["Tell me something.", "And more."])).map((m) => m.text).join("|"), `${fact}|${fact}`);

	// A tool: its call, the result, the answer; and as a stream.
	const able = model.bindTools([getTime]);
	const question = new HumanMessage("What time is it in Rome?");
	const called = await able.invoke([question]);
	assert.deepEqual(called.tool_calls.map((call) => [call.name, call.args]), [["get_time", { place: "Rome" }]]);
	const result = await getTime.invoke(called.tool_calls[0]);
	assert.ok(result instanceof ToolMessage && result.content === "noon");
	assert.equal((await able.invoke([question, called, result])).text, "It is noon in Rome.");
	let streamed;
	for await (const chunk of await able.stream([question])) streamed = streamed ? streamed.concat(chunk) : chunk;
	assert.deepEqual(streamed.tool_calls.map((call) => [call.name, call.args]), [["get_time", { place: "Rome" }]]);
	const forced = await model.bindTools([getTime], { tool_choice: "get_time" }).invoke([question]);
	assert.equal(forced.tool_calls[0].name, "get_time");

	// An object by a schema, as the form of the answer and as the arguments of a tool.
	for (const method of ["jsonSchema", "functionCalling"]) {
		const described = await model.withStructuredOutput(planet, { method, name: "planet" }).invoke("Describe a planet.");
		assert.deepEqual(described, { name: "Venus", moons: 0 }, method);
	}

	// A stream that is given up.
	const stop = new AbortController();
	const long = new ChatOpenAI({ ...options, useResponsesApi, modelKwargs: { ignore_eos: true } });
	let pieces = 0;
	await assert.rejects(async () => {
		for await (const _ of await long.stream("Tell me something.", { signal: stop.signal })) {
			if (++pieces === 4) stop.abort();
		}
	}, /[Aa]bort/);
	assert.ok(pieces < 600);

	// Errors.
	await assert.rejects(new ChatOpenAI({ ...options, useResponsesApi, temperature: 500 }).invoke("a"), (e) => e.status === 400 && /temperature/.test(e.message));
	await assert.rejects(new ChatOpenAI({ ...options, useResponsesApi, apiKey: "wrong-key-here" }).invoke("a"), (e) => e.status === 401);
}

// Reasoning is where LangChain keeps what it has no field for.
const reasoned = await new ChatOpenAI({ ...options, __includeRawResponse: true }).invoke("Tell me something.");
assert.equal(reasoned.additional_kwargs.__raw_response.choices[0].message.reasoning_content, "What do they know?");
const json = await new ChatOpenAI(options).withStructuredOutput(z.object({ name: z.string() }), { method: "jsonMode" }).invoke("Describe a planet.");
assert.equal(json.name, "Venus");

// Vectors.
const vectors = new OpenAIEmbeddings(options);
const cat = await vectors.embedQuery("a cat");
const [dog, again] = await vectors.embedDocuments(["a dog", "a cat"]);
assert.deepEqual(again, cat);
assert.notDeepEqual(dog, cat);
assert.ok(Math.abs(Math.hypot(...cat) - 1) < 1e-5);
assert.equal((await new OpenAIEmbeddings({ ...options, dimensions: 32 }).embedQuery("a cat")).length, 32);

console.log("ok");
