package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/internal/cputime"
)

func TestSPM(t *testing.T) {
	// Ids from 259 on, scores descending: ▁ a b ab ▁a bb.
	tok := mustNew(t, spmFields("▁", "a", "b", "ab", "▁a", "bb"))
	for _, c := range []struct {
		text string
		want []int32
	}{
		{"", nil},
		{" ", []int32{259, 259}},
		{"ab", []int32{259, 262}},       // "ab" scores above "▁a"
		{"abb", []int32{259, 262, 261}}, // and above "bb"
		{"bbb", []int32{259, 264, 261}}, // leftmost first
		{"a a", []int32{263, 263}},
		{"é", []int32{259, 3 + 0xc3, 3 + 0xa9}},
		{"\xff", []int32{259, 3 + 0xff}},
		{"<s>", []int32{259, 3 + '<', 3 + 's', 3 + '>'}},
	} {
		if got := tok.Encode(c.text, Options{NoSpecial: true}); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %v, want %v", c.text, got, c.want)
		}
	}
	// The space comes back after a special token.
	if got, want := tok.Encode("<s>a</s>b", Options{ParseSpecial: true}), []int32{1, 1, 263, 2, 259, 261}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	plain := mustNew(t, spmFields("▁", "a").with("add_space_prefix", false, "add_eos_token", true))
	if got, want := plain.Encode("a", Options{}), []int32{1, 260, 2}; !slices.Equal(got, want) {
		t.Errorf("no prefix: got %v, want %v", got, want)
	}
	if got := plain.Detokenize([]int32{1, 259, 260, 2}, false); got != " a" {
		t.Errorf("no prefix: got %q", got)
	}
}

// TestDetokenizeSpace removes only the space that encoding added.
func TestDetokenizeSpace(t *testing.T) {
	tok := mustNew(t, spmFields("▁", "a", "▁a"))
	for _, c := range []struct {
		ids     []int32
		special bool
		want    string
	}{
		{[]int32{1, 261, 261}, false, "a a"},
		{[]int32{1, 259, 261}, false, " a"},
		{[]int32{261, 261}, false, " a a"}, // a continuation
		{[]int32{1, 261, 2}, true, "<s>a</s>"},
		{[]int32{1}, true, "<s>"},
		{[]int32{1, 2, 261}, false, " a"},
		{[]int32{99999, -5, 261}, false, " a"},
		{nil, false, ""},
	} {
		if got := tok.Detokenize(c.ids, c.special); got != c.want {
			t.Errorf("%v: got %q, want %q", c.ids, got, c.want)
		}
	}
}

