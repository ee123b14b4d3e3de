package demo_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/tokenizer"
)

// comesBack checks that a text survives the vocabulary: whole, whatever its
// bytes; and as a stream, where each byte that is of no character is U+FFFD.
func comesBack(t *testing.T, tok *tokenizer.Tokenizer, text string) {
	t.Helper()
	ids := tok.Encode(text, tokenizer.Options{})
	if got := tok.Detokenize(ids, false); got != text {
		t.Errorf("%q came back as %q", text, got)
	}
	stream := tok.NewStream()
	var b strings.Builder
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Len() {
			t.Fatalf("%q: id %d", text, id)
		}
		piece := stream.Write(id)
		if !utf8.ValidString(piece) {
			t.Errorf("%q: a stream has %q", text, piece)
		}
		b.WriteString(piece)
	}
	if got, want := b.String()+stream.Flush(), string([]rune(text)); got != want {
		t.Errorf("%q was streamed as %q, want %q", text, got, want)
	}
	if most := len(text) + 1; len(ids) > most { // a token for each byte, and BOS
		t.Errorf("%q: %d tokens, want at most %d", text, len(ids), most)
	}
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"", " ", "Once upon a time, there was a little girl.", "  two\n\n\tlines \r\n", "é e\u0301 字 🦙 👩‍👩‍👧 \u202e", "<|endoftext|> <s> [INST]",
		"\x00\x7f\xff\xc3(\xed\xa0\x80\xf4\x90\x80\x80", "it's 1234567 DON'T", "\ufeff\ufffd\U0010ffff",
	} {
		f.Add(seed)
	}
	tok := vocabulary(f)
	f.Fuzz(func(t *testing.T, text string) { comesBack(t, tok, text) })
}

// Texts of any characters, and of bytes that are none.
func TestTextsComeBack(t *testing.T) {
	tok := vocabulary(t)
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []func() string{
		func() string { return string(rune(random.IntN(0x80))) },
		func() string { return string(rune('a' + random.IntN(26))) },
		func() string { return " " },
		func() string { return string(rune(0x80 + random.IntN(0x780))) },
		func() string { return string(rune(0x300 + random.IntN(0x70))) }, // marks that combine
		func() string { return string(rune(0x800 + random.IntN(0xf800))) },
		func() string { return string(rune(0x10000 + random.IntN(0x100000))) },
		func() string { return string([]byte{byte(random.IntN(256))}) },
	}
	for range 5000 {
		var b strings.Builder
		few := random.IntN(len(kinds)) + 1 // of them, so that some texts are of one kind
		for range random.IntN(40) {
			b.WriteString(kinds[random.IntN(few)]())
		}
		comesBack(t, tok, b.String())
	}
}

// The vocabulary was made for such texts: it spells them in few tokens.
func TestFewTokens(t *testing.T) {
	text, err := os.ReadFile("testdata/heldout.txt")
	if err != nil {
		t.Fatal(err)
	}
	comesBack(t, vocabulary(t), string(text))
	n := len(vocabulary(t).Encode(string(text), tokenizer.Options{NoSpecial: true}))
	if perToken := float64(len(text)) / float64(n); perToken < 3.3 {
		t.Errorf("%.2f bytes to a token, want more", perToken)
	}
}
