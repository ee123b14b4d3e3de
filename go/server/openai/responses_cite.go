package openai

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/server/answer"
)

// A citation is an annotation of a text that names a page which the model was shown. Indexes count characters.
type citation struct {
	Type  string `json:"type"`
	Start int    `json:"start_index"`
	End   int    `json:"end_index"` // behind it
	URL   string `json:"url"`
	Title string `json:"title"`
}

// citable are the titles of the pages that a response has found or read, by their URLs.
type citable map[string]string

// maxURL is the most bytes of a URL that is found in a text.
const maxURL = 4 << 10

// add adds a page. One that was found before keeps its title.
func (c *citable) add(url, title string) {
	if *c == nil {
		*c = citable{}
	}
	(*c)[url] = cmp.Or((*c)[url], title)
}

// cited returns where a text names pages: by a link in Markdown, [text](URL), or by the URL alone.
func (c citable) cited(text string) (all []citation) {
	done, chars := 0, 0 // bytes of the text, and their characters
	count := func(to int) int {
		chars += utf8.RuneCountInString(text[done:to])
		done = to
		return chars
	}
	for at := 0; len(c) > 0; {
		i := strings.Index(text[at:], "http")
		if i < 0 {
			break
		}
		begin := at + i
		url, known := c.at(text[begin:])
		if !known {
			at = begin + len("http")
			continue
		}
		end := begin + len(url)
		at = end
		if open := linkAt(text[done:begin]); open >= 0 && strings.HasPrefix(text[end:], ")") {
			begin, end = done+open, end+1
		}
		all = append(all, citation{Type: "url_citation", URL: url, Title: cmp.Or(c[url], url), Start: count(begin), End: count(end)})
	}
	return all
}

// at returns the page whose URL a text begins with: the longest that is all of the URL there, without what ends a sentence or
// a link.
func (c citable) at(text string) (url string, known bool) {
	if i := strings.IndexAny(text, " \t\r\n<>\"`|"); i >= 0 {
		text = text[:i]
	}
	for text = text[:min(len(text), maxURL)]; text != ""; {
		if _, known := c[text]; known {
			return text, true
		}
		end := len(text) - 1
		if !strings.ContainsRune(".,;:!?)]}'*_", rune(text[end])) {
			if end = strings.LastIndexAny(text, ")]}"); end < 0 { // which may end a link that a text follows at once
				break
			}
		}
		text = text[:end]
	}
	return "", false
}

// linkAt returns where the text of a link in Markdown begins whose URL follows, -1: there is none.
func linkAt(before string) int {
	label, link := strings.CutSuffix(before, "](")
	if !link {
		return -1
	}
	depth := 1 // of brackets within the label
	for i := len(label) - 1; i >= 0 && label[i] != '\n'; i-- {
		switch label[i] {
		case ']':
			depth++
		case '[':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// annotations are those of a text of the answer.
func (f *responsesFormat) annotations(b *answer.Block, text string) []any {
	list := []any{}
	if b.Kind == answer.TextBlock {
		for _, c := range f.q.pages.cited(text) {
			list = append(list, c)
		}
	}
	return list
}
