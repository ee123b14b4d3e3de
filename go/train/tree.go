package train

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
	sums [][]float32 // of the places that are there
	free [][]float32
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

// add adds the vector of a place, which it may change.
func (t *tree) add(p place, x []float32) {
	x = t.merge(p, x)
	last := len(t.free) - 1
	sum := t.free[last]
	copy(sum, x)
	t.free, t.sums = t.free[:last], append(t.sums, sum)
}

// adopt is add of a vector that is the tree's from then on.
func (t *tree) adopt(p place, x []float32) { t.sums = append(t.sums, t.merge(p, x)) }

// merge adds to x, in it, what is there and belongs to it.
func (t *tree) merge(p place, x []float32) []float32 {
	for range t.places.add(p) {
		last := len(t.sums) - 1
		plus(x, t.sums[last], x)
		t.sums, t.free = t.sums[:last], append(t.free, t.sums[last])
	}
	return x
}

// total returns the sum of all vectors, once all were added. It is valid until the next reset.
func (t *tree) total() []float32 { return t.sums[0] }

// plus is y = a + b, where a is of earlier vectors.
func plus(y, a, b []float32) {
	for i := range y {
		y[i] = a[i] + b[i]
	}
}
