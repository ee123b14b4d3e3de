// Files as parts of a message: a text becomes a block of code with its name, a picture or a sound a medium.

import { el } from "./dom.js";

const maxFile = 1 << 20; // bytes: more fits no context that a CPU reads in a day

const maxMedium = 20 << 20;

// mediumOf returns a picture or a sound as {kind, name, url}, and undefined of other files. takes are the kinds that the model
// takes. It throws an Error that says why a file is not taken.
export async function mediumOf(file, takes) {
	const kind = /^(image|audio)\//.exec(file.type)?.[1];
	if (!kind) return undefined;
	if (!takes.has(kind)) throw new Error(takes.size ? `this model takes no ${kind === "image" ? "pictures" : "sounds"}` : "this model reads text only");
	if (file.size > maxMedium) throw new Error(`it has ${(file.size / (1 << 20)).toFixed(1)} MB, and 20 MB at most are taken`);
	const url = await new Promise((resolve, reject) => {
		const reader = new FileReader();
		reader.onload = () => resolve(reader.result);
		reader.onerror = () => reject(reader.error);
		reader.readAsDataURL(file);
	});
	return { kind, name: file.name.slice(0, 200), url };
}

// isMedium tells whether a value is one, as a file of conversations may have it.
export const isMedium = (m) => (m?.kind === "image" || m?.kind === "audio") && typeof m.name === "string" &&
	typeof m.url === "string" && m.url.startsWith(`data:${m.kind}/`);

// mediaView shows media: pictures small, sounds to be played. drop, if it is given, is called to leave one out.
export function mediaView(media, drop) {
	return media.map((m) => el("figure", {},
		m.kind === "image" ? el("img", { src: m.url, alt: m.name, title: m.name }) : el("audio", { src: m.url, controls: true, title: m.name }),
		drop && el("button", { type: "button", "aria-label": `Leave out ${m.name}`, title: "Leave out", onclick: () => drop(m) }, "×")));
}

// attached returns the Markdown of a text file. It throws an Error that says why it cannot be read.
export async function attached(file) {
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
