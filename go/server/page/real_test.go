package page

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/gin-gonic/gin"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	templates "github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/browser"
	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/scripted"
	api "github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/tokenizer"
)

const template = `{% if tools %}<|im_start|>system
# Tools, each within <tools></tools>, called as <tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>: {% for tool in tools %}{{ tool|tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# <think> #}`

const hostile = "<img src=x onerror=pwned()><script>pwned()</script>"

// newReal serves the page and the API with a real engine, whose model says known texts, and with the tools of a real
// MCP server. It returns the address, and where the places are sent for which the weather is asked.
func newReal(t *testing.T) (url string, places chan string) {
	t.Helper()
	call := func(place string) string {
		return "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"" + place + "\"}}\n</tool_call>"
	}
	says := scripted.Model{Template: template, Controls: []string{"<|im_start|>", "<|im_end|>"}, Scripts: []scripted.Script{
		{When: "'which this model cannot read' in messages[-1].content", Text: "I see nothing."},
		{When: "'21' in messages[-1].content", Text: "It is warm."},
		{When: "'user refused' in messages[-1].content", Text: "As you like."},
		{When: "messages[-1].role == 'tool'", Text: "Alas, an error."},
		{When: "messages[-1].content == 'Rome?'", Text: "<think>\nI have a tool.\n</think>\n\nOne moment.\n" + call("Rome")},
		{When: "messages[-1].content == 'Oslo?'", Text: call("Oslo")},
		{When: "messages[-1].content == 'Nowhere?'", Text: call("Nowhere")},
		{When: "messages[-1].content == 'a view of Rome?'", Text: call("a view of Rome")},
		{When: "messages[-1].content == 'both?'", Text: call("Bern") + "\n" + call("Bonn")},
		{When: "messages[-1].content == 'city?'", Text: "{\"city\": \"Rome\", \"people\": 2.50, \"old\": true}"},
		{Text: "Some plain words, né."},
	}}
	places = make(chan string, 10)
	var view bytes.Buffer
	if err := png.Encode(&view, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	tools := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type place struct {
		Place string `json:"place"`
	}
	sdk.AddTool(tools, &sdk.Tool{Name: "get_weather", Description: "The weather of a place"}, func(_ context.Context, _ *sdk.CallToolRequest, in place) (*sdk.CallToolResult, any, error) {
		places <- in.Place
		if strings.HasPrefix(in.Place, "a view") {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "21"}, &sdk.ImageContent{Data: view.Bytes(), MIMEType: "image/png"}}}, nil, nil
		}
		text := `{"place":"` + in.Place + `","degrees":21,"note":"` + hostile + `"}`
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: in.Place == "Nowhere"}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return tools }, nil)
	remote := httptest.NewServer(handler)
	t.Cleanup(remote.Close)
	box, err := mcp.Open(t.Context(), map[string]mcp.Server{"sky": {URL: remote.URL}}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })

	s := api.New(api.Config{Build: "test", Tools: box})
	m := scriptedModel(t, says)
	src := api.Source{Spec: models.Spec[api.Model]{
		Names: []string{"scripted"},
		Load:  func(context.Context, func(float64)) (models.Instance[api.Model], error) { return still{&m}, nil },
	}}
	if err := s.Add(src); err != nil {
		t.Fatal(err)
	}
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	s.Register(e)
	for _, path := range Paths() {
		e.GET(path, gin.WrapH(Handler()))
	}
	web := httptest.NewServer(e)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL + "/", places
}

// A still is a model that stays in memory.
type still struct{ m *api.Model }

func (i still) Model() *api.Model                         { return i.m }
func (i still) Bytes() uint64                             { return 0 }
func (i still) Need(uint64) (uint64, error)               { return 0, nil }
func (i still) Sleep() error                              { return nil }
func (i still) Wake(context.Context, func(float64)) error { return nil }
func (still) Drain(context.Context)                       {}
func (i still) Close()                                    {}

