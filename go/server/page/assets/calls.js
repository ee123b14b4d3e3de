import { mediaView } from "./attach.js";
import { callsOf } from "./conversation.js";
import { copied, button, el, icon, setText } from "./dom.js";
import { pretty } from "./json.js";
import { serverOf } from "./settings.js";
import { granted } from "./tools.js";

// Calls shows the calls of an answer with what came of them, and asks for those that wait.
export class Calls {
	node = el("div", { class: "calls", hidden: true });
	#views = [];

	constructor(actions) {
		this.actions = actions;
	}

	// update shows a message's calls. run is set while they are being made.
	update(message, run) {
		const calls = message.calls ?? [];
		this.node.hidden = !calls.length;
		while (this.#views.length > calls.length) this.#views.pop().node.remove();
		calls.forEach((call, i) => {
			if (!this.#views[i]) {
				this.#views[i] = new Call((choice) => this.actions.decide(this.message, this.message.calls[i], choice));
				this.node.append(this.#views[i].node);
			}
			this.#views[i].update(call, !run && callsOf(message).includes(call), run?.status.call === call);
		});
		this.message = message;
	}
}

class Call {
	#name = el("code");
	#server = el("span", { class: "soft" });
	#state = el("span", { class: "state" });
	#arguments = el("pre", { tabindex: 0, "aria-label": "Arguments" });
	#result = el("pre", { tabindex: 0, "aria-label": "Result" });
	#media = el("div", { class: "media" });
	#fold;
	#asks;
	#shown;

	constructor(decide) {
		const copy = button("copy", "Copy the result", () => copied(copy, this.call.result));
		this.#fold = el("details", { hidden: true, ontoggle: () => this.#unfold() },
			el("summary", {}, "Result"), el("div", {}, this.#result, this.#media, copy));
		const ask = (choice, label, main) =>
			el("button", { type: "button", class: main ? "main" : null, onclick: () => decide(choice) }, label);
		this.#asks = el("div", { class: "asks", role: "group", hidden: true },
			ask("once", "Allow once", true), ask("always", "Always in this conversation"), ask("deny", "Deny"));
		this.node = el("section", { class: "call" },
			el("h3", {}, icon("tool"), this.#name, this.#server, this.#state), this.#arguments, this.#fold, this.#asks);
	}

	// update shows a call that may wait for the reader, or is being made.
	update(call, waits, running) {
		this.call = call;
		const asks = waits && call.result === undefined && !granted.has(call);
		const server = serverOf(call.name);
		setText(this.#name, call.name);
		setText(this.#server, server ? `of ${server}` : "");
		setText(this.#state, stateOf(call, waits, asks, running));
		const args = pretty(call.arguments);
		this.#arguments.hidden = args === "" || args === "{}";
		setText(this.#arguments, args);
		this.#fold.hidden = call.result === undefined || Boolean(call.refused);
		this.#unfold();
		this.#asks.hidden = !asks;
		this.#asks.ariaLabel = `Call ${call.name}?`;
	}

	// A result may be long: it is drawn when it is looked at.
	#unfold() {
		if (!this.#fold.open || this.#shown === this.call.result) return;
		this.#shown = this.call.result;
		setText(this.#result, pretty(this.call.result));
		this.#media.replaceChildren(...mediaView(this.call.media ?? []));
	}
}

function stateOf(call, waits, asks, running) {
	if (running) return "calling…";
	if (call.refused) return "refused";
	if (call.result?.startsWith("error: ")) return "failed";
	if (call.result !== undefined) return call.took >= 1000 ? `done in ${Math.round(call.took / 1000)} s` : "done";
	if (asks) return "call it?";
	return waits ? "allowed, once the others are decided" : "";
}
