package engine

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
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

// A draft model with another vocabulary changes no text, alone and among others, and some of its drafts are
// right.
func TestDraftByText(t *testing.T) {
	t.Parallel()
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
			var mine, theirs generate.Vocabulary = numerals{}, digits{}
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
