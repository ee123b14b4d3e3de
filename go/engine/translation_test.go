package engine

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// spelling returns the vocabulary of a model.
func spelling(t *testing.T, e *Engine) tokenizer.Spelling {
	t.Helper()
	tok, err := tokenizer.New(e.file.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer.Spelling{Tokenizer: tok}
}

// numerals is a vocabulary for models that have none: each token is its number and a space. digits has the same
// texts, as characters.
type (
	numerals struct{}
	digits   struct{}
)

func (numerals) Text(dst []byte, ids []int32, _ bool) []byte {
	for _, id := range ids {
		dst = append(strconv.AppendInt(dst, int64(id), 10), ' ')
	}
	return dst
}

func (numerals) IDs(dst []int32, text []byte, _ bool) []int32 {
	for word := range strings.FieldsSeq(string(text)) {
		if id, err := strconv.Atoi(word); err == nil {
			dst = append(dst, int32(id))
		}
	}
	return dst
}

const digitsOf = "0123456789 "

func (digits) Text(dst []byte, ids []int32, _ bool) []byte {
	for _, id := range ids {
		dst = append(dst, digitsOf[int(id)%len(digitsOf)])
	}
	return dst
}

func (digits) IDs(dst []int32, text []byte, _ bool) []int32 {
	for _, c := range text {
		if i := strings.IndexByte(digitsOf, c); i >= 0 {
			dst = append(dst, int32(i))
		}
	}
	return dst
}

// A growing text is the same in both vocabularies, however it is split; final tokens do not change.
func TestTranslation(t *testing.T) {
	var all []Vocabulary
	for _, name := range []string{"stories260K", "TinyStories-656K", "BabyLlama105"} {
		all = append(all, spelling(t, open(t, testdata.Path(t, "models/"+name+"-f16.gguf"), Config{Ctx: 64})))
	}
	text := strings.Repeat("Once upon a time there was a little girl named Lily. She loved to play, and her mom said yes! ", 4) + strings.Repeat("hahahaha", 100)
	for i, mine := range all {
		for k, theirs := range all {
			for _, fixed := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
				ids := mine.IDs(nil, []byte(text), true)
				w := &translation{mine: mine, theirs: theirs, fixed: fixed}
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
	tok := spelling(t, open(t, testdata.Path(t, "models/stories260K-f16.gguf"), Config{Ctx: 64}))
	ids := tok.IDs(nil, []byte("a \u00e9\u4e16"), true) // bytes, in so small a vocabulary
	w := &translation{mine: tok, theirs: tok}
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

// A draft model with another vocabulary changes no text, alone and among others, and some of its drafts are
// right.
func TestDraftByText(t *testing.T) {
	const n = 30
	models := []string{testdata.Path(t, "models/stories260K-f16.gguf"), testdata.Path(t, "models/TinyStories-656K-f16.gguf")}
	recurrent := testdata.Path(t, "archs/qwen35.gguf")
	for _, kind := range []struct {
		name, path, drafts string
	}{
		{"larger", models[0], models[1]}, {"smaller", models[1], models[0]},
		{"a draft model with recurrent state", tiny, recurrent}, {"by characters", recurrent, tiny},
	} {
		t.Run(kind.name, func(t *testing.T) {
			d := device(t, 1)
			c := Config{Ctx: 256, Device: d, Sequences: 4}
			probe, e, small := open(t, kind.path, c), open(t, kind.path, c), open(t, kind.drafts, c)
			l := openLoop(t, kind.path, c, LoopConfig{})
			var mine, theirs Vocabulary = numerals{}, digits{}
			prompt := randomIDs(probe, 3, 12)
			if strings.Contains(kind.path, "models") {
				mine, theirs = spelling(t, e), spelling(t, small)
				prompt = mine.IDs(nil, []byte("Once upon a time, there was a little girl named Lily. She"), true)
			}
			small.timeless, e.timeless = true, true
			freely(l)
			if err := e.DraftByText(small, mine, theirs, func(err error) { t.Error(err) }); err != nil {
				t.Fatal(err)
			}
			of := draft.Options{Sources: 1 << draft.Model, Max: 8}
			for name, params := range variants(t, probe, prompt, n) {
				p := params()
				p.Draft = of
				want, finish := alone(t, probe, params())
				if got, f := alone(t, e, p); !slices.Equal(got, want) || f != finish {
					t.Errorf("%s, alone: %v, %s; without %v, %s", name, got, f, want, finish)
				}
			}
			e.drafts = nil
			if err := l.e.DraftByText(small, mine, theirs, func(err error) { t.Error(err) }); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for name, params := range variants(t, probe, prompt, n) {
				p, sink := params(), newCatcher()
				p.Draft = of
				want, finish := alone(t, probe, params())
				if _, err := l.Submit(&Request{Params: p, Slot: -1, Sink: sink}); err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					r := sink.said(t, name, want, finish)
					if of := r.Drafted[draft.Model]; name == "greedy" && strings.Contains(kind.path, "models") && of.Right < 3 {
						t.Errorf("of %d drafts by the other model %d were right", of.Guessed, of.Right)
					}
				})
			}
			wg.Wait()
			checkBlocks(t, l)
			if all, idle := small.tree.Bytes(); all != idle || small.kv.Available() != small.kv.Limit() {
				t.Errorf("the draft model holds %d bytes of texts that have ended", small.kv.Limit()-small.kv.Available())
			}
		})
	}
}
