package train_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train"
)

const maxTokens = 64

var sentences = strings.Split(`Rain fell on the copper roof of the station all night.
My uncle keeps seven clocks, and none of them agree.
The otter carried a blue button down to the river.
Nobody had told the baker that Tuesday was cancelled.
A letter from Lisbon arrived without any stamps.
She painted the ladder green and then hid it.
Under the stairs lived a very polite spider.
The old map showed an island shaped like a spoon.
He traded his violin for a wheel of cheese.
Every lamp in the harbour went out at once.`, "\n")

// A bench is the demo model with a Run on it.
type bench struct {
	*train.Run
	trainer *model.Trainer
	model   *model.Model
	tok     *tokenizer.Tokenizer
	pool    *kernel.Pool
	budget  *mem.Budget
}

// open opens the demo model with a new adapter, and a Run over texts.
func open(tb testing.TB, threads int, c train.Config, texts func(b *bench) []model.Text) *bench {
	tb.Helper()
	f, err := model.OpenBytes("demo", demo.GGUF())
	if err != nil {
		tb.Fatal(err)
	}
	return openFile(tb, f, threads, model.TrainerConfig{MaxTokens: maxTokens}, c, texts)
}

// openFile is open with another model.
func openFile(tb testing.TB, f *model.File, threads int, of model.TrainerConfig, c train.Config, texts func(b *bench) []model.Text) *bench {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	b := &bench{budget: mem.NewBudget(1<<30, "test")}
	tb.Cleanup(func() { f.Close() })
	var err error
	b.tok, err = tokenizer.New(f.GGUF)
	must(err)
	b.pool, err = kernel.NewPool(threads, nil)
	must(err)
	tb.Cleanup(b.pool.Close)
	s, err := model.NewSurvey(f, kernel.KVTypes{K: kernel.KVF16, V: kernel.KVF16}, 0)
	must(err)
	b.model, err = s.Load(model.Options{Pack: b.pool.PackInto, Budget: b.budget, Residency: model.Mapped})
	must(err)
	tb.Cleanup(b.model.Close)
	a, err := model.NewTuned(b.model, model.LoRA{Rank: 8, Alpha: 16, Seed: 3}, b.budget)
	must(err)
	of.Pool, of.Budget = b.pool, b.budget
	b.trainer, err = model.NewTrainer(b.model, a, of)
	must(err)
	tb.Cleanup(b.trainer.Close)
	b.Run, err = train.New(b.trainer, b.pool, b.budget, texts(b), c)
	must(err)
	tb.Cleanup(b.Close)
	return b
}

// byHeart is the sentences, of which all but the first tokens are to be learnt.
func byHeart(b *bench) []model.Text {
	var texts []model.Text
	for _, s := range sentences {
		x := model.Text{Tokens: b.tok.Encode(s, tokenizer.Options{})}
		for i := range x.Tokens {
			x.Weights = append(x.Weights, 0)
			if i > 3 {
				x.Weights[i] = 1
			}
		}
		texts = append(texts, x)
	}
	return texts
}

// steps takes n steps, and returns the losses.
func steps(tb testing.TB, b *bench, n int) (losses []float64) {
	tb.Helper()
	for range n {
		s, err := b.Next(nil)
		if err != nil {
			tb.Fatal(err)
		}
		losses = append(losses, s.Loss)
	}
	return losses
}

