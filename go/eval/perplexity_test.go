package eval_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/eval"
)

// A fake model gives the id that comes after ids[i] in ids(n) probability p(i), the rest of
// a vocabulary of 8 the same share of what is left, and records what it was given.
type fake struct {
	p    func(i int) float64
	seen *[][]int32
}

func (f fake) Eval(_ context.Context, ids []int32, from int, visit func(int, []float32) error) error {
	const vocab = 8
	*f.seen = append(*f.seen, slices.Clone(ids))
	for i := from; i < len(ids); i++ {
		logits := make([]float32, vocab)
		for id := range logits {
			logits[id] = float32(3 + math.Log((1-f.p(i))/(vocab-1)))
		}
		logits[ids[i]%7+1] = float32(3 + math.Log(f.p(i)))
		if err := visit(i, logits); err != nil {
			return err
		}
	}
	return nil
}

func (f fake) Fork() eval.Text { return f }
func (fake) Close()            {}

func model(p func(i int) float64) (eval.Model, *[][]int32) {
	f := fake{p, new([][]int32)}
	return func() eval.Text { return f }, f.seen
}

// A broken model does what it is.
type broken func(visit func(int, []float32) error) error

func (f broken) Eval(_ context.Context, _ []int32, _ int, visit func(int, []float32) error) error {
	return f(visit)
}

func (f broken) Fork() eval.Text { return f }
func (broken) Close()            {}

func ids(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i%7 + 1)
	}
	return s
}

func ignore(eval.Estimate) error { return nil }

func TestUniformModelHasPerplexityOfItsVocabulary(t *testing.T) {
	run, _ := model(func(int) float64 { return 1.0 / 8 })
	got, err := eval.Perplexity(t.Context(), run, ids(100), eval.Chunks{Ctx: 10}, nil, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.PPL-8) > 1e-5 || got.StdErr > 1e-3 {
		t.Errorf("got %v +/- %v, want 8 +/- 0", got.PPL, got.StdErr)
	}
	if got.Chunks != 10 || got.Tokens != 10*4 {
		t.Errorf("got %d chunks and %d tokens, want 10 and 40", got.Chunks, got.Tokens)
	}
}

func TestErrorIsThatOfTheMean(t *testing.T) {
	// Half of the tokens at probability 1/2, half at 1/4: the mean of the
	// negative logarithms is 1.5 ln 2, their deviation 0.5 ln 2.
	run, _ := model(func(i int) float64 { return []float64{1.0 / 2, 1.0 / 4}[i%2] })
	got, err := eval.Perplexity(t.Context(), run, ids(60), eval.Chunks{Ctx: 6, Max: 5}, nil, ignore)
	if err != nil {
		t.Fatal(err)
	}
	wantPPL := math.Exp(1.5 * math.Ln2)
	wantErr := wantPPL * 0.5 * math.Ln2 / math.Sqrt(5*2-1)
	if math.Abs(got.PPL-wantPPL) > 1e-5 || math.Abs(got.StdErr-wantErr) > 1e-5 {
		t.Errorf("got %v +/- %v, want %v +/- %v", got.PPL, got.StdErr, wantPPL, wantErr)
	}
}

func TestChunks(t *testing.T) {
	text := ids(35)
	for _, test := range []struct {
		name   string
		chunks eval.Chunks
		want   [][]int32
	}{
		{"whole chunks only, no overlap", eval.Chunks{Ctx: 10}, [][]int32{text[:10], text[10:20], text[20:30]}},
		{"as many as asked for", eval.Chunks{Ctx: 10, Max: 2}, [][]int32{text[:10], text[10:20]}},
		{"more than there are", eval.Chunks{Ctx: 10, Max: 9}, [][]int32{text[:10], text[10:20], text[20:30]}},
		{"begin of text", eval.Chunks{Ctx: 16, BOS: 0, AddBOS: true}, [][]int32{
			append([]int32{0}, text[1:16]...), append([]int32{0}, text[17:32]...)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			run, seen := model(func(int) float64 { return 0.5 })
			before := slices.Clone(text)
			var running []int
			_, err := eval.Perplexity(t.Context(), run, text, test.chunks, nil, func(e eval.Estimate) error {
				running = append(running, e.Chunks)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, chunk := range test.want {
				test.want[i] = chunk[:len(chunk)-1] // the last is predicted, and predicts nothing
			}
			if !slices.EqualFunc(*seen, test.want, slices.Equal) {
				t.Errorf("got chunks %v, want %v", *seen, test.want)
			}
			if len(running) != len(test.want) || running[len(running)-1] != len(test.want) {
				t.Errorf("got progress at %v, want one for each of %d", running, len(test.want))
			}
			if !slices.Equal(text, before) {
				t.Error("the caller's ids were changed")
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	good, _ := model(func(int) float64 { return 0.5 })
	bad := func(logits ...float32) eval.Model {
		return func() eval.Text {
			return broken(func(visit func(int, []float32) error) error { return visit(5, logits) })
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, test := range []struct {
		name string
		run  eval.Model
		n    int
		ctx  int
		want string
	}{
		{"short text", good, 19, 10, "the text has 19 tokens"},
		{"tiny context", good, 100, 5, "at least 6"},
		{"not a number", bad(0, nan, 0, 0, 0, 0, 0, 0), 100, 10, "not finite"},
		{"infinite", bad(0, inf, 0, 0, 0, 0, 0, 0), 100, 10, "not finite"},
		{"all impossible", bad(-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf), 100, 10, "not finite"},
		{"small vocabulary", bad(0, 0), 100, 10, "outside the vocabulary"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := eval.Perplexity(t.Context(), test.run, ids(test.n), eval.Chunks{Ctx: test.ctx}, nil, ignore)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestErrorsOfCallbacksEndIt(t *testing.T) {
	stop := errors.New("stop")
	failing := func() eval.Text { return broken(func(func(int, []float32) error) error { return stop }) }
	if _, err := eval.Perplexity(t.Context(), failing, ids(100), eval.Chunks{Ctx: 10}, nil, ignore); !errors.Is(err, stop) {
		t.Errorf("got %v from the model, want stop", err)
	}
	run, seen := model(func(int) float64 { return 0.5 })
	_, err := eval.Perplexity(t.Context(), run, ids(100), eval.Chunks{Ctx: 10}, nil, func(eval.Estimate) error { return stop })
	if !errors.Is(err, stop) || len(*seen) != 1 {
		t.Errorf("got %v after %d chunks from progress, want stop after 1", err, len(*seen))
	}
}
