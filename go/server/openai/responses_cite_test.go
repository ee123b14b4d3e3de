package openai_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/openai"
)

// A text cites a page where it has all of its URL, and a link with its label.
func TestCited(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"https://a.example/": "A", "https://a.example/x_(y)": "Y", "http://b.example": "", "https://a.example/q?x=1.": "Q"}
	for text, want := range map[string][]string{
		"":                               nil,
		"http https://c.example/":        nil,
		"https://a.example/":             {"A https://a.example/"},
		"At https://a.example/, it says": {"A https://a.example/"},
		"(https://a.example/).":          {"A https://a.example/"},
		"https://a.example/z":            nil,
		"https://a.example/x_(y)":        {"Y https://a.example/x_(y)"},
		"[so (it)](https://a.example/x_(y)), **http://b.example**": {"Y [so (it)](https://a.example/x_(y))", "http://b.example http://b.example"},
		"\u00e9\U0001f600 [\u00e9 [1]](https://a.example/)s":       {"A [\u00e9 [1]](https://a.example/)"},
		"a](https://a.example/)":                                   {"A https://a.example/"},
		"[b\n](https://a.example/)":                                {"A https://a.example/"},
		"[b](https://a.example/":                                   {"A https://a.example/"},
		"[b](https://a.example/)[c](https://a.example/)":           {"A [b](https://a.example/)", "A [c](https://a.example/)"},
		"https://a.example/q?x=1.":                                 {"Q https://a.example/q?x=1."},
		"https://a.example/q?x=1.\nhttps://a.example/q?x=1":        {"Q https://a.example/q?x=1."},
		"https://a.example/.x https://a.example/.)x":               {"A https://a.example/"},
		"<https://a.example/> `http://b.example`":                  {"A https://a.example/", "http://b.example http://b.example"},
		"httphttps://a.example/":                                   {"A https://a.example/"},
	} {
		if got := openai.Cited(pages, text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := openai.Cited(pages, strings.Repeat("https://a.example/"+strings.Repeat(")", 1<<15), 4)); len(got) != 4 {
		t.Errorf("of 4 there are %q", got)
	}
	// Work is in proportion to the text, also where no space ends a URL.
	if got := openai.Cited(pages, strings.Repeat("https://a.example/x", 1<<18)+" http://b.example"); len(got) != 1 {
		t.Errorf("behind 5 MB without a space there are %d", len(got))
	}
}

// What an answer names of the pages that were found is annotated, whole and in a stream, and not what it names besides.
func TestResponsesCite(t *testing.T) {
	t.Parallel()
	_, e := openIndex(t)
	const said = "See [One](https://one.example/a), not https://three.example/: \u00fc https://two.example/."
	says := scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"}, Scripts: []scripted.Script{
		{When: "messages[-1].role == 'tool'", Text: said}, {When: "messages[-1].content == 'say'", Text: said},
		{Text: toolCall("web_search", `{"query": "quern"}`)},
	}}
	s := fake.Demo(t, fake.Setup{Server: server.Config{Web: openai.Web{Search: e.Search}}, File: fake.ScriptFile(t, says), Ctx: 4096})
	type response struct {
		Output []struct {
			Type    string
			Content []struct {
				Text        string
				Annotations []struct {
					Type       string
					StartIndex int `json:"start_index"`
					EndIndex   int `json:"end_index"`
					URL, Title string
				}
			}
		}
	}
	shown := func(r response) (all string) {
		for _, part := range r.Output[len(r.Output)-1].Content {
			all += part.Text
			for _, a := range part.Annotations {
				all += "; " + a.Type + " " + a.Title + " " + a.URL + " " + string([]rune(part.Text)[a.StartIndex:a.EndIndex])
			}
		}
		return all
	}
	const want = said + "; url_citation One https://one.example/a [One](https://one.example/a)" +
		"; url_citation Two https://two.example/ https://two.example/"
	if got := shown(fake.Post[response](s, "/v1/responses", agentBody("search", searchTool, ""))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	kinds, last := streamed[response](t, s, agentBody("search", searchTool, `,"stream":true`))
	if got := shown(last); got != want {
		t.Errorf("a stream: %s\nwant\n%s", got, want)
	}
	if text := strings.Join(kinds, " "); !strings.HasSuffix(text, "output_text.delta output_text.annotation.added output_text.annotation.added "+
		"output_text.done content_part.done output_item.done completed") {
		t.Errorf("the events are %s", text)
	}
	if got := shown(fake.Post[response](s, "/v1/responses", agentBody("say", searchTool, ""))); got != said { // nothing was found
		t.Errorf("without a search: %s", got)
	}
}
