package constrain

import (
	"slices"
	"strings"
	"sync/atomic"
)

// A Stretch is the part of a text between two markers, such as reasoning.
type Stretch struct {
	Open, Shut string
	Begun      bool // the text begins within it
	Again      bool // there may be several, which share the budget
}

// A Budget limits the number of tokens in a stretch. When it is spent, the closing tokens follow and end the
// stretch.
type Budget struct {
	Stretch
	Tokens  int // -1: no bound
	Closing []int32
	Now     *atomic.Bool                     // ends the stretch as soon as it is set; nil: nothing does
	N       int                              // tokens of the vocabulary
	Spell   func(id int32, yield func(byte)) // the bytes of a token, marks too
}

// budget is a Constraint that adds a Budget to another, which may be nil.
type budget struct {
	Budget
	inner Constraint
	spent
	past []spent
	may  Set // scratch: what inner allows
}

// spent is a position in a text.
type spent struct {
	tail   string // the last bytes, less than the marks have
	phase  phase
	tokens int // of the stretch
	closed int // of Closing
}

type phase int

const (
	before phase = iota
	inside
	closing
	after
)

// Bound returns a Constraint with a budget, in addition to inner, which may be nil.
func Bound(inner Constraint, b Budget) Constraint {
	c := &budget{Budget: b, inner: inner}
	if b.Begun {
		c.enter()
	}
	return c
}

// leave is called after the stretch.
func (c *budget) leave() {
	c.phase, c.tail, c.closed = after, "", 0
	if c.Again {
		c.phase = before
	}
}

func (c *budget) enter() {
	c.phase, c.tail = inside, ""
	c.exhaust()
}

// exhaust switches to the closing tokens when the budget is spent.
func (c *budget) exhaust() {
	if c.phase == inside && c.Tokens >= 0 && c.tokens >= c.Tokens && len(c.Closing) > 0 {
		c.phase = closing
	}
}

func (c *budget) Mask(next Set) {
	if c.phase == inside && c.Now != nil && c.Now.Load() && len(c.Closing) > 0 {
		c.phase = closing
	}
	switch {
	case c.phase == closing && c.canClose():
		next.Add(c.Closing[c.closed])
	case c.inner != nil:
		c.inner.Mask(next)
	default:
		for id := range int32(c.N) {
			next.Add(id)
		}
	}
}

// canClose reports whether inner allows the next closing token. It does not inside a multi-byte character,
// for example; then the text continues until it does.
func (c *budget) canClose() bool {
	if c.inner == nil {
		return true
	}
	if c.may == nil {
		c.may = NewSet(c.N)
	}
	clear(c.may)
	c.inner.Mask(c.may)
	return c.may.Has(c.Closing[c.closed])
}

func (c *budget) Accept(id int32) bool {
	closes := c.phase == closing && id == c.Closing[c.closed]
	if c.phase == closing && !closes && c.canClose() || c.inner != nil && !c.inner.Accept(id) {
		return false
	}
	c.past = append(c.past, c.spent)
	switch {
	case closes:
		if c.closed++; c.closed == len(c.Closing) {
			c.leave()
		}
	case c.phase == closing && c.closed > 0: // inner does not have the message: the rest of it is left out
		c.leave()
	case c.phase == inside, c.phase == closing:
		c.tokens++
		if c.find(id, c.Shut) {
			c.leave()
		}
		c.exhaust()
	case c.phase == before:
		if c.find(id, c.Open) {
			c.enter()
		}
	}
	return true
}

// Err returns the error of inner.
func (c *budget) Err() error {
	if f, ok := c.inner.(Failer); ok {
		return f.Err()
	}
	return nil
}

// StopWhen implements Stopper.
func (c *budget) StopWhen(gone func() bool) {
	if s, ok := c.inner.(Stopper); ok {
		s.StopWhen(gone)
	}
}

// find reports whether a token completes a marker.
func (c *budget) find(id int32, mark string) bool {
	tail := []byte(c.tail)
	c.Spell(id, func(b byte) { tail = append(tail, b) })
	if strings.Contains(string(tail), mark) {
		return true
	}
	c.tail = string(tail[max(0, len(tail)-len(mark)+1):])
	return false
}

func (c *budget) Rollback(n int) {
	if n == 0 {
		return
	}
	c.spent = c.past[len(c.past)-n]
	c.past = c.past[:len(c.past)-n]
	if c.inner != nil {
		c.inner.Rollback(n)
	}
}

func (c *budget) Fork() Constraint {
	f := *c
	f.past, f.may = slices.Clone(c.past), nil
	if c.inner != nil {
		f.inner = c.inner.Fork()
	}
	return &f
}
