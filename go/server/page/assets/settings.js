import { byId } from "./dom.js";
import { loadSettings, saveSettings } from "./store.js";

// The dialog's fields that go into a request under their own names. An empty one is not sent, and the
// server's default holds.
const sampling = ["temperature", "top_k", "top_p", "min_p", "repeat_penalty", "max_tokens", "seed"];
const integers = new Set(["top_k", "max_tokens", "seed"]);

const stored = loadSettings();
const themes = [...document.querySelectorAll("input[name=theme]")];
const dialog = byId("settings");
const form = byId("settings-form");

// settings returns what a request needs: key, model, system and sampling.
export function settings() {
	const values = {};
	for (const name of sampling) {
		const number = Number(stored[name]);
		if (stored[name] && Number.isFinite(number)) values[name] = integers.has(name) ? Math.round(number) : number;
	}
	return { key: stored.key ?? "", model: stored.model ?? "", system: (stored.system ?? "").trim(), sampling: values };
}

export function chooseModel(id) {
	stored.model = id;
	keep();
}

// showDefaults names in each empty field what the server would take.
export function showDefaults(defaults) {
	for (const name of sampling) {
		const value = defaults[name];
		if (!Number.isFinite(value)) continue;
		const rounded = String(Number(value.toPrecision(6))); // 0.8, and not the float's 0.800000011920929
		form.elements[name].placeholder = name === "max_tokens" && value < 0 ? "no limit" : rounded;
	}
}

// openSettings shows the dialog, with the focus in the field that is named, if one is.
export function openSettings(name) {
	fill();
	dialog.showModal();
	if (name) form.elements[name].focus();
}

// watchSettings calls changed when the key was: what the server answers may differ then.
export function watchSettings(changed) {
	form.addEventListener("change", ({ target }) => {
		if (target.name === "theme") return chooseTheme(target.value);
		if (!target.checkValidity()) return target.reportValidity();
		stored[target.name] = target.value;
		keep();
		if (target.name === "key") changed();
	});
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		dialog.close();
	});
	byId("reset").addEventListener("click", () => {
		for (const name of [...sampling, "system"]) delete stored[name];
		keep();
		fill();
	});
	dialog.addEventListener("click", (event) => {
		if (event.target === dialog) dialog.close(); // beside the dialog, on its backdrop
	});
}

function fill() {
	for (const name of [...sampling, "system", "key"]) form.elements[name].value = stored[name] ?? "";
	for (const theme of themes) theme.checked = theme.value === document.documentElement.dataset.theme;
}

function chooseTheme(theme) {
	document.documentElement.dataset.theme = theme;
	try {
		localStorage.setItem("quern theme", theme);
	} catch {
		// then it lasts until the page is closed
	}
}

function keep() {
	try {
		saveSettings(stored);
	} catch {
		// the same
	}
}
