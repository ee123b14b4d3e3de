package constrain

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A Set is what a list of booleans is.
func TestSets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 1 + random.IntN(200)
		s, want := NewSet(n), make([]bool, n)
		if len(s) != (n+63)/64 {
			t.Fatalf("%d words for %d ids", len(s), n)
		}
		for range random.IntN(40) {
			a, b := random.IntN(n), random.IntN(n)
			switch random.IntN(5) {
			case 0:
				s.Add(int32(a))
				want[a] = true
			case 1:
				s.Remove(int32(a))
				want[a] = false
			case 2:
				s.addRange(int32(a), int32(b))
				for i := a; i < b; i++ {
					want[i] = true
				}
			case 3:
				s.addAll([]int32{int32(a), int32(b)})
				want[a], want[b] = true, true
			case 4:
				other := NewSet(n)
				other.addRange(int32(min(a, b)), int32(max(a, b)))
				s.union(other)
				for i := min(a, b); i < max(a, b); i++ {
					want[i] = true
				}
			}
		}
		logits := make([]float32, n)
		s.Ban(logits, -1)
		for i, in := range want {
			if s.Has(int32(i)) != in || (logits[i] == -1) == in {
				t.Fatalf("%d of %d: in the set %v, banned %v, want in it %v", i, n, s.Has(int32(i)), logits[i] == -1, in)
			}
			next := i
			for next < n && want[next] {
				next++
			}
			if got := int(s.without(int32(i))); got != next && !(next == n && got >= n) {
				t.Fatalf("the first from %d on that is not in it is %d, want %d of %d", i, got, next, n)
			}
		}
		if s.Empty() != !slices.Contains(want, true) {
			t.Fatalf("empty: %v", s.Empty())
		}
	}
}
