// Has a server search the web, read a page and call tools of an MCP server with Anthropic's own client for Node. The model calls
// by the scripts of the test that runs this, and the server has its search engine, its site and its MCP server.
//
//	node servertools.mjs URL
//
// It ends with 1 and says what was wrong at the first thing that is not as Anthropic has it.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "a-secret-key", maxRetries: 0 });
const kinds = (message) => message.content.map((block) => block.type);
const about = (content) => ({ model: "any", max_tokens: 400, messages: [{ role: "user", content }] });
const search = { type: "web_search_20250305", name: "web_search", max_uses: 3, allowed_domains: ["planets.example"], user_location: { type: "approximate", city: "Rome" } };

// A search, whole and as a stream, with what is cited of it.
const asked = { ...about("Search for Venus."), tools: [search] };
const found = await client.messages.create(asked);
assert.deepEqual(kinds(found), ["server_tool_use", "web_search_tool_result", "text"]);
assert.equal(found.stop_reason, "end_turn");
assert.deepEqual(found.content[0].input, { query: "Venus" });
assert.equal(found.content[1].tool_use_id, found.content[0].id);
assert.equal(found.content[1].content.length, 1);
const result = found.content[1].content[0];
assert.deepEqual([result.type, result.url, result.title, result.page_age], ["web_search_result", "https://planets.example/venus", "Venus", null]);
assert.ok(result.encrypted_content.length > 0);
assert.deepEqual(found.usage.server_tool_use, { web_search_requests: 1, web_fetch_requests: 0 });
const cited = found.content[2].citations[0];
assert.deepEqual([cited.type, cited.url, cited.title, cited.cited_text], ["web_search_result_location", result.url, "Venus", "Venus turns backwards."]);

const stream = client.messages.stream(asked);
let citations = 0, inputs = "";
stream.on("citation", () => citations++).on("inputJson", (part) => (inputs += part));
const streamed = await stream.finalMessage();
const plain = (message) => JSON.parse(JSON.stringify(message.content, (name, value) => (name === "id" || name === "tool_use_id" ? undefined : value)));
assert.deepEqual(plain(streamed), plain(found));
assert.equal(citations, 1);
assert.deepEqual(JSON.parse(inputs), { query: "Venus" });
assert.deepEqual(streamed.usage.server_tool_use, found.usage.server_tool_use);

// The next turn has what was found; almost all of its prompt is in the cache.
const next = await client.messages.create({ ...asked, messages: [...asked.messages, { role: "assistant", content: found.content }, { role: "user", content: "What was that?" }] });
assert.equal(next.content[0].text, "I remember Venus.");
assert.ok(next.usage.cache_read_input_tokens > 4 * next.usage.input_tokens, JSON.stringify(next.usage));

// A page that was not told of is not read; an error is a result.
const page = { type: "web_fetch_20250910", name: "web_fetch", max_uses: 1, citations: { enabled: true } };
const refused = await client.beta.messages.create({ ...about("Read it."), tools: [page], betas: ["web-fetch-2025-09-10"] });
assert.deepEqual(kinds(refused), ["server_tool_use", "web_fetch_tool_result", "text"]);
assert.deepEqual(refused.content[1].content, { type: "web_fetch_tool_result_error", error_code: "url_not_in_prior_context" });

// The tools of an MCP server.
const connected = { ...about("Greet Ann."), betas: ["mcp-client-2025-11-20"], mcp_servers: [{ type: "url", url: "", name: "door" }], tools: [{ type: "mcp_toolset", mcp_server_name: "door" }] };
const greeted = await client.beta.messages.stream(connected).finalMessage();
assert.deepEqual(kinds(greeted), ["mcp_tool_use", "mcp_tool_result", "text"]);
assert.deepEqual([greeted.content[0].server_name, greeted.content[0].name, greeted.content[0].input], ["door", "greet", { name: "Ann" }]);
assert.deepEqual([greeted.content[1].is_error, greeted.content[1].content], [false, [{ type: "text", text: "Hello Ann" }]]);

// What ends at the limit of calls pauses, and goes on when it is sent back.
let turn = { ...about("Search for ever."), tools: [{ type: "web_search_20260209", name: "web_search" }] }, pauses = 0, message;
while ((message = await client.messages.create(turn)).stop_reason === "pause_turn" && ++pauses < 4) {
	const said = turn.messages.length > 1 ? [...turn.messages[1].content, ...message.content] : message.content;
	turn = { ...turn, messages: [turn.messages[0], { role: "assistant", content: said }] };
}
assert.equal(pauses, 4);

// What the server has not is refused by its name.
await assert.rejects(client.messages.create({ ...asked, tools: [{ type: "code_execution_20250825", name: "code_execution" }] }), (e) => e instanceof Anthropic.BadRequestError && /code_execution/.test(e.message));
await assert.rejects(client.beta.messages.create({ ...connected, mcp_servers: [{ type: "url", url: "https://elsewhere.example", name: "door", authorization_token: "secret" }] }), (e) => e instanceof Anthropic.BadRequestError && /authorization_token/.test(e.message) && !/secret/.test(e.message));

console.log("ok");
