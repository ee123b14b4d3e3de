import { mediaView } from "./attach.js";
import { Answer } from "./answer.js";
import { branch, show, variants } from "./conversation.js";
import { button, byId, copied, el, icon, setText } from "./dom.js";

// The messages of the conversation shown. Messages that stay keep their elements, so that what the
// reader selected, folded open or began to edit lasts.

const thread = byId("thread");
const scroller = byId("scroller");
const latest = byId("latest");
const drawn = new Map(); // id of a message to what shows it
let following = true; // the end of the conversation is in view and shall stay there
let shownId;

// draw shows a conversation. turn is the one that writes in it now, if one does; actions are for the
// buttons: {ask(parent, text), again(message), decide(message, call, choice), busy(), settings(field),
// changed()}.
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
			const variant = new Switch(actions);
			view = message.role === "user" ? new Asked(actions, variant) : new Answer(actions, variant);
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
	#more = el("button", { type: "button", class: "more", hidden: true, onclick: () => this.#fold(!this.#text.classList.contains("folded")) });
	#media = el("div", { class: "media" });
	#body = el("div", { class: "body" }, this.#media, this.#text, this.#more);

	constructor(actions, variant) {
		this.actions = actions;
		this.switch = variant;
		const copy = button("copy", "Copy", () => copied(copy, this.message.content));
		const tools = el("footer", {}, this.switch.node, copy, button("edit", "Edit", () => this.edit()));
		this.node = el("li", { class: "asked" }, el("article", { "aria-label": "You" }, this.#body, tools));
	}

	update(message) {
		this.message = message;
		setText(this.#text, message.content);
		if (this.#media.childElementCount !== (message.media?.length ?? 0)) this.#media.replaceChildren(...mediaView(message.media ?? []));
		// A long one, such as a file, shows its beginning.
		const long = message.content.length > 2000 || message.content.split("\n", 30).length === 30;
		this.#more.hidden = !long;
		if (long) this.#fold(this.#text.classList.contains("folded") || this.#more.textContent === "");
	}

	#fold(folded) {
		this.#text.classList.toggle("folded", folded);
		setText(this.#more, folded ? "Show all" : "Show less");
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
				this.actions.ask(this.message.parent, field.value, this.message.media);
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
