package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
)

// A candidate of the naive samplers, with its probability.
type candidate struct {
	id   int32
	x, p float64
}

// normalized sorts candidates, likeliest first, and computes their probabilities.
func normalized(cs []candidate) []candidate {
	sort.SliceStable(cs, func(i, j int) bool { return cs[i].x > cs[j].x })
	sum := 0.0
	for _, c := range cs {
		sum += math.Exp(c.x - cs[0].x)
	}
	for i, c := range cs {
		cs[i].p = math.Exp(c.x-cs[0].x) / sum
	}
	return cs
}

func entropy(cs []candidate) (h float64) {
	for _, c := range cs {
		if c.p > 0 {
			h -= c.p * math.Log(c.p)
		}
	}
	return h
}

// naiveStep is one sampler by its definition.
func naiveStep(p Params, letter rune, cs []candidate) []candidate {
	cs = normalized(cs)
	keep := max(p.MinKeep, 1)
	upTo := func(goal float64) []candidate {
		sum := 0.0
		for i, c := range cs {
			if sum += c.p; sum >= goal && i+1 >= keep {
				return cs[:i+1]
			}
		}
		return cs
	}
	switch letter {
	case 's':
		mean, squares := 0.0, 0.0
		for _, c := range cs {
			mean += c.x / float64(len(cs))
		}
		for _, c := range cs {
			squares += (c.x - mean) * (c.x - mean)
		}
		least := cs[0].x - float64(p.TopNSigma)*math.Sqrt(squares/float64(len(cs)))
		return slices.DeleteFunc(cs, func(c candidate) bool { return c.x < least })
	case 'k':
		return cs[:min(p.TopK, len(cs))]
	case 'y':
		h := entropy(cs)
		sort.SliceStable(cs, func(i, j int) bool { return math.Abs(-math.Log(cs[i].p)-h) < math.Abs(-math.Log(cs[j].p)-h) })
		return upTo(float64(p.TypicalP))
	case 'p':
		return upTo(float64(p.TopP))
	case 'm':
		n := 0
		for n < len(cs) && (n < keep || cs[n].p >= float64(p.MinP)*cs[0].p) {
			n++
		}
		return cs[:n]
	case 'x':
		last := -1
		for i, c := range cs {
			if c.p >= float64(p.XTCThreshold) {
				last = i
			}
		}
		if last > 0 && len(cs)-last >= keep {
			return cs[last:]
		}
	case 't':
		temp := float64(p.Temp)
		if p.DynRange > 0 && len(cs) > 1 {
			lo, hi := max(temp-float64(p.DynRange), 0), temp+float64(p.DynRange)
			temp = lo + (hi-lo)*math.Pow(entropy(cs)/math.Log(float64(len(cs))), float64(p.DynExponent))
		}
		for i := range cs {
			cs[i].x /= temp
		}
	}
	return cs
}

