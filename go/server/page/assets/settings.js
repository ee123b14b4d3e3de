import { byId, el } from "./dom.js";
import { loadSettings, saveSettings } from "./store.js";

// The dialog's fields that go into a request under their own names. An empty one is not sent, and the
// server's default holds.
const sampling = ["temperature", "top_k", "top_p", "min_p", "repeat_penalty", "max_tokens", "seed"];
const integers = new Set(["top_k", "max_tokens", "seed"]);

const stored = loadSettings();
const themes = [...document.querySelectorAll("input[name=theme]")];
const dialog = byId("settings");
const form = byId("settings-form");
let offered = []; // the tools of the server

// settings returns what a request needs: key, model, system, sampling, the tools that the model may ask
// for, the schema of answers, and whether probabilities are wanted.
export function settings() {
	const values = {};
	for (const name of sampling) {
		const number = Number(stored[name]);
		if (stored[name] && Number.isFinite(number)) values[name] = integers.has(name) ? Math.round(number) : number;
	}
	return {
		key: stored.key ?? "",
		model: stored.model ?? "",
		system: (stored.system ?? "").trim(),
		sampling: values,
		tools: offered.filter(isChosen).map((tool) => ({ type: "function", function: tool.function })),
		schema: stored.schema ? JSON.parse(stored.schema) : undefined,
		probabilities: Boolean(stored.probabilities),
	};
}

const isChosen = (tool) => Boolean(stored.tools?.includes(tool.function.name));

// modes returns what is on that changes answers, each with the field that turns it off.
export function modes() {
	const n = offered.filter(isChosen).length;
	return [
		n && { label: n === 1 ? "1 tool" : `${n} tools`, field: "tools" },
		stored.schema && { label: "JSON schema", field: "schema" },
		stored.probabilities && { label: "Probabilities", field: "probabilities" },
	].filter(Boolean);
}

// serverOf returns the MCP server that has a tool, if the server is known.
export const serverOf = (name) => offered.find((tool) => tool.function.name === name)?.server;

// showTools lists the tools that the reader may offer to the model. None is on before it was chosen: each
// takes room in the prompt.
export function showTools(tools) {
	offered = tools;
	byId("tools").hidden = !tools.length;
	byId("tool-list").replaceChildren(...tools.map((tool) =>
		el("label", { title: tool.function.description ?? null },
			el("input", { type: "checkbox", name: "tools", value: tool.function.name, checked: isChosen(tool) }),
			el("span", {}, el("code", {}, tool.function.name), el("span", { class: "soft" }, ` of ${tool.server}`)))));
}

// faultOf says what is wrong with a schema, "" if nothing is. Whether it can be held to, the server says.
function faultOf(text) {
	if (!text) return "";
	try {
		const schema = JSON.parse(text);
		return typeof schema === "object" && schema !== null && !Array.isArray(schema) ? "" : "A JSON schema is an object";
	} catch (err) {
		return `This is not JSON: ${err.message}`;
	}
}

export function chooseModel(id) {
	stored.model = id;
	keep();
}

// showDefaults names in each empty field what the server would take.
export function showDefaults(defaults) {
	for (const name of sampling) {
		const value = defaults[name];
		if (!Number.isFinite(value) || name === "seed") continue; // without a seed each answer has another
		const rounded = String(Number(value.toPrecision(6))); // 0.8, and not the float's 0.800000011920929
		form.elements[name].placeholder = name === "max_tokens" && value < 0 ? "no limit" : rounded;
	}
}

// openSettings shows the dialog, with the focus in the field that is named, if one is.
export function openSettings(name) {
	fill();
	dialog.showModal();
	if (name) form.querySelector(`[name="${name}"]`).focus();
}

// watchSettings calls changed with the name of a field whenever one was changed.
export function watchSettings(changed) {
	form.addEventListener("change", ({ target }) => {
		if (target.name === "theme") return chooseTheme(target.value);
		if (target.name === "schema") target.setCustomValidity(faultOf(target.value.trim()));
		if (!target.checkValidity()) return target.reportValidity();
		if (target.name === "tools") {
			const others = (stored.tools ?? []).filter((name) => name !== target.value);
			stored.tools = target.checked ? [...others, target.value] : others;
		} else {
			stored[target.name] = target.type === "checkbox" ? target.checked : target.value.trim();
		}
		keep();
		changed(target.name);
	});
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		dialog.close();
	});
	byId("reset").addEventListener("click", () => {
		for (const name of [...sampling, "system", "schema", "probabilities", "tools"]) delete stored[name];
		keep();
		fill();
		changed("");
	});
	dialog.addEventListener("click", (event) => {
		if (event.target === dialog) dialog.close(); // beside the dialog, on its backdrop
	});
}

function fill() {
	for (const name of [...sampling, "system", "schema", "key"]) form.elements[name].value = stored[name] ?? "";
	form.elements.schema.setCustomValidity("");
	form.elements.probabilities.checked = Boolean(stored.probabilities);
	showTools(offered);
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
