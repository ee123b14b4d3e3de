package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/quern-llm/quern/go/internal/browser"
)

// A page with the steps that the tests below share.
type chat struct{ *browser.Page }

const (
	answer  = `#thread > li:last-child.answer`
	written = answer + ` article > .body`
)

// ask types a message, sends it with Enter and does not wait.
func (c chat) ask(text string) {
	c.Click("#prompt")
	c.Type(text)
	c.Press(kb.Enter)
}

// answered waits until the last answer holds text and is complete.
func (c chat) answered(text string) {
	c.WaitText(written, text)
	c.idle()
}

func (c chat) idle() {
	c.Wait(`document.querySelector("#stop").hidden && document.querySelector(".answer:not(.live)")`)
}

// shows waits until these are the messages shown.
func (c chat) shows(texts ...string) {
	want, _ := json.Marshal(texts)
	c.Wait(`JSON.stringify([...document.querySelectorAll("#thread > li")].map(li => li.querySelector("article > .body").textContent)) === ` +
		fmt.Sprintf("JSON.stringify(%s ?? [])", want))
}

// listed waits until there are n conversations in the list.
func (c chat) listed(n int) {
	c.Wait(fmt.Sprintf("document.querySelectorAll('#conversations a').length === %d", n))
}

func TestChat(t *testing.T) {
	b := browser.Start(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *browser.Browser)
	}{
		{"sends and streams", testSend},
		{"stops", testStop},
		{"edits", testEdit},
		{"answers again", testAgain},
		{"shows reasoning folded", testReasoning},
		{"keeps conversations", testKeep},
		{"keeps settings", testSettings},
		{"asks for the API key", testKey},
		{"exports and imports", testExport},
		{"refuses foreign files", testImport},
		{"works without a mouse", testKeyboard},
		{"copies", testCopy},
		{"hostile answers stay text", testHostile},
		{"waits for a busy server", testBusy},
		{"waits for the model", testLoading},
		{"shows errors", testErrors},
		{"keeps a broken answer", testBroken},
		{"lives below a prefix", testPrefix},
		{"follows other tabs", testTabs},
		{"fits a phone", testPhone},
		{"has themes", testThemes},
		{"stays fast", testLong},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, b) })
	}
}

func open(t *testing.T, b *browser.Browser, s *server) chat {
	t.Helper()
	return chat{b.Open(t, s.URL)}
}

func testSend(t *testing.T, b *browser.Browser) {
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		st.say("**Gra", "nite**", " is a stone.\n\nIt")
		st.await(release)
		st.say(" is *hard*.")
		st.finish("stop")
	})
	c := open(t, b, s)
	c.WaitText("#model", "stone-1b")
	c.ask("What is granite?")
	c.WaitText(written, "Granite is a stone.It")
	if got := c.Text("#thread .asked .text"); got != "What is granite?" {
		t.Errorf("the question is shown as %q", got)
	}
	c.Wait(`!document.querySelector("#stop").hidden && document.querySelector("#send").hidden`)
	release <- true
	c.answered("It is hard.")
	html := browser.Eval[string](c.Page, `document.querySelector(".answer article > .body").innerHTML`)
	if want := "<p><strong>Granite</strong> is a stone.</p><p>It is <em>hard</em>.</p>"; html != want {
		t.Errorf("the answer is %s, want %s", html, want)
	}
	stats := c.Text(answer + " .stats")
	if want := "4 tokens · 12.5 tokens/s · prompt of 1,200 in 0.4 s, 1,000 of them cached"; stats != want {
		t.Errorf("the numbers are %q, want %q", stats, want)
	}
	if got := c.Text("#context-text"); got != "1,204 / 4,096" {
		t.Errorf("the context is %q", got)
	}
	c.WaitText("#heard", "It is hard.")
	c.WaitText("#heard", "The answer is complete")
	if got := c.Text("#conversations a"); got != "What is granite?" {
		t.Errorf("the conversation is called %q", got)
	}
	req := s.seen()[0]
	if req.Model != "stone-1b" || len(req.Messages) != 1 || req.Temperature != nil || req.authorization != "" {
		t.Errorf("asked for %+v", req)
	}
	c.Click("#prompt")
	c.Type("And")
	c.Press(kb.Enter, kb.ModifierShift)
	c.Type("basalt?")
	c.Click("#send")
	c.Wait("document.querySelectorAll('.answer').length === 2")
	release <- true
	c.idle()
	if req := s.seen()[1]; len(req.Messages) != 3 || req.last() != "And\nbasalt?" || req.Messages[1].Role != "assistant" {
		t.Errorf("the second request has the messages %+v", req.Messages)
	}
}

