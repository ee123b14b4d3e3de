package sample

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A peerCase is what llama.cpp's samplers left of random logits: see
// scripts/golden_samplers.py.
type peerCase struct {
	Seed   string
	N      int
	Spread int
	Masked bool
	Chain  [][2]json.RawMessage
	Prev   []int32
	Left   int
	Top    [][2]float64 // id and probability, likeliest first
}

func (c *peerCase) logits() []float32 {
	x, err := strconv.ParseUint(c.Seed, 10, 64)
	if err != nil {
		panic(err)
	}
	out := make([]float32, c.N)
	for i := range out {
		total := 0
		for range 3 {
			x = x*6364136223846793005 + 1442695040888963407
			total += int(x >> 54)
		}
		out[i] = float32(float64((total-1536)*c.Spread)/1024 + float64(i)/65536)
		if c.Masked && x>>32&3 == 0 {
			out[i] = -inf
		}
	}
	return out
}

func (c *peerCase) params(t *testing.T, v *Vocabulary) Params {
	p := Defaults()
	p.Temp, p.XTCProbability = 1, 1
	p.DryBreakers, p.Infill = v.Breakers(DefaultBreakers), v.Infill()
	for _, link := range c.Chain {
		var name string
		var args []float64
		if json.Unmarshal(link[0], &name) != nil || json.Unmarshal(link[1], &args) != nil {
			t.Fatalf("%s", link)
		}
		a := func(i int) float32 { return float32(args[i]) }
		letter, _ := Named(name)
		switch name {
		case "penalties":
			p.RepeatLastN, p.RepeatPenalty, p.FrequencyPenalty, p.PresencePenalty = int(a(0)), a(1), a(2), a(3)
		case "dry":
			p.DryMultiplier, p.DryBase, p.DryAllowedLength, p.DryLastN = a(0), a(1), int(a(2)), int(a(3))
		case "top_n_sigma":
			p.TopNSigma = a(0)
		case "top_k":
			p.TopK = int(a(0))
		case "typical":
			p.TypicalP, p.MinKeep = a(0), int(a(1))
		case "top_p":
			p.TopP, p.MinKeep = a(0), int(a(1))
		case "min_p":
			p.MinP, p.MinKeep = a(0), int(a(1))
		case "xtc":
			p.XTCThreshold, p.MinKeep = a(1), int(a(2))
		case "temp":
			p.Temp = a(0)
		case "temp_ext":
			p.Temp, p.DynRange, p.DynExponent, letter = a(0), a(1), a(2), 't'
		case "mirostat":
			p.Mirostat, p.MirostatTau = 1, a(0)
		case "mirostat_v2":
			p.Mirostat, p.MirostatTau = 2, a(0)
		case "adaptive_p":
			p.AdaptiveTarget, p.AdaptiveDecay = a(0), a(1)
		}
		if letter != 0 {
			p.Chain += string(letter)
		}
	}
	if p.Chain == "" {
		p.Chain = "t" // of 1: no sampler at all
	}
	return p
}

func demoVocabulary(t *testing.T) *Vocabulary {
	t.Helper()
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return NewVocabulary(tok)
}

// Every chain leaves the tokens that llama.cpp's leaves, with their probabilities. It
// adds up in single precision, so now and then a token on the edge differs.
func TestAgainstPeer(t *testing.T) {
	b, err := os.ReadFile("testdata/peer.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []peerCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	v := demoVocabulary(t)
	edges := 0
	for i, c := range cases {
		p := c.params(t, v)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		logits := c.logits()
		s := New(p, c.N)
		for _, id := range c.Prev {
			s.Accept(id)
		}
		id, err := s.Sample(logits)
		if err != nil {
			t.Fatal(err)
		}
		own, top := s.Chances(logits, id, c.N)
		if math.IsInf(float64(own.Value), 0) {
			t.Errorf("case %d: %d was chosen, which is not left", i, id)
		}
		switch {
		case len(top) == c.Left:
		case p.Mirostat == 1 && c.Left == 1:
			continue // there, a number of tokens above 2^31 becomes 1
		case max(len(top)-c.Left, c.Left-len(top)) == 1 && c.Left > 1:
			edges++
			continue
		default:
			t.Errorf("case %d, %s after %d tokens: %d are left, want %d", i, c.Chain, len(c.Prev), len(top), c.Left)
			continue
		}
		for j, want := range c.Top {
			got := top[j]
			if got.ID != int32(want[0]) && want[1] > 1e-6 || math.Abs(math.Exp(float64(got.Value))-want[1]) > 2e-5+2e-4*want[1] {
				t.Errorf("case %d, %s after %d tokens: place %d has %d with %.7f, want %v", i, c.Chain, len(c.Prev), j, got.ID, math.Exp(float64(got.Value)), want)
				break
			}
		}
	}
	if edges > len(cases)/100 {
		t.Errorf("%d of %d chains leave one token more or less", edges, len(cases))
	}
}
