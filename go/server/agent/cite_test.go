package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/agent"
)

// cited returns what a text names of pages.
func cited(pages agent.Pages, text string) (all []string) {
	for _, c := range pages.Cited(text) {
		part := string([]rune(text)[c.Start:c.End])
		if part != text[c.From:c.To] {
			part += ", and by bytes " + text[c.From:c.To]
		}
		all = append(all, c.Title+" "+part)
	}
	return all
}

// A text cites a page where it has all of its URL, and a link with its label.
func TestCited(t *testing.T) {
	t.Parallel()
	pages := agent.Pages{"https://a.example/": {Title: "A"}, "https://a.example/x_(y)": {Title: "Y"}, "http://b.example": {}, "https://a.example/q?x=1.": {Title: "Q"}}
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
		if got := cited(pages, text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := cited(pages, strings.Repeat("https://a.example/"+strings.Repeat(")", 1<<15), 4)); len(got) != 4 {
		t.Errorf("of 4 there are %q", got)
	}
	// Work is in proportion to the text, also where no space ends a URL.
	if got := cited(pages, strings.Repeat("https://a.example/x", 1<<18)+" http://b.example"); len(got) != 1 {
		t.Errorf("behind 5 MB without a space there are %d", len(got))
	}
}