// Lists of every length, in any order of the samplers, with repeats: the naive chain
// leaves the same. Long lists go through bins.
func TestChainAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 9))
	edges := 0
	const rounds = 400
	for round := range rounds {
		pick := func(vs ...float32) float32 { return vs[rng.IntN(len(vs))] }
		p := Params{
			Temp: pick(0.3, 1, 1.7), DynRange: pick(0, 0.2), DynExponent: pick(0.5, 1, 2), TopK: rng.IntN([]int{3000, 12000}[rng.IntN(2)]) + 1,
			TopP: pick(0.2, 0.9, 0.999), MinP: pick(0.001, 0.1), TypicalP: pick(0.2, 0.7, 0.99), TopNSigma: pick(0.7, 2),
			XTCProbability: 1, XTCThreshold: pick(0.001, 0.05), MinKeep: []int{0, 1, 4, 700}[rng.IntN(4)], RepeatPenalty: 1, Seed: rng.Uint64(),
		}
		for range rng.IntN(7) + 1 {
			p.Chain += string("skypmxt"[rng.IntN(7)])
		}
		logits := make([]float32, []int{1, 3, 40, 3000, 3000, 12000}[rng.IntN(6)])
		spread := float64(pick(0.05, 2, 9))
		cs := make([]candidate, len(logits))
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * spread)
			cs[i] = candidate{int32(i), float64(logits[i]), 0}
		}
		for _, letter := range p.Chain {
			cs = naiveStep(p, letter, cs)
		}
		cs = normalized(cs)
		s := New(p, len(logits))
		id, err := s.Sample(logits)
		if err != nil {
			t.Fatal(err)
		}
		_, top := s.Chances(logits, id, len(logits))
		const never = 1e-24 // what is less likely counts as impossible
		cs = slices.DeleteFunc(cs, func(c candidate) bool { return c.p < never })
		top = slices.DeleteFunc(top, func(l Logprob) bool { return math.Exp(float64(l.Value)) < never })
		if d := len(top) - len(cs); d != 0 && max(d, -d) <= 1 {
			edges++
			continue
		}
		if len(top) != len(cs) {
			t.Fatalf("round %d, %+v: %d are left of %d, want %d", round, p, len(top), len(logits), len(cs))
		}
		for i, c := range cs {
			if math.Abs(math.Exp(float64(top[i].Value))-c.p) > 1e-6+1e-4*c.p {
				t.Fatalf("round %d, %+v: place %d has %v, want %v", round, p, i, top[i], c)
			}
		}
	}
	if edges > rounds/50 {
		t.Errorf("%d of %d chains leave one token more or less", edges, rounds)
	}
}

// Mirostat and adaptive-p over many tokens, against their definitions with a state of
// their own.
func TestSteering(t *testing.T) {
	logits := make([]float32, 2000)
	for name, p := range map[string]Params{
		"mirostat 1": {Mirostat: 1, MirostatTau: 3, MirostatEta: 0.3, Temp: 1.2},
		"mirostat 2": {Mirostat: 2, MirostatTau: 2.5, MirostatEta: 0.2, Temp: 0.9},
		"adaptive-p": {Chain: "ma", MinP: 0.001, AdaptiveTarget: 0.3, AdaptiveDecay: 0.8, Temp: 1},
	} {
		p.RepeatPenalty = 1
		rng := rand.New(rand.NewPCG(1, 2))
		s := New(p, len(logits))
		mu, sum, mass := 2*float64(p.MirostatTau), float64(p.AdaptiveTarget)/(1-float64(p.AdaptiveDecay)), 1/(1-float64(p.AdaptiveDecay))
		for step := range 60 {
			cs := make([]candidate, len(logits))
			for i := range logits {
				logits[i] = float32(rng.NormFloat64() * 3)
				cs[i] = candidate{int32(i), float64(logits[i]) / float64(p.Temp), 0}
			}
			cs = normalized(cs)
			switch {
			case p.Mirostat == 1:
				products, squares := 0.0, 0.0
				for i := range 99 {
					a := math.Log(float64(i+2) / float64(i+1))
					products += a * math.Log(cs[i].p/cs[i+1].p)
					squares += a * a
				}
				e := products/squares - 1
				k := math.Pow(e*math.Pow(2, mu)/(1-math.Pow(2000, -e)), squares/products)
				cs = normalized(cs[:min(max(int(k), 1), len(cs))])
			case p.Mirostat == 2:
				n := 1
				for n < len(cs) && -math.Log2(cs[n].p) <= mu {
					n++
				}
				cs = normalized(cs[:n])
			default:
				cs = normalized(naiveStep(p, 'm', cs))
			}
			before := slices.Clone(cs)
			if p.Mirostat == 0 {
				target := min(max(2*float64(p.AdaptiveTarget)-sum/mass, 0), 1)
				for i, c := range cs {
					d := math.Abs(c.p-target) / 0.3
					cs[i].x = 5 - 10*d*d/(1+d)
				}
				cs = normalized(cs)
			}
			id, err := s.Sample(logits)
			if err != nil {
				t.Fatal(err)
			}
			s.Accept(id)
			_, top := s.Chances(logits, id, len(logits))
			if len(top) != len(cs) {
				t.Fatalf("%s, step %d: %d are left, want %d", name, step, len(top), len(cs))
			}
			for i, c := range cs {
				if math.Abs(math.Exp(float64(top[i].Value))-c.p) > 1e-6+1e-4*c.p {
					t.Fatalf("%s, step %d: place %d has %v, want %v", name, step, i, top[i], c)
				}
			}
			chosen := before[slices.IndexFunc(before, func(c candidate) bool { return c.id == id })].p
			mu -= float64(p.MirostatEta) * (-math.Log2(chosen) - float64(p.MirostatTau))
			sum, mass = chosen+float64(p.AdaptiveDecay)*sum, 1+float64(p.AdaptiveDecay)*mass
		}
	}
}

