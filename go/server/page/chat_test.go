package page

import (
	"encoding/json"
	"fmt"
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
		{"writes on in the background", testBackground},
		{"keeps settings", testSettings},
		{"asks for the API key", testKey},
		{"does not chat with a model of vectors", testVectors},
		{"exports and imports", testExport},
		{"refuses foreign files", testImport},
		{"works without a mouse", testKeyboard},
		{"copies", testCopy},
		{"hostile answers stay text", testHostile},
		{"has a policy that holds", testPolicy},
		{"waits for a busy server", testBusy},
		{"waits for the model", testLoading},
		{"shows errors", testErrors},
		{"keeps a broken answer", testBroken},
		{"lives below a prefix", testPrefix},
		{"follows other tabs", testTabs},
		{"fits a phone", testPhone},
		{"has themes", testThemes},
		{"stays fast", testLong},
		{"takes text files", testAttach},
		{"records", testRecord},
		{"colours code", testHighlight},
		{"draws Markdown", testMarkdown},
		{"takes the place of another page", testWorker},
		{"real engine", testReal},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, b) })
	}
}

// kept waits until the browser's store has the whole answer, which is shown a moment before.
func (c chat) kept() {
	c.Exec(`globalThis.finish = ""`)
	c.Wait(`(import("./assets/store.js").then((store) => store.all()).then((all) => {
		globalThis.finish = all.at(-1)?.messages.at(-1)?.finish;
	}), globalThis.finish === "stop")`)
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
	if want := "4 tokens · 12.5 tokens/s · prompt of 1,200 in 400 ms, 1,000 of them cached"; stats != want {
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
	var s *server
	s = newServer(t, func(st *stream) {
		st.say(fmt.Sprintf("answer %d", len(s.seen())))
		st.finish("stop")
	})
	c := open(t, b, s)
	c.ask("go")
	c.answered("answer 1")
	c.Click(`.answer [aria-label="Answer again"]`)
	c.answered("answer 2")
	c.shows("go", "answer 2")
	c.Click(`.answer [aria-label="The variant before"]`)
	c.shows("go", "answer 1")
	// One answer at a time: a message that is written meanwhile is not lost.
	release := make(chan bool)
	s.script(func(st *stream) {
		st.await(release)
		st.say("answer 3")
		st.finish("stop")
	})
	c.ask("on")
	c.Wait(`document.querySelector(".live")`)
	c.ask("patience")
	c.WaitText("#notice", "An answer is being written")
	c.Click(`.answer:not(.live) [aria-label="Answer again"]`)
	c.Wait(`document.querySelector("#prompt").value === "patience"`)
	release <- true
	c.answered("answer 3")
	if n := len(s.seen()); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
	if req := s.seen()[2]; len(req.Messages) != 3 || req.Messages[1].Content != "answer 1" {
		t.Errorf("the branch shown is not the one sent: %+v", req.Messages)
	}
}

func testReasoning(t *testing.T, b *browser.Browser) {
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		st.think("Let me see: ", "2 + 2 ", "is *4*.")
		st.await(release)
		time.Sleep(time.Second)
		st.say("4")
		st.finish("stop")
	})
	c := open(t, b, s)
	c.ask("2 + 2?")
	c.WaitText(".reasoning summary", "Thinking…")
	release <- true
	c.answered("4")
	c.Wait(`/^Thought for \d+ s$/.test(document.querySelector(".reasoning summary").textContent)`)
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
