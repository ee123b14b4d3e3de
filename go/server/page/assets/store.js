// What the browser keeps: conversations in IndexedDB, settings in localStorage. Two servers behind one
// host have different paths, and then nothing in common.
//
// A conversation is stored whole; beside it stands its head {id, title, updated}, so that the list
// need not read them all.

const place = `quern ${new URL(".", document.baseURI).pathname}`;
const others = new BroadcastChannel(place);

const done = (request) =>
	new Promise((resolve, reject) => {
		request.onsuccess = () => resolve(request.result);
		request.onerror = () => reject(request.error);
	});

let database;
function open() {
	database ??= new Promise((resolve, reject) => {
		const request = indexedDB.open(place, 1);
		request.onupgradeneeded = () => {
			request.result.createObjectStore("heads", { keyPath: "id" });
			request.result.createObjectStore("conversations", { keyPath: "id" });
		};
		request.onsuccess = () => resolve(request.result);
		request.onerror = () => reject(request.error);
	});
	return database;
}

// write runs change on both stores at once, and tells the page's other windows.
async function write(id, change) {
	const transaction = (await open()).transaction(["heads", "conversations"], "readwrite");
	change(transaction.objectStore("heads"), transaction.objectStore("conversations"));
	await new Promise((resolve, reject) => {
		transaction.oncomplete = resolve;
		transaction.onabort = () => reject(transaction.error);
	});
	others.postMessage(id);
}

async function read(store, ask) {
	return done(ask((await open()).transaction(store).objectStore(store)));
}

// heads returns what the list shows, newest first.
export async function heads() {
	const all = await read("heads", (store) => store.getAll());
	return all.sort((a, b) => b.updated - a.updated);
}

export const get = (id) => read("conversations", (store) => store.get(id));
export const all = () => read("conversations", (store) => store.getAll());

export function put(conversation) {
	const { id, title, updated } = conversation;
	return write(id, (heads, conversations) => {
		heads.put({ id, title, updated });
		conversations.put(conversation);
	});
}

export function remove(id) {
	return write(id, (heads, conversations) => {
		heads.delete(id);
		conversations.delete(id);
	});
}

// search returns the ids of the conversations that hold text, in the title or in a message.
export async function search(text) {
	const wanted = text.toLowerCase();
	const holds = (s) => s.toLowerCase().includes(wanted);
	const request = (await open()).transaction("conversations").objectStore("conversations").openCursor();
	const found = new Set();
	return new Promise((resolve, reject) => {
		request.onerror = () => reject(request.error);
		request.onsuccess = () => {
			const cursor = request.result;
			if (!cursor) return resolve(found);
			const { id, title, messages } = cursor.value;
			if (holds(title) || messages.some((m) => holds(m.content))) found.add(id);
			cursor.continue();
		};
	});
}

// onChange calls f with the id of a conversation that another window changed.
export function onChange(f) {
	others.onmessage = (event) => f(event.data);
}

export function loadSettings() {
	try {
		return JSON.parse(localStorage.getItem(place)) ?? {};
	} catch {
		return {};
	}
}

export function saveSettings(settings) {
	localStorage.setItem(place, JSON.stringify(settings));
}
