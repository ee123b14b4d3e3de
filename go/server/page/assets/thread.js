import { branch, show, variants } from "./conversation.js";
import { button, byId, copied, el, icon, say, setText } from "./dom.js";
import { View } from "./markdown.js";

// The messages of the conversation shown. Messages that stay keep their elements, so that what the
// reader selected, folded open or began to edit lasts.

const thread = byId("thread");
const scroller = byId("scroller");
const latest = byId("latest");
const drawn = new Map(); // id of a message to what shows it
let following = true; // the end of the conversation is in view and shall stay there
let shownId;

// draw shows a conversation. turn is the one that writes in it now, if one does; actions are for the
// buttons: {ask(parent, text), again(message), busy(), settings(field), changed()}.
export function draw(conversation, turn, actions) {
	if (conversation.id !== shownId) {
		shownId = conversation.id;
		thread.replaceChildren();
		drawn.clear();
		following = true;
	}
	const messages = branch(conversation);
	const ids = new Set(messages.map((m) => m.id));
	for (const [id, view] of drawn) {
		if (!ids.has(id)) {
			view.node.remove();
			drawn.delete(id);
		}
	}
	const places = variants(conversation);
	for (const message of messages) {
		let view = drawn.get(message.id);
		if (!view) {
			view = message.role === "user" ? new Asked(actions) : new Answer(actions);
			drawn.set(message.id, view);
			thread.append(view.node);
		}
		view.switch.update(conversation, message, places.get(message.parent));
		view.update(message, turn?.message === message ? turn : undefined);
	}
	byId("welcome").hidden = messages.length > 0;
	follow();
}

// editLast opens the last question for editing.
export function editLast() {
	[...drawn.values()].findLast((view) => view instanceof Asked)?.edit();
}

// toEnd moves to the end and stays there.
export function toEnd() {
	following = true;
	follow();
}

function follow() {
	if (following) scroller.scrollTop = scroller.scrollHeight;
	latest.hidden = following;
}

scroller.addEventListener("scroll", () => {
	following = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 48;
	latest.hidden = following;
}, { passive: true });
// When the window changes or the field for messages grows, the end stays in view.
new ResizeObserver(follow).observe(scroller);
latest.append(icon("down"));
latest.addEventListener("click", () => {
	toEnd();
	byId("prompt").focus();
});

// A Switch steps through the variants of a message.
class Switch {
	#count = el("span");
	#back = button("left", "The variant before", () => this.#step(-1));
	#forth = button("right", "The next variant", () => this.#step(1));
	node = el("span", { class: "variants", role: "group", "aria-label": "Variants" }, this.#back, this.#count, this.#forth);

	constructor(actions) {
		this.actions = actions;
	}

	update(conversation, message, all) {
		this.conversation = conversation;
		this.all = all;
		this.at = all.indexOf(message);
		this.node.hidden = all.length < 2;
		setText(this.#count, `${this.at + 1} / ${all.length}`);
		this.#back.disabled = this.at === 0;
		this.#forth.disabled = this.at === all.length - 1;
	}

	#step(by) {
		const other = this.all[this.at + by];
		show(this.conversation, other);
		this.actions.changed();
		drawn.get(other.id).switch.node.querySelector("button:enabled")?.focus();
	}
}

// Asked shows a question as it was written, and edits it.
class Asked {
	#text = el("div", { class: "text" });
	#body = el("div", { class: "body" }, this.#text);

