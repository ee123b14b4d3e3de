// Text files as parts of a message: each becomes a block of code with its name.

const maxFile = 1 << 20; // bytes: more fits no context that a CPU reads in a day

// attached returns the Markdown of a file. It throws an Error that says why it cannot be read.
export async function attached(file) {
	if (file.type.startsWith("image/")) throw new Error("this model reads text only");
	if (file.size > maxFile) throw new Error(`it has ${(file.size / (1 << 20)).toFixed(1)} MB, and 1 MB at most is taken`);
	let text;
	try {
		text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
	} catch (err) {
		throw new Error(err instanceof TypeError ? "it is no text in UTF-8" : err.message);
	}
	if (text.includes("\0")) throw new Error("it is no text");
	// A fence that no run of backticks in the text ends.
	const longest = (text.match(/`{3,}/g) ?? []).reduce((n, run) => Math.max(n, run.length), 2);
	const fence = "`".repeat(longest + 1);
	const name = file.name.replace(/[\s`]+/g, "_");
	const language = /\.([\w+]+)$/.exec(name)?.[1] ?? "";
	return `${name}:\n${fence}${language}\n${text.replace(/\r\n?/g, "\n").replace(/\n$/, "")}\n${fence}\n`;
}