// scriptedModel loads a model that says known texts.
func scriptedModel(t *testing.T, says scripted.Model) api.Model {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := says.GGUF()
	check(err)
	path := filepath.Join(t.TempDir(), "scripted.gguf") // C keeps addresses of weights, which may not be in Go's heap
	check(os.WriteFile(path, data, 0o600))
	file, err := model.OpenFile(path)
	check(err)
	tok, err := tokenizer.New(file.GGUF)
	check(err)
	tmpl, err := templates.Parse(says.Source(), templates.SpecialTokens{})
	check(err)
	meta := file.GGUF
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	check(err)
	t.Cleanup(d.Close)
	e, err := engine.New(file, engine.Config{Device: d, Sequences: 4, Shared: true, Ctx: 4096})
	check(err)
	l, err := engine.NewLoop(e, engine.LoopConfig{Queue: 100})
	check(err)
	t.Cleanup(func() { l.Close(); e.Close() })
	sampling := sample.Defaults()
	sampling.Temp = 0
	return api.Model{Engine: loop{l}, Tokenizer: tok, Template: tmpl, Metadata: meta, Name: "scripted", Path: "scripted", Ctx: e.Ctx(), Sampling: sampling}
}

type loop struct{ *engine.Loop }

func (l loop) Submit(r *engine.Request) (api.Ticket, error) {
	t, err := l.Loop.Submit(r)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// useTool turns the server's tool on.
func (c chat) useTool() {
	c.Click("#open-settings")
	c.Click("#tools [value=get_weather]")
	c.Click("#settings .end .main")
	c.WaitText("#modes", "1 tool")
}

func testReal(t *testing.T, b *browser.Browser) {
	url, places := newReal(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, chat, chan string)
	}{
		{"calls tools", testTools},
		{"asks for each of several calls", testSeveralCalls},
		{"calls once", testOnce},
		{"calls once of two windows", testWindows},
		{"holds answers to a schema", testSchema},
		{"shows probabilities", testProbabilities},
		{"branches from the cache", testBranch},
		{"refuses images", testImages},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, chat{b.Open(t, url)}, places) })
	}
}

// asked waits until the tool is called, and returns for which place.
func (c chat) asked(t *testing.T, places chan string) string {
	t.Helper()
	select {
	case place := <-places:
		return place
	case <-time.After(time.Minute):
		t.Fatalf("no tool was called, on a page that shows\n%s", c.Text("#thread"))
		return ""
	}
}

// none checks that no tool was called.
func none(t *testing.T, places chan string) {
	t.Helper()
	select {
	case place := <-places:
		t.Errorf("the weather of %s was asked for", place)
	default:
	}
}

