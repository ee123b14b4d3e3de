package sched

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// A Shape is what the time of a pass depends on.
type Shape struct {
	Tokens   int
	Attended int // positions, summed over tokens: what attention computes
	Read     int // positions, summed over sequences: what it reads
}

// add returns s with n tokens more, of a sequence that has `at` before them.
func (s Shape) add(at, n int) Shape {
	s.Read += at
	return s.extend(at, n)
}

// extend returns s with n tokens more of a sequence that is part of it.
func (s Shape) extend(at, n int) Shape {
	s.Tokens += n
	s.Attended += n*at + n*(n+1)/2
	s.Read += n
	return s
}

// Cost predicts how long passes take, from those that it has seen: a time for
// the number of tokens, which is far from a straight line while memory is the
// limit, so it is kept for powers of two and interpolated; and a time for each
// position that is attended to and that is read. The zero value knows nothing,
// and takes passes to be free.
type Cost struct {
	knots          [knots]float64 // ns of a pass of 1, 2, 4 ... tokens
	seen           [knots]bool
	attended, read float64 // ns for each million positions
}

const knots = 13 // to 4096 tokens

// place returns the knot at or below n tokens, and how far it is to the next.
func place(n int) (k int, f float64) {
	n = min(max(n, 1), 1<<(knots-1))
	k = min(bits.Len(uint(n))-1, knots-2)
	return k, float64(n)/float64(uint(1)<<k) - 1
}

// Estimate returns the time that a pass should take.
func (c *Cost) Estimate(s Shape) time.Duration {
	return time.Duration(min(c.tokens(s.Tokens)+c.positions(s), float64(longest)))
}

// longest is more than a pass can take. It keeps sums of estimates from overflowing.
const longest = time.Hour

func (c *Cost) positions(s Shape) float64 {
	return c.attended*float64(s.Attended)/1e6 + c.read*float64(s.Read)/1e6
}

func (c *Cost) tokens(n int) float64 {
	if n <= 0 {
		return 0
	}
	k, f := place(n)
	low := c.low(k)
	t := low*(1-f) + max(low, c.knots[k+1])*f
	if over := n - 1<<(knots-1); over > 0 {
		t += float64(over) * float64(c.Each())
	}
	return t
}

// low is the time at knot k: more tokens never take less, whatever was seen of
// fewer in a bad moment.
func (c *Cost) low(k int) float64 { return slices.Max(c.knots[:k+1]) }

// First is the time of a pass of one token, Each that of one more in a long one.
func (c *Cost) First() time.Duration { return time.Duration(c.knots[0]) }

func (c *Cost) Each() time.Duration {
	k := knots - 1
	for k > 0 && !c.seen[k] {
		k--
	}
	return time.Duration(min(c.knots[k]/float64(uint(1)<<k), float64(longest)))
}

// Positions returns the time for a million positions attended to, and read.
func (c *Cost) Positions() (attended, read time.Duration) {
	return time.Duration(c.attended), time.Duration(c.read)
}

// Set replaces what is known of positions, as measured apart.
func (c *Cost) Set(attended, read time.Duration) {
	c.attended, c.read = max(float64(attended), 0), max(float64(read), 0)
}

// learn is the share of a surprise that is believed. A pass that was held up by
// other work on the machine should not spoil the next hundred.
const learn = 0.2

// Observe learns from a pass.
func (c *Cost) Observe(s Shape, took time.Duration) {
	if s.Tokens <= 0 || took <= 0 {
		return
	}
	k, f := place(s.Tokens)
	at := k // the knot that the pass is nearest to
	if f >= 0.5 {
		at = k + 1
	}
	if !c.seen[at] {
		c.seed(at, max(float64(took)-c.positions(s), float64(took)/4)*float64(uint(1)<<at)/float64(s.Tokens))
		return
	}
	guess := c.tokens(s.Tokens) + c.positions(s)
	// By which factor it was wrong, within bounds. What is learned is a share of its
	// logarithm, so that a knot stays above 0 and follows the middle of what passes take.
	wrong := math.Log(min(max(float64(took)/guess, 0.25), 4))
	low := c.low(k)
	c.knots[k] = low * math.Exp(learn*(1-f)*wrong)
	c.knots[k+1] = max(low, c.knots[k+1]) * math.Exp(learn*f*wrong)
	for i := range k { // nor do fewer take more, or a bad moment of theirs would stay
		c.knots[i] = min(c.knots[i], c.knots[k])
	}
	share := c.positions(s) / guess
	scale := math.Exp(learn / 2 * share * wrong)
	c.attended *= scale
	c.read *= scale
}

// seed sets a knot for the first time, and those that nobody has seen after it.
func (c *Cost) seed(at int, ns float64) {
	c.knots[at], c.seen[at] = ns, true
	for lo := -1; lo < knots; { // between two that were seen a line, outside the last slope or none
		hi := lo + 1
		for hi < knots && !c.seen[hi] {
			hi++
		}
		for i := lo + 1; i < hi; i++ {
			switch {
			case lo >= 0 && hi < knots:
				w := float64(uint(1)<<i-uint(1)<<lo) / float64(uint(1)<<hi-uint(1)<<lo)
				c.knots[i] = c.knots[lo] + w*(c.knots[hi]-c.knots[lo])
			case lo >= 0:
				c.knots[i] = c.knots[lo] * float64(uint(1)<<(i-lo))
			default:
				c.knots[i] = c.knots[hi]
			}
		}
		lo = hi
	}
}
