import { el, say } from "./dom.js";

// Probabilities shows what the model wrote token by token. The pointer, a finger or the arrow keys bring
// up a card with a token's probability, and those that were likeliest in its place.

const percent = (logprob) => {
	const p = 100 * Math.exp(logprob);
	return `${p >= 99.995 ? "100" : p.toPrecision(p < 0.01 ? 1 : 3)} %`;
};

const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "(a part of a character)";

// How unlikely a token was: a class for its colour.
const levelOf = (logprob) => ["sure", "likely", "open", "unlikely"][[0.9, 0.5, 0.1].filter((p) => Math.exp(logprob) < p).length];

const card = el("div", { id: "card", popover: "manual", "aria-hidden": "true" });
document.body.append(card);

export class Probabilities {
	node = el("div", {
		class: "probabilities", tabindex: 0, role: "group", hidden: true,
		"aria-label": "Tokens with their probabilities: the arrow keys move",
		onpointerover: ({ target }) => this.#show(target),
		onpointerleave: () => this.#hide(),
		onclick: ({ target }) => this.#show(target),
		onblur: () => this.#hide(),
		onkeydown: (event) => this.#key(event),
	});
	#tokens = [];
	#shown;

	// set shows tokens, which may have grown.
	set(tokens) {
		this.#tokens = tokens;
		const spans = [];
		for (let i = this.node.childElementCount; i < tokens.length; i++) {
			const [text, logprob] = tokens[i];
			spans.push(el("span", { class: levelOf(logprob) }, text));
		}
		this.node.append(...spans);
	}

	#show(span) {
		if (span.parentNode !== this.node) return;
		const [text, logprob, likeliest] = this.#tokens[[...this.node.children].indexOf(span)];
		this.#shown?.classList.remove("shown");
		this.#shown = span;
		span.classList.add("shown");
		const rows = likeliest.map(([other, p]) => {
			const bar = el("span", { class: "bar" });
			bar.style.width = `${100 * Math.exp(p)}%`;
			return el("tr", { class: other === text && p === logprob ? "taken" : null },
				el("td", {}, visible(other)), el("td", { class: "right" }, percent(p)), el("td", { class: "bars" }, bar));
		});
		card.replaceChildren(el("p", {}, el("code", {}, visible(text)), ` ${percent(logprob)}`), el("table", {}, el("tbody", {}, ...rows)));
		card.showPopover();
		const at = span.getClientRects()[0] ?? span.getBoundingClientRect();
		card.style.left = `${Math.max(8, Math.min(at.left, innerWidth - card.offsetWidth - 8))}px`;
		const below = at.bottom + 6;
		card.style.top = `${below + card.offsetHeight < innerHeight ? below : Math.max(8, at.top - card.offsetHeight - 6)}px`;
	}

	#hide() {
		this.#shown?.classList.remove("shown");
		card.hidePopover();
	}

	#key(event) {
		const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
		if (!step) return;
		event.preventDefault();
		const { children } = this.node;
		const at = this.#shown ? [...children].indexOf(this.#shown) + step : 0;
		const span = children[Math.max(0, Math.min(at, children.length - 1))];
		if (!span) return;
		span.scrollIntoView({ block: "nearest" });
		this.#show(span);
		const [text, logprob, likeliest] = this.#tokens[[...children].indexOf(span)];
		say([[text, logprob], ...likeliest].map(([t, p]) => `${visible(t)} ${percent(p)}`).join(", "));
	}
}
