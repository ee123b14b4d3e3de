// Colours code without touching the document: the text of a block stays one node, which may grow and be
// selected in, and ranges over it are painted by the browser (the CSS Custom Highlight API). Where a
// browser has none, code is plain. It knows no grammar: comments, strings, numbers and words that most
// languages with such comments keep for themselves.

const kinds = ["comment", "string", "number", "keyword"];
const maxLength = 100_000; // of a block: what is longer stays plain
const painted = new WeakMap(); // a text node to its ranges
const highlights = globalThis.CSS?.highlights && new Map(kinds.map((kind) => [kind, new Highlight()]));
highlights?.forEach((highlight, kind) => CSS.highlights.set(kind, highlight));

const words = (text) => new Set(text.split(" "));

const general = words(
	"and as async await bool break case catch char class const continue def default defer del delete do double elif else end enum except export " +
	"extends false False final finally float fn for foreach from func function go goto if impl implements import in include inline int interface is let " +
	"local long loop match mod module mut namespace new nil None not null nullptr or package pass private protected pub public raise return select self " +
	"short signed sizeof static string struct super switch template then this throw trait true True try type typedef union unsigned until use using val " +
	"var void volatile when where while with yield");
const sql = words(
	"add all alter and as asc between by case constraint create cross default delete desc distinct drop else end exists from full group having if in index " +
	"inner insert into is join key left like limit not null offset on or order outer primary references right select set table then union unique update " +
	"values view when where with");

const strings = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const rest = String.raw`(?<number>\b\d[\w.]*)|(?<word>[\p{L}_$][\p{L}\p{N}_$]*)`;
const language = (comment, string, keywords = general) => ({
	pattern: new RegExp(`(?<comment>${comment})|(?<string>${string})|${rest}`, "gsu"), keywords,
});

const slashes = language(String.raw`\/\/[^\n]*|\/\*.*?(?:\*\/|$)`, strings + "|`[^`]*`?");
const hash = language(String.raw`(?<![\w$&])#[^\n]*`, String.raw`""".*?(?:"""|$)|'''.*?(?:'''|$)|` + strings);
const dashes = language(String.raw`--[^\n]*`, strings);
const markup = language("<!--.*?(?:-->|$)", String.raw`"[^"<>]*"|'[^'<>]*'`, new Set());
const data = language("(?!)", strings, words("true false null"));

const languages = new Map();
for (const [names, known] of [
	["c h cc cpp cxx c++ cs csharp css dart go golang java javascript js jsx kotlin kt less mjs objc php proto rs rust sass scala scss swift ts tsx typescript zig", slashes],
	["bash conf dockerfile elixir ini julia make makefile nim perl pl powershell ps1 py python r rb ruby sh shell toml yaml yml zsh", hash],
	["ada elm haskell hs lua", dashes],
	["sql", { ...dashes, keywords: sql, fold: true }],
	["html svg vue xml", markup],
	["json json5 jsonc jsonl", data],
]) for (const name of names.split(" ")) languages.set(name, known);

// tokens yields [kind, from, to] for what of a text has a colour.
export function* tokens(text, name) {
	const known = languages.get(name.toLowerCase());
	if (!known || text.length > maxLength) return;
	for (const m of text.matchAll(known.pattern)) {
		const { comment, string, number, word } = m.groups;
		const isKeyword = word !== undefined && known.keywords.has(known.fold ? word.toLowerCase() : word);
		const kind = comment !== undefined ? "comment" : string !== undefined ? "string" : number !== undefined ? "number" : isKeyword && "keyword";
		if (kind) yield [kind, m.index, m.index + m[0].length];
	}
}

// paint colours the text node of a block, in place of what it was painted before.
export function paint(node, name) {
	if (!highlights) return;
	for (const [kind, range] of painted.get(node) ?? []) highlights.get(kind).delete(range);
	const ranges = [];
	for (const [kind, from, to] of tokens(node.data, name)) {
		const range = new StaticRange({ startContainer: node, startOffset: from, endContainer: node, endOffset: to });
		highlights.get(kind).add(range);
		ranges.push([kind, range]);
	}
	painted.set(node, ranges);
}

// forget drops the ranges of the blocks in a part of the page, or of one block, that is removed.
export function forget(part) {
	if (!highlights) return;
	for (const code of part.querySelectorAll("figure.code code")) {
		for (const [kind, range] of painted.get(code.firstChild) ?? []) highlights.get(kind).delete(range);
		painted.delete(code.firstChild);
	}
}
