package train

// A tree adds vectors up pairwise, by their number: a fixed binary tree, whoever makes them. It is a binary counter: a sum of
// 2^k vectors waits at level k for the next one.
type tree struct {
	levels [][]float32
	n      uint // vectors that were added
}

// newTree returns a tree in memory for as many vectors of n numbers as it has levels: it adds up fewer than 2^levels.
func newTree(memory []float32, n int) *tree {
	t := &tree{}
	for ; len(memory) >= n; memory = memory[n:] {
		t.levels = append(t.levels, memory[:n:n])
	}
	return t
}

func (t *tree) reset() { t.n = 0 }

// add adds a vector, which it may change.
func (t *tree) add(x []float32) {
	k := 0
	for ; t.n>>k&1 == 1; k++ {
		plus(x, t.levels[k], x)
	}
	copy(t.levels[k], x)
	t.n++
}

// total returns the sum of all vectors: what waits is added from the latest on. It is valid until the next add.
func (t *tree) total() []float32 {
	var sum []float32
	for k, x := range t.levels {
		switch {
		case t.n>>k&1 == 0:
		case sum == nil:
			sum = x
		default:
			plus(sum, x, sum)
		}
	}
	return sum
}

// plus is y = a + b, where a is of earlier vectors.
func plus(y, a, b []float32) {
	for i := range y {
		y[i] = a[i] + b[i]
	}
}
