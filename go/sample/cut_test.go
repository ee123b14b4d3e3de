package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// cutLogits makes logits that are hard to divide: all the same, few steps, neighbours among the floats, a wide spread, banned ones.
func cutLogits(rng *rand.Rand, kind, n int) []float32 {
	logits := make([]float32, n)
	for i := range logits {
		switch kind {
		case 0:
			logits[i] = 1.5
		case 1:
			logits[i] = float32(rng.IntN(12)) / 8
		case 2:
			logits[i] = math.Float32frombits(math.Float32bits(7) + uint32(rng.IntN(5)))
		case 3:
			logits[i] = float32(rng.NormFloat64() * 2.5)
		case 4:
			logits[i] = float32(rng.NormFloat64() * 1e30)
		case 5:
			logits[i] = float32(i%1000) * 1e-3
		}
	}
	if rng.IntN(2) == 0 {
		for range n / 2 {
			logits[rng.IntN(n)] = []float32{-inf, nan}[rng.IntN(2)]
		}
	}
	for range rng.IntN(3) {
		logits[rng.IntN(n)] = 12
	}
	return logits
}

// The first tokens by number and by weight, of long vocabularies, are those that a sort of all finds, however many are left.
func TestCuts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 300 {
		kind := round % 6
		logits := cutLogits(rng, kind, []int{700, 3000, 20000}[rng.IntN(3)])
		p := Params{Temp: 1, TopP: 1, TypicalP: 1, RepeatPenalty: 1, Seed: 1, MinKeep: []int{0, 5, 600}[rng.IntN(3)]}
		byNumber := rng.IntN(2) == 0
		if byNumber {
			p.TopK = rng.IntN(len(logits)) + 1
		} else {
			p.TopP = []float32{0, 0.2, 0.5, 0.95, 0.9999}[rng.IntN(5)]
		}
		var all []token
		for id, v := range logits {
			if float64(v) >= finite {
				all = append(all, token{ID: int32(id), Logit: v})
			}
		}
		if len(all) == 0 {
			continue
		}
		sortTokens(all)
		probs := softmax(all, 1)
		s := New(p, len(logits))
		id, err := s.Sample(logits)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(s.kept)
		if s.all {
			s.again(logits)
			s.list()
			got = slices.Clone(s.kept)
			s.restore()
		}
		sortTokens(got)
		if !slices.Equal(got, all[:len(got)]) {
			t.Fatalf("round %d: the %d left are not the first", round, len(got))
		}
		if !slices.ContainsFunc(got, func(t token) bool { return t.ID == id }) {
			t.Fatalf("round %d: %d is not left", round, id)
		}
		want := min(p.TopK, len(all))
		if byNumber {
			if len(got) != want {
				t.Fatalf("round %d: %d are left, want %d", round, len(got), want)
			}
			continue
		}
		sum := 0.0
		for want < len(all) && (sum < float64(p.TopP) || want < max(p.MinKeep, 1)) {
			sum += probs[want]
			want++
		}
		off := 0.0 // between the two
		for _, w := range probs[min(want, len(got)):max(want, len(got))] {
			off += w
		}
		if d := len(got) - want; max(d, -d) > 1 && off > 1e-6 {
			t.Fatalf("round %d, kind %d, top-p %v: %d are left, want %d, which differ by %v", round, kind, p.TopP, len(got), want, off)
		}
	}
}

// firstOf finds the k first of any list.
func TestFirstOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for round := range 500 {
		tokens := make([]token, rng.IntN(3000)+1)
		for i := range tokens {
			v := float32(rng.NormFloat64())
			switch round % 4 {
			case 1:
				v = float32(i)
			case 2:
				v = -float32(i)
			case 3:
				v = float32(rng.IntN(3))
			}
			tokens[i] = token{ID: int32(i), Logit: v}
		}
		want := slices.Clone(tokens)
		sortTokens(want)
		k := rng.IntN(len(tokens)) + 1
		got := firstOf(tokens, k)
		sortTokens(got)
		if !slices.Equal(got, want[:k]) {
			t.Fatalf("round %d: the first %d of %d are others", round, k, len(tokens))
		}
	}
}