// What DRY takes off each token, against a search for every repetition.
func TestDry(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	words := []string{"a", "b", "c", "ab", "x", "xa", "", "bx"}
	encode := func(text string) []int32 {
		var ids []int32
		for _, r := range text {
			ids = append(ids, int32(slices.Index(words, string(r))))
		}
		return ids
	}
	for round := range 3000 {
		p := Params{
			Temp: 0, RepeatPenalty: 1, TopP: 1, TypicalP: 1, DryMultiplier: 0.5, DryBase: 1.5, DryAllowedLength: rng.IntN(4),
			DryLastN: []int{-1, 1, 7, 30}[rng.IntN(4)],
		}
		breakers := [][][]int32{nil, {{4}}, {{1, 2}, {2, 2, 1}, {3, 2}}}[rng.IntN(3)]
		if breakers != nil {
			p.DryBreakers = &Breakers{alone: make([]uint64, 1)}
			for i, b := range breakers { // in order of their first tokens
				if len(b) == 1 {
					p.DryBreakers.alone[0] |= 1 << b[0]
				}
				p.DryBreakers.heads = append(p.DryBreakers.heads, head{b[0], int32(i)})
				p.DryBreakers.tails = append(p.DryBreakers.tails, b[1:])
			}
		}
		s := New(p, len(words))
		var ids []int32
		for range rng.IntN(60) {
			id := int32(rng.IntN([]int{2, 3, 8}[rng.IntN(3)]))
			ids = append(ids, id)
			s.Accept(id)
		}
		logits := make([]float32, len(words))
		s.edit(logits)
		if want := naiveDry(p, breakers, ids, len(words)); !slices.Equal(logits, want) {
			t.Fatalf("round %d, %+v, %v after %v: %v, want %v", round, p, breakers, ids, logits, want)
		}
	}
	// "abc" may be cut into a|b|c, ab|c or anything that ends with its beginning.
	word := func(id int32) string { return words[id] }
	b := newBreakers([]string{"abc"}, len(words), word, encode)
	if want := (&Breakers{[]uint64{0}, []head{{0, 0}, {3, 1}, {5, 0}}, [][]int32{{1, 2}, {2}}}); fmt.Sprint(b) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", b, want)
	}
	if b := newBreakers([]string{"x", "ab"}, len(words), word, encode); b.alone[0] != 1<<3|1<<4|1<<5|1<<7 || len(b.heads) != 2 {
		t.Errorf("%v", b)
	}
}

// The work of DRY for a token is linear in the text, also where everything counts as repeated.
func TestDryIsLinear(t *testing.T) {
	const n, vocab = 400000, 50000
	for name, id := range map[string]func(i int) int32{
		"other tokens": func(i int) int32 { return int32(uint32(i) * 2654435761 >> 8 % vocab) },
		"one token":    func(int) int32 { return 7 },
		"two tokens":   func(i int) int32 { return int32(i % 2) },
	} {
		s := New(Params{RepeatPenalty: 1, TopP: 1, TypicalP: 1, DryMultiplier: 0.8, DryBase: 1.75, DryLastN: -1}, vocab)
		for i := range n {
			s.Accept(id(i))
		}
		logits := make([]float32, vocab)
		if _, err := s.Sample(logits); err != nil { // allocates
			t.Fatal(err)
		}
		took := cputime.Of(func() {
			for range 5 {
				if _, err := s.Sample(logits); err != nil {
					t.Fatal(err)
				}
			}
		}) / 5
		t.Logf("%s: %v", name, took)
		if took > 25*time.Millisecond { // sorting takes 60
			t.Errorf("%s: %v for a token behind %d", name, took, n)
		}
	}
}

