package engine

// cuts are positions at which slices of a prompt end. Recurrent state is known only at the end of a pass, so
// passes end at positions from which other texts are likely to continue, and the state is kept there.
type cuts []int

// slice returns how many of the n tokens after position `at` are evaluated in one pass.
func (c cuts) slice(at, n int) int {
	for _, cut := range c {
		if cut > at {
			n = min(n, cut-at)
		}
	}
	return n
}

// has reports whether other texts are likely to continue from a position.
func (c cuts) has(at int) bool {
	for _, cut := range c {
		if at == cut {
			return true
		}
	}
	return false
}

// cut has slices of the prompt end at a position, or where a medium begins that it is inside of and that is evaluated whole.
func (j *job) cut(at int) {
	if at = whole(j.media, at); !j.cuts.has(at) {
		j.cuts = append(j.cuts, at)
	}
}