func TestLearnsTenSentencesByHeart(t *testing.T) {
	b := open(t, 2, train.Config{Steps: 60, Chunks: 4, Rate: 0.01, Warmup: 3, Clip: 1, Seed: 1}, byHeart)
	before, err := b.Loss(byHeart(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	steps(t, b, 60)
	after, err := b.Loss(byHeart(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("loss %.3f before, %.4f after", before, after)
	if before < 2 || after > 0.1 {
		t.Errorf("loss %.3f before, want more than 2; %.4f after, want less than 0.1", before, after)
	}
	if !b.Over() {
		t.Error("there are steps left")
	}
	if _, err := b.Next(nil); err == nil {
		t.Error("a step after the last")
	}
}

// written returns the bytes of the adapter's file.
func written(tb testing.TB, b *bench) []byte {
	tb.Helper()
	var out bytes.Buffer
	if _, err := b.trainer.Adapter.Write(b.model.Config.Arch, b.State().Numbers).WriteTo(&out); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// A run makes the same adapter with any number of threads, and where it goes on from a state of another.
func TestGoesOnWithTheSameBits(t *testing.T) {
	c := train.Config{Steps: 7, Chunks: 3, Rate: 0.01, Warmup: 2, Clip: 0.5, Decay: 0.1, Seed: 5}
	for _, c.Objective = range []train.Objective{nil, train.DPO{}} {
		texts := byHeart
		if c.Objective != nil {
			texts = preferences
		}
		whole := open(t, 1, c, texts)
		steps(t, whole, 7)
		for threads := 2; threads < 4; threads++ {
			first, second := open(t, threads, c, texts), open(t, 5-threads, c, texts)
			steps(t, first, 4)
			if err := second.Restore(first.State()); err != nil {
				t.Fatal(err)
			}
			steps(t, second, 3)
			if !bytes.Equal(written(t, second), written(t, whole)) {
				t.Errorf("%T, %d threads, and then %d: another adapter", c.Objective, threads, 5-threads)
			}
		}
	}
}

// What has no weight changes nothing: other tokens behind the last that has one make the same gradients.
func TestWhatIsMaskedHasNoGradient(t *testing.T) {
	var first []byte
	for _, last := range []int32{7, 9} {
		b := open(t, 1, train.Config{Steps: 1, Rate: 0.01}, byHeart)
		x := byHeart(b)[0]
		x.Weights = slices.Clone(x.Weights)
		x.Tokens[len(x.Tokens)-1], x.Weights[len(x.Weights)-1] = last, 0
		for i := range b.State().Numbers {
			b.State().Numbers[i] += 0.01
		}
		if err := b.trainer.Adapter.Moved(b.pool); err != nil {
			t.Fatal(err)
		}
		if _, err := b.trainer.Gradient([]model.Text{x}, nil); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := binary.Write(&out, binary.LittleEndian, b.trainer.Adapter.Gradient()); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out.Bytes()
		}
		if !bytes.Equal(out.Bytes(), first) {
			t.Error("a masked token changes gradients")
		}
		if bytes.Count(out.Bytes(), []byte{0}) == out.Len() {
			t.Error("no gradients at all")
		}
	}
}

// The file of an adapter is one that models open, and a Runner with it computes the losses that the Run has.
func TestAdapterIsWhatWasTrained(t *testing.T) {
	b := open(t, 2, train.Config{Steps: 10, Chunks: 4, Rate: 0.01, Seed: 1}, byHeart)
	steps(t, b, 10)
	x := byHeart(b)[2]
	want, err := b.trainer.Loss([]model.Text{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, written(t, b), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := b.model.OpenAdapter(path, model.Options{Pack: b.pool.PackInto, Budget: b.budget})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, err := model.NewRunner(b.model, model.RunnerConfig{
		Pool: b.pool, Budget: b.budget, MaxTokens: maxTokens, MaxSeqs: 1, MaxBlocks: 1, MaxOut: maxTokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.SetAdapters([]*model.Adapter{a}); err != nil {
		t.Fatal(err)
	}
	kv, err := mem.Alloc(uint64(b.model.Layout[0].Bytes), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	batch, rows := r.Batch(), []int32(nil)
	batch.SetState(0, kv.Bytes(), b.model.Layout[0].Bytes)
	batch.AddSeq([]int32{0})
	batch.Adapt([]int32{0}, []float32{1})
	for i, id := range x.Tokens {
		batch.Add(id, int32(i))
		rows = append(rows, int32(i))
	}
	if err := r.Forward(nil, nil); err != nil {
		t.Fatal(err)
	}
	r.Head(rows)
	got := 0.0
	for i := range x.Tokens[1:] {
		logits, sum := r.Logits(i), 0.0
		for _, v := range logits {
			sum += math.Exp(float64(v))
		}
		got += float64(x.Weights[i+1]) * (math.Log(sum) - float64(logits[x.Tokens[i+1]]))
	}
	if math.Abs(got-want) > 1e-5*math.Abs(want) {
		t.Errorf("loss %.7f of a Runner with the file, want %.7f", got, want)
	}
}

// A step that is stopped leaves the state as it was.
func TestStopLeavesTheState(t *testing.T) {
	b := open(t, 1, train.Config{Steps: 3, Rate: 0.01}, byHeart)
	steps(t, b, 1)
	was, from := written(t, b), b.State()
	var stop kernel.Stop
	stop.Set()
	if _, err := b.Next(&stop); !errors.Is(err, model.ErrStopped) {
		t.Fatalf("error %v", err)
	}
	if to := b.State(); to.Taken != 1 || to.Epoch != from.Epoch || to.At != from.At || !bytes.Equal(written(t, b), was) {
		t.Error("another state")
	}
}

func TestRefusals(t *testing.T) {
	b := open(t, 1, train.Config{Steps: 1, Rate: 0.01}, byHeart)
	good := model.Text{Tokens: []int32{1, 2}, Weights: []float32{0, 1}}
	for _, c := range []struct {
		texts []model.Text
		c     train.Config
		want  string
	}{
		{nil, train.Config{Steps: 1, Rate: 1}, "no token"},
		{[]model.Text{{Tokens: []int32{1}, Weights: []float32{1}, Where: "a.jsonl:7"}}, train.Config{Steps: 1, Rate: 1}, "a.jsonl:7: its text has 1"},
		{[]model.Text{{Tokens: []int32{1, 2}, Weights: []float32{1, 0}}}, train.Config{Steps: 1, Rate: 1}, "no token"},
		{[]model.Text{{Tokens: []int32{1}, Weights: []float32{1}}}, train.Config{Steps: 1, Rate: 1}, "text 1"},
		{[]model.Text{good, {Tokens: make([]int32, 65), Weights: make([]float32, 65)}}, train.Config{Steps: 1, Rate: 1}, "text 2"},
		{[]model.Text{{Tokens: []int32{1, 2}, Weights: []float32{0, float32(math.NaN())}}}, train.Config{Steps: 1, Rate: 1}, "weight"},
		{[]model.Text{good}, train.Config{Rate: 1}, "steps"},
		{[]model.Text{good}, train.Config{Steps: 1}, "rate"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: math.NaN()}, "rate"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1e-40}, "rate"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Eps: 1e-46}, "eps"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Schedule: 3}, "schedule"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Chunks: 1 << 40}, "chunks"},
		{[]model.Text{{Tokens: []int32{1, 2}, Weights: []float32{0, 1e-20}}}, train.Config{Steps: 1, Rate: 1}, "weight"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Warmup: 2}, "warmup"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Least: 2}, "end"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Beta1: 1}, "betas"},
		{[]model.Text{good}, train.Config{Steps: 1, Rate: 1, Clip: -1}, "clip"},
	} {
		r, err := train.New(b.trainer, b.pool, b.budget, c.texts, c.c)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one about %q", c.c, err, c.want)
		}
	}
}

