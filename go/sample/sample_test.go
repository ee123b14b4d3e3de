package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// greedyParams choose the likeliest, without penalties.
func greedyParams() Params {
	p := Defaults()
	p.Temp = 0
	return p
}

// plain draws from the whole distribution.
func plain(seed uint64) Params {
	return Params{Temp: 1, TopP: 1, TypicalP: 1, RepeatPenalty: 1, Seed: seed}
}

func TestGreedy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		logits []float32
		want   int32
	}{
		{"largest", []float32{1, 3, 2}, 1},
		{"tie: the first", []float32{1, 3, 3, 3}, 1},
		{"all equal", []float32{0, 0, 0}, 0},
		{"zeros of both signs", []float32{float32(math.Copysign(0, -1)), 0}, 0},
		{"negative", []float32{-3, -1, -2}, 1},
		{"NaN first", []float32{nan, 1, 2}, 2},
		{"NaN last", []float32{1, 2, nan}, 1},
		{"NaN and -Inf but one", []float32{nan, -inf, -math.MaxFloat32, nan}, 2},
		{"+Inf", []float32{1, inf, 2, inf}, 1},
		{"one", []float32{-7}, 0},
	} {
		for _, temp := range []float32{0, -1} {
			p := greedyParams()
			p.Temp = temp
			if got, err := New(p, len(tt.logits)).Sample(tt.logits); got != tt.want || err != nil {
				t.Errorf("%s, at %v: %d, %v, want %d", tt.name, temp, got, err, tt.want)
			}
		}
	}
}

func TestNothingToChoose(t *testing.T) {
	for name, logits := range map[string][]float32{
		"empty": {}, "NaN": {nan, nan}, "-Inf": {-inf, -inf}, "both": {nan, -inf, nan},
	} {
		for _, p := range []Params{greedyParams(), Defaults(), plain(1), {Temp: 1, TopP: 1, TypicalP: 1, TopK: 1, RepeatPenalty: 1},
			{Temp: 1, TopP: 0.5, TypicalP: 1, RepeatPenalty: 1}, {Temp: 1, TopP: 1, TypicalP: 1, MinP: 0.5, RepeatPenalty: 1}} {
			if id, err := New(p, len(logits)).Sample(logits); !errors.Is(err, ErrNoToken) {
				t.Errorf("%s with %+v: %d, %v", name, p, id, err)
			}
		}
	}
	if _, err := New(Defaults(), 5).Sample(make([]float32, 4)); err == nil {
		t.Error("4 logits for 5 tokens: no error")
	}
}

func TestPenalties(t *testing.T) {
	for _, tt := range []struct {
		name   string
		p      Params
		accept []int32
		logits []float32
		want   []float32 // after the penalties
	}{
		{"divides the positive, multiplies the negative", Params{RepeatLastN: 8, RepeatPenalty: 2},
			[]int32{0, 1, 1}, []float32{4, -4, 4, 0}, []float32{2, -8, 4, 0}},
		{"frequency counts, presence does not", Params{RepeatLastN: 8, RepeatPenalty: 1, FrequencyPenalty: 0.5, PresencePenalty: 3},
			[]int32{1, 1, 3}, []float32{10, 10, 10, 10}, []float32{10, 6, 10, 6.5}},
		{"only the last two", Params{RepeatLastN: 2, RepeatPenalty: 1, FrequencyPenalty: 1},
			[]int32{0, 1, 2, 2}, []float32{5, 5, 5}, []float32{5, 5, 3}},
		{"none of them", Params{RepeatLastN: 0, RepeatPenalty: 2, PresencePenalty: 1}, []int32{0, 1}, []float32{5, 5}, []float32{5, 5}},
		{"all of them", Params{RepeatLastN: -1, RepeatPenalty: 1, FrequencyPenalty: 1}, []int32{0, 0, 0, 1}, []float32{5, 5}, []float32{2, 4}},
		{"ids from elsewhere", Params{RepeatLastN: 8, RepeatPenalty: 2}, []int32{-1, 2, 1 << 30, 1}, []float32{4, 4}, []float32{4, 2}},
		{"masked stays masked", Params{RepeatLastN: 8, RepeatPenalty: 2, FrequencyPenalty: -5}, []int32{0}, []float32{-inf, 1}, []float32{-inf, 1}},
	} {
		s := New(tt.p, len(tt.logits))
		for _, id := range tt.accept {
			s.Accept(id)
		}
		before := slices.Clone(tt.logits)
		s.edit(tt.logits)
		if !slices.Equal(tt.logits, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.logits, tt.want)
		}
		if s.restore(); !slices.Equal(tt.logits, before) {
			t.Errorf("%s: %v were %v", tt.name, tt.logits, before)
		}
	}
}

