import { el } from "./dom.js";

// What stands inside a paragraph of Markdown: emphasis, code, links, line breaks. Everything becomes
// elements made here and text nodes; no string is ever read as HTML, so HTML in it is only text.
//
// The work is bounded by the text's length: a delimiter that nests deeper than maxDepth is text, and
// no pattern can run on without limit.
const maxDepth = 24;

const code = /`+/y;
const link =
	/!?\[((?:[^[\]\\]|\\.|\[(?:[^[\]\\]|\\.)*\])*)\]\([ \n]?(<[^<>\n]*>|[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)(?:[ \n]{1,3}(?:"[^"]*"|'[^']*'))?[ \n]?\)/sy;
const address = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const lineBreak = /<br ?\/?>/iy;
const formula = /\\\([^\n]{1,500}?\\\)|\$\$[^\n$]{1,500}\$\$|\$(?![\s$])[^\n$]{0,300}[^\s\\$]\$(?!\d)/y; // a single $ as in Pandoc: prices are none
const formulaMarks = /^(?:\\\(|\$\$?)|(?:\\\)|\$\$?)$/g;
const escape = /\\[!-/:-@[-`{-~]/y;
const entity = /&(amp|lt|gt|quot|apos|nbsp|#39);/y;
const entities = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", "#39": "'" };
const plain = /[^\\`*_~[!<&$\n]+/y;
const bare = /https?:\/\/[^\s<>"`\\]{1,2000}/y;
const bareStart = /(?<![\w/])https?:\/\//;
const space = /\s/;
const punctuation = /[\p{P}\p{S}]/u;

const at = (pattern, text, i) => {
	pattern.lastIndex = i;
	return pattern.exec(text);
};

// inline returns the nodes of text. Inside a link there are no links.
export function inline(text, inLink = false) {
	const root = { mark: "", count: 0, nodes: [] };
	const open = [root]; // delimiters not yet closed, each with the nodes since
	const unclosed = new Set(); // lengths of backtick runs that nothing further on closes
	const put = (node) => {
		const { nodes } = open.at(-1);
		if (typeof node === "string" && typeof nodes.at(-1) === "string") nodes[nodes.length - 1] += node;
		else nodes.push(node);
	};
	const flatten = () => {
		const { mark, count, nodes } = open.pop();
		put(mark.repeat(count));
		for (const node of nodes) put(node);
	};

	let i = 0;
	while (i < text.length) {
		const c = text[i];
		let m = at(plain, text, i);
		if (m) {
			const start = inLink ? -1 : m[0].search(bareStart);
			const to = start >= 0 && trimmed(at(bare, text, i + start)?.[0] ?? "");
			if (to) {
				put(m[0].slice(0, start));
				put(anchor(to, [to]) ?? to);
				i += start + to.length;
				continue;
			}
			put(m[0]);
		} else if (c === "*" || c === "_" || c === "~") {
			let n = 1;
			while (text[i + n] === c) n++;
			delimiter(c, n, text, i, open, flatten);
			i += n;
			continue;
		} else if (c === "`") {
			m = at(code, text, i);
			const end = unclosed.has(m[0].length) ? -1 : closing(text, i + m[0].length, m[0].length);
			if (end < 0) {
				unclosed.add(m[0].length);
				put(m[0]);
			} else {
				let inner = text.slice(i + m[0].length, end).replaceAll("\n", " ");
				if (/^ .*[^ ].* $/s.test(inner)) inner = inner.slice(1, -1);
				put(el("code", {}, inner));
				i = end + m[0].length;
				continue;
			}
		} else if (c === "\n") {
			m = [c];
			put(el("br"));
		} else if ((m = at(formula, text, i))) {
			put(el("code", { class: "math" }, m[0].replace(formulaMarks, "").trim()));
		} else if ((m = at(escape, text, i))) {
			put(m[0][1]);
		} else if ((m = at(lineBreak, text, i))) {
			put(el("br"));
		} else if ((m = at(entity, text, i))) {
			put(entities[m[1]]);
		} else if (!inLink && (m = at(address, text, i))) {
			put(anchor(m[1], [m[1]]) ?? m[0]);
		} else if (!inLink && (m = at(link, text, i))) {
			const to = m[2].startsWith("<") ? m[2].slice(1, -1) : m[2];
			put(anchor(to, inline(m[1] || to, true)) ?? m[0]);
		} else {
			m = [c];
			put(c);
		}
		i += m[0].length;
	}
	while (open.length > 1) flatten();
	return root.nodes;
}

// trimmed returns a bare address without what belongs to the sentence around it.
function trimmed(address) {
	const to = address.replace(/[.,:;!?'*_~|\]]{1,50}$/, "");
	return to.endsWith(")") && !to.includes("(") ? trimmed(to.slice(0, -1)) : to;
}

// closing returns where the next run of exactly n backticks is, or -1.
function closing(text, from, n) {
	for (let i = text.indexOf("`", from); i >= 0; ) {
		const run = at(code, text, i)[0].length;
		if (run === n) return i;
		i = text.indexOf("`", i + run);
	}
	return -1;
}

// delimiter closes what the run of n marks at i can close, and opens the rest of it. As in
// CommonMark, what a run may do depends on what stands beside it; _ does nothing inside a word.
function delimiter(mark, n, text, i, open, flatten) {
	const before = text[i - 1] ?? " ";
	const after = text[i + n] ?? " ";
	const opens = !space.test(after) && (!punctuation.test(after) || space.test(before) || punctuation.test(before));
	const closes = !space.test(before) && (!punctuation.test(before) || space.test(after) || punctuation.test(after));
	const word = mark === "_" && opens && closes;
	const most = mark === "~" ? 2 : 3;
	if (n > most || (mark === "~" && n < 2)) {
		open.at(-1).nodes.push(mark.repeat(n));
		return;
	}
	if (closes && (!word || punctuation.test(after))) {
		for (;;) {
			const k = n ? open.findLastIndex((frame) => frame.mark === mark) : -1;
			if (k < 0) break;
			while (open.length > k + 1) flatten();
			const frame = open.at(-1);
			const used = Math.min(n, frame.count, 2);
			const tag = mark === "~" ? "del" : used === 2 ? "strong" : "em";
			frame.nodes = [el(tag, {}, frame.nodes)];
			frame.count -= used;
			n -= used;
			if (!frame.count) {
				open.pop();
				for (const node of frame.nodes) open.at(-1).nodes.push(node);
			}
		}
	}
	if (!n) return;
	if (opens && (!word || punctuation.test(before)) && open.length <= maxDepth) open.push({ mark, count: n, nodes: [] });
	else open.at(-1).nodes.push(mark.repeat(n));
}

// anchor returns a link to another place, or null where it would lead: only the web and mail are
// known to be no code.
function anchor(to, children) {
	let url;
	try {
		url = new URL(to);
	} catch {
		return null;
	}
	if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
	return el("a", { href: url.href, title: url.href, target: "_blank", rel: "noopener noreferrer" }, children);
}
