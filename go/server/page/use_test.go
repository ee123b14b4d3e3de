package page

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/quern-llm/quern/go/internal/browser"
	"github.com/quern-llm/quern/go/media/sound"
)

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
	c.Wait(`!document.querySelector("#sidebar").inert && document.querySelector("main").inert`)
	c.Wait(`document.activeElement.id === "new"`)
	c.Press(kb.Escape)
	c.Wait(`document.querySelector("#sidebar").inert && document.activeElement.id === "menu"`)
	c.Click("#menu")
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

// spin returns the milliseconds that a page takes for a fixed amount of work: about a hundred.
func spin(c chat) float64 {
	return browser.Eval[float64](c.Page, `(() => {
		const start = performance.now();
		let x = 0;
		for (let i = 0; i < 1e8; i++) x = (x * 5 + i) | 0;
		return Math.max(100, performance.now() - start) + 0 * x;
	})()`)
}

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
	start := time.Now()
	c.Reload()
	c.Wait("document.querySelectorAll('#thread > li').length === 1000")
	t.Logf("1000 messages loaded: %v", time.Since(start))
	c.Exec(`globalThis.longest = 0; new PerformanceObserver((list) => {
		for (const e of list.getEntries()) longest = Math.max(longest, e.duration);
	}).observe({type: "longtask"})`)
	before := spin(c)
	start = time.Now()
	c.ask("go on")
	c.answered("Paragraph 999")
	took := time.Since(start)
	longest := browser.Eval[float64](c.Page, "longest")
	t.Logf("%d bytes in pieces of 7 below 1000 messages: %v, the longest task %.0f ms", text.Len(), took, longest)
	// Drawing all of it for each piece would take far longer. What the machine does beside it slows down both.
	if most := 20 * max(before, spin(c)); longest > most {
		t.Errorf("the page stood still for %.0f ms, want at most %.0f", longest, most)
	}
	c.Wait(`(() => { const s = document.querySelector("#scroller"); return s.scrollHeight - s.scrollTop - s.clientHeight < 50; })()`)
	// Who scrolls up stays there.
	c.Exec(`document.querySelector("#scroller").scrollTop -= 600`)
	c.Wait(`!document.querySelector("#latest").hidden`)
	c.Click("#latest")
	c.Wait(`document.querySelector("#latest").hidden`)
}

// The microphone is there for models that hear, and what it hears is a WAV file at the rate of models.
func testRecord(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	s.hears = true
	c := open(t, b, s)
	c.WaitText("#model", "stone-1b")
	c.Wait(`!document.querySelector("#record").hidden`)
	choose := func(id string) {
		c.Exec(`(() => { const m = document.querySelector("#model"); m.value = "` + id + `"; m.dispatchEvent(new Event("change")); })()`)
	}
	choose("stone-8b")
	c.Wait(`document.querySelector("#record").hidden`)
	choose("stone-1b")
	c.Click("#record")
	c.Wait(`document.querySelector("#record").ariaPressed === "true" && document.querySelector("#record").title === "End the recording"`)
	time.Sleep(700 * time.Millisecond) // of sound
	c.Click("#record")
	c.Wait(`document.querySelectorAll("#media audio").length === 1 && document.querySelector("#record").ariaPressed === "false"`)
	// Sending ends a recording, which is sent too.
	c.Click("#record")
	c.Wait(`document.querySelector("#record").ariaPressed === "true"`)
	time.Sleep(200 * time.Millisecond)
	c.Click("#send")
	c.idle()
	parts := strings.Split(strings.Trim(s.seen()[0].last(), "<>"), "><")
	if len(parts) != 2 {
		t.Fatalf("%d parts were sent", len(parts))
	}
	for i, p := range parts {
		text, ok := strings.CutPrefix(p, "audio_url data:audio/wav;base64,")
		data, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil {
			t.Fatalf("%.60s, %v", p, err)
		}
		heard, err := sound.Decode(t.Context(), data, sound.Limits{})
		if err != nil || heard.Rate != 16000 {
			t.Fatalf("%+v, %v", heard, err)
		}
		if least := []int{8000, 800}[i]; len(heard.Samples) < least || len(heard.Samples) > 16000*60 {
			t.Errorf("recording %d has %d samples, want %d and more", i, len(heard.Samples), least)
		}
		if loudest := slices.Max(heard.Samples); i == 0 && loudest < 0.01 {
			t.Errorf("the loudest sample is %v", loudest)
		}
	}
}

