package generate

// A Shift is the context shift of a sequence: when it has `Limit` tokens, it discards `By` tokens after
// the first `Keep`. The keys and values of the rest are moved, not recomputed, so they still depend on the
// discarded tokens. The zero value never shifts.
//
// When a text is shifted depends only on its tokens. So a sequence whose memory was reclaimed is recomputed
// from all tokens of its text, with the same shifts, and has the same bits.
type Shift struct{ Limit, Keep, By int }

// Due reports whether a sequence of so many positions must be shifted before it grows.
func (s Shift) Due(positions int) bool { return s.Limit > 0 && positions >= s.Limit }

// Room returns how many of n tokens fit before the next shift.
func (s Shift) Room(positions, n int) int {
	if s.Limit == 0 {
		return n
	}
	return min(n, s.Limit-positions)
}

// Findable returns the tokens whose state may be in the prefix tree: those before the first shift.
func (s Shift) Findable(ids []int32) []int32 { return ids[:s.Room(0, len(ids))] }
