import * as api from "./api.js";
import { attached, mediaView, mediumOf } from "./attach.js";
import { add, branch, callsOf, check, newConversation } from "./conversation.js";
import { byId, el, icon, notice, save, setText } from "./dom.js";
import * as list from "./list.js";
import { canRecord, Recording } from "./record.js";
import { chooseModel, modes, openSettings, settings, showDefaults, showTools, watchSettings } from "./settings.js";
import * as store from "./store.js";
import * as thread from "./thread.js";
import { granted, refusal, Run } from "./tools.js";
import { Turn } from "./turn.js";

// The page as a whole: which conversation is open, which answers are being written, what the server
// is, and the keys.

const prompt = byId("prompt");
const wide = matchMedia("(min-width: 52rem)");
const turns = new Map(); // a conversation's id to the Turn that writes in it, or the Run that calls for it
const maxRounds = 32; // answers in a row whose calls are made without a question
let open = newConversation();
let context = 0; // tokens, if the server says

// Drawing waits for the next frame, so that however fast tokens come each frame draws once. What takes long
// to draw, such as a block of 100 kB that grows, is drawn less often: the page stays usable.
let drawing = false;
let waiting = false;
function redraw() {
	waiting = drawing;
	if (drawing) return;
	drawing = true;
	requestAnimationFrame(() => {
		const begun = performance.now();
		draw();
		const took = performance.now() - begun;
		setTimeout(() => {
			drawing = false;
			if (waiting) redraw();
		}, took > 8 ? 3 * took : 0);
	});
}

function draw() {
	const turn = turns.get(open.id);
	thread.draw(open, turn, actions);
	setText(byId("title"), open.title || "New conversation");
	document.title = open.title ? `${open.title} · Quern` : "Quern";
	const vectors = mute.has(settings().model);
	byId("composer").hidden = vectors;
	byId("vectors").hidden = !vectors;
	byId("composer").classList.toggle("busy", Boolean(turn));
	byId("send").hidden = Boolean(turn);
	byId("stop").hidden = !turn;
	drawContext();
}

function drawContext() {
	const used = thread.contextUsed(open);
	const meter = byId("context");
	meter.hidden = !used;
	if (!used) return;
	const format = (n) => n.toLocaleString("en");
	setText(byId("context-text"), context ? `${format(used)} / ${format(context)}` : `${format(used)} tokens`);
	byId("context-bar").hidden = !context;
	if (!context) return;
	byId("context-fill").style.width = `${Math.min(100, (100 * used) / context)}%`;
	meter.classList.toggle("full", used > 0.9 * context);
	meter.setAttribute("aria-valuenow", used);
	meter.setAttribute("aria-valuemax", context);
	meter.setAttribute("aria-valuetext", `${used} of ${context} tokens of context used`);
}

// keep writes a conversation to the browser's store.
let failed = false;
async function keep(conversation) {
	conversation.updated = Date.now();
	try {
		await store.put(conversation);
		failed = false;
	} catch (err) {
		if (!failed) notice(`This conversation is not kept: ${err.message}`);
		failed = true;
	}
	await list.refresh(open.id);
}

const actions = {
	// busy says whether an answer is being written here, and tells the reader: there is one at a time.
	busy() {
		if (!turns.has(open.id)) return false;
		notice("An answer is being written: stop it first.");
		return true;
	},

	// ask adds a question below parent and has it answered. Calls that still wait are refused by that.
	ask(parent, text, media) {
		for (const call of callsOf(open.messages.find((m) => m.id === parent))) refuse(call);
		const question = add(open, parent, "user", text.trim());
		if (media?.length) question.media = media;
		open.title ||= media?.[0]?.name ?? "";
		answer(open, question);
	},

	// again answers the same question once more. An answer with nothing in it is replaced.
	again(message) {
		if (actions.busy()) return;
		const question = open.messages.find((m) => m.id === message.parent);
		if (!message.content && !message.reasoning && !message.calls) open.messages.splice(open.messages.indexOf(message), 1);
		answer(open, question);
	},

	// decide says what becomes of a call that waits: it is made once, always in this conversation, or not.
	decide(message, call, choice) {
		if (actions.busy()) return;
		if (choice === "deny") refuse(call);
		else granted.add(call);
		if (choice === "always") {
			open.allowed = [...new Set(open.allowed).add(call.name)];
			grant(open, message);
		}
		prompt.focus(); // the button is gone
		proceed(open, message, 0);
	},

	settings: openSettings,
	startNew,
	editLast: thread.editLast,

	// isFull says whether an answer ended where the context does, and isLimited whether the settings limit answers.
	isFull: ({ stats }) => context > 0 && (stats?.prompt ?? 0) + (stats?.predicted ?? 0) >= context,
	isLimited: () => settings().sampling.max_tokens !== undefined,

	changed() {
		draw();
		keep(open);
	},
};

