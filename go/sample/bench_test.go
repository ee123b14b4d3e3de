package sample

import (
	"math/rand/v2"
	"testing"
)

const nVocab = 128256 // Llama 3's

// ways are the combinations that users choose, each with its own path.
var ways = []struct {
	name string
	p    Params
}{
	{"greedy", Params{TopP: 1, TypicalP: 1, RepeatPenalty: 1}},
	{"greedy/sigma", with(func(p *Params) { p.Temp, p.TopNSigma, p.MinKeep = 0, 1.5, 4 })},
	{"zero", Params{RepeatPenalty: 1}}, // its typical-p is 0: the token of the most expected surprise
	{"defaults", Defaults()},
	{"penalties", Params{Temp: 0.8, TopK: 40, TopP: 0.95, TypicalP: 1, MinP: 0.05, RepeatLastN: 64, RepeatPenalty: 1.1}},
	{"topk1000", Params{Temp: 0.8, TopK: 1000, TopP: 1, TypicalP: 1, RepeatPenalty: 1}},
	{"topp", Params{Temp: 0.8, TopP: 0.95, TypicalP: 1, RepeatPenalty: 1}},
	{"minp", Params{Temp: 0.8, TopP: 1, TypicalP: 1, MinP: 0.05, RepeatPenalty: 1}},
	{"temp", Params{Temp: 0.8, TopP: 1, TypicalP: 1, RepeatPenalty: 1}},
	{"dry", with(func(p *Params) { p.DryMultiplier = 0.8 })},
	{"xtc", with(func(p *Params) { p.XTCProbability = 1 })},
	{"typical", with(func(p *Params) { p.TypicalP = 0.9 })},
	{"sigma", with(func(p *Params) { p.TopNSigma = 1.5 })},
	{"dynamic", with(func(p *Params) { p.DynRange = 0.5 })},
	{"adaptive", with(func(p *Params) { p.Chain, p.AdaptiveTarget = "kma", 0.4 })},
	{"reversed", with(func(p *Params) { p.Chain, p.TypicalP = "tmpyk", 0.9 })},
	{"mirostat1", with(func(p *Params) { p.Mirostat = 1 })},
	{"mirostat2", with(func(p *Params) { p.Mirostat = 2 })},
}

// with returns the defaults with a change.
func with(change func(*Params)) Params {
	p := Defaults()
	change(&p)
	return p
}

// modelLike returns logits with the spread of a model's and a few that stand out.
func modelLike(n int) []float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	logits := make([]float32, n)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 2.5)
	}
	for range 20 {
		logits[rng.IntN(n)] = float32(12 + rng.NormFloat64()*3)
	}
	return logits
}

func TestNoAllocs(t *testing.T) {
	logits := modelLike(5000)
	for _, way := range ways {
		s := New(way.p, len(logits))
		step := func() {
			id, err := s.Sample(logits)
			if err != nil {
				t.Fatal(err)
			}
			s.Accept(id)
		}
		for range 100 {
			step()
		}
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("%s: %v allocations a token", way.name, n)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	logits := modelLike(nVocab)
	flat := make([]float32, nVocab) // the worst for top-p: nothing stands out
	for i := range flat {
		flat[i] = float32(i%1000) * 1e-3
	}
	rising := make([]float32, nVocab) // the worst for top-k: each beats all before it
	for i := range rising {
		rising[i] = float32(i) * 1e-4
	}
	for _, way := range ways {
		run(b, way.name, way.p, logits)
	}
	run(b, "topp/flat", ways[6].p, flat)
	half := ways[6].p
	half.TopP = 0.5
	run(b, "topp/half", half, logits)
	many := ways[5].p
	many.TopK = 20000
	run(b, "topk20000", many, logits)
	run(b, "defaults/rising", Defaults(), rising)
}

func run(b *testing.B, name string, p Params, logits []float32) {
	b.Run(name, func(b *testing.B) {
		s := New(p, len(logits))
		for id := range int32(64) {
			s.Accept(id * 1999)
		}
		b.SetBytes(int64(4 * len(logits)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Sample(logits); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSmall(b *testing.B) {
	logits := modelLike(512)
	run(b, "greedy", ways[0].p, logits)
	run(b, "defaults", Defaults(), logits)
	run(b, "topk", ways[5].p, logits)
}