func testStop(t *testing.T, b *browser.Browser) {
	gone := make(chan bool, 2)
	s := newServer(t, func(st *stream) {
		st.say("Once upon ")
		gone <- st.hang()
	})
	c := open(t, b, s)
	for i, stop := range []func(){
		func() { c.Click("#stop") },
		func() { c.Press(kb.Escape) },
	} {
		c.ask("Tell a story")
		c.Wait(fmt.Sprintf("document.querySelectorAll('.answer').length === %d", i+1))
		c.WaitText(written, "Once upon")
		stop()
		c.WaitText(answer+" .note", "Stopped.")
		c.idle()
		if !<-gone {
			t.Error("the server was not told")
		}
	}
	c.Wait(`document.activeElement.id === "prompt"`)
	if req := s.seen()[1]; req.Messages[1].Content != "Once upon " {
		t.Errorf("what was written before the stop is not in the next request: %+v", req.Messages)
	}
}

func testEdit(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.ask("one")
	c.answered("You said: one")
	c.ask("two")
	c.answered("You said: two")
	edit := `#thread > li:first-child [aria-label="Edit"]`
	c.Click(edit)
	c.Type("!")
	c.Press(kb.Escape) // nothing has changed
	c.shows("one", "You said: one", "two", "You said: two")
	c.Click(edit)
	c.Press("a", kb.ModifierCtrl)
	c.Type("three")
	c.Press(kb.Enter)
	c.answered("You said: three")
	c.shows("three", "You said: three")
	if req := s.seen()[2]; len(req.Messages) != 1 {
		t.Errorf("the edited message was sent with %+v", req.Messages)
	}
	// The other branch is still there.
	if got := c.Text(".asked .variants span"); got != "2 / 2" {
		t.Errorf("the variants are %q", got)
	}
	c.Click(`.asked [aria-label="The variant before"]`)
	c.shows("one", "You said: one", "two", "You said: two")
	c.Wait(`document.activeElement.ariaLabel === "The next variant"`)
	// Arrow up in an empty message edits the last one.
	c.Click("#prompt")
	c.Press(kb.ArrowUp)
	c.Wait(`document.activeElement.closest("li.asked")`)
	c.Press(kb.End, kb.ModifierCtrl)
	c.Type(" more")
	c.Click(`.edit button.main`)
	c.answered("You said: two more")
	c.shows("one", "You said: one", "two more", "You said: two more")
}

func testAgain(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	n := 0
	s.answer = func(st *stream) {
		n++
		st.say(fmt.Sprintf("answer %d", n))
		st.finish("stop")
	}
	c := open(t, b, s)
	c.ask("go")
	c.answered("answer 1")
	c.Click(`.answer [aria-label="Answer again"]`)
	c.answered("answer 2")
	c.shows("go", "answer 2")
	c.Click(`.answer [aria-label="The variant before"]`)
	c.shows("go", "answer 1")
	c.ask("on")
	c.answered("answer 3")
	if req := s.seen()[2]; len(req.Messages) != 3 || req.Messages[1].Content != "answer 1" {
		t.Errorf("the branch shown is not the one sent: %+v", req.Messages)
	}
}

