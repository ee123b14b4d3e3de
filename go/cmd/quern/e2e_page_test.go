package main

import (
	"net"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/quern-llm/quern/go/internal/browser"
)

// The page comes with the program: below a prefix, before any key is given, and it finds the API
// with the one that it is told.
func TestServePage(t *testing.T) {
	b := browser.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := strings.Cut(address, ":")
	serve(t, "stories260K-f32.gguf", "--host", "127.0.0.1", "--port", port, "--api-prefix", "/llm", "--api-key", "a-secret", "--alias", "stories")

	p := b.Open(t, "http://"+address+"/llm")
	p.Expect("status of 401")
	p.Expect("status of 501")
	p.WaitText("#model", "stories") // the list of models is public
	p.WaitText("#state", "The server wants an API key")
	p.Click("#open-settings")
	p.Click("[name=key]")
	p.Type("a-secret")
	p.Press(kb.Enter)
	p.Wait(`!document.querySelector("#state").textContent && document.querySelector("[name=temperature]").placeholder`)
	p.Click("#prompt")
	p.Type("Once upon a time")
	p.Press(kb.Enter)
	p.WaitText(".answer .note", "no chat template")
}
