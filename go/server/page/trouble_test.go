package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/quern-llm/quern/go/internal/browser"
)

func testKey(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	s.key = "secret"
	c := open(t, b, s)
	c.Expect("status of 401")
	c.WaitText("#state", "The server wants an API key")
	c.ask("hi")
	c.WaitText(answer+" .note", "The server wants an API key, and has not taken this one.")
	c.Click(answer + " .note button")
	c.Wait(`document.activeElement.name === "key"`)
	c.Type("secret")
	c.Press(kb.Enter)
	c.WaitText("#model", "stone-1b")
	c.Wait(`!document.querySelector("#state").textContent`)
	c.Click(answer + " .note button:last-child")
	c.answered("You said: hi")
	c.shows("hi", "You said: hi") // the empty answer is gone
	c.Wait(`document.querySelector(".variants").hidden`)
}

func testVectors(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	s.vectors = true
	c := open(t, b, s)
	c.WaitText("#model", "stone-1b")
	c.Wait(`document.querySelector("#vectors").hidden && !document.querySelector("#composer").hidden`)
	c.Exec(`const model = document.querySelector("#model"); model.value = "stone-8b"; model.dispatchEvent(new Event("change", { bubbles: true }))`)
	c.Wait(`!document.querySelector("#vectors").hidden && document.querySelector("#composer").hidden`)
	c.WaitText("#vectors", "This model computes vectors of texts and does not chat.")
	c.Exec(`const back = document.querySelector("#model"); back.value = "stone-1b"; back.dispatchEvent(new Event("change", { bubbles: true }))`)
	c.ask("**Bold** and [a link](https://example.com)")
	c.answered("You said: Bold and a link")
	c.WaitText("#title", "Bold and a link")
}

func testHostile(t *testing.T, b *browser.Browser) {
	attack := strings.Join([]string{
		`<script>pwned()</script>`,
		`<img src=x onerror=pwned()>`,
		`<svg onload=pwned()><a href="javascript:pwned()">x</a></svg>`,
		`[link](javascript:pwned())`,
		`[link](  JaVaScRiPt:pwned())`,
		`[link](data:text/html,<script>pwned()</script>)`,
		`[link](vbscript:pwned)`,
		"![image](https://tracker.example/pixel.png \"onerror=pwned()\")",
		`<https://ok.example/"onmouseover="pwned()>`,
		"```html\"><script>pwned()</script>\n</code></pre><script>pwned()</script>\n```",
		`| <img src=x onerror=pwned()> |` + "\n|---|\n" + `| <iframe srcdoc="<script>pwned()</script>"></iframe> |`,
		`&lt;img src=x onerror=pwned()&gt;`,
		"`<img src=x onerror=pwned()>`",
		`<form action=/v1/x><input autofocus onfocus=pwned()><style>*{display:none}</style><base href=//evil>`,
	}, "\n\n")
	s := newServer(t, func(st *stream) {
		st.think(attack)
		for _, r := range attack {
			st.say(string(r))
		}
		st.finish("stop")
	})
	c := open(t, b, s)
	c.Exec(`globalThis.pwned = () => { globalThis.hit = true; }`)
	c.ask(attack[:25])
	c.idle()
	c.WaitText(answer, "<base href=//evil>")
	c.Click(".reasoning summary")
	c.WaitText(".reasoning .body", "<base href=//evil>")
	c.Reload()
	c.Wait("document.querySelectorAll('#thread > li').length === 2")
	tags := browser.Eval[[]string](c.Page, `[...new Set([...document.querySelectorAll("#thread .body *")].map(e => e.tagName.toLowerCase()))].sort()`)
	allowed := " a article button code div figcaption figure p path pre span svg table tbody td th thead tr "
	for _, tag := range tags {
		if !strings.Contains(allowed, " "+tag+" ") {
			t.Errorf("the answer made a <%s>", tag)
		}
	}
	links := browser.Eval[[]string](c.Page, `[...document.querySelectorAll("#thread .body a")].map(a => a.href)`)
	for _, link := range links {
		if !strings.HasPrefix(link, "https://") {
			t.Errorf("the answer made a link to %s", link)
		}
	}
	attributes := browser.Eval[[]string](c.Page, `[...document.querySelectorAll("#thread .body *")].flatMap(e => e.getAttributeNames()).filter(n => /^on|^style|^src/.test(n))`)
	if len(attributes) > 0 {
		t.Errorf("the answer made the attributes %v", attributes)
	}
	c.Wait("globalThis.hit === undefined")
}

// The browser stops what an injected script or markup would do, and this test sees that it does.
func testPolicy(t *testing.T, b *browser.Browser) {
	c := open(t, b, newServer(t, nil))
	for _, expected := range []string{"Content Security Policy", "TrustedHTML", "TrustedScript"} {
		c.Expect(expected)
	}
	stopped := browser.Eval[[]string](c.Page, `(async () => {
		const stopped = new Set();
		addEventListener("securitypolicyviolation", (e) => stopped.add(e.effectiveDirective));
		const attempt = async (f) => { try { await f(); } catch {} };
		await attempt(() => { document.body.innerHTML = "<b>x</b>"; });
		await attempt(() => document.createElement("div").setAttribute("style", "color: red"));
		await attempt(() => { new Image().src = "http://127.0.0.1:1/x.png"; });
		await attempt(() => fetch("http://127.0.0.1:1/"));
		await attempt(() => import("http://127.0.0.1:1/x.js"));
		await attempt(() => document.body.append(Object.assign(document.createElement("base"), {href: "/x"})));
		await attempt(() => document.body.append(Object.assign(document.createElement("iframe"), {src: "/"})));
		await new Promise((done) => setTimeout(done, 200));
		return [...stopped].sort();
	})()`)
	want := "base-uri connect-src frame-src img-src require-trusted-types-for script-src-elem style-src-attr"
	if got := strings.Join(stopped, " "); got != want {
		t.Errorf("stopped %s, want %s", got, want)
	}
}

