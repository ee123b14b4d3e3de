package draft

// A Recording guesses the tokens of a known text, with a given acceptance rate. With it, the value of a drafter
// of that rate can be measured on any model.
type Recording struct {
	Text  []int32 // the whole text
	Right float64 // chance that a guess is right
	Rival float64 // chance that a second guess at the same token is right if the first is wrong; 0: no second guesses
	Seed  uint64  // of the choice of which are right
}

// rivalDepth is the number of tokens that have second guesses.
const rivalDepth = 3

// guess appends up to n guesses, from a position on.
func (r *Recording) guess(dst []Guess, from, n int) []Guess {
	begin, end := len(dst), min(from+n, len(r.Text))
	if r.Rival > 0 {
		end = min(end, max(from+n-rivalDepth, from+(n+1)/2))
	}
	for pos := from; pos < end; pos++ {
		id := r.Text[pos]
		if !r.IsRight(pos) {
			id ^= 1
		}
		dst = append(dst, Guess{ID: id, Chance: r.Right, Source: Replay})
	}
	for pos := from; r.Rival > 0 && pos < min(from+rivalDepth, end) && len(dst)-begin < n; pos++ {
		id := r.Text[pos]
		if r.IsRight(pos) || !r.right(pos, r.Rival, 1) {
			id ^= 2 // different from the first, and wrong
		}
		back := len(dst) - begin - (pos - from)
		dst = append(dst, Guess{ID: id, Chance: (1 - r.Right) * r.Rival, Source: Replay, Back: back})
	}
	return dst
}

// IsRight reports whether the first guess at a position is right.
func (r *Recording) IsRight(pos int) bool { return r.right(pos, r.Right, 0) }

// right decides whether a guess at a position is right, the same each time. (SplitMix64, Steele, Lea and Flood
// 2014.)
func (r *Recording) right(pos int, chance float64, which uint64) bool {
	x := r.Seed + uint64(pos+1)*0x9e3779b97f4a7c15 + which*0xd1b54a32d192ed03
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) < chance*(1<<53)
}