// randomCase makes parameters and logits of every kind: few or many tokens,
// ties, peaks, masks, NaN, infinities.
func randomCase(rng *rand.Rand, sizes int) (Params, []float32) {
	pick := func(vs ...float32) float32 { return vs[rng.IntN(len(vs))] }
	n := []int{1, 2, 3, 10, 50, 500, 600, 5000}[rng.IntN(sizes)]
	p := Params{
		Temp: pick(0, 0.1, 0.8, 1, 2), TopK: []int{-1, 0, 1, 2, 5, 40, n - 1, n, n + 1}[rng.IntN(9)],
		TopP: pick(0, 0.1, 0.5, 0.95, 0.999999, 1), MinP: pick(0, 0, 0.001, 0.05, 0.5, 1), TypicalP: 1, Seed: rng.Uint64(),
		RepeatLastN: []int{-1, 0, 1, 5, 64}[rng.IntN(5)], RepeatPenalty: pick(1, 1, 1.1, 0.5, 2),
		FrequencyPenalty: pick(0, 0, 0.25, -0.5), PresencePenalty: pick(0, 0, 1.5, -1),
	}
	spread, coarse, odd := float64(pick(0.1, 3, 30, 200)), rng.IntN(2) == 0, rng.IntN(3) == 0
	logits := make([]float32, n)
	for i := range logits {
		v := rng.NormFloat64() * spread
		if coarse {
			v = math.Round(v*2) / 2
		}
		logits[i] = float32(v)
		if odd {
			switch rng.IntN(8) {
			case 0:
				logits[i] = nan
			case 1, 2:
				logits[i] = -inf
			case 3:
				if rng.IntN(50) == 0 {
					logits[i] = inf
				}
			}
		}
	}
	return p, logits
}