function refuse(call) {
	if (call.result === undefined) Object.assign(call, { result: refusal, refused: true });
}

// grant allows the calls of a message that its conversation always allows.
function grant(conversation, message) {
	for (const call of callsOf(message)) if (conversation.allowed?.includes(call.name)) granted.add(call);
}

// answer has the model write below a question, or below an answer whose calls have their results. rounds
// is how many such answers there were since the reader was last asked.
async function answer(conversation, parent, rounds = 0) {
	const message = add(conversation, parent.id, "assistant", "");
	const chosen = settings();
	if (chosen.model) message.model = chosen.model;
	if (chosen.schema) message.form = "json";
	let kept = Date.now();
	const turn = new Turn(conversation, message, () => {
		if (conversation === open) redraw();
		if (Date.now() - kept < 1500 || turns.get(conversation.id) !== turn) return;
		kept = Date.now(); // so that little is lost if the page is closed
		store.put(conversation).catch(() => {});
	});
	if (conversation === open) {
		history.replaceState(null, "", `#${conversation.id}`);
		thread.toEnd();
	}
	const done = await work(turn, chosen, () => {
		if (rounds < maxRounds) grant(conversation, message);
	});
	if (done) await proceed(conversation, message, rounds);
}

// proceed makes the calls of a message once each is decided, and then has the model go on.
async function proceed(conversation, message, rounds) {
	if (turns.has(conversation.id)) return;
	const calls = callsOf(message);
	const waiting = calls.filter((call) => call.result === undefined);
	if (!calls.length || !waiting.every((call) => granted.has(call))) {
		if (conversation === open) draw();
		return keep(conversation);
	}
	const run = new Run(conversation, message, waiting, () => {
		if (conversation === open) redraw();
	});
	const done = await alone(run);
	if (done && calls.every((call) => call.result !== undefined)) await answer(conversation, message, rounds + 1);
}

// alone has a Run make its calls as work does, unless another window of this page makes them or has made
// them; then it returns false. A browser has locks only where the page comes from https or this machine.
async function alone(run) {
	const { conversation, message } = run;
	const { id } = conversation;
	turns.set(id, run); // before anything is awaited
	const begin = async (lock) => {
		const stored = await store.get(id).catch(() => undefined);
		if (turns.get(id) !== run) return false; // deleted meanwhile
		const theirs = stored?.messages.find((m) => m.id === message.id)?.calls;
		const made = callsOf(message).some((call, i) => call.result === undefined && theirs?.[i]?.result !== undefined);
		if (lock && !made) return work(run, settings(), () => {});
		turns.delete(id);
		for (const call of callsOf(message)) granted.delete(call);
		if (conversation === open) {
			open = stored ?? open;
			draw();
		}
		notice("Another window makes these calls.");
		return false;
	};
	return navigator.locks ? navigator.locks.request(id, { ifAvailable: true }, begin) : begin(true);
}

// work has a Turn or a Run do its part in a conversation, and calls after at its end, before anything is
// drawn. It returns false if the conversation was deleted meanwhile.
async function work(turn, chosen, after) {
	const { conversation } = turn;
	turns.set(conversation.id, turn);
	if (conversation === open) draw();
	await keep(conversation);
	await turn.run(chosen);
	if (turns.get(conversation.id) !== turn) return false;
	turns.delete(conversation.id);
	after();
	if (conversation === open) draw();
	keep(conversation).catch(() => {}); // not awaited: what comes next begins before the reader can do anything
	return true;
}

// go opens the conversation that the address names, or a new one.
async function go() {
	const id = location.hash.slice(1);
	if (id !== open.id) {
		const stored = turns.get(id)?.conversation ?? (id ? await store.get(id).catch(() => undefined) : undefined);
		if (id !== location.hash.slice(1)) return; // gone elsewhere meanwhile
		if (id && !stored) history.replaceState(null, "", location.pathname + location.search);
		open = stored ?? newConversation();
	}
	if (!wide.matches) showSidebar(false);
	draw();
	thread.toEnd();
	if (!matchMedia("(pointer: coarse)").matches) prompt.focus(); // which opens the keyboard of a phone
	await list.refresh(open.id);
}

function startNew() {
	if (location.hash) history.pushState(null, "", location.pathname + location.search);
	go();
}

// Where the list lies over the messages, they cannot be reached while it is open.
function showSidebar(shown) {
	document.body.classList.toggle("sidebar", shown);
	byId("sidebar").inert = !shown;
	document.querySelector("main").inert = shown && !wide.matches;
	byId("menu").setAttribute("aria-expanded", shown);
}

