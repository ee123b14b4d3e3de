import { button, copied, el } from "./dom.js";
import { forget, paint } from "./highlight.js";
import { inline } from "./inline.js";

// Markdown as models write it: headings, paragraphs, lists, code, quotes, tables, rules. It follows
// CommonMark and GitHub's tables where those agree with what is meant, and departs from them here:
// the end of a line is shown as one; two spaces nest a list; indented text is no code; --- is always
// a rule; formulas are shown as they were written; an image is a link.

const maxDepth = 12; // of lists and quotes in one another; what is deeper is text

const fence = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const heading = /^ {0,3}(#{1,6})(?: +|$)(.*)$/;
const rule = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const bullet = /^[ \t]*(?:[-*+]|(\d{1,9})[.)])(?: +|$)/;
const quote = /^ {0,3}> ?/;
// A display: its marks begin a line, and no text stands behind them where they end it.
const formula = /^ {0,3}(?:\$\$(?!.*\$\$\s*\S)|\\\[)/;
const formulaEnd = /(?:\$\$|\\\])\s*$/;
const task = /^\[([ xX])\] +/;
const dashes = /^\|? *:?-+:? *(?:\| *:?-+:? *)*\|?$/;

// A View shows Markdown that grows. What is appended can change no block but the last two: only those
// are parsed again, and of them only what changed is drawn again.
export class View {
	#parent;
	#text = "";
	#blocks = [];
	#told = 0;

	constructor(parent) {
		this.#parent = parent;
	}

