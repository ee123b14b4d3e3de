package openai

import (
	"cmp"
	"maps"
	"slices"
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

// add adds a page. One that was found before keeps its title.
func (c *citable) add(url, title string) {
	if *c == nil {
		*c = citable{}
	}
	(*c)[url] = cmp.Or((*c)[url], title)
}

// cited returns where a text names pages: by a link in Markdown, [text](URL), or by the URL alone.
func (c citable) cited(text string) (all []citation) {
	urls := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
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
		rest := text[begin:]
		k := slices.IndexFunc(urls, func(url string) bool { return url != "" && strings.HasPrefix(rest, url) && isEnd(rest[len(url):]) })
		if k < 0 {
			at = begin + len("http")
			continue
		}
		url := urls[k] // the longest
		end := begin + len(url)
		at = end
		if open := linkAt(text[done:begin]); open >= 0 && strings.HasPrefix(text[end:], ")") {
			begin, end = done+open, end+1
		}
		all = append(all, citation{Type: "url_citation", URL: url, Title: cmp.Or(c[url], url), Start: count(begin), End: count(end)})
	}
	return all
}

// isEnd reports whether a URL may end where this text follows: a bracket, which may end a link that a text follows at once, or
// what ends a sentence and then nothing more of a URL.
func isEnd(after string) bool {
	after = strings.TrimLeft(after, ".,;:!?'*_")
	return after == "" || strings.ContainsRune(")]} \t\r\n<>\"`|", rune(after[0]))
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

// annotations are those of a text of the answer. They are found once for what is sent of a block: its events, its part and its
// item.
func (f *responsesFormat) annotations(b *answer.Block, text string) []any {
	if f.cites.of == b && f.cites.text == text {
		return f.cites.list
	}
	list := []any{}
	if b.Kind == answer.TextBlock {
		for _, c := range f.q.pages.cited(text) {
			list = append(list, c)
		}
	}
	f.cites = blockCites{b, text, list}
	return list
}

// blockCites are the annotations of a block with a text.
type blockCites struct {
	of   *answer.Block
	text string
	list []any
}