// A state that is not one of the same run is refused, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	c := train.Config{Steps: 5, Chunks: 2, Rate: 0.01, Seed: 5}
	b := open(t, 1, c, byHeart)
	steps(t, b, 2)
	was := written(t, b)
	good := func() train.State {
		s := b.State()
		s.Numbers, s.FirstMoment, s.SecondMoment = slices.Clone(s.Numbers), slices.Clone(s.FirstMoment), slices.Clone(s.SecondMoment)
		return s
	}
	for name, harm := range map[string]func(s *train.State){
		"hash":             func(s *train.State) { s.Of[3]++ },
		"numbers":          func(s *train.State) { s.Numbers = s.Numbers[1:] },
		"moments":          func(s *train.State) { s.SecondMoment = nil },
		"NaN":              func(s *train.State) { s.Numbers[7] = float32(math.NaN()) },
		"infinite":         func(s *train.State) { s.FirstMoment[7] = float32(math.Inf(-1)) },
		"negative squares": func(s *train.State) { s.SecondMoment[7] = -1 },
		"steps below 0":    func(s *train.State) { s.Taken = -1 },
		"steps":            func(s *train.State) { s.Taken = 6 },
		"texts":            func(s *train.State) { s.At = len(sentences) + 1 },
		"epochs":           func(s *train.State) { s.Epoch = 5 },
		"texts of no step": func(s *train.State) { s.Taken, s.Epoch, s.At = 0, 0, 3 },
	} {
		s := good()
		harm(&s)
		if err := b.Restore(s); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
		if to := b.State(); to.Taken != 2 || !bytes.Equal(written(t, b), was) {
			t.Errorf("%s: another state", name)
		}
	}
	for name, other := range map[string]*bench{
		"seed":  open(t, 1, train.Config{Steps: 5, Chunks: 2, Rate: 0.01, Seed: 6}, byHeart),
		"texts": open(t, 1, c, func(b *bench) []model.Text { return byHeart(b)[1:] }),
	} {
		if err := other.Restore(good()); err == nil {
			t.Errorf("a run with other %s took the state", name)
		}
	}
	if err := b.Restore(good()); err != nil {
		t.Error(err)
	}
}

// A Run that cannot be made leaves nothing reserved.
func TestNewReleasesWhatItReserved(t *testing.T) {
	b := open(t, 1, train.Config{Steps: 1, Rate: 0.01}, byHeart)
	before := b.budget.Used()
	b.budget.SetLimit(before+100, "test")
	if _, err := train.New(b.trainer, b.pool, b.budget, byHeart(b), train.Config{Steps: 1, Rate: 1}); err == nil {
		t.Error("a run without memory")
	}
	if got := b.budget.Used(); got != before {
		t.Errorf("%d bytes are used, %d before", got, before)
	}
}