	set(text) {
		text = text.replaceAll("\r", "");
		if (!text.startsWith(this.#text)) {
			forget(this.#parent);
			this.#parent.replaceChildren();
			this.#blocks = [];
			this.#told = 0;
		}
		this.#text = text;
		const old = this.#blocks.splice(Math.max(0, this.#blocks.length - 2));
		const start = old[0]?.start ?? 0;
		const fresh = split(text.slice(start));
		fresh.forEach((block, i) => {
			block.start += start;
			if (!reuse(block, old[i])) {
				block.node = render(block, 0);
				if (old[i]) {
					forget(old[i].node);
					old[i].node.replaceWith(block.node);
				} else {
					this.#parent.append(block.node);
				}
			}
			this.#blocks.push(block);
		});
		for (const { node } of old.slice(fresh.length)) {
			forget(node);
			node.remove();
		}
	}

	// completed returns the text of the blocks that were completed since it was last asked.
	completed(atEnd) {
		const end = this.#blocks.length - (atEnd ? 0 : 2);
		const texts = [];
		for (; this.#told < end; this.#told++) texts.push(this.#blocks[this.#told].node.textContent);
		return texts;
	}
}

// reuse keeps the node of the block that was in this place, if it is the same one or code that grew:
// then what the reader selected in it stays selected.
function reuse(block, old) {
	if (block.kind !== old?.kind) return false;
	if (block.text !== old.text) {
		if (block.kind !== "code") return false;
		const [was, is] = [readCode(old), readCode(block)];
		if (is.language !== was.language) return false;
		const shown = old.node.querySelector("code").firstChild;
		if (is.body.startsWith(was.body)) shown.appendData(is.body.slice(was.body.length));
		else shown.data = is.body;
		paint(shown, is.language);
	}
	block.node = old.node;
	return true;
}

// split returns the blocks of text: {kind, start, text}.
function split(text) {
	const lines = text.split("\n");
	const blocks = [];
	let start = 0;
	for (let i = 0; i < lines.length; ) {
		const kind = kindOf(lines, i);
		const end = kind ? ends[kind](lines, i) : i + 1;
		const source = lines.slice(i, end).join("\n");
		if (kind) blocks.push({ kind, start, text: source });
		start += source.length + 1;
		i = end;
	}
	return blocks;
}

// kindOf says what begins with line i: a key of ends and of renderers, or "" for an empty line.
function kindOf(lines, i) {
	const line = lines[i];
	if (!line.trim()) return "";
	const m = fence.exec(line);
	if (m && !(m[1][0] === "`" && m[2].includes("`"))) return "code";
	if (heading.test(line)) return "heading";
	if (rule.test(line)) return "rule";
	if (bullet.test(line)) return "list";
	if (quote.test(line)) return "quote";
	if (formula.test(line)) return "formula";
	if (line.includes("|") && dashes.test((lines[i + 1] ?? "").trim()) && cells(line).length === cells(lines[i + 1]).length) {
		return "table";
	}
	return "paragraph";
}

// interrupts says whether line i begins a block though a paragraph is open. As in CommonMark, a number
// other than 1 at the start of a line does not, nor does a bullet with nothing behind it.
function interrupts(lines, i) {
	const kind = kindOf(lines, i);
	if (kind !== "list") return kind !== "paragraph";
	const [marker, number] = bullet.exec(lines[i]);
	return (number ?? "1") === "1" && marker.length < lines[i].length;
}

// until returns the first line after i of which stop is true, or their number.
function until(lines, i, stop) {
	do i++;
	while (i < lines.length && !stop(lines[i], i));
	return i;
}

// Where a block that begins with line i ends.
const ends = {
	code(lines, i) {
		const [, mark] = fence.exec(lines[i]);
		const close = until(lines, i, (line) => {
			const m = fence.exec(line);
			return m && m[1].startsWith(mark) && !m[2].trim();
		});
		return Math.min(close + 1, lines.length);
	},
	heading: (lines, i) => i + 1,
	rule: (lines, i) => i + 1,
	list(lines, i) {
		const base = columns(lines[i]);
		let end = i + 1;
		until(lines, i, (line, j) => {
			if (!line.trim()) return false;
			const lazy = end === j && !fence.test(lines[j - 1].trim()) && !interrupts(lines, j);
			if (columns(line) < base + 2 && !startsItem(line, lines[i]) && !lazy) return true;
			end = j + 1;
			return false;
		});
		return end;
	},
	quote: (lines, i) => until(lines, i, (line) => !quote.test(line)),
	formula(lines, i) {
		if (formulaEnd.test(lines[i].replace(formula, ""))) return i + 1;
		const end = until(lines, i, (line) => !line.trim() || formulaEnd.test(line));
		return Math.min(end + 1, lines.length);
	},
	table: (lines, i) => until(lines, i + 1, (line) => !line.includes("|")),
	paragraph: (lines, i) => until(lines, i, (line, j) => interrupts(lines, j)),
};

// startsItem says whether line starts an item of the list that first began.
function startsItem(line, first) {
	const m = bullet.exec(line);
	return m !== null && !rule.test(line) && (m[1] === undefined) === (bullet.exec(first)[1] === undefined);
}

// columns returns how far a line is indented; a tab goes to the next multiple of four.
function columns(line) {
	let n = 0;
	for (const c of line) {
		if (c === " ") n++;
		else if (c === "\t") n += 4 - (n % 4);
		else break;
	}
	return n;
}

// dedent takes n columns off a line, or as many as it has.
function dedent(line, n) {
	let i = 0;
	let column = 0;
	for (; column < n && (line[i] === " " || line[i] === "\t"); i++) column += line[i] === "\t" ? 4 - (column % 4) : 1;
	return " ".repeat(Math.max(0, column - n)) + line.slice(i);
}

function render(block, depth) {
	if (depth > maxDepth) return el("p", {}, block.text);
	return renderers[block.kind](block, depth);
}

const renderAll = (text, depth) => split(text).map((block) => render(block, depth));

const renderers = {
	paragraph: ({ text }) => el("p", {}, inline(text.split("\n").map((line) => line.trim().replace(/\\$/, "")).join("\n"))),
	heading({ text }) {
		const [, marks, title] = heading.exec(text);
		// The page's own headings are above those of an answer.
		return el(`h${Math.min(6, marks.length + 2)}`, {}, inline(title.trim().replace(/(?:^| )#+$/, "").trim()));
	},
	rule: () => el("hr"),
	quote: ({ text }, depth) =>
		el("blockquote", {}, renderAll(text.split("\n").map((line) => line.replace(quote, "")).join("\n"), depth + 1)),
	code(block) {
		const { language, body } = readCode(block);
		const code = el("code");
		code.append(document.createTextNode(body)); // a node even of no text: it will grow
		paint(code.firstChild, language);
		const copy = button("copy", "Copy the code", () => copied(copy, code.textContent));
		return el("figure", { class: "code" }, el("figcaption", {}, el("span", {}, language), copy), el("pre", {}, code));
	},
	formula: ({ text }) => el("pre", { class: "math" }, text.replace(formula, "").replace(formulaEnd, "").trim()),
	list({ text }, depth) {
		const lines = text.split("\n");
		const number = bullet.exec(lines[0])[1];
		const loose = /\n[ \t]*\n/.test(text);
		const list = el(number === undefined ? "ul" : "ol", { start: number === undefined || number === "1" ? null : Number(number) });
		for (const item of items(lines)) list.append(renderItem(item, loose, depth + 1));
		return list;
	},
	table({ text }) {
		const [head, marks, ...body] = text.split("\n").map(cells);
		const align = marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : "left"));
		const row = (tag, texts) =>
			el("tr", {}, texts.slice(0, head.length).map((text, i) => el(tag, { class: align[i] }, inline(text))));
		return el("div", { class: "table" },
			el("table", {}, el("thead", {}, row("th", head)), el("tbody", {}, body.map((texts) => row("td", texts)))));
	},
};

// items cuts the lines of a list at its bullets, and takes off the bullets and the indentation.
function items(lines) {
	const base = columns(lines[0]);
	const cut = [];
	lines.forEach((line, i) => {
		if (i === 0 || (columns(line) < base + 2 && startsItem(line, lines[0]))) cut.push([line]);
		else cut.at(-1).push(line);
	});
	return cut.map(([first, ...rest]) => {
		const marker = bullet.exec(first)[0];
		// Less than the bullet's own width if the author indented by less.
		const depths = rest.filter((line) => line.trim()).map(columns).filter((n) => n >= base + 2);
		const by = Math.min(columns(marker) + marker.trimStart().length, ...depths);
		return [first.slice(marker.length), ...rest.map((line) => dedent(line, by))].join("\n");
	});
}

function renderItem(text, loose, depth) {
	const item = el("li");
	const m = task.exec(text);
	if (m) {
		item.className = "task";
		item.append(el("input", { type: "checkbox", disabled: true, checked: m[1] !== " " }));
		text = text.slice(m[0].length);
	}
	for (const node of renderAll(text, depth)) {
		if (!loose && node.tagName === "P") while (node.firstChild) item.append(node.firstChild);
		else item.append(node);
	}
	return item;
}

function readCode({ text }) {
	const [first, ...lines] = text.split("\n");
	const [, mark, info] = fence.exec(first);
	const last = fence.exec(lines.at(-1) ?? "");
	if (last && last[1].startsWith(mark) && !last[2].trim()) lines.pop();
	const by = columns(first);
	return {
		language: info.trim().split(/\s/, 1)[0].slice(0, 40),
		body: lines.map((line) => dedent(line, by)).join("\n"),
	};
}

// cells cuts a row of a table at its bars.
function cells(row) {
	const inner = row.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
	return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