func testTools(t *testing.T, c chat, places chan string) {
	c.Exec(`globalThis.pwned = () => { globalThis.hit = true; }`)
	c.WaitText("#model", "scripted")
	c.Wait(`!document.querySelector("#modes").textContent`) // no tool is on at first
	c.useTool()

	c.ask("Rome?")
	const call = "#thread > li:nth-child(2) .call "
	c.WaitText(call+".state", "call it?")
	c.idle()
	c.WaitText(call+"h3", "get_weather")
	c.WaitText(call+"h3", "of sky")
	if got, want := c.Text(call+"pre"), "{\n  \"place\": \"Rome\"\n}"; got != want {
		t.Errorf("the arguments are shown as %q, want %q", got, want)
	}
	c.WaitText(written, "One moment.")
	c.WaitText("#heard", "The model asks to call get_weather")
	c.Reload()
	none(t, places)
	c.Click(call + ".asks .main")
	if place := c.asked(t, places); place != "Rome" {
		t.Errorf("the weather of %q was asked for", place)
	}
	c.answered("It is warm.")
	none(t, places)
	c.WaitText(call+".state", "done")
	c.Click(call + "summary")
	c.WaitText(call+"details pre", `"degrees": 21,`)
	c.WaitText(call+"details pre", hostile)
	c.Wait("globalThis.hit === undefined && !document.querySelector('#thread img, #thread script')")

	// Refused: the model is told, and nothing is called.
	c.ask("Oslo?")
	c.Wait(`document.querySelectorAll(".call").length === 2`)
	c.Click(answer + " .asks button:last-child")
	c.answered("As you like.")
	none(t, places)

	// Always, and from then on without a question; an error is the model's to see.
	c.ask("Oslo?")
	c.Wait(`document.querySelectorAll(".call").length === 3`)
	c.Click(answer + " .asks button:nth-child(2)")
	c.asked(t, places)
	c.answered("It is warm.")
	c.ask("Nowhere?")
	if place := c.asked(t, places); place != "Nowhere" {
		t.Errorf("the weather of %q was asked for", place)
	}
	c.answered("It is warm.")
	c.Wait(`[...document.querySelectorAll(".call .state")].at(-1).textContent === "failed"`)

	// Its pictures are shown, and sent to the model, which is told of them if it is blind.
	c.ask("a view of Rome?")
	c.asked(t, places)
	c.answered("I see nothing.")
	c.Exec(`[...document.querySelectorAll(".call details")].at(-1).open = true`)
	c.Wait(`[...document.querySelectorAll(".call details")].at(-1).querySelector("img")?.naturalWidth === 3`)
	c.Reload()
	c.Wait(`document.querySelectorAll(".call").length === 5`)
	c.Exec(`[...document.querySelectorAll(".call details")].at(-1).open = true`)
	c.Wait(`[...document.querySelectorAll(".call details")].at(-1).querySelector("img")?.naturalWidth === 3`)

	// In another conversation it is asked for again. A question in its place refuses it.
	c.Click("#new")
	c.shows()
	c.ask("Oslo?")
	c.WaitText(answer+" .state", "call it?")
	c.ask("something else")
	c.answered("Some plain words")
	c.WaitText(".call .state", "refused")
	none(t, places)
}

func testSeveralCalls(t *testing.T, c chat, places chan string) {
	c.useTool()
	c.ask("both?")
	c.Wait(`document.querySelectorAll(".asks:not([hidden])").length === 2`)
	c.idle()
	c.Click(".call:nth-child(1) .asks .main")
	c.WaitText(".call:nth-child(1) .state", "once the others are decided")
	none(t, places)
	c.Click(".call:nth-child(2) .asks .main")
	if first, then := c.asked(t, places), c.asked(t, places); first != "Bern" || then != "Bonn" {
		t.Errorf("called for %s, then %s, on a page that shows\n%s", first, then, c.Text("#thread"))
	}
	c.answered("It is warm.")
	none(t, places)
	// The branch with the calls is one of two now.
	c.Click(`#thread > li:nth-child(2) [aria-label="Answer again"]`)
	c.Wait(`document.querySelectorAll(".asks:not([hidden])").length === 2`)
	c.idle()
	c.WaitText("#thread > li:nth-child(2) .variants span", "2 / 2")
	c.Click(`#thread > li:nth-child(2) [aria-label="The variant before"]`)
	c.WaitText(written, "It is warm.")
}

func testSchema(t *testing.T, c chat, _ chan string) {
	c.Click("#open-settings")
	c.Click("[name=schema]")
	c.Type("{]")
	c.Press(kb.Tab)
	c.Wait(`document.querySelector("[name=schema]").validationMessage.includes("not JSON")`)
	c.Click("[name=schema]")
	c.Press("a", kb.ModifierCtrl)
	c.Type(`{"type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "number"}, "old": {"type": "boolean"}}, "required": ["city", "people", "old"]}`)
	c.Press(kb.Tab)
	c.Click("#settings .end .main")
	c.WaitText("#modes", "JSON schema")
	c.ask("city?")
	c.idle()
	const want = "{\n  \"city\": \"Rome\",\n  \"people\": 2.50,\n  \"old\": true\n}"
	c.WaitText(written+" figcaption", "json")
	if got := c.Text(written + " code"); got != want {
		t.Errorf("shown as %s, want %s", got, want)
	}
	c.ask("hi") // to which the model would say something else
	c.Wait("document.querySelectorAll('.answer').length === 2")
	c.idle()
	c.WaitText(written+" code", "\"people\": ")
}

