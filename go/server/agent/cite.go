package agent

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pages are those that the model has been shown, by their URLs.
type Pages map[string]Shown

// A Shown is a page that a model has been shown: its title, if it is known, and what a search says of it.
type Shown struct{ Title, Text string }

// Add adds a page. One that was found before keeps its title.
func (p *Pages) Add(url, title, text string) {
	if *p == nil {
		*p = Pages{}
	}
	(*p)[url] = Shown{cmp.Or((*p)[url].Title, title), cmp.Or(text, (*p)[url].Text)}
}

// A Citation is where a text names a page. From and To count bytes, Start and End characters; End and To are behind it.
type Citation struct {
	From, To, Start, End int
	URL, Title           string
}

// Cited returns where a text names pages: by a link in Markdown, [text](URL), or by the URL alone.
func (p Pages) Cited(text string) (all []Citation) {
	urls := slices.SortedFunc(maps.Keys(p), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	done, chars := 0, 0 // bytes of the text, and their characters
	count := func(to int) int {
		chars += utf8.RuneCountInString(text[done:to])
		done = to
		return chars
	}
	for at := 0; len(p) > 0; {
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
		all = append(all, Citation{begin, end, count(begin), count(end), url, cmp.Or(p[url].Title, url)})
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

// Names reports whether a text names a page: has its URL, with http:// or https:// or without.
func Names(text, url string) bool {
	for _, url := range []string{url, strings.TrimSuffix(url, "/")} {
		_, bare, _ := strings.Cut(url, "://")
		for _, name := range []string{url, bare} {
			for at := 0; name != ""; {
				i := strings.Index(text[at:], name)
				if i < 0 {
					break
				}
				begin, end := at+i, at+i+len(name)
				if isEnd(strings.TrimPrefix(text[end:], "/")) && (begin == 0 || strings.ContainsRune("([{<>\"'`*_| \t\r\n", rune(text[begin-1])) || name == url) {
					return true
				}
				at = begin + 1
			}
		}
	}
	return false
}

// Passage is the part of a text, of some bytes at most, that has the most words of a sentence; the first of those with as many.
func Passage(text, about string, most int) (from, to int) {
	wanted := map[string]bool{}
	for word := range words(about) {
		wanted[word] = true
	}
	best := -1
	for at := 0; at < len(text); {
		line := text[at:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		if part := head(line, most); len(part) > 0 {
			line = part
		}
		has := map[string]bool{}
		for word := range words(line) {
			if wanted[word] {
				has[word] = true
			}
		}
		if strings.TrimSpace(line) != "" && len(has) > best {
			best = len(has)
			from, to = at, at+len(strings.TrimRight(line, "\r\n"))
		}
		at += len(line)
	}
	return from, to
}

// words are those of a text that tell it from others, in small letters.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if len(word) > 3 && !yield(strings.ToLower(word)) {
				return
			}
		}
	}
}
