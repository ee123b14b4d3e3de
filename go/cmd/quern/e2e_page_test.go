package main

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/browser"
)

// The page comes with the program: below a prefix, before any key is given. With the key it chats.
func TestServePage(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0",
		"--api-prefix", "/llm", "--api-key", "a-secret-key", "--alias", "stories")

	p := b.Open(t, s.address()+"/llm")
	p.Expect("status of 401")
	p.WaitText("#model", "stories") // the list of models is public
	p.WaitText("#state", "The server wants an API key")
	p.Click("#open-settings")
	p.Click("[name=key]")
	p.Type("a-secret-key")
	p.Press(kb.Tab)
	p.Wait(`!document.querySelector("#state").textContent && document.querySelector("[name=temperature]").placeholder`)
	p.Click("[name=max_tokens]")
	p.Type("20")
	p.Click("[name=temperature]")
	p.Type("0")
	p.Press(kb.Enter)

	const last = "#thread > li:last-child.answer "
	const complete = `document.querySelector("#stop").hidden && document.querySelector("#thread > li:last-child.answer:not(.live) article > .body")?.textContent`
	p.Click("#prompt")
	p.Type("Tell me a story about a cat.\n")
	p.Wait(complete)
	p.WaitText(last+".note", "Cut at the limit of tokens.")
	p.WaitText(last+".stats", "20 tokens · ")
	p.WaitText(last+".stats", " tokens/s · prompt of ")
	p.WaitText("#context-text", " / ")

	first := p.Text(last + "article > .body")
	p.Click(last + `[aria-label="Answer again"]`)
	p.Wait(`document.querySelector(".answer .variants span").textContent === "2 / 2"`)
	p.Wait(complete)
	if again := p.Text(last + "article > .body"); again != first {
		t.Errorf("at temperature 0 the answer was %q, and now %q", first, again)
	}
	p.WaitText(last+".stats", " of them cached")
}
