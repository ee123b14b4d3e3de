// The page has no service worker. Where llama-server was served at this address before, browsers keep the one of its page, which
// shows that page from its cache whatever is served now. They ask here whether there is a newer one: it is this, which deletes what
// that one has cached, loads the pages again that it has shown, and goes.
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(leave()));

async function leave() {
  // Other programs may have caches at this address too; those of the worker are named after its scope.
  const own = (await caches.keys()).filter((name) => name.endsWith(registration.scope));
  await Promise.all(own.map((name) => caches.delete(name)));
  await registration.unregister();
  const shown = await clients.matchAll({ type: "window" });
  await Promise.all(shown.map((page) => page.navigate(page.url)));
}