func testProbabilities(t *testing.T, c chat, _ chan string) {
	c.ask("hi")
	c.answered("Some plain words, né.")
	c.Wait(`document.querySelector("[aria-label='Token probabilities']").hidden`)
	c.Click("#open-settings")
	c.Click("[name=probabilities]")
	c.Click("#settings .end .main")
	c.WaitText("#modes", "Probabilities")
	c.ask("hi")
	c.Wait("document.querySelectorAll('.answer').length === 2")
	c.answered("Some plain words, né.")
	c.Click(answer + ` [aria-label="Token probabilities"]`)
	const tokens = answer + " .probabilities"
	c.WaitText(tokens, "Some plain words, né.")
	c.Wait(`document.querySelector("` + written + `").hidden`)
	c.Click(tokens + " span")
	c.Wait(`document.querySelector("#card").matches(":popover-open")`)
	if rows := browser.Eval[int](c.Page, `document.querySelectorAll("#card tr").length`); rows != 5 {
		t.Errorf("the card has %d alternatives, want 5", rows)
	}
	c.WaitText("#card p", "100 %")
	c.Press(kb.ArrowRight)
	c.Wait(`document.querySelector("` + tokens + ` span:nth-child(2)").classList.contains("shown")`)
	c.WaitText("#heard", " %, ")
	c.Reload() // they are kept
	c.Click(answer + ` [aria-label="Token probabilities"]`)
	c.WaitText(tokens, "Some plain words")
	c.Click(answer + ` [aria-label="Token probabilities"]`)
	c.Wait(`!document.querySelector("` + written + `").hidden`)
}

func testBranch(t *testing.T, c chat, _ chan string) {
	c.ask("A question of some length, which is in the cache when it is asked once more.")
	c.answered("Some plain words")
	c.ask("two")
	c.Wait("document.querySelectorAll('.answer').length === 2")
	c.answered("Some plain words")
	c.Click(answer + ` [aria-label="Answer again"]`)
	c.WaitText(answer+" .variants span", "2 / 2")
	c.idle()
	c.WaitText(answer+" .stats", " of them cached")
	c.Click(`#thread > li:nth-child(3) [aria-label="Edit"]`)
	c.Press("a", kb.ModifierCtrl)
	c.Type("three")
	c.Press(kb.Enter)
	c.WaitText("#thread > li:nth-child(3) .variants span", "2 / 2")
	c.answered("Some plain words")
	if cached := browser.Eval[int](c.Page, `Number(document.querySelector("`+answer+` .stats").textContent.match(/(\d+) of them cached/)?.[1])`); cached < 80 {
		t.Errorf("%d tokens of the branch were in the cache, want the first question and its answer", cached)
	}
}

func testImages(t *testing.T, c chat, _ chan string) {
	c.WaitText("#model", "scripted")
	for _, how := range []string{"paste", "drop"} {
		c.Exec(`document.querySelector("#notice").replaceChildren()`)
		stopped := browser.Eval[bool](c.Page, `(() => {
			const data = new DataTransfer();
			data.items.add(new File(["x"], "x.png", {type: "image/png"}));
			const init = {bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data};
			return !document.querySelector("#prompt").dispatchEvent("`+how+`" === "paste" ? new ClipboardEvent("paste", init) : new DragEvent("drop", init));
		})()`)
		if !stopped {
			t.Errorf("%s is left to the browser", how)
		}
		c.WaitText("#notice", "was not taken: this model reads text only.")
	}
}
