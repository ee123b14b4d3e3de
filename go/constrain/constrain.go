// Package constrain holds an answer to a form, token by token: it says which
// tokens may come next. It knows the bytes of tokens, and nothing of models.
package constrain

import "math/bits"

// A Constraint follows one text. It is for one goroutine at a time, and is asked
// while a pass runs, for what comes after the tokens that are known: nothing that
// it computes has to wait for logits.
type Constraint interface {
	// Mask adds to next the tokens that may come next. Where none may, the text is
	// complete.
	Mask(next Set)
	// Accept takes the next token. It returns false, and changes nothing, where
	// that may not come.
	Accept(id int32) bool
	// Rollback takes back the last n tokens that were accepted.
	Rollback(n int)
	// Fork returns a Constraint of its own, for another text that begins with the
	// same tokens.
	Fork() Constraint
}

// A Set is a set of token ids.
type Set []uint64

// NewSet returns an empty set of the ids below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Add adds an id.
func (s Set) Add(id int32) { s[id/64] |= 1 << (id % 64) }

// Has tells whether an id is in the set.
func (s Set) Has(id int32) bool { return s[id/64]>>(id%64)&1 != 0 }

// Empty tells whether no id is in the set.
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
