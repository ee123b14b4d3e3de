package sched

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// A Shape is the properties of a pass that determine its time.
type Shape struct {
	Tokens   int
	Attended int // positions attended to, summed over tokens: the work of attention
	Read     int // positions, summed over sequences: the memory that attention reads
}

// add returns s with n more tokens, of a sequence that has `at` before them.
func (s Shape) add(at, n int) Shape {
	s.Read += at
	return s.extend(at, n)
}

// extend returns s with n more tokens of a sequence that is part of it.
func (s Shape) extend(at, n int) Shape {
	s.Tokens += n
	s.Attended += n*at + n*(n+1)/2
	s.Read += n
	return s
}

// Cost predicts how long passes take, from the passes observed: a time for the number
// of tokens, which is far from linear while memory bandwidth is the limit, so it is kept
// at powers of two and interpolated; and a time for each position attended to and for
// each position read. The zero value has no observations and predicts zero.
type Cost struct {
	knots          [knots]float64 // ns of a pass of 1, 2, 4 ... tokens
	seen           [knots]bool
	attended, read float64 // ns per million positions
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

// longest is an upper bound on the time of a pass. It keeps sums of estimates from
// overflowing.
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

// low is the time at knot k. It makes the curve monotonic: more tokens never take less
// time, even if passes of fewer were observed to be slow.
func (c *Cost) low(k int) float64 { return slices.Max(c.knots[:k+1]) }

// First is the time of a pass of one token, Each that of each further token in a long one.
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

// Set sets the times of positions, as measured separately.
func (c *Cost) Set(attended, read time.Duration) {
	c.attended, c.read = max(float64(attended), 0), max(float64(read), 0)
}

// learn is the learning rate: the share of a deviation that is applied. One pass that
// was delayed by other work on the machine should not distort the next hundred.
const learn = 0.2

// Observe updates the model with the measured time of a pass.
func (c *Cost) Observe(s Shape, took time.Duration) {
	if s.Tokens <= 0 || took <= 0 {
		return
	}
	k, f := place(s.Tokens)
	at := k // the knot nearest to the pass
	if f >= 0.5 {
		at = k + 1
	}
	if !c.seen[at] {
		c.seed(at, max(float64(took)-c.positions(s), float64(took)/4)*float64(uint(1)<<at)/float64(s.Tokens))
		return
	}
	guess := c.tokens(s.Tokens) + c.positions(s)
	// The factor by which the estimate was wrong, clamped. A share of its logarithm is
	// applied, so that a knot stays positive and follows the median of observed times.
	wrong := math.Log(min(max(float64(took)/guess, 0.25), 4))
	low := c.low(k)
	c.knots[k] = low * math.Exp(learn*(1-f)*wrong)
	c.knots[k+1] = max(low, c.knots[k+1]) * math.Exp(learn*f*wrong)
	for i := range k { // fewer tokens do not take more: otherwise an outlier of theirs would persist
		c.knots[i] = min(c.knots[i], c.knots[k])
	}
	share := c.positions(s) / guess
	scale := math.Exp(learn / 2 * share * wrong)
	c.attended *= scale
	c.read *= scale
}

// seed sets a knot for the first time, and derives those not observed yet.
func (c *Cost) seed(at int, ns float64) {
	c.knots[at], c.seen[at] = ns, true
	for lo := -1; lo < knots; { // linear between two observed knots; outside, the last slope or none
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
