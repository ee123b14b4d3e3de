package page

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/internal/browser"
)

// Another page was served at the address before, whose service worker shows it from its cache. That worker goes, with its cache
// and no other, and this page is shown.
func testWorker(t *testing.T, b *browser.Browser) {
	const worker = `const cache = "precache-" + registration.scope;
		addEventListener("install", (event) => event.waitUntil(caches.open(cache).then((c) => c.add("./")).then(() => skipWaiting())));
		addEventListener("activate", (event) => event.waitUntil(clients.claim()));
		addEventListener("fetch", (event) => event.respondWith(caches.match(event.request).then((r) => r ?? fetch(event.request))));`
	const page = `<!doctype html><link rel="icon" href="data:,"><title>The other</title><script>navigator.serviceWorker.register("./sw.js")</script>`
	s := newServer(t, nil)
	var ours atomic.Bool
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case ours.Load():
			s.Config.Handler.ServeHTTP(w, r)
		case r.URL.Path == "/sw.js":
			w.Header().Set("Content-Type", "text/javascript")
			w.Write([]byte(worker))
		default:
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte(page))
		}
	}))
	t.Cleanup(site.Close)
	p := b.Open(t, site.URL+"/")
	p.Wait(`document.title === "The other" && navigator.serviceWorker.controller`)
	p.Exec(`caches.open("another program's").then(() => globalThis.opened = true)`)
	p.Wait(`globalThis.opened`)

	ours.Store(true)
	p.Reload() // what is shown is cached
	p.Wait(`document.title === "Quern" && document.querySelector("#prompt")`)
	p.Exec(`Promise.all([navigator.serviceWorker.getRegistrations(), caches.keys()]).then((all) => globalThis.left = all)`)
	p.Wait(`globalThis.left && globalThis.left[0].length === 0`)
	if left := browser.Eval[[]string](p, `globalThis.left[1]`); len(left) != 1 || left[0] != "another program's" {
		t.Errorf("of the caches %q are left", left)
	}
}
