package tokenizer

import (
	"slices"
	"strings"
)

// specials finds special tokens in a text.
type specials struct {
	ids     map[string]int32
	lengths [256][]int // of the texts that begin with a byte, longest first
	all     []int      // of all texts, longest first
}

func newSpecials(t *Tokenizer, types ...TokenType) *specials {
	sp := &specials{ids: map[string]int32{}}
	for i, text := range t.tokens {
		if text == "" || !slices.Contains(types, t.types[i]) {
			continue
		}
		sp.ids[text] = int32(i)
		sp.all = append(sp.all, len(text))
		sp.lengths[text[0]] = append(sp.lengths[text[0]], len(text))
	}
	sp.all = descending(sp.all)
	for i := range sp.lengths {
		sp.lengths[i] = descending(sp.lengths[i])
	}
	return sp
}

// descending returns the distinct lengths, longest first.
func descending(lengths []int) []int {
	slices.SortFunc(lengths, func(a, b int) int { return b - a })
	return slices.Compact(lengths)
}

// hit is a position where special tokens begin, and the length of the longest.
type hit struct{ at, longest int }

// claim is a special token that was found.
type claim struct {
	start, end int
	id         int32
}

// literal is the ranges of a text, in order, that special tokens may not overlap, but for those that are always tokens.
type literal struct {
	ranges [][2]int
	always map[string]int32
	at     int // position in the text that places are counted from
}

// hides reports whether the text at a place, which is that of a special token, is none.
func (l *literal) hides(text string, at int) bool {
	if len(l.ranges) == 0 {
		return false
	}
	from := l.at + at
	i, _ := slices.BinarySearchFunc(l.ranges, from, func(r [2]int, from int) int { return r[1] - from - 1 })
	if i == len(l.ranges) || l.ranges[i][0] >= from+len(text) {
		return false
	}
	_, always := l.always[text]
	return !always
}

// cut splits a text into special tokens and plain text, whose id is none, and calls emit with them, in order, until
// it returns false. If special tokens overlap, the longest wins, then the leftmost. White space after a token in
// `stripped` is dropped.
func (sp *specials) cut(text string, hidden literal, stripped map[int32]bool, emit func(text string, id int32) bool) {
	done := 0
	for at := 0; ; {
		hidden.at = 0
		start, end := sp.cluster(text, &hidden, at)
		if start == end {
			break
		}
		hidden.at = start
		for _, c := range sp.find(text[start:end], &hidden) {
			if from := start + c.start; done < from && !emit(text[done:from], none) {
				return
			}
			if done = start + c.end; !emit(text[start+c.start:done], c.id) {
				return
			}
			if stripped[c.id] {
				done = len(text) - len(strings.TrimLeft(text[done:], " \t\n\v\f\r"))
			}
		}
		at = end
	}
	if done < len(text) {
		emit(text[done:], none)
	}
}

// cluster returns the first range of text at or after `at` that special tokens overlap or one fills; what is in it
// decides which of them are found. The range is empty if there is no more.
func (sp *specials) cluster(text string, hidden *literal, at int) (start, end int) {
	if len(sp.ids) == 0 {
		return 0, 0
	}
	for ; at < len(text); at++ {
		n := sp.longestAt(text, hidden, at)
		if n == 0 {
			if end > 0 && at >= end-1 {
				return start, end
			}
			continue
		}
		if end == 0 {
			start = at
		} else if at >= end {
			return start, end
		}
		end = max(end, at+n)
	}
	return start, end
}

// longestAt returns the length of the longest special token that begins at text[at]; 0 if none does.
func (sp *specials) longestAt(text string, hidden *literal, at int) int {
	for _, length := range sp.lengths[text[at]] {
		if length > len(text)-at {
			continue
		}
		if one := text[at : at+length]; sp.has(one) && !hidden.hides(one, at) {
			return length
		}
	}
	return 0
}

func (sp *specials) has(text string) bool {
	_, ok := sp.ids[text]
	return ok
}

