package tokenizer

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// checkUpTo checks EncodeUpTo at and around the number of a text's ids.
func checkUpTo(t *testing.T, name string, tok *Tokenizer, text string, o Options, want []int32) {
	t.Helper()
	for _, most := range []int{1, len(want) / 2, len(want) - 1, len(want), len(want) + 1} {
		if most < 1 {
			continue
		}
		ids, least := tok.EncodeUpTo(most, text, o)
		switch {
		case len(want) <= most && (least != len(want) || !slices.Equal(ids, want)):
			t.Fatalf("%s: %q: up to %d: got %v, %d, want %v", name, text, most, ids, least, want)
		case len(want) > most && (ids != nil || least <= most || least > len(want)):
			t.Fatalf("%s: %q: up to %d: got %v, at least %d; it has %d", name, text, most, ids, least, len(want))
		}
	}
}

// A text that would have fit is never refused, whatever its bytes become.
func TestEncodeUpTo(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	parts := []string{"a", "th", " the ", "\n\n", "    ", "é", "e\u0301", "\u212b", "\u1100\u1161\u11a8", "字", "<s>", "<|end|>", "\u2581", "\xff", "\x00", "\ufeff", "1234", "\u0301\u0323"}
	toks := map[string]*Tokenizer{
		"spm":       mustNew(t, spmFields("▁", "t", "h", "th", "▁the", "▁▁▁▁")),
		"charbpe":   mustNew(t, mergedFields("t h", "th e", "▁ ▁", "▁▁ ▁▁")),
		"bert":      mustNew(t, bertFields("▁the", "the", "▁字", "▁é", "s")),
		"rwkv":      mustNew(t, rwkvFields("th", " the", `\n\n`, "  ")),
		"unigram":   mustNew(t, unigramFields("▁", "t", "th", "▁the", "é")),
		"plamo2":    mustNew(t, spmFields("▁", "t", "th", " the ").with("model", "plamo2")),
		"no-bytes":  mustNew(t, fields{prefix + "model": "llama", prefix + "tokens": []string{"<unk>", "<s>", "</s>", "▁", "a"}, prefix + "scores": make([]float32, 5)}),
		"qwen2":     mustNew(t, bpeFields([]string{"<s>", "</s>", "<|end|>"}, "t h", "th e", "Ġ the", "Ġ Ġ", "ĠĠ ĠĠ").with("pre", "qwen2")),
		"lonely":    mustNew(t, mergedFields("t h", "th e").with("model", "whitespace")),
		"few-bytes": mustNew(t, fields{prefix + "model": "plamo2", prefix + "tokens": []string{"<unk>", "<s>", "</s>", " ", "a"}, prefix + "scores": make([]float32, 5)}),
		"llama-bpe": mustNew(t, bpeFields([]string{"<s>", "</s>", "<|end|>"}, "t h", "th e", "Ġ the", "Ġ Ġ").with("pre", "llama-bpe")),
	}
	for range 200 {
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteString(strings.Repeat(parts[rng.IntN(len(parts))], 1+rng.IntN(4)))
		}
		for name, tok := range toks {
			for _, o := range []Options{{}, {ParseSpecial: true, NoSpecial: true}} {
				checkUpTo(t, name, tok, b.String(), o, tok.Encode(b.String(), o))
			}
		}
	}
	for name, tok := range toks { // texts with as few ids as can be
		for _, part := range parts {
			for _, text := range []string{strings.Repeat(part, 30), "\ufeff" + part} {
				checkUpTo(t, name, tok, text, Options{NoSpecial: true}, tok.Encode(text, Options{NoSpecial: true}))
			}
		}
	}
	for name, tok := range toks {
		huge := strings.Repeat("a", 1<<20)
		if _, least := tok.EncodeUpTo(100, huge, Options{}); tok.longest > 0 && (least < 1<<20/tok.longest) {
			t.Errorf("%s: at least %d", name, least)
		}
	}
}

// Composition makes one byte of `composed` bytes at most.
func TestComposed(t *testing.T) {
	longest := map[rune]int{} // bytes of a character that is replaced by another one
	for r := range rune(unicode.MaxRune + 1) {
		longest[r] = max(longest[r], utf8.RuneLen(r))
		if to := []rune(norm.NFD.String(string(r))); len(to) == 1 && to[0] != r {
			longest[to[0]] = max(longest[to[0]], utf8.RuneLen(r))
		}
	}
	for r := range rune(unicode.MaxRune + 1) {
		bytes := 0
		for _, part := range norm.NFD.String(string(r)) {
			bytes += longest[part]
		}
		if utf8.ValidRune(r) && bytes > composed*utf8.RuneLen(r) {
			t.Errorf("%U may be %d bytes, and is %d", r, bytes, utf8.RuneLen(r))
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// All that is allocated for a text, garbage included, is within a small multiple of its bytes, also where it is one
// word, where tokens are as short as can be, and where special tokens overlap.
func TestEncodeBytes(t *testing.T) {
	const n = 1 << 20
	kinds := map[string]*Tokenizer{
		"spm":     mustNew(t, spmFields("▁", "a", "aa", "aaa")),
		"charbpe": mustNew(t, mergedFields("a a", "aa a")),
		"bpe":     mustNew(t, bpeFields([]string{"<s>", "</s>"}, "a a", "aa a")),
		"bert":    mustNew(t, bertFields("▁a", "a")),
		"rwkv":    mustNew(t, rwkvFields("aa")),
		"unigram": mustNew(t, unigramFields("▁", "a", "aa")),
		"plamo2":  mustNew(t, spmFields("▁", "a", "aa").with("model", "plamo2")),
	}
	texts := map[string]string{
		"one word": strings.Repeat("a", n), "bytes": strings.Repeat("\xff", n), "words": strings.Repeat("a ", n/2),
		"spaces": strings.Repeat(" ", n), "special": strings.Repeat("<s>", n/3), "signs": strings.Repeat("?!", n/2),
	}
	for name, tok := range kinds {
		for kind, text := range texts {
			var ids []int32
			got := allocated(func() { ids = tok.Encode(text, Options{ParseSpecial: true}) })
			if limit := 72*n + 16*len(ids); got > uint64(limit) { // a list that grows leaves lists behind
				t.Errorf("%s: %s: %.0f bytes for each, and %d ids", name, kind, float64(got)/n, len(ids))
			}
		}
	}
}

// A burst of long texts leaves nothing behind but what a few short ones leave.
func TestScratchIsGivenBack(t *testing.T) {
	tok := mustNew(t, spmFields("▁", "a", "aa"))
	text := strings.Repeat("a", 1<<20)
	done := make(chan bool)
	for range 32 {
		go func() { tok.Encode(text, Options{}); done <- true }()
	}
	for range 32 {
		<-done
	}
	if len(tok.scratch) > runtime.GOMAXPROCS(0) {
		t.Errorf("%d are kept", len(tok.scratch))
	}
	for len(tok.scratch) > 0 {
		if s := <-tok.scratch; cap(s.merger.symbols) > maxKept || cap(s.merger.heap) > 2*maxKept {
			t.Errorf("%d symbols and %d candidates are kept", cap(s.merger.symbols), cap(s.merger.heap))
		}
	}
}
