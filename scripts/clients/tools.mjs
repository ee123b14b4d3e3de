// Chat completions with tools, as the openai package has them, against a scripted model.
import assert from "node:assert";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "a-secret-key", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const tools = [
  { type: "function", function: { name: "get_time", description: "The time", strict: true, parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"], additionalProperties: false } } },
  { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: { days: { type: "integer" } }, required: ["days"] } } },
];
const messages = [{ role: "user", content: "What time is it in Rome?" }];

const first = await client.chat.completions.create({ model, messages, tools });
const [choice] = first.choices;
assert.equal(choice.finish_reason, "tool_calls");
assert.equal(choice.message.content, "One moment.");
assert.equal(choice.message.reasoning_content, "I have a tool for that.");
assert.equal(choice.message.tool_calls.length, 1);
assert.deepEqual(JSON.parse(choice.message.tool_calls[0].function.arguments), { place: "Rome" });
assert.ok(first.usage.completion_tokens_details.reasoning_tokens > 0);

const runner = client.chat.completions.stream({ model, messages, tools, stream_options: { include_usage: true } });
const streamed = await runner.finalChatCompletion();
assert.equal(streamed.choices[0].finish_reason, "tool_calls");
assert.equal(streamed.choices[0].message.tool_calls[0].function.name, "get_time");
assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, choice.message.tool_calls[0].function.arguments);

const answer = await client.chat.completions.create({
  model, tools,
  messages: [...messages, choice.message, { role: "tool", tool_call_id: choice.message.tool_calls[0].id, content: "noon" }],
});
assert.equal(answer.choices[0].message.content, "It is noon in Rome.");
assert.equal(answer.choices[0].finish_reason, "stop");

for (const tool_choice of ["required", { type: "function", function: { name: "get_weather" } }]) {
  const forced = await client.chat.completions.create({ model, messages, tools, tool_choice, max_tokens: 300, reasoning_effort: "none" });
  const [call] = forced.choices[0].message.tool_calls;
  assert.equal(forced.choices[0].finish_reason, "tool_calls");
  const args = JSON.parse(call.function.arguments);
  if (tool_choice !== "required") {
    assert.equal(call.function.name, "get_weather");
    assert.ok(Number.isInteger(args.days));
  }
}
const none = await client.chat.completions.create({ model, messages, tools, tool_choice: "none" });
assert.equal(none.choices[0].message.tool_calls, undefined);
await assert.rejects(client.chat.completions.create({ model, messages, tools, tool_choice: { type: "function", function: { name: "nobody" } } }), (e) => e.status === 400 && e.param === "tool_choice");

const stopped = client.chat.completions.stream({ model, messages, tools });
setTimeout(() => stopped.abort(), 5);
await stopped.done().catch((e) => assert.ok(e instanceof OpenAI.APIUserAbortError, e));
console.log("ok");