func testAttach(t *testing.T, b *browser.Browser) {
	s := newServer(t, nil)
	c := open(t, b, s)
	c.WaitText("#model", "stone-1b")
	c.Exec(`globalThis.attach = (...files) => {
		const data = new DataTransfer();
		for (const [name, type, ...parts] of files) data.items.add(new File(parts, name, { type }));
		const input = document.querySelector("#attached");
		input.files = data.files;
		input.dispatchEvent(new Event("change"));
	}`)
	c.Click("#prompt")
	c.Type("What is this?")
	c.Exec("attach([\"a b.py\", \"\", \"print('```')\\r\\n\"])")
	c.Wait(`document.querySelector("#prompt").value.includes("a_b.py")`)
	c.Press(kb.Enter)
	c.idle()
	if got, want := s.seen()[0].last(), "What is this?\na_b.py:\n````py\nprint('```')\n````"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	for _, bad := range []struct{ file, want string }{
		{`["x.png", "image/png", "x"]`, "x.png was not taken: this model reads text only."},
		{`["x.bin", "", new Uint8Array([255, 254, 0])]`, "x.bin was not taken: it is no text in UTF-8."},
		{`["x.bin", "", "a\0b"]`, "x.bin was not taken: it is no text."},
		{`["x.txt", "", "a".repeat(1 << 20), "b"]`, "x.txt was not taken: it has 1.0 MB, and 1 MB at most is taken."},
	} {
		c.Exec("attach(" + bad.file + ")")
		c.WaitText("#notice", bad.want)
	}
	if got := browser.Eval[string](c.Page, `document.querySelector("#prompt").value`); got != "" {
		t.Errorf("the message is %q", got)
	}

	// A model that sees takes pictures, without a text too, and not sounds.
	choose := func(id string) {
		c.Exec(`(() => { const m = document.querySelector("#model"); m.value = "` + id + `"; m.dispatchEvent(new Event("change")); })()`)
	}
	choose("stone-8b")
	c.Exec(`attach(["t.wav", "audio/wav", "x"])`)
	c.WaitText("#notice", "t.wav was not taken: this model takes no sounds.")
	c.Exec(`attach(["a.png", "image/png", "abc"], ["b.png", "image/png", "d"])`)
	c.Wait(`document.querySelectorAll("#media img").length === 2`)
	c.Click("#media figure:nth-child(2) button")
	c.Wait(`document.querySelectorAll("#media img").length === 1`)
	c.Click("#send")
	c.Wait(`document.querySelector("li:nth-child(3) .media img").alt === "a.png" && !document.querySelector("#media img")`)
	c.idle()
	if got, want := s.seen()[1].last(), "<image_url data:image/png;base64,YWJj>"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	choose("stone-1b")

	// A long message shows its beginning.
	c.Exec(`attach(["long.txt", "", "line\n".repeat(40)])`)
	c.Wait(`document.querySelector("#prompt").value.includes("long.txt")`)
	c.Click("#send")
	c.Wait(`document.querySelectorAll("#thread > li").length === 6`)
	c.idle()
	c.Wait(`document.querySelector("li:nth-child(5) .folded").clientHeight < 300`)
	c.Click("li:nth-child(5) .more")
	c.Wait(`!document.querySelector(".folded") && document.querySelector("li:nth-child(5) .more").textContent === "Show less"`)
}

// Code is coloured as it comes, stays one text, and leaves no colours behind.
func testHighlight(t *testing.T, b *browser.Browser) {
	release := make(chan bool)
	s := newServer(t, func(st *stream) {
		st.say("```py\nif x:  # why\n", "\ty = \"s\"")
		st.await(release)
		st.say(" + 1\n```\n")
		st.finish("stop")
	})
	c := open(t, b, s)
	c.ask("hi")
	painted := func(kind string) string {
		return `[...CSS.highlights.get("` + kind + `")].map((r) => r.startContainer.data.slice(r.startOffset, r.endOffset)).join("|")`
	}
	c.Wait(painted("keyword") + ` === "if" && ` + painted("comment") + ` === "# why" && ` + painted("string") + ` === '"s"'`)
	release <- true
	c.idle()
	c.Wait(painted("number") + ` === "1" && ` + painted("keyword") + ` === "if"`)
	if n := browser.Eval[int](c.Page, `document.querySelector("pre code").childNodes.length`); n != 1 {
		t.Errorf("the code is %d nodes", n)
	}
	c.Exec(`(async () => {
		const { tokens } = await import("./assets/highlight.js");
		globalThis.tokens = (text, name) => [...tokens(text, name)].map(([kind, from, to]) => kind + ":" + text.slice(from, to)).join(" ");
	})()`)
	c.Wait("globalThis.tokens")
	for _, tt := range []struct{ text, language, want string }{
		{"// a\nreturn /* b */ 0x1F + `c\nd`", "go", "comment:// a keyword:return comment:/* b */ number:0x1F string:`c\nd`"},
		{"x = 'it\\'s' # no\necho $#", "sh", "string:'it\\'s' comment:# no"},
		{"SELECT a FROM b -- c", "SQL", "keyword:SELECT keyword:FROM comment:-- c"},
		{`{"a": [1, true, null]}`, "json", `string:"a" number:1 keyword:true keyword:null`},
		{`"unclosed` + "\nif", "c", `string:"unclosed keyword:if`},
		{"if", "brainfuck", ""},
	} {
		if got := browser.Eval[string](c.Page, "tokens("+quoted(tt.text)+", "+quoted(tt.language)+")"); got != tt.want {
			t.Errorf("%s: %q\n got %s\nwant %s", tt.language, tt.text, got, tt.want)
		}
	}
}
