// Package constrain implements constrained decoding: it computes which tokens are allowed next so that the
// output matches a grammar. It depends on the bytes of tokens, not on models.
package constrain

import "math/bits"

// A Constraint tracks one text. It is not safe for concurrent use. It is queried while a pass runs, so its
// work overlaps with the computation of logits.
type Constraint interface {
	// Mask adds the allowed next tokens to next. If there are none, the text is complete.
	Mask(next Set)
	// Accept advances by the next token. It returns false and changes nothing if the token is not allowed.
	Accept(id int32) bool
	// Rollback undoes the last n accepted tokens.
	Rollback(n int)
	// Fork returns an independent copy, for another text with the same beginning.
	Fork() Constraint
}

// A Forecaster is a Constraint that can predict forced text.
type Forecaster interface {
	// Forecast appends the tokens of the text that must come next, as the tokenizer would encode it.
	Forecast(dst []int32) []int32
}

// A Failer is a Constraint that may exceed its limits. It then allows no token.
type Failer interface{ Err() error }

// A Stopper is a Constraint whose work can be stopped: gone, called now and then, says that nobody waits for the
// result. It then fails with ErrStopped.
type Stopper interface{ StopWhen(gone func() bool) }

// A Set is a set of token ids.
type Set []uint64

// NewSet returns an empty set of the ids below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Add adds an id.
func (s Set) Add(id int32) { s[uint32(id)/64] |= 1 << (uint32(id) % 64) }

// Remove removes an id.
func (s Set) Remove(id int32) { s[uint32(id)/64] &^= 1 << (uint32(id) % 64) }

func (s Set) addAll(ids []int32) {
	for _, id := range ids {
		s.Add(id)
	}
}

// addRange adds a range of ids.
func (s Set) addRange(from, to int32) {
	for from < to {
		n := min(64-from%64, to-from)
		s[from/64] |= (1<<n - 1) << (from % 64)
		from += n
	}
}

// without returns the first id, starting at id, that is not in the set.
func (s Set) without(id int32) int32 {
	for w := s[id/64] | (1<<(id%64) - 1); ; w = s[id/64] {
		if w != 1<<64-1 {
			return id&^63 + int32(bits.TrailingZeros64(^w))
		}
		if id = id&^63 + 64; int(id/64) == len(s) {
			return id
		}
	}
}

func (s Set) union(t Set) {
	for i, w := range t {
		s[i] |= w
	}
}

// Has reports whether an id is in the set.
func (s Set) Has(id int32) bool { return s[id/64]>>(id%64)&1 != 0 }

// Empty reports whether the set is empty.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Ban sets the logits of the ids that are not in the set to v.
func (s Set) Ban(logits []float32, v float32) {
	for i, w := range s {
		part := logits[i*64 : min(i*64+64, len(logits))]
		if w == 0 {
			for k := range part {
				part[k] = v
			}
			continue
		}
		for out := ^w; out != 0; out &= out - 1 {
			if k := bits.TrailingZeros64(out); k < len(part) {
				part[k] = v
			}
		}
	}
}
