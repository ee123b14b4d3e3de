// pretty returns JSON with a line for each member, and any other text as it is. The text itself is
// indented, not the value it stands for: numbers keep their digits, and objects their order.
export function pretty(text) {
	try {
		JSON.parse(text);
	} catch {
		return text;
	}
	let out = "";
	let depth = 0;
	const line = () => `\n${"  ".repeat(depth)}`;
	for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[[\]{},:]|[^\s[\]{},:"]+/g)) {
		if (token === "{" || token === "[") {
			depth++;
			out += token + line();
		} else if (token === "}" || token === "]") {
			depth--;
			out += line() + token;
		} else if (token === ",") {
			out += token + line();
		} else if (token === ":") {
			out += ": ";
		} else {
			out += token.startsWith('"') ? token : token.replace(/\s+/g, "");
		}
	}
	return out;
}
