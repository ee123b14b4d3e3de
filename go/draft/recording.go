package draft

// A Recording guesses a text that is known, right with a given chance: what a drafter that good is worth can be
// measured on any model with it.
type Recording struct {
	Text  []int32 // all of it
	Right float64 // chance of a guess
	Seed  uint64  // of which are right
}

// guess appends up to n guesses at the tokens from a position on.
func (r *Recording) guess(dst []Guess, from, n int) []Guess {
	for pos := from; pos < min(from+n, len(r.Text)); pos++ {
		id := r.Text[pos]
		if !r.right(pos) {
			id ^= 1
		}
		dst = append(dst, Guess{id, r.Right, Replay})
	}
	return dst
}

// right decides about a position, the same each time. (SplitMix64, Steele, Lea and Flood 2014.)
func (r *Recording) right(pos int) bool {
	x := r.Seed + uint64(pos+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) < r.Right*(1<<53)
}
