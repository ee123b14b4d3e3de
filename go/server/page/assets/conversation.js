// A conversation is a tree of messages: to edit one or to ask again adds a branch and loses nothing.
//
//	{id, title, updated, leaf, allowed, messages: [{id, parent, role, content, ...}]}
//
// leaf names the last message of the branch that is shown; a first message has the parent "". allowed
// are the names of the tools that are called here without a question.
// A question may have media: {kind: "image" or "audio", name, url}, with the data in the URL.
// An answer has also: reasoning, thought (ms), model, stats, and finish, which says how it ended:
// stop, length, tool_calls, stopped by the reader, or error, with the error's text, status and type. Without
// finish it is still being written, or the page was closed while it was. Its form is "json" if it was
// held to a schema. Its calls of tools are {id, name, arguments, result, media, refused, took (ms)}; the answer
// that was written from the results is the message below. Its tokens are [text, logprob, likeliest],
// the last a list of [text, logprob].

import { isMedium } from "./attach.js";

export function newId() {
	const bytes = crypto.getRandomValues(new Uint8Array(12)); // randomUUID wants https
	return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export function newConversation() {
	return { id: newId(), title: "", updated: Date.now(), leaf: "", messages: [] };
}

// add appends a message below parent and shows its branch.
export function add(conversation, parent, role, content) {
	const message = { id: newId(), parent, role, content };
	conversation.messages.push(message);
	conversation.leaf = message.id;
	conversation.title ||= titleOf(content);
	return message;
}

// branch returns the messages shown, first to last.
export function branch(conversation) {
	const byId = new Map(conversation.messages.map((m) => [m.id, m]));
	const shown = [];
	for (let m = byId.get(conversation.leaf); m; m = byId.get(m.parent)) shown.push(m);
	return shown.reverse();
}

// variants returns, for each parent, the messages below it: those in one place of the conversation.
export function variants(conversation) {
	return Map.groupBy(conversation.messages, (m) => m.parent);
}

// show shows the branch through message that was written last.
export function show(conversation, message) {
	let last = message;
	for (const m of conversation.messages) if (m.parent === last.id) last = m; // children come after parents
	conversation.leaf = last.id;
}

// titleOf returns the first line of a message, without the marks that Markdown begins a line with, and those around words.
export function titleOf(text) {
	const line = text.trim().split("\n", 1)[0].slice(0, 1000).replace(/^(?:#{1,6}\s|[-*+]\s|>|`{3,})\s*/, "")
		.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/(\*{1,3}|`+|~~)(\S(?:.*?\S)?)\1/g, "$2");
	const characters = Array.from(line.slice(0, 200));
	return characters.length > 60 ? `${characters.slice(0, 59).join("")}…` : line;
}

// callsOf returns the calls of a message: those that were written to their ends.
export const callsOf = (message) => (message?.finish === "tool_calls" ? (message.calls ?? []) : []);

function checkCall(call, message) {
	const copy = {};
	for (const key of ["id", "name", "arguments"]) {
		if (typeof call?.[key] !== "string") throw new Error(`the ${key} of a call in message ${message} is not text`);
		copy[key] = call[key];
	}
	if (typeof call.result === "string") copy.result = call.result;
	if (Array.isArray(call.media)) copy.media = call.media.filter(isMedium).map(({ kind, name, url }) => ({ kind, name, url }));
	if (call.refused === true) copy.refused = true;
	if (Number.isFinite(call.took)) copy.took = call.took;
	return copy;
}

// check returns a copy of a conversation that came from a file, with only what it may hold. It throws an
// Error that says what is wrong.
export function check(x) {
	const text = (value, name) => {
		if (typeof value !== "string") throw new Error(`${name} is not text`);
		return value;
	};
	const number = (value) => (Number.isFinite(value) ? value : undefined);
	if (typeof x !== "object" || x === null) throw new Error("a conversation is not an object");
	const id = text(x.id, "a conversation's id");
	if (!/^[\w-]{1,64}$/.test(id)) throw new Error(`a conversation's id is ${JSON.stringify(id.slice(0, 80))}`);
	if (!Array.isArray(x.messages)) throw new Error(`conversation ${id} has no messages`);
	const seen = new Set([""]);
	const messages = x.messages.map((m) => {
		const own = text(m?.id, `a message's id in conversation ${id}`);
		if (seen.has(own)) throw new Error(`two messages of conversation ${id} have the id ${own}`);
		if (!seen.has(m.parent)) throw new Error(`message ${own} comes before its parent`);
		if (m.role !== "user" && m.role !== "assistant") throw new Error(`message ${own} has the role ${JSON.stringify(m.role)}`);
		seen.add(own);
		const copy = { id: own, parent: m.parent, role: m.role, content: text(m.content, `message ${own}`) };
		for (const key of ["reasoning", "model", "finish", "form", "error", "fault"]) if (typeof m[key] === "string") copy[key] = m[key];
		for (const key of ["thought", "status"]) if (number(m[key]) !== undefined) copy[key] = m[key];
		if (Array.isArray(m.media)) copy.media = m.media.filter(isMedium).map(({ kind, name, url }) => ({ kind, name, url }));
		if (Array.isArray(m.calls)) copy.calls = m.calls.map((call) => checkCall(call, own));
		if (m.stats) {
			copy.stats = {};
			for (const key of ["prompt", "cached", "predicted", "promptMs", "speed", "drafted", "accepted"]) copy.stats[key] = number(m.stats[key]);
		}
		return copy;
	});
	if (!seen.has(x.leaf)) throw new Error(`conversation ${id} ends in a message that is not there`);
	return { id, title: text(x.title ?? "", "a title").slice(0, 200), updated: number(x.updated) ?? Date.now(), leaf: x.leaf, messages };
}
