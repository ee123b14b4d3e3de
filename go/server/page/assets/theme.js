// Loaded before anything is drawn, so that a chosen theme does not flash. settings.js writes it.
try {
	document.documentElement.dataset.theme = localStorage.getItem("quern theme") ?? "auto";
} catch {
	document.documentElement.dataset.theme = "auto"; // a browser that keeps nothing
}
