package lark

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode"

	"github.com/quern-llm/quern/go/grammar"
)

// maxChunks is the maximum number of parts of a text of which substrings are allowed.
const maxChunks = 20_000

const wantRegex = "want one of substring_chunks, substring_words and substring_chars"

// structured returns the texts of %regex.
func (b *builder) structured(text string) (grammar.Expr, error) {
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil || len(v) != 1 {
		return nil, fmt.Errorf("%%regex has %.60s, %s", text, wantRegex)
	}
	for key, raw := range v {
		var chunks []string
		var whole string
		var err error
		switch key {
		case "substring_chunks":
			err = json.Unmarshal(raw, &chunks)
		case "substring_words", "substring_chars":
			err = json.Unmarshal(raw, &whole)
			chunks = cut(whole, key == "substring_words")
		default:
			return nil, fmt.Errorf("%%regex has %.60q, %s", key, wantRegex)
		}
		if err != nil {
			return nil, fmt.Errorf("%%regex: %s: %.60s, want a string, or strings of substring_chunks", key, raw)
		}
		if len(chunks) > maxChunks {
			return nil, fmt.Errorf("%%regex: %s has %d parts, want at most %d", key, len(chunks), maxChunks)
		}
		return b.substrings(chunks), nil
	}
	return nil, nil
}

// cut cuts a text into its characters, or into runs of white space, of letters, digits and _, and of all else.
func cut(text string, words bool) (chunks []string) {
	kind := func(r rune) int {
		switch {
		case unicode.IsSpace(r):
			return 0
		case r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return 1
		}
		return 2
	}
	from, last := 0, rune(0)
	for i, r := range text {
		if i > 0 && (!words || kind(r) != kind(last)) {
			chunks = append(chunks, text[from:i])
			from = i
		}
		last = r
	}
	if text != "" {
		chunks = append(chunks, text[from:])
	}
	return chunks
}

// substrings returns the texts of any number of chunks that follow one another: the paths of their suffix automaton,
// whose states are rules, at most two for each chunk.
func (b *builder) substrings(chunks []string) grammar.Expr {
	type state struct {
		length, link int
		next         map[string]int
	}
	all := []state{{link: -1, next: map[string]int{}}}
	last := 0
	for _, c := range chunks {
		if c == "" {
			continue
		}
		added := len(all)
		all = append(all, state{length: all[last].length + 1, next: map[string]int{}})
		at := last
		for ; at >= 0; at = all[at].link {
			if _, ok := all[at].next[c]; ok {
				break
			}
			all[at].next[c] = added
		}
		last = added
		if at < 0 {
			continue
		}
		to := all[at].next[c]
		if all[to].length == all[at].length+1 {
			all[added].link = to
			continue
		}
		twin := len(all)
		all = append(all, state{length: all[at].length + 1, link: all[to].link, next: maps.Clone(all[to].next)})
		for ; at >= 0 && all[at].next[c] == to; at = all[at].link {
			all[at].next[c] = twin
		}
		all[to].link, all[added].link = twin, twin
	}
	refs := make([]grammar.Ref, len(all))
	for i := range all {
		refs[i] = b.g.Add("substring", nil)
	}
	for i, s := range all {
		alt := grammar.Alt{grammar.Lit("")}
		for _, c := range slices.Sorted(maps.Keys(s.next)) {
			alt = append(alt, grammar.Seq{grammar.Lit(c), refs[s.next[c]]})
		}
		b.g.Rules[refs[i]].Expr = alt
	}
	return refs[0]
}