func testReasoning(t *testing.T, b *browser.Browser) {
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		st.think("Let me see: ", "2 + 2 ", "is *4*.")
		st.await(release)
		st.say("4")
		st.finish("stop")
	})
	c := open(t, b, s)
	c.ask("2 + 2?")
	c.WaitText(".reasoning summary", "Thinking…")
	release <- true
	c.answered("4")
	c.WaitText(".reasoning summary", "Thought for ")
	if browser.Eval[bool](c.Page, `document.querySelector(".reasoning").open`) {
		t.Error("the reasoning is open")
	}
	c.Click(".reasoning summary")
	c.WaitText(".reasoning .body", "Let me see: 2 + 2 is 4.")
	c.ask("sure?")
	release <- true
	c.Wait("document.querySelectorAll('.answer').length === 2")
	c.answered("4")
	if req := s.seen()[1]; req.Messages[1].Content != "4" {
		t.Errorf("the reasoning was sent back: %+v", req.Messages)
	}
}

func testKeep(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.ask("about rye")
	c.answered("You said: about rye")
	c.Click("#new")
	c.shows()
	c.ask("about oats")
	c.answered("You said: about oats")
	c.listed(2)
	c.Reload()
	c.shows("about oats", "You said: about oats") // the address says which was open
	c.Click(`#conversations li:nth-child(2) a`)
	c.shows("about rye", "You said: about rye")

	c.Click("#search")
	c.Type("RYE")
	c.listed(1)
	c.Type("x")
	c.listed(0)
	c.WaitText("#nothing", "Nothing found")
	c.Press(kb.Escape)
	c.listed(2)

	c.Click(`[aria-label="Rename “about rye”"]`)
	c.Type("Bread")
	c.Press(kb.Enter)
	c.WaitText(`#conversations [aria-current]`, "Bread")
	c.WaitText("#title", "Bread")

	c.Click(`[aria-label="Delete “Bread”"]`)
	c.listed(1)
	c.shows() // a new conversation
	c.Click("#notice button")
	c.listed(2)
	c.shows("about rye", "You said: about rye")
	c.Click(`[aria-label="Delete “Bread”"]`)
	c.listed(1)
	c.Reload()
	c.listed(1)
	c.WaitText("#conversations", "about oats")
}

func testSettings(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.WaitText("#model", "stone-8b")
	c.Click("#open-settings")
	c.Wait(`document.querySelector("[name=temperature]").placeholder`)
	if placeholder := browser.Eval[string](c.Page, `document.querySelector("[name=temperature]").placeholder`); placeholder != "0.8" {
		t.Errorf("the default temperature is shown as %q", placeholder)
	}
	for _, field := range [][2]string{
		{"system", "Be brief."}, {"temperature", "0"}, {"top_k", "20"}, {"top_p", "0.5"}, {"min_p", "0.1"},
		{"repeat_penalty", "1.2"}, {"max_tokens", "77"}, {"seed", "42"},
	} {
		c.Click("[name=" + field[0] + "]")
		c.Type(field[1])
	}
	c.Click("#settings button.main")
	c.Exec(`(() => { const m = document.querySelector("#model"); m.value = "stone-8b"; m.dispatchEvent(new Event("change")); })()`)
	c.Reload()
	c.Wait(`document.querySelector("#model").value === "stone-8b"`)
	c.ask("hi")
	c.answered("You said: hi")
	req := s.seen()[0]
	if len(req.Messages) != 2 || req.Messages[0] != (turn{"system", "Be brief."}) {
		t.Errorf("the messages are %+v", req.Messages)
	}
	got := fmt.Sprintln(req.Model, *req.Temperature, *req.TopK, *req.TopP, *req.MinP, *req.RepeatPenalty, *req.MaxTokens, *req.Seed)
	if want := "stone-8b 0 20 0.5 0.1 1.2 77 42\n"; got != want {
		t.Errorf("the settings sent are %s, want %s", got, want)
	}

	c.Click("#open-settings")
	c.Click("[name=top_p]")
	c.Press("a", kb.ModifierCtrl)
	c.Type("7")
	c.Press(kb.Tab)
	c.Wait(`!document.querySelector("[name=top_p]").checkValidity()`) // and it is not kept
	c.Press(kb.Escape)
	c.Click("#open-settings")
	c.Wait(`document.querySelector("[name=top_p]").value === "0.5"`)
	c.Click("#reset")
	c.Press(kb.Escape)
	c.ask("again")
	c.answered("You said: again")
	if req := s.seen()[1]; req.Temperature != nil || req.Messages[0].Role != "user" {
		t.Errorf("after the reset, the request is %+v", req)
	}
}

