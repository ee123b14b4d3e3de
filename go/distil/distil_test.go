package distil

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

func TestCount(t *testing.T) {
	const y, n = true, false
	for _, test := range []struct {
		right []bool
		want  Acceptance
	}{
		{nil, Acceptance{}},
		{[]bool{y}, Acceptance{0, 0, 1}},                           // the pass's own token is the last
		{[]bool{y, y, y, y, y}, Acceptance{4, 4, 1}},               // all drafts and one token
		{[]bool{y, y, y, y, y, y}, Acceptance{4, 4, 2}},            // and one more, which needs no draft
		{[]bool{n, y, y}, Acceptance{2 + 1, 0 + 1, 2}},             // the model's token in place of the first draft
		{[]bool{y, n, n, y, y, y, n}, Acceptance{4 + 4 + 3, 4, 3}}, // after 2 tokens, 1, and 4
	} {
		var a Acceptance
		if a.count(test.right); a != test.want {
			t.Errorf("%v: %+v, want %+v", test.right, a, test.want)
		}
	}
}

func open(t *testing.T) (*engine.Engine, *tokenizer.Tokenizer) {
	t.Helper()
	file, err := model.OpenBytes("demo", demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(file.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	device, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(device.Close)
	eng, err := engine.New(file, engine.Config{Device: device, Ctx: 64, Batch: 64, Sequences: Streams})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	return eng, tok
}

// Answers are the same however many are written in one go, and what was answered stays. They end within the context, and a model's
// guesses of its own greedy answers are right.
func TestAnswers(t *testing.T) {
	eng, tok := open(t)
	var prompts [][]int32
	for _, s := range []string{"Once", "A cat", "The old king went", "In the wood", "Mia", "Rain", "Tom had a red", "The moon"} {
		prompts = append(prompts, tok.Begin(tok.Encode(s, tokenizer.Options{})))
	}
	for _, temp := range []float64{0, 0.9} {
		q := &Question{MaxTokens: 100, Context: 40, Temp: temp, Seed: 7, Stop: tok.IsEOG}
		whole, parts := make([][]int32, len(prompts)), make([][]int32, len(prompts))
		if err := q.Answer(t.Context(), eng, prompts, whole, nil); err != nil {
			t.Fatal(err)
		}
		for again := true; again; {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			err := q.Answer(ctx, eng, prompts, parts, func() error {
				if n++; n == 3 {
					cancel()
				}
				return nil
			})
			if again = errors.Is(err, context.Canceled); !again && err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		if !reflect.DeepEqual(whole, parts) {
			t.Errorf("in parts %v, in one go %v", parts, whole)
		}
		var texts []model.Text
		for i, p := range prompts {
			x := model.Text{Tokens: append(append([]int32{}, p...), whole[i]...)}
			x.Weights = make([]float32, len(x.Tokens))
			for k := len(p); k < len(x.Tokens); k++ {
				x.Weights[k] = 1
			}
			if n := len(x.Tokens); n > 40 || n < 40 && !tok.IsEOG(x.Tokens[n-1]) {
				t.Errorf("%d tokens in a context of 40", n)
			}
			texts = append(texts, x)
		}
		a, err := Accepted(t.Context(), eng, texts)
		if err != nil || a.Drafted == 0 || (a.Share() == 1) != (temp == 0) {
			t.Errorf("temperature %v: %+v, %v", temp, a, err)
		}
	}
}

// Answers without drafts take time too, and those of no draft model have none.
func TestMeasure(t *testing.T) {
	eng, tok := open(t)
	ids := tok.Begin(tok.Encode("Once upon a time there was a fox", tokenizer.Options{}))
	x := model.Text{Tokens: ids, Weights: make([]float32, len(ids))}
	for i := 4; i < len(ids); i++ {
		x.Weights[i] = 1
	}
	q := &Question{MaxTokens: 100, Context: 64, Stop: tok.IsEOG}
	s, err := q.Measure(t.Context(), eng, draft.Model, []model.Text{x})
	if err != nil || s.Alone <= 0 || s.Drafted <= 0 || s.Guessed != 0 || s.Up() <= 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
