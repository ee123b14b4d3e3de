import { Calls } from "./calls.js";
import { callsOf } from "./conversation.js";
import { button, copied, el, say, setText } from "./dom.js";
import { pretty } from "./json.js";
import { View } from "./markdown.js";
import { Probabilities } from "./probabilities.js";

// Answer shows what the model wrote, and how it goes.
export class Answer {
	#thoughts = el("div", { class: "body" });
	#summary = el("summary");
	#fold = el("details", { class: "reasoning", hidden: true, ontoggle: () => this.#think() }, this.#summary, this.#thoughts);
	#body = el("div", { class: "body" });
	#note = el("div", { class: "note", hidden: true });
	#stats = el("span", { class: "stats" });
	#calls;
	#probabilities = new Probabilities();
	#token = button("chart", "Token probabilities", () => this.#byToken(), { "aria-pressed": "false" });
	#text = new View(this.#body);
	#thinking = new View(this.#thoughts);
	#noted = "";
	#live = false;

	constructor(actions, variant) {
		this.actions = actions;
		this.switch = variant;
		this.#calls = new Calls(actions);
		const copy = button("copy", "Copy", () => copied(copy, this.message.content));
		const again = button("again", "Answer again", () => actions.again(this.message));
		this.tools = el("span", { class: "tools" }, copy, again, this.#token);
		this.node = el("li", { class: "answer" },
			el("article", { "aria-label": "Answer" }, this.#fold, this.#body, this.#probabilities.node, this.#calls.node, this.#note,
				el("footer", {}, this.switch.node, this.tools, this.#stats)));
	}

	// update shows a message. at is the Turn that writes it, or the Run that makes its calls, if one does.
	update(message, at) {
		const run = at?.status.is === "calling" ? at : undefined;
		const turn = run ? undefined : at;
		this.#calls.update(message, run);
		if (this.message === message && !turn && !this.#live) return;
		this.message = message;
		this.node.classList.toggle("live", Boolean(turn));
		this.tools.hidden = Boolean(turn);
		this.#text.set(message.form === "json" ? asCode(message.content, turn) : message.content);
		this.#token.hidden = !message.tokens;
		if (this.#token.hidden) this.#byToken(false);
		else if (!this.#probabilities.node.hidden) this.#probabilities.set(message.tokens);
		this.#fold.hidden = !message.reasoning;
		if (message.reasoning) {
			setText(this.#summary, thinkingLabel(message, turn));
			this.#think();
		}
		setText(this.#stats, statsLine(message, turn));
		this.#stats.title = message.model ?? "";
		this.#explain(message, turn);
		this.#tell(turn);
	}

	// #byToken shows the tokens in the place of the text, or the text again.
	#byToken(on = this.#probabilities.node.hidden) {
		if (on) this.#probabilities.set(this.message.tokens);
		this.#probabilities.node.hidden = !on;
		this.#body.hidden = on;
		this.#token.ariaPressed = String(on);
	}

	// Reasoning is drawn when it is looked at.
	#think() {
		if (this.#fold.open) this.#thinking.set(this.message.reasoning);
	}

	// #tell reads out an answer that is being written, a block at a time: each word alone would drown it.
	#tell(turn) {
		const told = this.#text.completed(!turn);
		if (turn || this.#live) told.forEach(say);
		if (turn && !this.#live) say("Answering");
		if (!turn && this.#live) say(this.message.error ?? outcome(this.message));
		this.#live = Boolean(turn);
	}

	// #explain says below the answer why there is no more of it, and offers what helps.
	#explain(message, turn) {
		const [text, ...offers] = explanation(message, turn, this.actions);
		const key = [text, ...offers.map(([label]) => label)].join("|");
		if (key === this.#noted) return;
		const offered = offers.map(([label, run]) => el("button", { type: "button", onclick: run }, label));
		this.#noted = key;
		this.#note.hidden = !text;
		this.#note.classList.toggle("bad", message.finish === "error");
		this.#note.replaceChildren(el("span", {}, text), ...offered);
	}
}

// asCode returns Markdown that shows an answer held to a schema. No line of JSON can end the block.
const asCode = (text, turn) => (text ? `\`\`\`json\n${turn ? text : `${pretty(text)}\n\`\`\``}` : "");

function outcome(message) {
	const names = callsOf(message).map((call) => call.name);
	return names.length ? `The model asks to call ${names.join(", ")}` : "The answer is complete";
}

function explanation(message, turn, actions) {
	const retry = ["Try again", () => actions.again(message)];
	if (turn?.status.is === "busy") {
		const seconds = Math.max(1, Math.ceil((turn.status.until - Date.now()) / 1000));
		return [`${sentence(turn.status.message)} Asking again in ${seconds} s.`];
	}
	if (turn) return [""];
	switch (message.finish) {
	case "stop":
	case "tool_calls":
		return [""];
	case "length":
		if (actions.isFull(message)) return ["The context is full.", ["New conversation", actions.startNew]];
		if (!actions.isLimited()) return ["Cut at the limit of tokens."];
		return ["Cut at the limit of tokens.", ["Settings", () => actions.settings("max_tokens")]];
	case "stopped":
		return ["Stopped."];
	case "error":
		if (message.status === 401 || message.status === 403) {
			return [denied(message.status), ["Enter the API key", () => actions.settings("key")], retry];
		}
		if (message.fault === tooLong) { // the same again would not fit either
			return ["The conversation is longer than the context.", ["Edit the message", actions.editLast], ["New conversation", actions.startNew]];
		}
		return [sentence(message.error), retry];
	case undefined:
		return ["This answer was left before it was complete.", retry];
	default:
		return [`The answer ended: ${message.finish}.`];
	}
}

// denied says what the server's 401 and 403 mean to a reader of the page.
const denied = (status) => (status === 401 ? "The server wants an API key, and has not taken this one." : "The API key may not do this.");

// tooLong is the type of the server's error for a prompt that does not fit its context.
const tooLong = "exceed_context_size_error";

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

function thinkingLabel(message, turn) {
	if (turn && !message.content && !message.calls) return "Thinking…";
	return message.thought >= 1000 ? `Thought for ${seconds(Math.round(message.thought / 1000) * 1000)}` : "Reasoning";
}

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const seconds = (ms) => (ms < 1000 ? `${fine.format(ms)} ms` : ms < 60000 ? `${fine.format(ms / 1000)} s` : `${Math.round(ms / 60000)} min`);

function statsLine({ stats }, turn) {
	const elapsed = turn ? ` · ${Math.round((Date.now() - turn.started) / 1000)} s` : "";
	if (turn?.status.is === "waiting") return `Waiting for the first token${elapsed}`;
	if (turn?.status.is === "reading") return `Reading the prompt, ${Math.round(100 * turn.status.done)} %${elapsed}`;
	if (!stats?.predicted || turn?.status.is === "busy") return "";
	const parts = [`${number.format(stats.predicted)} token${stats.predicted === 1 ? "" : "s"}`];
	if (stats.speed) parts.push(`${fine.format(stats.speed)} tokens/s`);
	if (stats.drafted) parts.push(`${number.format(stats.accepted)} of ${number.format(stats.drafted)} drafts right`);
	if (stats.prompt && stats.promptMs !== undefined) {
		const cached = stats.cached ? `, ${number.format(stats.cached)} of them cached` : "";
		parts.push(`prompt of ${number.format(stats.prompt)} in ${seconds(stats.promptMs)}${cached}`);
	}
	return parts.join(" · ");
}