func naiveDry(p Params, breakers [][]int32, ids []int32, n int) []float32 {
	out := make([]float32, n)
	if p.DryLastN >= 0 {
		ids = ids[max(len(ids)-p.DryLastN, 0):]
	}
	if len(ids) <= p.DryAllowedLength {
		return out
	}
	limit := len(ids)
search:
	for i := len(ids) - 1; i >= 0; i-- {
		for end := len(ids); end > i; end-- { // the longest that begins here counts
			if slices.ContainsFunc(breakers, func(b []int32) bool { return slices.Equal(b, ids[i:end]) }) {
				limit = len(ids) - end
				break search
			}
		}
	}
	if limit < p.DryAllowedLength {
		return out
	}
	longest := map[int32]int{}
	for end := 1; end < len(ids); end++ {
		same := 0
		for same < end && same < limit && ids[end-1-same] == ids[len(ids)-1-same] {
			same++
		}
		if same >= p.DryAllowedLength {
			longest[ids[end]] = max(longest[ids[end]], same)
			if _, ok := longest[ids[end]]; !ok {
				longest[ids[end]] = 0
			}
		}
	}
	for id, same := range longest {
		if !slices.ContainsFunc(breakers, func(b []int32) bool { return len(b) == 1 && b[0] == id }) {
			out[id] = -float32(float64(p.DryMultiplier) * math.Pow(float64(p.DryBase), float64(same-p.DryAllowedLength)))
		}
	}
	return out
}

// The infill sampler ends a text, but not where something rules that out.
func TestInfillEnds(t *testing.T) {
	in := &Infill{Piece: func(id int32) []byte { return []byte{byte(id)} }, Ends: func(id int32) bool { return id == 9 }, End: 9}
	logits := make([]float32, 10) // no token has a probability of 0.2
	logits[4], logits[9] = 0.1, -20
	for _, want := range []int32{9, 4} {
		s := New(Params{Chain: "i", Infill: in, RepeatPenalty: 1}, len(logits))
		if got, err := s.Sample(logits); got != want || err != nil {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
		logits[9] = -inf
	}
}

// Names are taken as llama.cpp takes them.
func TestNames(t *testing.T) {
	for name, want := range map[string]rune{
		"penalties": 'e', "DRY": 'd', "top_n_sigma": 's', "top-n-sigma": 's', "topk": 'k', "typ_p": 'y', "typical_p": 'y', "typ": 'y',
		"nucleus": 'p', "min-p": 'm', "xtc": 'x', "Temp": 't', "temperature": 't', "adaptive_p": 'a', "infill": 'i', "top_q": 0, "": 0,
	} {
		if got, ok := Named(name); got != want || ok != (want != 0) {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestLogAndPower(t *testing.T) {
	for _, x := range []float64{1e-300, 1e-9, 0.3, 0.70, 0.71, 1, 1.0000001, 1.4, 2, 3, 1e5, 1e300} {
		if got, want := log(x), math.Log(x); math.Abs(got-want) > 2e-15*math.Abs(want) {
			t.Errorf("log(%v) = %v, want %v", x, got, want)
		}
		for _, y := range []float64{-2, -0.5, 0, 0.3, 1, 1.7} {
			if got, want := power(x, y), math.Pow(x, y); math.Abs(got-want) > 1e-10*want && want < 1e300 && want > 1e-300 {
				t.Errorf("power(%v, %v) = %v, want %v", x, y, got, want)
			}
		}
	}
	if power(0, 2) != 0 || power(0, 0) != 1 || !math.IsInf(log(0), -1) || !math.IsNaN(log(-1)) {
		t.Error("at 0")
	}
}