function closeOverlay() {
	if (wide.matches || !document.body.classList.contains("sidebar")) return false;
	showSidebar(false);
	byId("menu").focus();
	return true;
}

const listActions = {
	async rename(id, title) {
		const conversation = id === open.id ? open : (turns.get(id)?.conversation ?? (await store.get(id)));
		conversation.title = title;
		await store.put(conversation);
		await list.refresh(open.id);
		draw();
	},

	async remove(id) {
		const turn = turns.get(id);
		turn?.stop();
		turns.delete(id);
		const conversation = turn?.conversation ?? (await store.get(id));
		await store.remove(id);
		if (id === open.id) startNew();
		else await list.refresh(open.id);
		notice(`Deleted “${conversation.title}”.`, {
			label: "Undo",
			async run() {
				await store.put(conversation);
				location.hash = id;
			},
		});
	},

	async save(id) {
		exportFile([await store.get(id)]);
	},
};

const fileFormat = "quern-conversations";

function exportFile(conversations) {
	const day = new Date().toISOString().slice(0, 10);
	save(`quern-${day}.json`, JSON.stringify({ format: fileFormat, version: 1, conversations }, (key, value) => (key === "tokens" ? undefined : value), 1));
}

// importFile takes in a file that exportFile made. A conversation that is here already is replaced by
// one that is newer, and otherwise stays.
async function importFile(file) {
	let conversations;
	try {
		const content = JSON.parse(await file.text());
		if (content?.format !== fileFormat || !Array.isArray(content.conversations)) {
			throw new Error("it was not exported from this page");
		}
		conversations = content.conversations.map(check);
	} catch (err) {
		const reason = err instanceof SyntaxError ? "it is not JSON" : err.message;
		notice(`${file.name} was not imported: ${reason}.`);
		return;
	}
	let taken = 0;
	for (const conversation of conversations) {
		const own = await store.get(conversation.id);
		if (turns.has(conversation.id) || own?.updated >= conversation.updated) continue;
		await store.put(conversation);
		taken++;
		if (conversation.id === open.id) open = conversation;
	}
	notice(`Imported ${taken} of ${conversations.length}; the others were here already.`);
	draw();
	await list.refresh(open.id);
}

// connect asks the server what it is, and again while it loads its model.
let asking;
let mute = new Set(); // models that do not chat
let takes = new Map(); // what else than text models take
async function connect() {
	clearTimeout(asking);
	const { key, model } = settings();
	const choice = byId("model");
	try {
		const served = await api.models(key);
		const ids = served.map((model) => model.id);
		mute = new Set(served.filter((model) => !model.chats).map((model) => model.id));
		takes = new Map(served.map((model) => [model.id, model.takes]));
		choice.replaceChildren(...ids.map((id) => el("option", { value: id }, id)));
		choice.disabled = ids.length < 2;
		if (ids.includes(model)) choice.value = model;
		else chooseModel(ids[0] ?? "");
		const props = await api.props(key);
		context = props.context ?? 0;
		showDefaults(props.defaults);
		showTools(props.hasTools ? await api.tools(key) : []);
		drawModes();
		setText(byId("state"), "");
		drawRecord();
		draw();
	} catch (err) {
		if (err.retryAfter !== undefined) {
			setText(byId("state"), err.message);
			asking = setTimeout(connect, 1000 * err.retryAfter);
		} else {
			setText(byId("state"), err.status === 401 ? "The server wants an API key: see the settings." : err.message);
		}
	}
}

// drawModes says above the field for messages what is on that changes answers.
function drawModes() {
	byId("modes").replaceChildren(...modes().map(({ label, field }) =>
		el("button", { type: "button", title: "Change in the settings", onclick: () => openSettings(field) }, label)));
}

// media are the pictures and sounds of the message that is being written.
let media = [];
function drawMedia() {
	byId("media").replaceChildren(...mediaView(media, (m) => {
		media = media.filter((other) => other !== m);
		drawMedia();
		prompt.focus();
	}));
}

// attach puts files into the message: texts where the cursor is, pictures and sounds above it.
async function attach(files) {
	for (const file of files) {
		try {
			const medium = await mediumOf(file, takes.get(byId("model").value) ?? new Set());
			if (medium) {
				media.push(medium);
				drawMedia();
				continue;
			}
			const text = await attached(file);
			const before = prompt.value.slice(0, prompt.selectionStart);
			prompt.setRangeText((before && !before.endsWith("\n") ? "\n" : "") + text, prompt.selectionStart, prompt.selectionEnd, "end");
		} catch (err) {
			notice(`${file.name} was not taken: ${err.message}.`);
		}
	}
	prompt.dispatchEvent(new Event("input"));
	prompt.focus();
}

