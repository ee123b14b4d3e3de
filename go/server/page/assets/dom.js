// What the rest needs of the document: elements, icons, the clipboard, short notices.

// el makes an element. An attribute may be a listener (on...), a boolean, or text; children are nodes,
// text, or lists of these, and null is none. A long list of children is given as a list: a call has room for
// some ten thousand arguments.
export function el(tag, attributes = {}, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
		else if (value === true) node.setAttribute(name, "");
		else if (value !== false && value != null) node.setAttribute(name, value);
	}
	for (const child of children) {
		if (Array.isArray(child)) for (const one of child) node.append(one);
		else if (child != null) node.append(child);
	}
	return node;
}

export const byId = (id) => document.getElementById(id);

// setText writes only what differs: writing the same text again would still cost a layout.
export function setText(node, text) {
	if (node.textContent !== text) node.textContent = text;
}

// Strokes on a field of 24 by 24.
const strokes = {
	attach: "M20 11.5l-8 8a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7L9.8 17a1.6 1.6 0 0 1-2.3-2.3l7.5-7.5",
	again: "M19 12a7 7 0 1 1-2.2-5.1M19 3.5V8h-4.5",
	chart: "M5 20v-7M12 20V4M19 20v-11",
	check: "M5 12.5l4.5 4.5L19 7.5",
	copy: "M9 9h10v11H9zM15 9V4H5v11h4",
	down: "M12 5v14M6 13l6 6 6-6",
	edit: "M4 20l1-4.5L16 4.5l3.5 3.5L8.5 19zM13.5 7l3.5 3.5",
	left: "M14 6l-6 6 6 6",
	menu: "M4 7h16M4 12h16M4 17h16",
	microphone: "M12 3.5a2.8 2.8 0 0 1 2.8 2.8v5a2.8 2.8 0 0 1-5.6 0v-5A2.8 2.8 0 0 1 12 3.5zM6 11a6 6 0 0 0 12 0M12 17v3.5",
	plus: "M12 5v14M5 12h14",
	right: "M10 6l6 6-6 6",
	save: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
	send: "M12 19V5M6 11l6-6 6 6",
	settings: "M4 8h9M19 8h1M4 16h1M11 16h9M13 8a3 3 0 1 0 6 0a3 3 0 1 0-6 0M5 16a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
	tool: "M20 7.5a4.5 4.5 0 0 1-6.2 4.2L7 18.5 4.5 16l6.8-6.8A4.5 4.5 0 0 1 15.5 3L13 5.5l.5 4 4 .5z",
	stop: "M7 7h10v10H7z",
	trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
	upload: "M12 15.5V4M7 9l5-5 5 5M5 20h14",
};

export function icon(name) {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	svg.setAttribute("viewBox", "0 0 24 24");
	svg.setAttribute("aria-hidden", "true");
	const path = document.createElementNS(svg.namespaceURI, "path");
	path.setAttribute("d", strokes[name]);
	svg.append(path);
	return svg;
}

// button is an icon with a name for those who do not see it, and for the pointer that rests on it.
export function button(name, label, onclick, attributes = {}) {
	return el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...attributes },
		icon(name));
}

// copy puts text on the clipboard. Browsers give the clipboard's interface only to pages from https
// or from this machine; elsewhere a selection and the old command do.
export async function copy(text) {
	if (navigator.clipboard) {
		await navigator.clipboard.writeText(text);
		return;
	}
	const field = el("textarea", { class: "unseen", readonly: true });
	const focused = document.activeElement;
	field.value = text;
	(focused?.closest("dialog") ?? document.body).append(field);
	field.select();
	const done = document.execCommand("copy");
	field.remove();
	focused?.focus();
	if (!done) throw new Error("the browser refused");
}

// copied copies and says so, on the button that was pressed.
export async function copied(control, text) {
	try {
		await copy(text);
	} catch (err) {
		notice(`Not copied: ${err.message}.`);
		return;
	}
	const before = [...control.childNodes];
	control.replaceChildren(icon("check"));
	say("Copied");
	setTimeout(() => control.replaceChildren(...before), 1200);
}

// notice shows one line at the foot of the page, with an action if there is one to take.
let fading;
export function notice(text, action) {
	const box = byId("notice");
	clearTimeout(fading);
	const hide = () => box.replaceChildren();
	box.replaceChildren(
		el("div", {}, el("span", {}, text),
			action && el("button", { type: "button", onclick: () => { hide(); action.run(); } }, action.label)));
	fading = setTimeout(hide, action ? 10000 : 5000);
}

// say has a screen reader say text after what it is saying now.
export function say(text) {
	const heard = byId("heard");
	while (heard.childNodes.length > 40) heard.firstChild.remove();
	heard.append(el("p", {}, text));
}

// save offers text as a file.
export function save(name, text) {
	const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
	el("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}