// TestNoBytes encodes what a vocabulary without bytes cannot spell.
func TestNoBytes(t *testing.T) {
	f := fields{
		prefix + "model":      "llama",
		prefix + "tokens":     []string{"<unk>", "<s>", "</s>", "▁", "a"},
		prefix + "scores":     []float32{0, 0, 0, 0, 0},
		prefix + "token_type": []int32{2, 3, 3, 1, 1},
	}
	tok := mustNew(t, f)
	if got, want := tok.Encode("aé字\xffa é", Options{}), []int32{1, 3, 4, 0, 4, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := tok.Detokenize([]int32{1, 3, 4, 0, 4}, true); got != "<s>a<unk>a" {
		t.Errorf("got %q", got)
	}
	// Without an unknown token nothing is left.
	tok = mustNew(t, f.with("token_type", []int32{1, 3, 3, 1, 1}))
	if got, want := tok.Encode("aé", Options{}), []int32{1, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBPE(t *testing.T) {
	tok := mustNew(t, bpeFields([]string{"<|end|>"}, "l o", "lo w", "Ġ low", "e r"))
	end := int32(tok.Len() - 1)
	for _, c := range []struct {
		text string
		want string // tokens
	}{
		{"low lower", "low Ġlow er"},
		{"", ""},
		{"\x00é\xff", "Ā Ã © ÿ"},
		{"<|end|>", "< | e n d | >"},
	} {
		var got []string
		for _, id := range tok.Encode(c.text, Options{}) {
			got = append(got, tok.Token(id))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: got %v, want %v", c.text, got, c.want)
		}
	}
	if got := tok.Encode("<|end|>", Options{ParseSpecial: true}); !slices.Equal(got, []int32{end}) {
		t.Errorf("got %v, want %d", got, end)
	}
	if !tok.IsEOG(end) || tok.AddBOS() {
		t.Errorf("EOG %v, AddBOS %v", tok.EOG(), tok.AddBOS())
	}
}

// TestBPEOutside uses merges whose parts and results are not tokens, and a
// vocabulary that lacks some bytes.
func TestBPEOutside(t *testing.T) {
	f := fields{
		prefix + "model":      "gpt2",
		prefix + "pre":        "gpt-2",
		prefix + "tokens":     []string{"a", "b", "c", "abc"},
		prefix + "merges":     []string{"a b", "ab c", "b x", "c c"},
		prefix + "token_type": []int32{1, 1, 1, 1},
	}
	tok := mustNew(t, f)
	for text, want := range map[string][]int32{
		"abc":  {3},       // by way of "ab", which is no token
		"aab":  {0, 0, 1}, // "ab" is left over: its bytes
		"cc":   {2, 2},
		"axb":  {0, 1}, // x has no token
		"\xff": nil,
	} {
		if got := tok.Encode(text, Options{}); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	tok = mustNew(t, f.with("unknown_token_id", uint32(2)))
	if got := tok.Encode("ax", Options{}); !slices.Equal(got, []int32{0, 2}) {
		t.Errorf("got %v", got)
	}
}

// TestWholeWords takes a word that is a token, whatever the merges would do.
func TestWholeWords(t *testing.T) {
	f := bpeFields(nil, "a b", "b c", "ab c").with("merges", []string{"b c", "a b"})
	abc := []string{"abc"}
	for pre, want := range map[string][]string{"llama-bpe": abc, "tekken": abc, "gpt-2": {"a", "bc"}} {
		tok := mustNew(t, f.with("pre", pre))
		var got []string
		for _, id := range tok.Encode("abc", Options{}) {
			got = append(got, tok.Token(id))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", pre, got, want)
		}
	}
}

// mergeSlowly is the rule itself: while any pair can be joined, join the best,
// the leftmost among equals.
func mergeSlowly(word string, parts []symbol, p pairing) []symbol {
	for {
		best, bestRank, bestID := -1, uint32(0), int32(0)
		at := int32(0)
		for i := 0; i+1 < len(parts); i++ {
			rank, id, ok := p.pair(word[at:at+parts[i].size+parts[i+1].size], parts[i].id, parts[i+1].id)
			at += parts[i].size
			if ok && (best < 0 || rank < bestRank) {
				best, bestRank, bestID = i, rank, id
			}
		}
		if best < 0 {
			return parts
		}
		parts[best].size += parts[best+1].size
		parts[best].id = bestID
		parts = slices.Delete(parts, best+1, best+2)
	}
}

// TestMergeEqualsRule compares the queue with the rule, on random
// vocabularies of both kinds.
func TestMergeEqualsRule(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abc"[rng.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		seen := map[string]bool{"a": true, "b": true, "c": true}
		texts := []string{"a", "b", "c"}
		var merges []string
		for range 20 {
			left, right := texts[rng.IntN(len(texts))], texts[rng.IntN(len(texts))]
			if !seen[left+right] {
				seen[left+right] = true
				texts = append(texts, left+right)
				merges = append(merges, left+" "+right)
			}
		}
		f := spmFields(texts...)
		scores := f[prefix+"scores"].([]float32)
		for i := range scores {
			scores[i] = float32(rng.IntN(9) - 4) // with ties
		}
		for _, tok := range []*Tokenizer{mustNew(t, f), mustNew(t, bpeFields(nil, merges...))} {
			word := random(1 + rng.IntN(30))
			var q merger
			p := tok.model.(pairing)
			q.reset(len(word), len(word))
			for i := range len(word) {
				q.set(i, 1, int32(slices.Index(tok.tokens, word[i:i+1])))
			}
			want := mergeSlowly(word, slices.Clone(q.symbols), p)
			q.run(word, p)
			var got []symbol
			for at := 0; at < len(word); at += int(q.symbols[at].size) {
				got = append(got, q.symbols[at])
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q with %q:\n got %v\nwant %v", word, texts, got, want)
			}
		}
	}
}

// Words that are encoded one by one give the ids of the whole text, also where tokens reach across them.
func TestWordsEqualWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	toks := []*Tokenizer{
		mustNew(t, spmFields("▁", "t", "e", "é", "e▁", "e▁t", "te", "▁t", "é▁▁", "▁▁")),
		mustNew(t, mergedFields("e ▁", "e▁ t", "t e", "▁ t", "▁ ▁", "é ▁▁")),
		mustNew(t, unigramFields("e▁t", "▁", "t", "e", "é▁▁t", "▁▁", "te", "▁t").with("remove_extra_whitespaces", false)),
	}
	for range 3000 {
		var b strings.Builder
		for range 1 + rng.IntN(20) {
			b.WriteString([]string{" ", "t", "e", "é", "x"}[rng.IntN(5)])
		}
		for i, tok := range toks {
			word := tok.model.(interface {
				word([]int32, string, *scratch) []int32
			}).word
			want := word(nil, strings.ReplaceAll(b.String(), " ", escapedSpace), new(scratch))
			if got := tok.model.encode(nil, b.String(), new(scratch)); !slices.Equal(got, want) {
				t.Fatalf("vocabulary %d: %q: got %v, want %v", i, b.String(), got, want)
			}
		}
	}
}

// cutSlowly finds special tokens as the rule says: for each length from the
// longest on, from left to right, where nothing is taken.
func cutSlowly(texts map[string]int32, text string, literal []bool, always map[string]int32) []claim {
	taken := make([]bool, len(text))
	var claims []claim
	for length := len(text); length > 0; length-- {
		for i := 0; i+length <= len(text); i++ {
			one := text[i : i+length]
			id, ok := texts[one]
			if !ok || slices.Contains(taken[i:i+length], true) {
				continue
			}
			if _, is := always[one]; !is && slices.Contains(literal[i:i+length], true) {
				continue
			}
			for j := range length {
				taken[i+j] = true
			}
			claims = append(claims, claim{i, i + length, id})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int { return a.start - b.start })
	return claims
}

func TestSpecialsEqualRule(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "<ab>"[rng.IntN(4)]
		}
		return string(b)
	}
	for range 3000 {
		tok := &Tokenizer{}
		for range 1 + rng.IntN(8) {
			text := random(1 + rng.IntN(5))
			if !slices.Contains(tok.tokens, text) {
				tok.tokens = append(tok.tokens, text)
				tok.types = append(tok.types, []TokenType{Control, Control, UserDefined}[rng.IntN(3)])
			}
		}
		text := random(rng.IntN(25))
		sp, always := newSpecials(tok, Control, UserDefined), newSpecials(tok, UserDefined).ids
		hidden := literal{always: always}
		isLiteral := make([]bool, len(text))
		for at := rng.IntN(20); at < len(text); at += 1 + rng.IntN(20) {
			to := min(at+1+rng.IntN(6), len(text))
			hidden.ranges = append(hidden.ranges, [2]int{at, to})
			for ; at < to; at++ {
				isLiteral[at] = true
			}
		}
		var got []claim
		at := 0
		sp.cut(text, hidden, nil, func(part string, id int32) bool {
			if id != none {
				got = append(got, claim{at, at + len(part), id})
			}
			at += len(part)
			return true
		})
		if want := cutSlowly(sp.ids, text, isLiteral, always); !slices.Equal(got, want) {
			t.Fatalf("%q with %q, of which %v are always tokens, and literal %v:\n got %v\nwant %v", text, tok.tokens, always, hidden.ranges, got, want)
		}
	}
}

func TestSpecialsAreLinear(t *testing.T) {
	tok := &Tokenizer{}
	for n := range 60 {
		tok.tokens = append(tok.tokens, strings.Repeat("[", n+1), fmt.Sprintf("[PAD%d]", n))
		tok.types = append(tok.types, Control, Control)
	}
	if took := cputime.Of(func() {
		newSpecials(tok, Control).cut(strings.Repeat("[", 1_000_000), literal{}, nil, func(string, int32) bool { return true })
	}); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestUserDefined is found in plain text, control tokens are not.
func TestUserDefined(t *testing.T) {
	f := bpeFields([]string{"<tool>", "<|im_end|>", "<|x|>"})
	types := f[prefix+"token_type"].([]int32)
	types[256], types[257] = 4, 4
	tok := mustNew(t, f)
	if got := tok.Encode("a<tool>", Options{}); !slices.Equal(got[1:], []int32{256}) {
		t.Errorf("got %v", got)
	}
	// What ends a generation is a control token, whatever the file says.
	if tok.TokenType(257) != Control || !tok.IsEOG(257) || len(tok.Encode("<|im_end|>", Options{})) == 1 {
		t.Errorf("type %v, EOG %v", tok.TokenType(257), tok.EOG())
	}
	if got := string(tok.Piece(256, false)); got != "<tool>" {
		t.Errorf("got %q", got)
	}
}

// What is literal has no control tokens; the ids of the rest are the same.
func TestLiteral(t *testing.T) {
	f := bpeFields([]string{"<tool>", "<|im_end|>", "<|x|>"})
	types := f[prefix+"token_type"].([]int32)
	types[256], types[257], types[258] = 4, 3, 3
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	const text = "a<|im_end|>b<tool><|x|>"
	plain := func(s string) []int32 { return tok.Encode(s, Options{NoSpecial: true}) }
	for _, c := range []struct {
		literal [][2]int
		want    []int32
	}{
		{nil, slices.Concat(plain("a"), []int32{257}, plain("b"), []int32{256, 258})},
		{[][2]int{{0, 1}, {11, 12}}, slices.Concat(plain("a"), []int32{257}, plain("b"), []int32{256, 258})},
		{[][2]int{{10, 12}}, slices.Concat(plain("a<|im_end|>b"), []int32{256, 258})},
		{[][2]int{{1, 2}}, slices.Concat(plain("a<|im_end|>b"), []int32{256, 258})},
		{[][2]int{{0, len(text)}}, slices.Concat(plain("a<|im_end|>b"), []int32{256}, plain("<|x|>"))},
	} {
		if got := tok.Encode(text, Options{NoSpecial: true, ParseSpecial: true, Literal: c.literal}); !slices.Equal(got, c.want) {
			t.Errorf("literal %v: %v, want %v", c.literal, got, c.want)
		}
	}
}

// TestEndsAsText has the end of a turn as plain text in the file, which it is not, and a tag that is.
func TestEndsAsText(t *testing.T) {
	f := bpeFields([]string{"<|im_end|>", "</s>"})
	types := f[prefix+"token_type"].([]int32)
	types[256], types[257] = 1, 1
	tok := mustNew(t, f)
	if got := tok.EOG(); !slices.Equal(got, []int32{256}) || tok.TokenType(256) != Control {
		t.Errorf("EOG %v, type %v", got, tok.TokenType(256))
	}
	if got := tok.Encode("a<|im_end|>", Options{ParseSpecial: true}); !slices.Equal(got[1:], []int32{256}) {
		t.Errorf("got %v", got)
	}
}

// TestLonely joins no characters of two words, and keeps nothing of what is between them.
func TestLonely(t *testing.T) {
	f := mergedFields("▁ a", "a b", "ab a", "é a").with("model", "whitespace")
	for text, want := range map[string]string{"ab\n a\u3000aba éa": "ab a aba éa", " \t": "", "AB": "<0x41> <0x42>"} {
		if got := spelling(mustNew(t, f), text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := spelling(mustNew(t, f.with("normalizer.lowercase", true)), "AB"); got != "ab" {
		t.Errorf("got %q", got)
	}
}

// TestPLaMo2 takes the largest sum, of equal ones the longest token, and bytes where there is no token.
func TestPLaMo2(t *testing.T) {
	f := spmFields("a", "b", "ab", "ba", " ", "aba").with("model", "plamo2")
	scores := f[prefix+"scores"].([]float32)
	copy(scores[259:], []float32{-1, -1, -2, -1.5, -1, -3.5})
	tok := mustNew(t, f)
	for text, want := range map[string]string{
		"ab": "ab", "aba": "a ba", "abab": "a ba b", "b a": "b   a", "": "",
		"aé": "a <0xC3> <0xA9>", "\xff": "<0xFF>", "\ufeffa": "a", "<s>": "<0x3C> <0x73> <0x3E>",
	} {
		if got := spelling(tok, text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	scores[259] = 3000
	if _, err := New(f); err == nil || !strings.Contains(err.Error(), "scores[259]") {
		t.Errorf("got %v", err)
	}
}

// spelling is the tokens of a text.
func spelling(tok *Tokenizer, text string) string {
	var tokens []string
	for _, id := range tok.EncodePart(text) {
		tokens = append(tokens, tok.Token(id))
	}
	return strings.Join(tokens, " ")
}

// TestSpelledWithSpaces has vocabularies that say that they are of bytes, and are not.
func TestSpelledWithSpaces(t *testing.T) {
	f := mergedFields("▁ a", "a b").with("model", "gpt2")
	for pre, bos := range map[string]bool{"gemma4": true, "granite-embed-multi-311m": true, "sarvam-moe": false} {
		tok := mustNew(t, f.with("pre", pre))
		if got := spelling(tok, "ab a"); got != "ab ▁a" || tok.AddBOS() != bos {
			t.Errorf("%s: got %q, BOS %v", pre, got, tok.AddBOS())
		}
	}
}

// TestTextIsNeverControl gives vocabularies that could join plain text into a
// control token.
func TestTextIsNeverControl(t *testing.T) {
	spm := mustNew(t, spmFields("▁", "<", "s", ">", "<s", "s>"))
	bpe := mustNew(t, bpeFields([]string{"<s>"}, "< s").with("merges", []string{"< s", "<s >"}))
	for _, tok := range []*Tokenizer{spm, bpe} {
		ids := tok.Encode("<s>", Options{NoSpecial: true})
		for _, id := range ids {
			if tok.TokenType(id) == Control {
				t.Errorf("%q is a control token", tok.Token(id))
			}
		}
		if got := strings.TrimPrefix(tok.Detokenize(ids, true), " "); got != "<s>" {
			t.Errorf("got %q", got)
		}
	}
}

// TestHarmony keeps <|end|>, which is not the end where <|return|> is.
func TestHarmony(t *testing.T) {
	tok := mustNew(t, bpeFields([]string{"<|end|>", "<|return|>", "<|call|>"}))
	if want := []int32{257, 258}; !slices.Equal(tok.EOG(), want) {
		t.Errorf("got %v, want %v", tok.EOG(), want)
	}
}

// </s> is a text of HTML where <|tool_response> ends replies.
func TestToolResponse(t *testing.T) {
	tok := mustNew(t, bpeFields([]string{"</s>", "<|tool_response>"}))
	if want := []int32{257}; !slices.Equal(tok.EOG(), want) {
		t.Errorf("got %v, want %v", tok.EOG(), want)
	}
}

// TestConcurrent shares a Tokenizer, as a server does.
func TestConcurrent(t *testing.T) {
	tok := mustNew(t, bpeFields(nil, "a b", "ab c", "Ġ ab"))
	text := strings.Repeat("abc ab cab ", 50)
	want := tok.Encode(text, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got := tok.Encode(text, Options{}); !slices.Equal(got, want) {
					t.Error("ids differ")
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestCacheOverflows encodes more different words than are remembered, twice.
func TestCacheOverflows(t *testing.T) {
	tok := mustNew(t, bpeFields(nil, "1 2", "3 4"))
	var b strings.Builder
	for i := range 2*maxCached + 100 {
		fmt.Fprintf(&b, "%d ", i)
	}
	text := b.String() + b.String()
	if got := tok.Detokenize(tok.Encode(text, Options{}), false); got != text {
		t.Error("text differs")
	}
}

// TestStream prints random bytes in random portions: every portion is whole
// characters, and together they are the text.
func TestStream(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	tok := mustNew(t, bpeFields(nil))
	chars := []string{"a", "é", "字", "🦙", "\u200d", "\ufffd", "\xff", "\xc3", "\xe5\xad", "\xf0\x9f\xa6", "\xed\xa0\x80"}
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(8) {
			b.WriteString(chars[rng.IntN(len(chars))])
		}
		text := b.String()
		// One token that prints each random portion of the text.
		tok.pieces, tok.ends, tok.tokens, tok.types = nil, nil, nil, nil
		for rest := text; rest != ""; {
			n := 1 + rng.IntN(min(6, len(rest)))
			tok.pieces = append(tok.pieces, rest[:n]...)
			tok.ends = append(tok.ends, uint32(len(tok.pieces)))
			tok.tokens = append(tok.tokens, rest[:n])
			tok.types = append(tok.types, Normal)
			rest = rest[n:]
		}
		s := tok.NewStream()
		var out strings.Builder
		for id := range tok.tokens {
			got := s.Write(int32(id))
			if !utf8.ValidString(got) {
				t.Fatalf("%q: printed %q", text, got)
			}
			out.WriteString(got)
			if held := len(text[:tok.ends[id]]) - len(s.held); held < 0 || len(s.held) >= utf8.UTFMax {
				t.Fatalf("%q: %d bytes held back", text, len(s.held))
			}
		}
		out.WriteString(s.Flush())
		if want := string([]rune(text)); out.String() != want {
			t.Fatalf("got %q, want %q", out.String(), want)
		}
		if got := s.Flush(); got != "" {
			t.Fatalf("flushed %q again", got)
		}
	}
}

// TestStreamIsPrompt prints a character with the token that completes it, and
// a wrong byte as soon as it is known to be wrong.
func TestStreamIsPrompt(t *testing.T) {
	tok := mustNew(t, spmFields("▁a"))
	b := func(b int32) int32 { return 3 + b }
	s := tok.NewStream()
	for i, step := range []struct {
		id   int32
		want string
	}{
		{259, " a"}, {b(0xe5), ""}, {b(0xad), ""}, {b(0x97), "字"},
		{b(0xe5), ""}, {1, ""}, {259, "\ufffd a"}, {b(0xff), "\ufffd"}, {b(0xc3), ""}, {-1, ""},
	} {
		if got := s.Write(step.id); got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
	if got := s.Flush(); got != "\ufffd" {
		t.Errorf("flushed %q", got)
	}
}

// TestStreamKeeps prints the control tokens that it is told to, and no others.
func TestStreamKeeps(t *testing.T) {
	tok := mustNew(t, spmFields("▁a"))
	for _, c := range []struct {
		keep []string
		want string
	}{
		{nil, " a"}, {[]string{"</s>", "nonsense"}, " a</s>"}, {[]string{"<s>", "</s>"}, "<s> a</s>"},
	} {
		s := tok.NewStream(c.keep...)
		if got := s.Write(1) + s.Write(259) + s.Write(2) + s.Flush(); got != c.want {
			t.Errorf("keeping %q: got %q, want %q", c.keep, got, c.want)
		}
	}
}
