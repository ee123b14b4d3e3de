package page

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/quern-llm/quern/go/internal/browser"
)

var screenshots = flag.String("screenshots", "", "write pictures of the page into this `folder`; chat.png is for docs")

const shownAnswer = `A rotary quern has **two stones**. The lower one lies still; the upper one turns on a spindle, and grain poured into its eye is ground on the way out.

1. Pour a handful of grain into the eye.
2. Turn the handle, about once a second.
3. Gather the flour at the rim, and sieve it.

| stone | wears | grit in the flour |
|---|---|--:|
| granite | slowly | little |
| sandstone | fast | much |

The work of one turn grows with the square of the radius:

` + "```python\ndef work(radius, pressure, friction=0.6):\n    \"\"\"Joules for one turn of the upper stone.\"\"\"\n    return 4 / 3 * pi**2 * friction * pressure * radius**3\n```" + `

So a stone twice as wide is *eight times* the work, not four: see ` + "`radius**3`" + `.`

// Pictures of what the page looks like, for those who change it and for the docs:
//
//	go test ./go/server/page -run Screenshots -screenshots /tmp
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no folder given with -screenshots")
	}
	b := browser.Start(t)
	write := func(c chat, name string) { c.Screenshot(filepath.Join(*screenshots, name)) }
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		switch st.request.last() {
		case "How does a quern work?":
			st.think("The reader asks about a hand mill. Say what it is, how it is used, and what the stone matters.")
			st.say(strings.SplitAfter(shownAnswer, " ")...)
			st.finish("stop")
		case "And the flour?":
			st.say("Coarse at first. Sieve it, and")
			st.await(release)
		default:
			st.say("A short answer.")
			st.finish("stop")
		}
	})
	show := func(c chat) {
		c.ask("Which grain keeps longest?")
		c.answered("A short answer.")
		for _, text := range []string{"Rye or wheat for a starter?", "How does a quern work?"} {
			c.Exec(`document.querySelector("#new").click()`)
			c.shows()
			c.ask(text)
			c.Wait(`document.querySelector("#stop").hidden && document.querySelector(".answer:not(.live) .stats")?.textContent`)
		}
		c.Exec(`document.activeElement.blur()`)
	}

	c := chat{b.Open(t, s.URL, chromedp.EmulateViewport(1200, 800))}
	write(c, "empty.png")
	show(c)
	write(c, "light.png")
	c.Exec(`document.querySelector("#scroller").scrollTop = 0`)
	write(c, "chat.png")
	c.Click("#open-settings")
	write(c, "settings.png")
	c.Click("[name=theme][value=dark]")
	c.Click("#settings .main")
	c.Exec(`document.querySelector("#scroller").scrollTop = 0`)
	write(c, "dark.png")
	c.ask("And the flour?")
	c.WaitText(written, "Sieve it")
	write(c, "streaming.png")

	p := chat{b.Open(t, s.URL, browser.Phone(390, 844, 2))}
	write(p, "phone-empty.png")
	p.Click("#prompt")
	p.Type("How does a quern work?")
	p.Click("#send")
	p.answered("radius**3")
	p.Exec(`document.querySelector("#scroller").scrollTop = 0`)
	write(p, "phone.png")
	p.Click("#menu")
	write(p, "phone-list.png")
}
