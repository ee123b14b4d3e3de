package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
)

// unigramFields is a small vocabulary of Unigram: <pad> </s> <unk>, texts from 3 on, each less likely
// than the one before.
func unigramFields(texts ...string) fields {
	types, scores := []int32{3, 3, 2}, []float32{0, 0, 0}
	for i := range texts {
		types, scores = append(types, 1), append(scores, -1-float32(i)/8)
	}
	return fields{
		prefix + "model":                    "t5",
		prefix + "tokens":                   append([]string{"<pad>", "</s>", "<unk>"}, texts...),
		prefix + "token_type":               types,
		prefix + "scores":                   scores,
		prefix + "unknown_token_id":         uint32(2),
		prefix + "eos_token_id":             uint32(1),
		prefix + "remove_extra_whitespaces": true,
	}
}

func TestUnigram(t *testing.T) {
	f := unigramFields("▁", "a", "b", "ab", "abc", "▁a", "bcd", "d")
	tok := mustNew(t, f)
	for _, c := range []struct{ text, want string }{
		{"", "</s>"},
		{"  ", "</s>"},
		{"abcd", "▁a bcd </s>"}, // not the longest first
		{" a   b ", "▁a ▁ b </s>"},
		{"axyb", "▁a <unk> b </s>"},
		{"\xff\xffa", "▁ <unk> a </s>"},
	} {
		if got := spelled(tok, tok.Encode(c.text, Options{})); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
	if got := tok.Detokenize(tok.Encode("  ab  b", Options{NoSpecial: true}), false); got != " ab b" {
		t.Errorf("text %q", got)
	}
	for _, c := range []struct {
		m    fields
		want string
	}{
		{f.with("remove_extra_whitespaces", false), "▁ ▁a ▁ ▁ b ▁"},
		{f.with("add_space_prefix", false), "a ▁ b"},
		{f.with("add_space_prefix", false, "remove_extra_whitespaces", false), "▁a ▁ ▁ b ▁"},
		{f.with("precompiled_charsmap", charsMapOf(map[string]string{" ": "", "a": "b", "a  ": "d"})), "▁ d b"},
		{f.with("unknown_token_id", nil, "token_type", []int32{3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}), "▁a ▁ b"},
	} {
		tok := mustNew(t, c.m)
		if got := spelled(tok, tok.Encode(" a  b ", Options{NoSpecial: true})); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// What Viterbi finds is the best of all spellings.
func TestUnigramIsBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var texts []string
		for len(texts) < 12 {
			text := strings.Repeat("x", 1+rng.IntN(4))
			b := []byte(text)
			for i := range b {
				b[i] = "abc"[rng.IntN(3)]
			}
			if !slices.Contains(texts, string(b)) {
				texts = append(texts, string(b))
			}
		}
		f := unigramFields(texts...).with("add_space_prefix", false)
		scores := f[prefix+"scores"].([]float32)
		for i := range scores {
			scores[i] = -float32(rng.IntN(1000)) / 64
		}
		m := mustNew(t, f).model.(*unigram)
		word := make([]byte, 1+rng.IntN(9))
		for i := range word {
			word[i] = "abc"[rng.IntN(3)]
		}
		var best func(rest string) float64
		best = func(rest string) float64 {
			if rest == "" {
				return 0
			}
			most := m.unkScore + best(rest[1:])
			for i, text := range m.texts {
				if strings.HasPrefix(rest, text) {
					most = max(most, m.scores[i]+best(rest[len(text):]))
				}
			}
			return most
		}
		s := &scratch{}
		m.word(nil, string(word), s)
		if got, want := s.steps[len(word)].score, best(string(word)); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%q of %q: score %g, the best is %g", word, texts, got, want)
		}
	}
}

// The longest string is replaced, and what follows its replacement is not joined with it.
func TestCharsMap(t *testing.T) {
	m := map[string]string{"a": "1", "abc": "2", "é": "e", "\t": " ", "b": "", "\u0301": ""}
	r := &reader{m: fields{prefix + "precompiled_charsmap": charsMapOf(m)}}
	c := newCharsMap(r)
	if r.err != nil {
		t.Fatal(r.err)
	}
	for text, want := range map[string]string{
		"": "", "a": "1", "ab": "1", "abc": "2", "abab": "11", "xé\ty": "xe y", "e\u0301": "e", "\xff": "\ufffd", "字": "字", "\x00a": "\x001",
	} {
		if got := c.normalize(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// What a file's map makes of a text takes no more than a few times what the text has.
func TestCharsMapIsBounded(t *testing.T) {
	most := strings.Repeat("x", maxReplacement)
	f := unigramFields("x", "a")
	if got := len(mustNew(t, f.with("precompiled_charsmap", charsMapOf(map[string]string{"a": most}))).EncodePart("aa")); got < 2*maxReplacement {
		t.Errorf("%d ids", got)
	}
	_, err := New(f.with("precompiled_charsmap", charsMapOf(map[string]string{"a": "b", "b": most + "x"})))
	if err == nil || err.Error() != fmt.Sprintf("tokenizer.ggml.precompiled_charsmap has a replacement of %d bytes, want at most %d", maxReplacement+1, maxReplacement) {
		t.Errorf("a replacement that is too long: %v", err)
	}
	// A map that leads from each a to itself, and never ends.
	loop := binary.LittleEndian.AppendUint32(nil, 4*256)
	for i := range uint32(256) {
		unit := uint32(0)
		if i == 'a' {
			unit = 'a' | 'a'<<unitOffset
		}
		loop = binary.LittleEndian.AppendUint32(loop, unit)
	}
	tok := mustNew(t, f.with("precompiled_charsmap", loop))
	text := strings.Repeat("a", 1<<17)
	if took := cputime.Of(func() { tok.model.(*unigram).chars.normalize(text) }); took > 2*time.Second {
		t.Errorf("a map without an end took %v", took)
	}
}

// charsMapOf writes a map as SentencePiece does.
func charsMapOf(m map[string]string) []byte {
	const size = 1 << 16
	units := make([]uint32, size)
	used := map[uint32]bool{0: true}
	bases := map[uint32]bool{} // a unit names its label and no parent: two nodes may not share a base
	var to []byte
	type node map[byte]node
	root := node{}
	for text := range m {
		n := root
		for _, b := range []byte(text) {
			if n[b] == nil {
				n[b] = node{}
			}
			n = n[b]
		}
	}
	var place func(n node, at uint32, text string)
	place = func(n node, at uint32, text string) {
		_, ends := m[text]
		fits := func(offset uint32) bool {
			if bases[at^offset] || ends && used[at^offset] {
				return false
			}
			for b := range n {
				if used[at^offset^uint32(b)] {
					return false
				}
			}
			return true
		}
		offset := uint32(1)
		for !fits(offset) {
			offset++
		}
		bases[at^offset] = true
		units[at] |= offset << unitOffset
		if ends {
			units[at] |= unitEnds
			used[at^offset] = true
			units[at^offset] = 1<<31 | uint32(len(to))
			to = append(append(to, m[text]...), 0)
		}
		for b := range n {
			used[at^offset^uint32(b)] = true
			units[at^offset^uint32(b)] = uint32(b)
		}
		for b, child := range n {
			place(child, at^offset^uint32(b), text+string([]byte{b}))
		}
	}
	place(root, 0, "")
	blob := binary.LittleEndian.AppendUint32(nil, 4*size)
	for _, u := range units {
		blob = binary.LittleEndian.AppendUint32(blob, u)
	}
	return append(blob, to...)
}
