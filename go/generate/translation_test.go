package generate

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// spelling returns the vocabulary of a model.
func spelling(t *testing.T, name string) tokenizer.Spelling {
	t.Helper()
	raw, err := os.ReadFile(testdata.Path(t, "models/"+name+"-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer.Spelling{Tokenizer: tok}
}

// A growing text is the same in both vocabularies, however it is split; final tokens do not change.
func TestTranslation(t *testing.T) {
	var all []Vocabulary
	for _, name := range []string{"stories260K", "TinyStories-656K", "BabyLlama105"} {
		all = append(all, spelling(t, name))
	}
	text := strings.Repeat("Once upon a time there was a little girl named Lily. She loved to play, and her mom said yes! ", 4) + strings.Repeat("hahahaha", 100)
	for i, mine := range all {
		for k, theirs := range all {
			for _, fixed := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
				ids := mine.IDs(nil, []byte(text), true)
				w := NewTranslation(mine, theirs, fixed)
				longest := 0
				for n := 0; n < len(ids); {
					n = min(n+1+rng.IntN(9), len(ids))
					settled := slices.Clone(w.ids[:w.settled])
					w.read(ids[:n])
					if !slices.Equal(w.ids[:len(settled)], settled) {
						t.Fatalf("%d in %d: settled tokens were taken back", i, k)
					}
					if got, want := theirs.Text(nil, w.ids, true), mine.Text(nil, ids[:n], true); !bytes.Equal(got, want) {
						t.Fatalf("%d in %d, fixed: %v: after %d tokens %q, want %q", i, k, fixed, n, got, want)
					}
					longest = max(longest, len(w.tail))
				}
				if longest > 2*longestTail {
					t.Errorf("%d in %d: %d bytes are read again and again", i, k, longest)
				}
				// Drafts of the other model are converted to the model's own vocabulary.
				var found []draft.Guess
				var probs []float32
				for _, id := range theirs.IDs(nil, []byte(" and she was happy"), false) {
					found, probs = append(found, draft.Guess{ID: id}), append(probs, 0.9)
				}
				got, chances := w.write(found, probs)
				if want := mine.IDs(nil, []byte(" and she was happy"), false); !slices.Equal(got, want) || len(chances) != len(got) {
					t.Errorf("%d in %d: guesses %v, want %v", i, k, got, want)
				}
				product := float32(1)
				for _, p := range chances {
					if p <= 0 || p > 1 {
						t.Errorf("%d in %d: a chance of %v", i, k, p)
					}
					product *= p
				}
				if want := lastPart * power(0.9, len(found)); product < want*0.99 || product > want*1.01 {
					t.Errorf("%d in %d: all guesses are right with %v, want %v", i, k, product, want)
				}
				w.read(ids[:3]) // the text was cut, or is another
				if got, want := theirs.Text(nil, w.ids, true), mine.Text(nil, ids[:3], true); !bytes.Equal(got, want) {
					t.Errorf("%d in %d: then %q, want %q", i, k, got, want)
				}
			}
		}
	}
}

func power(p float32, n int) float32 {
	all := float32(1)
	for range n {
		all *= p
	}
	return all
}

// A character of several tokens is converted when it is complete, and drafts continue in the middle of it.
func TestTranslationOfHalfACharacter(t *testing.T) {
	tok := spelling(t, "stories260K")
	ids := tok.IDs(nil, []byte("a \u00e9\u4e16"), true) // bytes, in so small a vocabulary
	w := NewTranslation(tok, tok, false)
	for n := 1; n <= len(ids); n++ {
		w.read(ids[:n])
		says := tok.Text(nil, ids[:n], true)
		if got := tok.Text(nil, w.ids, true); !bytes.Equal(got, says[:len(says)-cutOff(says)]) {
			t.Errorf("after %q it is %q", says, got)
		}
		rest := tok.IDs(nil, w.tail[len(w.tail)-w.unread:], false)
		var found []draft.Guess
		for _, id := range slices.Concat(rest, ids[n:]) {
			found = append(found, draft.Guess{ID: id})
		}
		if got, _ := w.write(found, make([]float32, len(found))); n < len(ids) && !slices.Equal(got, ids[n:]) {
			t.Errorf("after %q come %v, want %v", says, got, ids[n:])
		}
		if w.unread > 0 {
			if got, _ := w.write([]draft.Guess{{ID: ids[1]}}, []float32{1}); len(got) > 0 {
				t.Errorf("after %q comes %v, which is no part of that character", says, got)
			}
		}
	}
}