func testBusy(t *testing.T, b *browser.Browser) {
	busy := func(st *stream) {
		st.w.Header().Set("Retry-After", "1")
		refuse(st.w, http.StatusTooManyRequests, "rate_limit_error", "All slots are in use.")
	}
	s := newServer(t, busy)
	c := open(t, b, s)
	c.Expect("status of 429")
	c.ask("hi")
	c.WaitText(answer+" .note", "All slots are in use. Asking again in 1 s.")
	s.script(nil)
	c.answered("You said: hi")
	c.Wait(`document.querySelector(".note").hidden`)

	s.script(busy)
	c.ask("and now?")
	c.WaitText(answer+" .note", "All slots are in use.")
	c.Press(kb.Escape)
	c.WaitText(answer+" .note", "Stopped.")
	asked := len(s.seen())
	time.Sleep(1500 * time.Millisecond)
	if now := len(s.seen()); now != asked {
		t.Errorf("asked %d times more after it was stopped", now-asked)
	}
}

func testLoading(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	s.loading = 2
	c := open(t, b, s)
	c.Expect("status of 503")
	c.WaitText("#state", "Loading model")
	c.ask("are you there?")
	c.WaitText(answer+" .note", "Loading model. Asking again in")
	c.answered("You said: are you there?")
	c.WaitText("#model", "stone-1b")
	c.Wait(`!document.querySelector("#state").textContent`)
}

func testErrors(t *testing.T, b *browser.Browser) {
	for _, tt := range []struct {
		name, complaint, want string
		answer                func(*stream)
	}{
		{"the API's", "status of 400", "temperature: want a number", func(st *stream) {
			refuse(st.w, http.StatusBadRequest, "invalid_request_error", "temperature: want a number")
		}},
		{"too long", "status of 400", "The conversation is longer than the context.Edit the messageNew conversation", func(st *stream) {
			refuse(st.w, http.StatusBadRequest, "exceed_context_size_error", "the prompt has 9000 tokens, the context 4096")
		}},
		{"a proxy's", "status of 502", "502 Bad Gateway", func(st *stream) {
			st.w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(st.w, "<html><script>alert(1)</script>")
		}},
		{"midway", "", "out of memory", func(st *stream) {
			st.say("partial")
			st.send(map[string]any{"error": map[string]any{"code": 500, "message": "out of memory", "type": "server_error"}})
		}},
		{"not JSON", "", "The server sent something that is not JSON.", func(st *stream) {
			st.say("partial")
			fmt.Fprint(st.w, "data: {oops\n\n")
		}},
		{"cut", "", "Cut at the limit of tokens.", func(st *stream) {
			st.say("partial")
			st.finish("length")
		}},
		{"full", "", "The context is full.New conversation", func(st *stream) {
			st.say("partial")
			st.tokens = 4096 - 1200
			st.finish("length")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, b, newServer(t, tt.answer))
			if tt.complaint != "" {
				c.Expect(tt.complaint)
			}
			c.ask("hi")
			c.WaitText(answer+" .note", tt.want)
			c.idle()
			c.Wait(`!document.querySelector(".note").hidden`)
			if tt.complaint == "" && c.Text(written) != "partial" {
				t.Errorf("the text before the error is now %q", c.Text(written))
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		s := newServer(t, nil)
		c := open(t, b, s)
		c.WaitText("#model", "stone-1b")
		c.Expect("ERR_CONNECTION_REFUSED")
		for _, late := range []string{"ERR_CONNECTION_RESET", "ERR_SOCKET_NOT_CONNECTED"} { // what the page asks for beside it
			c.Expect(late)
		}
		s.CloseClientConnections()
		s.Close()
		c.ask("hi")
		c.WaitText(answer+" .note", "The server cannot be reached.")
		c.WaitText("#heard", "The server cannot be reached.")
	})
}

func testBroken(t *testing.T, b *browser.Browser) {
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		st.say("half of ")
		st.await(release)
		panic(http.ErrAbortHandler) // the connection ends
	})
	c := open(t, b, s)
	c.Expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	c.ask("everything")
	c.WaitText(written, "half of")
	release <- true
	c.WaitText(answer+" .note", "The connection broke before the answer was complete.")
	c.shows("everything", "half of")
	c.listed(1)
	c.Reload()
	c.shows("everything", "half of")
	s.script(nil)
	c.Click(answer + " .note button")
	c.answered("You said: everything")
	if got := c.Text(answer + " .variants span"); got != "2 / 2" {
		t.Errorf("the broken answer is not kept as a variant: %q", got)
	}

	// The page is left while an answer is being written.
	s.script(func(st *stream) {
		st.say("never ends")
		st.hang()
	})
	c.ask("more")
	c.WaitText(written, "never ends")
	c.Wait(`document.querySelectorAll("#conversations .running").length === 1`)
	c.Reload()
	c.WaitText(answer+" .note", "This answer was left before it was complete.")
}

func testPrefix(t *testing.T, b *browser.Browser) {
	s := newServerAt(t, "/llm/one", nil)
	c := open(t, b, s)
	c.WaitText("#model", "stone-1b")
	c.ask("hi")
	c.answered("You said: hi")
	c.kept()
	c.Reload()
	c.shows("hi", "You said: hi")
}