	constructor(actions) {
		this.actions = actions;
		this.switch = new Switch(actions);
		const copy = button("copy", "Copy", () => copied(copy, this.message.content));
		const tools = el("footer", {}, this.switch.node, copy, button("edit", "Edit", () => this.edit()));
		this.node = el("li", { class: "asked" }, el("article", { "aria-label": "You" }, this.#body, tools));
	}

	update(message) {
		this.message = message;
		setText(this.#text, message.content);
	}

	edit() {
		if (this.#body.querySelector("form")) return;
		const field = el("textarea", { "aria-label": "Edit the message", rows: 1 });
		const close = () => {
			form.replaceWith(this.#text);
			this.node.querySelector("[aria-label=Edit]").focus();
		};
		const form = el("form", {
			class: "edit",
			onsubmit: (event) => {
				event.preventDefault();
				if (!field.value.trim() || this.actions.busy()) return;
				close();
				this.actions.ask(this.message.parent, field.value);
			},
			onkeydown: (event) => {
				if (event.key !== "Escape") return;
				event.stopPropagation();
				close();
			},
		}, field, el("div", {}, el("button", { type: "button", onclick: close }, "Cancel"), el("button", { class: "main" }, "Send")));
		field.value = this.message.content;
		this.#text.replaceWith(form);
		grow(field);
		field.focus();
		form.scrollIntoView({ block: "nearest" });
	}
}

// Answer shows what the model wrote, and how it goes.
class Answer {
	#thoughts = el("div", { class: "body" });
	#summary = el("summary");
	#fold = el("details", { class: "reasoning", hidden: true, ontoggle: () => this.#think() }, this.#summary, this.#thoughts);
	#body = el("div", { class: "body" });
	#note = el("div", { class: "note", hidden: true });
	#stats = el("span", { class: "stats" });
	#text = new View(this.#body);
	#thinking = new View(this.#thoughts);
	#noted = "";
	#live = false;

	constructor(actions) {
		this.actions = actions;
		this.switch = new Switch(actions);
		const copy = button("copy", "Copy", () => copied(copy, this.message.content));
		const again = button("again", "Answer again", () => actions.again(this.message));
		this.tools = el("span", { class: "tools" }, copy, again);
		this.node = el("li", { class: "answer" },
			el("article", { "aria-label": "Answer" }, this.#fold, this.#body, this.#note,
				el("footer", {}, this.switch.node, this.tools, this.#stats)));
	}

	update(message, turn) {
		if (this.message === message && !turn && !this.#live) return;
		this.message = message;
		this.node.classList.toggle("live", Boolean(turn));
		this.tools.hidden = Boolean(turn);
		this.#text.set(message.content);
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

	// Reasoning is drawn when it is looked at.
	#think() {
		if (this.#fold.open) this.#thinking.set(this.message.reasoning);
	}

	// #tell reads out an answer that is being written, a block at a time: each word alone would drown it.
	#tell(turn) {
		const told = this.#text.completed(!turn);
		if (turn || this.#live) told.forEach(say);
		if (turn && !this.#live) say("Answering");
		if (!turn && this.#live) say(this.message.error ?? "The answer is complete");
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

function explanation(message, turn, actions) {
	const retry = ["Try again", () => actions.again(message)];
	if (turn?.status.is === "busy") {
		const seconds = Math.max(1, Math.ceil((turn.status.until - Date.now()) / 1000));
		return [`${sentence(turn.status.message)} Asking again in ${seconds} s.`];
	}
	if (turn) return [""];
	switch (message.finish) {
	case "stop":
		return [""];
	case "length":
		return ["Cut at the limit of tokens.", ["Settings", () => actions.settings("max_tokens")]];
	case "stopped":
		return ["Stopped."];
	case "error":
		if (message.status === 401 || message.status === 403) {
			return [sentence(message.error), ["Enter the API key", () => actions.settings("key")], retry];
		}
		return [sentence(message.error), retry];
	case undefined:
		return ["This answer was left before it was complete.", retry];
	default:
		return [`The answer ended: ${message.finish}.`];
	}
}

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

function thinkingLabel(message, turn) {
	if (turn && !message.content) return "Thinking…";
	return message.thought >= 1000 ? `Thought for ${seconds(Math.round(message.thought / 1000) * 1000)}` : "Reasoning";
}

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const seconds = (ms) => (ms < 60000 ? `${fine.format(ms / 1000)} s` : `${Math.round(ms / 60000)} min`);

function statsLine({ stats }, turn) {
	const elapsed = turn ? ` · ${Math.round((Date.now() - turn.started) / 1000)} s` : "";
	if (turn?.status.is === "waiting") return `Waiting for the first token${elapsed}`;
	if (turn?.status.is === "reading") return `Reading the prompt, ${Math.round(100 * turn.status.done)} %${elapsed}`;
	if (!stats?.predicted || turn?.status.is === "busy") return "";
	const parts = [`${number.format(stats.predicted)} token${stats.predicted === 1 ? "" : "s"}`];
	if (stats.speed) parts.push(`${fine.format(stats.speed)} tokens/s`);
	if (stats.prompt && stats.promptMs !== undefined) {
		const cached = stats.cached ? `, ${number.format(stats.cached)} of them cached` : "";
		parts.push(`prompt of ${number.format(stats.prompt)} in ${seconds(stats.promptMs)}${cached}`);
	}
	return parts.join(" · ");
}

// contextUsed returns the tokens that the conversation takes, by the last answer that knows.
export function contextUsed(conversation) {
	const stats = branch(conversation).findLast((m) => m.stats?.prompt)?.stats;
	return stats ? stats.prompt + (stats.predicted ?? 0) : 0;
}

// grow makes a field as high as its text, from now on.
export function grow(field) {
	const fit = () => {
		field.style.height = "auto";
		field.style.height = `${field.scrollHeight}px`;
	};
	field.addEventListener("input", fit);
	field.addEventListener("keydown", (event) => {
		if (!sends(event)) return;
		event.preventDefault();
		field.form.requestSubmit();
	});
	fit();
}

// Enter sends and Shift+Enter begins a line; on a touch screen, which has no Shift at hand, Enter
// begins a line. While an input method composes, Enter is its own.
function sends(event) {
	if (event.key !== "Enter" || event.isComposing) return false;
	if (event.ctrlKey || event.metaKey) return true;
	return !event.shiftKey && !matchMedia("(pointer: coarse)").matches;
}
