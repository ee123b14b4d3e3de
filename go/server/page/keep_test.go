package page

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/quern-llm/quern/go/internal/browser"
)

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

// An answer is written to its end while another conversation is open, and no further once its own is
// deleted.
func testBackground(t *testing.T, b *browser.Browser) {
	release := make(chan bool)
	gone := make(chan bool, 1)
	s := newServer(t, func(st *stream) {
		st.say("begun, ")
		switch st.request.last() {
		case "slow":
			st.await(release)
			st.say("done")
			st.finish("stop")
		case "doomed":
			gone <- st.hang()
		}
	})
	c := open(t, b, s)
	c.ask("slow")
	c.WaitText(written, "begun")
	c.Click("#new")
	c.shows()
	c.Wait(`!document.querySelector("#send").hidden`)
	c.ask("doomed")
	c.WaitText(written, "begun")
	c.Wait("document.querySelectorAll('.running').length === 2")
	release <- true
	c.Wait("document.querySelectorAll('.running').length === 1")
	c.Click("#conversations li:not(.running) a")
	c.shows("slow", "begun, done")
	c.Exec(`document.querySelector(".running [aria-label^=Delete]").click()`)
	c.listed(1)
	if !<-gone {
		t.Error("the server was not told")
	}
	c.Reload()
	c.shows("slow", "begun, done")
	c.listed(1)
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

func testTabs(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.ask("here")
	c.answered("You said: here")
	url := browser.Eval[string](c.Page, "location.href")
	other := chat{c.Tab(url)}
	other.shows("here", "You said: here")
	c.Exec(`document.querySelector("[aria-label^=Rename]").focus()`)
	other.ask("there")
	other.answered("You said: there")
	c.shows("here", "You said: here", "there", "You said: there")
	c.Wait(`document.activeElement.ariaLabel === "Rename “here”"`) // the list was drawn anew around it
	other.Click(`[aria-label="Delete “here”"]`)
	c.listed(0)
	c.shows()
}