// find returns the special tokens of a text, in order.
func (sp *specials) find(text string, hidden *literal) []claim {
	hits, longest := sp.hits(text, hidden)
	var claims []claim
	for _, length := range sp.all {
		if len(hits) == 0 {
			break
		}
		if length > longest {
			continue
		}
		// One pass over the remaining hits, which are in no claim of a longer token, and those claims.
		var merged []claim
		left, end, k := hits[:0], 0, 0
		for _, h := range hits {
			for ; k < len(claims) && claims[k].start <= h.at; k++ {
				merged = append(merged, claims[k])
			}
			if h.at < end {
				continue
			}
			overlaps := k < len(claims) && claims[k].start < h.at+length
			if h.longest < length || overlaps {
				left = append(left, h)
				continue
			}
			one := text[h.at : h.at+length]
			id, ok := sp.ids[one]
			if !ok || hidden.hides(one, h.at) {
				left = append(left, h)
				continue
			}
			end = h.at + length
			merged = append(merged, claim{h.at, end, id})
		}
		claims = append(merged, claims[k:]...)
		hits = left
	}
	return claims
}

// hits returns the positions where special tokens begin (usually none), and the length of the longest token.
func (sp *specials) hits(text string, hidden *literal) (hits []hit, longest int) {
	if len(sp.ids) == 0 {
		return nil, 0
	}
	for i := range len(text) {
		if n := sp.longestAt(text, hidden, i); n > 0 {
			hits = append(hits, hit{i, n})
			longest = max(longest, n)
		}
	}
	return hits, longest
}

// Texts that mark the end of a turn, a message, a document or, for code models, a
// file, in the vocabularies of many families.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",
	"<end_of_turn>", "<turn|>", "<|tool_response>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "</s>", "<eos>",
	"<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|EOT|>", "<end_of_utterance>",
	"<\uff5cend\u2581of\u2581sentence\uff5c>",
	"<|eot|>", "<|eom|>", "<|END_OF_TURN_TOKEN|>", "<|end_of_turn|>", "<|endofturn|>", "[|endofturn|]", "<|turn_end|>", "<|role_end|>", "<|end_of_msg|>", "<|endofresponse|>", "<|endofassistant|>", "<end_message>",
	"[e~[", // of MiniMax
	"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
	"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
}

// typeEnds turns endTexts that a file wrongly declares as plain text into control tokens, if no plain text
// looks like that.
func (t *Tokenizer) typeEnds() {
	for i, text := range t.tokens {
		like := strings.HasPrefix(text, "<|") || strings.HasPrefix(text, "<\uff5c") || text == "<end_of_turn>"
		if like && t.types[i] == Normal && slices.Contains(endTexts, text) {
			t.types[i] = Control
		}
	}
}

// findEOG collects the tokens that end a generation: those that the file names, and the special tokens among
// endTexts. All become control tokens: they are neither printed nor recognized in plain text.
func (t *Tokenizer) findEOG(r *reader) {
	eog := map[int32]bool{}
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"} {
		if id := r.id(key, len(t.tokens)); id != none {
			eog[id] = true
		}
	}
	if t.eos != none {
		eog[t.eos] = true
	}
	byText := map[string]int32{}
	for i, text := range t.tokens {
		if typ := t.types[i]; (typ == Control || typ == UserDefined) && slices.Contains(endTexts, text) {
			byText[text] = int32(i)
		}
	}
	// If a model ends its replies and its tool calls with tokens of their own, <|end|> ends only one of
	// several messages.
	has := func(text string) bool { _, ok := byText[text]; return ok }
	if has("<|return|>") && has("<|call|>") || has("<|flush|>") && (has("<|call|>") || has("<|calls|>")) {
		delete(byText, "<|end|>")
	}
	// In the vocabularies of Gemma 4 and later, </s> is HTML.
	if has("<|tool_response>") {
		delete(byText, "</s>")
	}
	for _, id := range byText {
		eog[id] = true
	}
	for id := range eog {
		if t.types[id] == UserDefined {
			t.types[id] = Control
		}
		t.eog = append(t.eog, id)
	}
	slices.Sort(t.eog)
}

// findStripped finds the tokens that strip the white space after them. Files do not record them; Phi-3 is the
// family where it matters.
func (t *Tokenizer) findStripped(m Metadata) {
	v, _ := m.Value("general.name")
	name, _ := v.(string)
	name = strings.ToLower(name)
	if !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return
	}
	t.stripped = map[int32]bool{}
	for text, id := range t.controls.ids {
		if text != "<unk>" && text != "<s>" && text != "<|endoftext|>" {
			t.stripped[id] = true
		}
	}
}