func testKey(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	s.key = "secret"
	c := open(t, b, s)
	c.Expect("status of 401")
	c.WaitText("#state", "The server wants an API key")
	c.ask("hi")
	c.WaitText(answer+" .note", "Invalid API key")
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

func testExport(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.ask("keep this")
	c.answered("You said: keep this")
	c.listed(1)
	// What the page offers for download, read before the browser takes it.
	c.Exec(`(() => {
		const made = URL.createObjectURL;
		URL.createObjectURL = (blob) => { globalThis.exported = blob.text(); return made(blob); };
		addEventListener("click", (e) => { if (e.target.download) e.preventDefault(); }, true);
		HTMLAnchorElement.prototype.click = function () { globalThis.exportedAs = this.download; };
	})()`)
	c.Click("#export")
	c.Wait("globalThis.exportedAs")
	text := browser.Eval[string](c.Page, "exported")
	var file struct {
		Format        string
		Version       int
		Conversations []struct{ Title string }
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil || file.Version != 1 || len(file.Conversations) != 1 || file.Conversations[0].Title != "keep this" {
		t.Fatalf("exported %s: %v", text, err)
	}
	path := filepath.Join(t.TempDir(), "export.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	other := open(t, b, s)
	other.listed(0)
	other.Files("#file", path)
	other.listed(1)
	other.Click("#conversations a")
	other.shows("keep this", "You said: keep this")
	other.Files("#file", path)
	other.WaitText("#notice", "Imported 0 of 1")
}

func testImport(t *testing.T, b *browser.Browser) {
	c := open(t, b, newServer(t, nil))
	dir := t.TempDir()
	conversation := func(messages string) string {
		return `{"format":"quern-conversations","version":1,"conversations":[{"id":"a","title":"t","leaf":"m","messages":[` + messages + `]}]}`
	}
	for i, tt := range []struct{ content, want string }{
		{`hello`, "it is not JSON"},
		{`{"a":1}`, "it was not exported from this page"},
		{`null`, "it was not exported from this page"},
		{`{"format":"quern-conversations","conversations":[7]}`, "a conversation is not an object"},
		{`{"format":"quern-conversations","conversations":[{"id":"<img>"}]}`, "a conversation's id is \"<img>\""},
		{conversation(``), "ends in a message that is not there"},
		{conversation(`null`), "a message's id in conversation a is not text"},
		{conversation(`{"id":"m","parent":"m","role":"user","content":"x"}`), "message m comes before its parent"},
		{conversation(`{"id":"m","parent":"","role":"tool","content":"x"}`), `message m has the role "tool"`},
		{conversation(`{"id":"m","parent":"","role":"user","content":{}}`), "message m is not text"},
		{conversation(`{"id":"m","parent":"","role":"user","content":"x"},{"id":"m","parent":"","role":"user","content":"x"}`),
			"two messages of conversation a have the id m"},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(path, []byte(tt.content), 0o644); err != nil {
			t.Fatal(err)
		}
		c.Files("#file", path)
		c.WaitText("#notice", fmt.Sprintf("%d.json was not imported: ", i))
		if got := c.Text("#notice"); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q in it", tt.content, got, tt.want)
		}
	}
	c.listed(0)
}

// From loading to the second conversation, with keys alone.
func testKeyboard(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.Wait(`document.activeElement.id === "prompt"`)
	c.Type("first")
	c.Press(kb.Enter)
	c.answered("You said: first")
	c.Press("O", kb.ModifierCtrl, kb.ModifierShift)
	c.shows()
	c.Wait(`document.activeElement.id === "prompt"`)
	c.Type("second")
	c.Press(kb.Enter)
	c.answered("You said: second")

	c.Press("k", kb.ModifierCtrl)
	c.Wait(`document.activeElement.id === "search"`)
	c.Press(kb.ArrowDown)
	c.Press(kb.ArrowDown)
	c.Wait(`document.activeElement.textContent === "first"`)
	c.Press(kb.Enter)
	c.shows("first", "You said: first")

	c.Press("k", kb.ModifierCtrl)
	c.Press(kb.ArrowDown)
	c.Press(kb.F2)
	c.Type("renamed")
	c.Press(kb.Enter)
	c.WaitText("#conversations", "renamed")
	c.Wait(`document.activeElement.textContent === "renamed"`)
	c.Press(kb.Delete)
	c.listed(1)

	c.Press(",", kb.ModifierCtrl)
	c.Wait(`document.querySelector("#settings").open`)
	c.Press(kb.Escape)
	c.Wait(`!document.querySelector("#settings").open`)

	// Everything that can be used is reached with Tab, has a name, and shows the focus.
	c.Reload()
	c.listed(1)
	c.Click("#conversations a")
	c.Wait("document.querySelectorAll('#thread > li').length === 2")
	c.Exec(`document.querySelector("#skip").focus({focusVisible: true})`)
	names := map[string]bool{}
	for range 60 {
		type stop struct {
			Name    string `json:"name"`
			Outline bool   `json:"outline"`
		}
		at := browser.Eval[stop](c.Page, `(() => {
			const e = document.activeElement;
			const name = e.ariaLabel || e.labels?.[0]?.textContent || e.textContent.trim() || "";
			const style = getComputedStyle(e);
			const ring = (s) => s.outlineStyle !== "none" && s.outlineWidth !== "0px";
			const wrapped = e.id === "prompt" && getComputedStyle(e.form).borderColor === getComputedStyle(document.querySelector("#send")).borderColor;
			return e === document.body ? {name: "", outline: true} : {name, outline: ring(style) || wrapped};
		})()`)
		if at.Name == "" {
			break // round once
		}
		if !at.Outline {
			t.Errorf("the focus on %q is not seen", at.Name)
		}
		names[at.Name] = true
		c.Press(kb.Tab)
	}
	for _, want := range []string{"Skip to the message", "New conversation", "Search the conversations", "Delete “first”", "Settings", "Import conversations",
		"Export all conversations", "Conversations", "Model", "Messages", "Edit", "Copy", "Answer again", "Message", "Send"} {
		if !names[want] {
			t.Errorf("Tab does not reach %q, only %v", want, names)
		}
	}
}

func testCopy(t *testing.T, b *browser.Browser) {
	s := newServer(t, func(st *stream) {
		st.say("Run:\n\n```sh\nmake\n\tmake test\n```\n")
		st.finish("stop")
	})
	c := open(t, b, s)
	c.Exec(`Object.defineProperty(navigator, "clipboard", {value: {writeText: async (text) => { globalThis.clip = text; }}, configurable: true})`)
	c.ask("how?")
	c.answered("make test")
	c.Click(`.code [aria-label="Copy the code"]`)
	c.Wait("globalThis.clip")
	if clip := browser.Eval[string](c.Page, "clip"); clip != "make\n\tmake test" {
		t.Errorf("copied the code as %q", clip)
	}
	c.Click(`.answer footer [aria-label="Copy"]`)
	c.Wait(`clip.startsWith("Run:")`)
	if clip := browser.Eval[string](c.Page, "clip"); clip != "Run:\n\n```sh\nmake\n\tmake test\n```\n" {
		t.Errorf("copied the answer as %q", clip)
	}
	c.WaitText("#heard", "Copied")
	// From http and another machine there is no such interface.
	c.Exec(`Object.defineProperty(navigator, "clipboard", {value: undefined}); globalThis.clip = "";
		addEventListener("copy", () => { clip = getSelection().toString() || document.activeElement.value; })`)
	c.Click(`.asked footer [aria-label="Copy"]`)
	c.Wait(`clip === "how?"`)
	c.Wait(`document.activeElement.ariaLabel === "Copy"`)
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

func testBusy(t *testing.T, b *browser.Browser) {
	n := 0
	s := newServer(t, func(st *stream) {
		if n++; n < 3 {
			st.w.Header().Set("Retry-After", "1")
			refuse(st.w, http.StatusTooManyRequests, "rate_limit_error", "All slots are in use.")
			return
		}
		st.say("my turn")
		st.finish("stop")
	})
	c := open(t, b, s)
	c.Expect("status of 429")
	c.ask("hi")
	c.WaitText(answer+" .note", "All slots are in use. Asking again in 1 s.")
	c.answered("my turn")
	c.Wait(`document.querySelector(".note").hidden`)

	n = -1000
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
		{"the API's", "status of 400", "the prompt has 9000 tokens, the context 4096", func(st *stream) {
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
		s.CloseClientConnections()
		s.Close()
		c.ask("hi")
		c.WaitText(answer+" .note", "The server cannot be reached.")
		c.WaitText("#heard", "The server cannot be reached.")
	})
}

func testBroken(t *testing.T, b *browser.Browser) {
	broken := true
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		if broken {
			st.say("half of ")
			st.await(release)
			panic(http.ErrAbortHandler) // the connection ends
		}
		st.say("all of it")
		st.finish("stop")
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
	broken = false
	c.Click(answer + " .note button")
	c.answered("all of it")
	if got := c.Text(answer + " .variants span"); got != "2 / 2" {
		t.Errorf("the broken answer is not kept as a variant: %q", got)
	}

	// The page is left while an answer is being written.
	s.answer = func(st *stream) {
		st.say("never ends")
		st.hang()
	}
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
	c.Reload()
	c.shows("hi", "You said: hi")
}

func testTabs(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.ask("here")
	c.answered("You said: here")
	url := browser.Eval[string](c.Page, "location.href")
	other := chat{c.Tab(url)}
	other.shows("here", "You said: here")
	other.ask("there")
	other.answered("You said: there")
	c.shows("here", "You said: here", "there", "You said: there")
	other.Click(`[aria-label="Delete “here”"]`)
	c.listed(0)
	c.shows()
}

func testPhone(t *testing.T, b *browser.Browser) {
	s := newServer(t, func(st *stream) {
		st.say("```\n" + strings.Repeat("a long line of code ", 20) + "\n```\n\n| a | b |\n|---|---|\n| " + strings.Repeat("wide", 40) + " | " + strings.Repeat("w", 90) + " |\n\n" + strings.Repeat("x", 300))
		st.finish("stop")
	})
	c := chat{b.Open(t, s.URL, browser.Phone(360, 740, 1))}
	c.Wait(`document.querySelector("#sidebar").inert`)
	c.Click("#prompt")
	c.Type("one")
	c.Press(kb.Enter) // a new line: there is no Shift on a phone
	c.Type("two")
	c.Click("#send")
	c.answered("xxx")
	if got := s.seen()[0].last(); got != "one\ntwo" {
		t.Errorf("sent %q", got)
	}
	wide := browser.Eval[[]string](c.Page, `[...document.querySelectorAll("body, header > *, #thread > li, #dock *, #thread p")].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))`)
	if len(wide) > 0 {
		t.Errorf("these do not fit the width: %q", wide)
	}
	small := browser.Eval[[]string](c.Page, `[...document.querySelectorAll("button, select")].filter(e => e.checkVisibility() && !e.closest("[inert]") && Math.min(e.offsetWidth, e.offsetHeight) < 36).map(e => e.outerHTML.slice(0, 80))`)
	if len(small) > 0 {
		t.Errorf("these are too small for a finger: %q", small)
	}
	c.Click("#menu")
	c.Wait(`!document.querySelector("#sidebar").inert`)
	c.Click("#new")
	c.Wait(`document.querySelector("#sidebar").inert`)
	c.shows()
}

func testThemes(t *testing.T, b *browser.Browser) {
	c := open(t, b, newServer(t, nil))
	dark := `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every(v => v < 60)`
	c.Wait("!(" + dark + ")")
	c.Media("prefers-color-scheme", "dark")
	c.Wait(dark)
	c.Click("#open-settings")
	c.Click("[name=theme][value=light]")
	c.Wait("!(" + dark + ")")
	c.Reload()
	c.Wait("!(" + dark + ")")
	c.Media("prefers-color-scheme", "light")
	c.Click("#open-settings")
	c.Click("[name=theme][value=dark]")
	c.Wait(dark)
	// Text stands out from its ground by the ratio that the accessibility guidelines ask, in both.
	for _, theme := range []string{"dark", "light"} {
		c.Click("[name=theme][value=" + theme + "]")
		worst := browser.Eval[[]string](c.Page, contrasts)
		if len(worst) > 0 {
			t.Errorf("%s: too little contrast: %q", theme, worst)
		}
	}
	c.Media("prefers-reduced-motion", "reduce")
	animated := browser.Eval[int](c.Page, `[...document.styleSheets].flatMap(s => [...s.cssRules]).filter(r => r.cssText.includes("animation") && !r.conditionText?.includes("reduced-motion")).length`)
	if animated > 0 {
		t.Errorf("%d rules move things for those who asked that nothing moves", animated)
	}
}

// contrasts lists the pairs of text and ground whose contrast is below 4.5.
const contrasts = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const luminance = (name) => {
		const probe = document.body.appendChild(document.createElement("i"));
		probe.style.color = "var(" + name + ")";
		canvas.fillStyle = getComputedStyle(probe).color;
		probe.remove();
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const pairs = [];
	for (const ground of ["--paper", "--side", "--raised", "--bubble", "--code"]) {
		for (const text of ["--ink", "--soft", "--accent"]) pairs.push([text, ground]);
	}
	pairs.push(["--bad", "--paper"], ["--on-accent", "--accent"], ["--paper", "--ink"]);
	return pairs.map(([text, ground]) => {
		const [a, b] = [luminance(text), luminance(ground)].sort((x, y) => y - x);
		return [(a + 0.05) / (b + 0.05), text + " on " + ground];
	}).filter(([ratio]) => ratio < 4.5).map(([ratio, pair]) => pair + " " + ratio.toFixed(2));
})()`

// A thousand messages, and an answer of a thousand blocks that comes as fast as it can be sent.
func testLong(t *testing.T, b *browser.Browser) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "Paragraph %d has *some* words and `code`.\n\n", i)
	}
	s := newServer(t, func(st *stream) {
		all := text.String()
		for len(all) > 0 {
			n := min(7, len(all))
			st.say(all[:n])
			all = all[n:]
		}
		st.finish("stop")
	})
	c := open(t, b, s)
	c.Exec(`(async () => {
		const store = await import("./assets/store.js");
		const { newConversation, add } = await import("./assets/conversation.js");
		const conversation = newConversation();
		let parent = "";
		for (let i = 0; i < 1000; i++) {
			const m = add(conversation, parent, i % 2 ? "assistant" : "user", "# Message " + i + "\n\n- one\n- two\n\n" + "word ".repeat(60));
			if (i % 2) m.finish = "stop";
			parent = m.id;
		}
		await store.put(conversation);
		history.replaceState(null, "", "#" + conversation.id);
	})()`)
	c.Reload()
	c.Wait("document.querySelectorAll('#thread > li').length === 1000")
	c.Exec(`globalThis.longest = 0; new PerformanceObserver((list) => {
		for (const e of list.getEntries()) longest = Math.max(longest, e.duration);
	}).observe({type: "longtask"})`)
	start := time.Now()
	c.ask("go on")
	c.answered("Paragraph 999")
	took := time.Since(start)
	longest := browser.Eval[float64](c.Page, "longest")
	t.Logf("%d bytes in pieces of 7 below 1000 messages: %v, the longest task %.0f ms", text.Len(), took, longest)
	if longest > 1000 {
		t.Errorf("the page stood still for %.0f ms", longest)
	}
	c.Wait(`(() => { const s = document.querySelector("#scroller"); return s.scrollHeight - s.scrollTop - s.clientHeight < 50; })()`)
	// Who scrolls up stays there.
	c.Exec(`document.querySelector("#scroller").scrollTop -= 600`)
	c.Wait(`!document.querySelector("#latest").hidden`)
	c.Click("#latest")
	c.Wait(`document.querySelector("#latest").hidden`)
}