// recording is what the microphone is heard with, while it is.
let recording;
const drawRecord = () => {
	const button = byId("record");
	button.hidden = !canRecord || !recording && !takes.get(byId("model").value)?.has("audio");
	button.ariaPressed = String(Boolean(recording));
	button.title = button.ariaLabel = recording ? "End the recording" : "Record the microphone";
};

async function record() {
	const begun = new Recording();
	byId("record").disabled = true; // while the reader is asked
	try {
		await begun.begin(endRecording);
		recording = begun;
	} catch (err) {
		notice(`The microphone cannot be heard: ${err.message}.`);
	}
	byId("record").disabled = false;
	drawRecord();
}

// endRecording puts what was heard into the message.
async function endRecording() {
	const begun = recording;
	recording = undefined;
	drawRecord();
	try {
		await attach([await begun.end()]);
	} catch (err) {
		notice(`The recording was not taken: ${err.message}.`);
	}
}
byId("record").addEventListener("click", () => (recording ? endRecording() : record()));

function takeFiles(event, data) {
	const files = [...data.files];
	if (!files.length || data.types.includes("text/plain")) return;
	event.preventDefault();
	attach(files);
}
byId("attach").addEventListener("click", () => byId("attached").click());
byId("attached").addEventListener("change", async ({ target }) => {
	await attach([...target.files]);
	target.value = ""; // so that the same file can be chosen again
});
prompt.addEventListener("paste", (event) => takeFiles(event, event.clipboardData));
document.addEventListener("drop", (event) => takeFiles(event, event.dataTransfer));
document.addEventListener("dragover", (event) => {
	if (event.dataTransfer.types.includes("Files")) event.preventDefault(); // or the browser would open it
});

byId("composer").addEventListener("submit", async (event) => {
	event.preventDefault();
	if (recording) await endRecording();
	const text = prompt.value;
	if (!text.trim() && !media.length || actions.busy()) return;
	prompt.value = "";
	prompt.dispatchEvent(new Event("input"));
	const seen = media;
	media = [];
	drawMedia();
	actions.ask(branch(open).at(-1)?.id ?? "", text, seen);
});

const stop = () => turns.get(open.id)?.stop();
byId("stop").addEventListener("click", () => {
	stop();
	prompt.focus();
});
byId("new").addEventListener("click", startNew);
byId("menu").addEventListener("click", () => {
	showSidebar(!document.body.classList.contains("sidebar"));
	if (!wide.matches) byId("new").focus();
});
byId("shade").addEventListener("click", closeOverlay);
byId("open-settings").addEventListener("click", () => openSettings());
byId("export").addEventListener("click", async () => exportFile(await store.all()));
byId("import").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", async ({ target }) => {
	if (target.files.length) await importFile(target.files[0]);
	target.value = ""; // so that the same file can be chosen again
});
byId("skip").addEventListener("click", (event) => {
	event.preventDefault(); // the address says which conversation is open
	prompt.focus();
});
byId("model").addEventListener("change", ({ target }) => {
	chooseModel(target.value);
	drawRecord();
	draw();
});
prompt.addEventListener("keydown", (event) => {
	if (event.key === "ArrowUp" && !prompt.value && !turns.has(open.id)) {
		event.preventDefault();
		thread.editLast();
	}
});

document.addEventListener("keydown", (event) => {
	const command = event.ctrlKey || event.metaKey;
	if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
		if (!closeOverlay()) stop();
	} else if (command && !event.shiftKey && event.key.toLowerCase() === "k") {
		event.preventDefault();
		showSidebar(true);
		byId("search").focus();
	} else if (command && event.shiftKey && event.key.toLowerCase() === "o") {
		event.preventDefault();
		startNew();
	} else if (command && event.key === ",") {
		event.preventDefault();
		openSettings();
	}
});

addEventListener("popstate", go);
addEventListener("pagehide", () => {
	for (const { conversation } of turns.values()) store.put(conversation);
});
wide.addEventListener("change", () => showSidebar(wide.matches));
store.onChange(async (id) => {
	await list.refresh(open.id);
	if (id !== open.id || turns.has(id)) return;
	const stored = await store.get(id);
	if (id !== open.id || turns.has(id)) return; // gone elsewhere, or begun here, meanwhile
	if (stored) {
		open = stored;
		draw();
	} else {
		startNew();
	}
});

for (const slot of document.querySelectorAll("[data-icon]")) slot.prepend(icon(slot.dataset.icon));
showSidebar(wide.matches);
thread.grow(prompt);
watchSettings((name) => {
	if (name === "key") connect();
	else drawModes();
});
list.start(listActions, (id) => turns.has(id));
connect();
await go();