// Each filter, and all of them together, keep what the naive chain keeps.
func TestAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	differed := 0
	const rounds = 20000
	for round := range rounds {
		sizes := 6
		if round%16 == 0 {
			sizes = 8 // long ones, which are weighed in blocks
		}
		p, logits := randomCase(rng, sizes)
		before := slices.Clone(logits)
		s, ref := New(p, len(logits)), naive{Params: p}
		for range rng.IntN(80) {
			id := int32(rng.IntN(min(len(logits), 30)))
			s.Accept(id)
			ref.accepted = append(ref.accepted, id)
		}
		want := ref.kept(logits)

		id, err := s.Sample(logits)
		if !slices.EqualFunc(logits, before, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("round %d: the logits changed", round)
		}
		if len(want) == 0 {
			if !errors.Is(err, ErrNoToken) {
				t.Fatalf("round %d: %d, %v where nothing can be chosen", round, id, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if p.Temp <= 0 || want[0].Logit == inf {
			if id != want[0].ID {
				t.Fatalf("round %d: took %d, but %d is certain", round, id, want[0].ID)
			}
			continue
		}
		if s.all {
			s.again(logits)
			left := s.count()
			if s.restore(); left != len(want) {
				t.Fatalf("round %d: %d are left, want %d", round, left, len(want))
			}
			if !slices.ContainsFunc(want, func(t token) bool { return t.ID == id }) {
				t.Fatalf("round %d: %d cannot be chosen", round, id)
			}
			continue
		}
		got := slices.Clone(s.kept)
		if !slices.ContainsFunc(got, func(t token) bool { return t.ID == id }) {
			t.Fatalf("round %d: %d was filtered out", round, id)
		}
		slices.SortFunc(got, inOrder)
		if slices.Equal(got, want) {
			continue
		}
		// Where p falls on the very edge between two tokens, sums in another
		// order may differ by one token in the tail, and those of single precision by what weighs nothing.
		short, long := got, want
		if len(short) > len(long) {
			short, long = long, short
		}
		tail := 0.0
		for _, w := range softmax(long, 1)[min(len(short), len(long)):] {
			tail += w
		}
		if len(long) <= small || tail > 3e-7 {
			differed++
		}
		if !slices.Equal(short, long[:len(short)]) || len(long)-len(short) > 1 && tail > 3e-7 {
			t.Fatalf("round %d: %+v\nlogits %v\nkept %v\nwant %v", round, p, logits, got, want)
		}
	}
	if differed > rounds/1000 {
		t.Errorf("%d of %d differ from the naive chain by a token", differed, rounds)
	}
}

// Draws are as frequent as their probabilities, whichever way they are made.
func TestDistribution(t *testing.T) {
	logits := []float32{2, -1, nan, 0.5, 1.5, -inf, 0, 1, -0.5, 2}
	for name, p := range map[string]Params{
		"everything":   plain(1),
		"hot":          {Temp: 3, TopP: 1, TypicalP: 1, RepeatPenalty: 1, Seed: 2},
		"cold":         {Temp: 0.4, TopP: 1, TypicalP: 1, RepeatPenalty: 1, Seed: 3},
		"top-k":        {Temp: 1, TopK: 4, TopP: 1, TypicalP: 1, RepeatPenalty: 1, Seed: 4},
		"top-p":        {Temp: 1, TopP: 0.8, TypicalP: 1, RepeatPenalty: 1, Seed: 5},
		"min-p":        {Temp: 1, TopP: 1, TypicalP: 1, MinP: 0.2, RepeatPenalty: 1, Seed: 6},
		"the defaults": Defaults(),
		"penalties":    {Temp: 1, TopP: 1, TypicalP: 1, RepeatLastN: 3, RepeatPenalty: 1.5, FrequencyPenalty: 0.5, Seed: 7},
	} {
		t.Run(name, func(t *testing.T) {
			s, ref := New(p, len(logits)), naive{Params: p, accepted: []int32{0, 9, 9}}
			for _, id := range ref.accepted {
				s.Accept(id)
			}
			kept := ref.kept(logits)
			probs := softmax(kept, float64(p.Temp))
			const draws = 50000
			var times [10]int
			for range draws {
				id, err := s.Sample(logits)
				if err != nil {
					t.Fatal(err)
				}
				times[id]++
			}
			chi2, seen := 0.0, 0
			for i, tok := range kept {
				want := probs[i] * draws
				chi2 += (float64(times[tok.ID]) - want) * (float64(times[tok.ID]) - want) / want
				seen += times[tok.ID]
			}
			if seen != draws {
				t.Errorf("%d of %d draws outside of what passes the filters: %v", draws-seen, draws, times)
			}
			// By chance, one time in a thousand: 27.9 with 9 degrees of freedom.
			if chi2 > 27.9 {
				t.Errorf("chi-square %.1f over %d tokens: %v, want %v", chi2, len(kept), times, probs)
			}
		})
	}
}

func TestSeeds(t *testing.T) {
	logits := make([]float32, 1000)
	draw := func(seed uint64) []int32 {
		s := New(plain(seed), len(logits))
		var ids []int32
		for range 20 {
			id, err := s.Sample(logits)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			s.Accept(id)
		}
		return ids
	}
	if a, b := draw(5), draw(5); !slices.Equal(a, b) {
		t.Errorf("one seed, two texts: %v, %v", a, b)
	}
	if a, b := draw(5), draw(6); slices.Equal(a, b) {
		t.Errorf("two seeds, one text: %v", a)
	}
	// The draws are part of what a seed promises: they must not change by accident.
	if got, want := draw(0)[:4], []int32{592, 844, 857, 847}; !slices.Equal(got, want) {
		t.Errorf("seed 0 draws %v, want %v", got, want)
	}
}

func TestExp(t *testing.T) {
	for i := range 600001 {
		x := -float64(i) / 10000
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-12*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if exp(0) != 1 {
		t.Errorf("exp(0) = %v", exp(0))
	}
}

func TestValidate(t *testing.T) {
	for _, p := range []Params{Defaults(), {RepeatPenalty: 1}, {RepeatPenalty: 0.01}, plain(1),
		{Temp: 100, TopK: -1, TopP: 1, TypicalP: 1, MinP: 1, RepeatLastN: -1, RepeatPenalty: 100, FrequencyPenalty: -2, PresencePenalty: 2}} {
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for want, change := range map[string]func(*Params){
		"temperature NaN is outside 0 to 100":   func(p *Params) { p.Temp = nan },
		"temperature -0.1 is outside 0 to 100":  func(p *Params) { p.Temp = -0.1 },
		"temperature +Inf is outside 0 to 100":  func(p *Params) { p.Temp = inf },
		"top-k -2 is outside -1 to":             func(p *Params) { p.TopK = -2 },
		"top-p 1.1 is outside 0 to 1":           func(p *Params) { p.TopP = 1.1 },
		"top-p NaN is outside 0 to 1":           func(p *Params) { p.TopP = nan },
		"min-p -1 is outside 0 to 1":            func(p *Params) { p.MinP = -1 },
		"repeat-last-n -2 is outside -1 to":     func(p *Params) { p.RepeatLastN = -2 },
		"repeat-last-n 1e+09 is outside -1 to":  func(p *Params) { p.RepeatLastN = 1e9 },
		"repeat penalty 0 is outside 0.01":      func(p *Params) { p.RepeatPenalty = 0 },
		"frequency penalty NaN is outside -100": func(p *Params) { p.FrequencyPenalty = nan },
		"presence penalty -101 is outside -100": func(p *Params) { p.PresencePenalty = -101 },
	} {
		p := Defaults()
		change(&p)
		if err := p.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
