import { button, byId, el, notice, setText } from "./dom.js";
import * as store from "./store.js";

// The list of conversations, with its search. actions: {open(id), rename(id, title), remove(id),
// save(id)}.

const list = byId("conversations");
const search = byId("search");
const rows = new Map(); // a conversation's id to its Row
let heads = [];
let found; // ids that hold what is searched for; undefined if nothing is
let current;
let running = () => false;
let actions;

export function start(given, isRunning) {
	actions = given;
	running = isRunning;
	let asked = 0;
	search.addEventListener("input", async () => {
		const mine = ++asked;
		const text = search.value.trim();
		const ids = text ? await store.search(text) : undefined;
		if (mine !== asked) return; // a later search is under way
		found = ids;
		draw();
	});
	search.addEventListener("keydown", (event) => {
		if (event.key === "Escape" && search.value) {
			event.stopPropagation();
			search.value = "";
			search.dispatchEvent(new Event("input"));
		}
		if (event.key === "Enter" || event.key === "ArrowDown") {
			event.preventDefault();
			list.querySelector("a")?.focus();
		}
	});
	list.addEventListener("keydown", (event) => {
		if (event.target.tagName !== "A") return;
		const links = [...list.querySelectorAll("a")];
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (step) {
			event.preventDefault();
			(links[links.indexOf(event.target) + step] ?? search).focus();
		}
		if (event.key === "F2") edit(event.target.dataset.id);
		if (event.key === "Delete") actions.remove(event.target.dataset.id);
	});
}

// refresh reads the list anew and marks the conversation that is open.
export async function refresh(open) {
	current = open;
	try {
		heads = await store.heads();
	} catch (err) {
		notice(`This browser keeps no conversations: ${err.message}`);
	}
	draw();
}

export const has = (id) => heads.some((head) => head.id === id);

// draw keeps the rows that stay, and the focus in them.
function draw() {
	if (list.querySelector("input")) return; // a title is being edited; that ends with a refresh
	const focused = document.activeElement;
	const inside = list.contains(focused);
	const shown = heads.filter((head) => !found || found.has(head.id));
	const old = new Map(rows);
	shown.forEach((head, i) => {
		const row = rows.get(head.id) ?? new Row(head.id);
		rows.set(head.id, row);
		old.delete(head.id);
		row.update(head);
		if (list.children[i] !== row.node) list.insertBefore(row.node, list.children[i] ?? null);
	});
	for (const [id, row] of old) {
		row.node.remove();
		rows.delete(id);
	}
	if (inside && document.activeElement !== focused) (focused.isConnected ? focused : search).focus(); // it was moved, or is gone
	byId("nothing").textContent = found && !shown.length ? "Nothing found" : "";
}

class Row {
	#link;
	#buttons;

	constructor(id) {
		this.#link = el("a", { href: `#${id}`, "data-id": id });
		this.#buttons = {
			Rename: button("edit", "Rename", () => edit(id)),
			Export: button("save", "Export", () => actions.save(id)),
			Delete: button("trash", "Delete", () => actions.remove(id)),
		};
		this.node = el("li", {}, this.#link, ...Object.values(this.#buttons));
	}

	update({ id, title }) {
		const name = title || "Untitled";
		this.node.classList.toggle("running", running(id));
		setText(this.#link, name);
		this.#link.title = name;
		if (id === current) this.#link.setAttribute("aria-current", "page");
		else this.#link.removeAttribute("aria-current");
		for (const [verb, control] of Object.entries(this.#buttons)) {
			control.ariaLabel = control.title = `${verb} “${name}”`;
		}
	}
}

function edit(id) {
	const link = list.querySelector(`[data-id="${CSS.escape(id)}"]`);
	const field = el("input", { "aria-label": "Title", maxlength: 200 });
	field.value = heads.find((head) => head.id === id).title;
	let open = true;
	const close = async (keep) => {
		if (!open) return; // removing the field takes the focus from it: that closes, too
		open = false;
		field.replaceWith(link);
		link.focus();
		if (keep && field.value.trim()) await actions.rename(id, field.value.trim());
		else draw();
	};
	field.addEventListener("blur", () => close(true));
	field.addEventListener("keydown", (event) => {
		if (event.key === "Enter") close(true);
		if (event.key === "Escape") {
			event.stopPropagation();
			close(false);
		}
	});
	link.replaceWith(field);
	field.select();
}
