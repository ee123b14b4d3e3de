package answer_test

import (
	"math"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sample"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Tokens come out once, in order, and none of a stop word.
func TestWriterTokens(t *testing.T) {
	t.Parallel()
	tok, err := tokenizer.New(fake.Vocabulary(fake.Controls))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stop, text, out string
		tokens          int
	}{
		{"", "caf\u00e9 \U0001F600", "caf\u00e9 \U0001F600", 10},
		{"END", "caf\u00e9END", "caf\u00e9", 5},
		{"\u00e9", "caf\u00e9END", "caf", 3},
		{"ENDING", "caf\u00e9END", "caf\u00e9END", 8},
	} {
		var stops []string
		if c.stop != "" {
			stops = []string{c.stop}
		}
		w := answer.NewWriter(tok.NewStream(), tokenizer.NewStops(stops, 0))
		var out strings.Builder
		var ids []int32
		word := ""
		keep := func(p answer.Piece) {
			out.WriteString(p.Content())
			for _, t := range p.Tokens {
				ids = append(ids, t.ID)
			}
		}
		for _, id := range tok.Encode(c.text, tokenizer.Options{NoSpecial: true}) {
			var p answer.Piece
			p, word = w.Write(generate.Token{ID: id})
			keep(p)
			if word != "" {
				break
			}
		}
		p, _ := w.End(word)
		keep(p)
		if out.String() != c.out || len(ids) != c.tokens {
			t.Errorf("%q until %q: got %q in %d tokens, want %q in %d", c.text, c.stop, out.String(), len(ids), c.out, c.tokens)
		}
	}
}

// A text that ends within a character ends with U+FFFD for what there was.
func TestCutCharacter(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "a\U0001F600", nil)
	got := fake.Post[struct {
		Content string `json:"content"`
	}](s, "/completion", `{"prompt":"x","n_predict":3}`).Content
	if got != "a\uFFFD\uFFFD" {
		t.Errorf("got %q", got)
	}
}

// A token that cannot come has a number, as JSON has no infinity.
func TestImpossibleToken(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	p := answer.TokenProbOf(s.Model(), sample.Logprob{ID: 270, Value: float32(math.Inf(-1))})
	if p.Logprob != -9999 || p.Token != "Hello" {
		t.Errorf("got %+v", p)
	}
}
