package train_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train"
)

var (
	torchPython = flag.String("torch", "", "Python with torch, transformers, peft and gguf: training is compared with theirs")
	torchModel  = flag.String("torch-model", "", "model of F32 weights for -torch, a Llama, Qwen 2 or Qwen 3")
)

// A torchCase is what scripts/witness_torch.py reads.
type torchCase struct {
	Model    string      `json:"model"`
	Rank     int         `json:"rank"`
	Alpha    float64     `json:"alpha"`
	DoRA     bool        `json:"dora"`
	Start    string      `json:"start"`
	Gradient string      `json:"gradient"`
	One      string      `json:"one"`
	Texts    []torchText `json:"texts"`
	Rate     float64     `json:"rate"`
	Decay    float64     `json:"decay"`
	Losses   []float64   `json:"losses"`
}

type torchText struct {
	Tokens  []int32   `json:"tokens"`
	Weights []float32 `json:"weights"`
}

// Losses, gradients, and steps of an adapter and of all weights are PyTorch's, but for rounding: the engine's backward pass
// multiplies numbers of BF16. 20 steps go the same way.
func TestTorch(t *testing.T) {
	if *torchPython == "" || *torchModel == "" {
		t.Skip("no -torch and -torch-model")
	}
	for name, c := range map[string]torchCase{
		"adapter": {Rank: 8, Alpha: 16, Rate: 1e-3, Decay: 0.01},
		"dora":    {Rank: 8, Alpha: 16, DoRA: true, Rate: 1e-3, Decay: 0.01},
		"whole":   {Rate: 1e-4},
	} {
		t.Run(name, func(t *testing.T) { withTorch(t, c) })
	}
}

func withTorch(t *testing.T, c torchCase) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	c.Model, err = filepath.Abs(*torchModel)
	must(err)
	budget := mem.NewBudget(16<<30, "test")
	f, err := model.OpenFile(c.Model)
	must(err)
	t.Cleanup(func() { f.Close() })
	pool, err := kernel.NewPool(2, nil)
	must(err)
	t.Cleanup(pool.Close)
	kv := kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}
	var a *model.Tuned
	var m *model.Model
	if c.Rank > 0 {
		s, err := model.NewSurvey(f, kv, 0)
		must(err)
		m, err = s.Load(model.Options{Pack: pool.PackInto, Budget: budget, Residency: model.Mapped})
		must(err)
		t.Cleanup(m.Close)
		a, err = model.NewTuned(m, model.LoRA{Rank: c.Rank, Alpha: c.Alpha, Magnitudes: c.DoRA, Seed: 3}, budget)
		must(err)
		for i, x := range a.Numbers() { // B is 0 at first, where A has no gradient
			if x == 0 {
				a.Numbers()[i] = float32(i%7-3) / 256
			}
		}
		must(a.Moved(pool))
	} else {
		a, err = model.NewWhole(f, model.Whole{KV: kv}, pool, budget)
		must(err)
		m = a.Model()
	}
	tok, err := tokenizer.New(f.GGUF)
	must(err)
	var texts []model.Text
	n, weight := 0, float32(0)
	for _, s := range sentences[:4] {
		x := model.Text{Tokens: tok.Encode(s, tokenizer.Options{})}
		for i := range x.Tokens {
			x.Weights = append(x.Weights, float32(i%3)/2)
			weight += x.Weights[i]
		}
		weight -= x.Weights[0]
		texts, n = append(texts, x), n+model.WholeBlocks(len(x.Tokens))
		c.Texts = append(c.Texts, torchText{x.Tokens, x.Weights})
	}
	tr, err := model.NewTrainer(m, a, model.TrainerConfig{Pool: pool, Budget: budget, MaxTokens: n})
	must(err)
	t.Cleanup(tr.Close)
	dir := t.TempDir()
	write := func(name string, numbers []float32) string {
		var b bytes.Buffer
		must(writeTo(&b, a.Write(m.Config.Arch, numbers)))
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, b.Bytes(), 0o644))
		return path
	}
	c.Start = write("start.gguf", a.Numbers())
	_, err = tr.Gradient(texts, nil)
	must(err)
	gradient := slices.Clone(a.Gradient())
	for i := range gradient {
		gradient[i] /= weight
	}
	c.Gradient = write("gradient.gguf", gradient)
	run, err := train.New(tr, pool, budget, texts, train.Config{Steps: 20, Rate: c.Rate, Decay: c.Decay, Schedule: train.Constant})
	must(err)
	t.Cleanup(run.Close)
	for !run.Over() {
		s, err := run.Next(nil)
		must(err)
		if c.Losses = append(c.Losses, s.Loss); len(c.Losses) == 1 {
			c.One = write("one.gguf", a.Numbers())
		}
	}
	data, err := json.Marshal(c)
	must(err)
	path := filepath.Join(dir, "case.json")
	must(os.WriteFile(path, data, 0o644))
	cmd := exec.Command(*torchPython, "../../scripts/witness_torch.py", path)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	var got struct {
		Losses                      []float64
		Gradient, Norm, AdamW, Step float64
		Tensor                      string
	}
	must(json.Unmarshal(out, &got))
	t.Logf("gradients: cosine 1 - %.1e at least (%s), norms differ by %.1e", got.Gradient, got.Tensor, got.Norm)
	t.Logf("after a step: %.1e of the way by the same gradient, %.1e by each its own", got.AdamW, got.Step)
	for i, loss := range c.Losses {
		t.Logf("step %2d: loss %.5f, PyTorch's %.5f", i+1, loss, got.Losses[i])
		most := 1e-5
		if i > 0 { // numbers have gone ways of their own where gradients are nearly 0
			most = 0.005 * loss
		}
		if !(math.Abs(loss-got.Losses[i]) <= most) {
			t.Errorf("step %d: losses %v and %v", i+1, loss, got.Losses[i])
		}
	}
	if !(got.Gradient <= 1e-4 && got.Norm <= 3e-4 && got.AdamW <= 1e-4 && got.Step <= 0.15) {
		t.Errorf("gradients or steps differ: %+v", got)
	}
}

func writeTo(b *bytes.Buffer, w *gguf.Writer) error {
	_, err := w.WriteTo(b)
	return err
}
