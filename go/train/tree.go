package train

import "sync"

// A place is one of the tree over n numbered vectors: that of the sum of 2^level of them from number index * 2^level on, or of
// those that there are.
type place struct {
	level uint
	index int
}

// places are those of the tree over n vectors whose sums are there, in order: a binary counter, which need not begin at 0. It
// decides what is added to what, so the tree is the same whoever has which part of it.
type places struct {
	n     int
	there []place
}

// add adds the next place. It returns how many of those that were there, from the latest on, are added to it, one after the
// other: each is all that comes before it below a common parent.
func (s *places) add(p place) (merged int) {
	for p.index > 0 || 1<<p.level < s.n { // it is not the root
		last := len(s.there) - 1
		switch {
		case p.index%2 == 0 && (p.index+1)<<p.level >= s.n: // nothing comes after it: its parent is the same sum
		case p.index%2 == 1 && last >= 0 && s.there[last] == place{p.level, p.index - 1}:
			s.there = s.there[:last]
			merged++
		default:
			s.there = append(s.there, p)
			return merged
		}
		p = place{p.level + 1, p.index / 2}
	}
	s.there = append(s.there, p)
	return merged
}

// placesOf returns the places of the tree over n vectors that are sums of the vectors from one number to another, and how
// many there were at most while these came one by one.
func placesOf(n, from, to int) (there []place, most int) {
	s := places{n: n}
	for i := from; i < min(to, n); i++ {
		s.add(place{0, i})
		most = max(most, len(s.there))
	}
	return s.there, most
}

// A tree adds vectors up pairwise, by their number: a fixed binary tree, whoever makes them.
type tree struct {
	places
	sums    [][]float32 // of the places that are there
	free    [][]float32
	threads int // that add; 0: one
}

// newTree returns a tree with memory for as many vectors of n numbers as are waiting at most.
func newTree(memory []float32, n int) *tree {
	t := &tree{}
	for ; len(memory) >= n; memory = memory[n:] {
		t.free = append(t.free, memory[:n:n])
	}
	return t
}

// reset empties it, for n vectors.
func (t *tree) reset(n int) {
	t.n, t.there = n, t.there[:0]
	t.free, t.sums = append(t.free, t.sums...), t.sums[:0]
}

// add adds the vector of a place.
func (t *tree) add(p place, x []float32) {
	merged := t.places.add(p)
	if merged == 0 {
		last := len(t.free) - 1
		sum := t.free[last]
		copy(sum, x)
		t.free, x = t.free[:last], sum
	}
	t.sums = append(t.sums, t.merge(merged, x))
}

// adopt is add of a vector that is the tree's from then on.
func (t *tree) adopt(p place, x []float32) { t.sums = append(t.sums, t.merge(t.places.add(p), x)) }

// merge adds to x so many of the latest sums, in the memory of the earliest of them. It returns the sum.
func (t *tree) merge(merged int, x []float32) []float32 {
	for i := range merged {
		last := len(t.sums) - 1
		sum := t.sums[last]
		plus(sum, x, max(t.threads, 1))
		if i > 0 {
			t.free = append(t.free, x)
		}
		t.sums, x = t.sums[:last], sum
	}
	return x
}

// total returns the sum of all vectors, once all were added. It is valid until the next reset.
func (t *tree) total() []float32 { return t.sums[0] }

// plusShare is how many numbers a thread adds at least.
const plusShare = 1 << 18

// plus adds x to y, which is of earlier vectors.
func plus(y, x []float32, threads int) {
	each := max((len(y)+threads-1)/threads, plusShare)
	var wait sync.WaitGroup
	for at := each; at < len(y); at += each {
		wait.Go(func() { plusSome(y[at:min(at+each, len(y))], x[at:]) })
	}
	plusSome(y[:min(each, len(y))], x)
	wait.Wait()
}

func plusSome(y, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += x[i]
	}
}
