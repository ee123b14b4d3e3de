package sched

import (
	"math"
	"slices"
	"sort"
	"time"
)

// A Shape is the properties of a pass that determine its time.
type Shape struct {
	Tokens   int
	Attended int // positions attended to, summed over tokens: the work of attention
	Read     int // positions, summed over sequences: the memory that attention reads
	Rows     int // of logits: one per sampled or verified token
	Branches int // branches; each has, beside its tokens, a KV block or a recurrent state of its own
}

// ShapeOf returns the shape of a pass of n tokens of a sequence, after `at` positions.
func ShapeOf(at, n int) Shape { return Shape{}.Add(at, n) }

// Add returns s with n tokens of another sequence added, after `at` positions of it.
func (s Shape) Add(at, n int) Shape {
	s.Read += at
	return s.extend(at, n)
}

// extend returns s with n more tokens of a sequence that is already in it.
func (s Shape) extend(at, n int) Shape {
	s.Tokens += n
	s.Attended += n*at + n*(n+1)/2
	s.Read += n
	return s
}

// Cost predicts the time of passes from the passes observed. It is the sum of: a time for the number of tokens,
// which is far from linear while memory bandwidth is the limit, so it is stored at some sizes and interpolated; a
// time per position attended to and per position read; a time per row of logits after the first, which tokens of
// prompts do not have; and a time per branch. The zero value has no observations and predicts zero.
type Cost struct {
	knots          [knots]float64 // ns of a pass, by number of tokens (see sizes), with one row of logits
	seen           [knots]bool
	attended, read float64      // ns per million positions
	row            float64      // ns per row of logits
	branch         float64      // ns per branch
	verified       int          // maximum tokens of an observed pass in which most have rows, as drafts do
	wrong          float64      // relative error of the estimate for the last pass with branches; > 0: it took longer
	trust          trust        // correction of the chances of drafts
	untried        int          // consecutive passes that could have had drafts and had none
	checks         [knots]check // of drafts, by the number of streams
}

// sizes are the numbers of tokens at which times are stored: each number that a few streams and their drafts add
// up to, since kernels process several tokens at a time and the curve has steps; then powers of two.
var sizes = [...]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 28, 32, 64, 128, 256, 512, 1024, 2048, 4096}

const (
	knots = len(sizes)
	most  = 4096 // the last of sizes
)

// place returns the knot at or below n tokens, and how far it is to the next.
func place(n int) (k int, f float64) {
	n = min(max(n, 1), most)
	k = min(sort.SearchInts(sizes[:], n+1)-1, knots-2)
	return k, float64(n-sizes[k]) / float64(sizes[k+1]-sizes[k])
}

// Estimate returns the time that a pass should take.
func (c *Cost) Estimate(s Shape) time.Duration {
	return time.Duration(min(c.tokens(s.Tokens)+c.beside(s), float64(longest)))
}

// longest is an upper bound on the time of a pass. It keeps sums of estimates from
// overflowing.
const longest = time.Hour

func (c *Cost) positions(s Shape) float64 {
	return c.attended*float64(s.Attended)/1e6 + c.read*float64(s.Read)/1e6
}

// beside is the time of a pass beside that for its number of tokens.
func (c *Cost) beside(s Shape) float64 {
	return c.positions(s) + c.rows(s) + c.branch*float64(s.Branches)
}

func (c *Cost) rows(s Shape) float64 { return c.row * float64(max(s.Rows-1, 0)) }

func (c *Cost) tokens(n int) float64 {
	if n <= 0 {
		return 0
	}
	k, f := place(n)
	low := c.low(k)
	t := low*(1-f) + max(low, c.knots[k+1])*f
	if over := n - most; over > 0 {
		t += float64(over) * float64(c.Each())
	}
	return t
}

// low is the time at knot k. It makes the curve monotonic: more tokens never take less
// time, even if passes of fewer were observed to be slow.
func (c *Cost) low(k int) float64 { return slices.Max(c.knots[:k+1]) }

// First is the time of a pass of one token. Each is the time per token of a long pass.
func (c *Cost) First() time.Duration { return time.Duration(c.knots[0]) }

func (c *Cost) Each() time.Duration {
	k := knots - 1
	for k > 0 && !c.seen[k] {
		k--
	}
	return time.Duration(min(c.knots[k]/float64(sizes[k]), float64(longest)))
}

// Prompt estimates the time of evaluating a prompt of n tokens alone, in passes of so many tokens at most. It grows
// faster than n: each token attends to all before it.
func (c *Cost) Prompt(n, pass int) (took time.Duration) {
	for at := 0; at < n; at += pass {
		took += c.Estimate(ShapeOf(at, min(pass, n-at)))
	}
	return took
}

// leastGauged is the minimum size, in tokens, of an observed pass for the cost of a few drafts to count as known.
const leastGauged = 4

// gauged returns the number of tokens of the largest observed pass among the small ones.
func (c *Cost) gauged() (n int) {
	for k := range c.seen[:16] {
		if c.seen[k] {
			n = sizes[k]
		}
	}
	return n
}

// largest returns the maximum tokens of a pass of so many streams with drafts: a quarter more than were observed.
// The time of a larger pass is extrapolated, or that of a prompt, and if it is wrong, one pass may lose more than
// several win.
func (c *Cost) largest(streams int) int {
	if c.verified == 0 { // no such pass was observed
		return most
	}
	return max(c.verified, streams, leastGauged) * 5 / 4
}

// Positions returns the time for a million positions attended to, and read.
func (c *Cost) Positions() (attended, read time.Duration) {
	return time.Duration(c.attended), time.Duration(c.read)
}

// Set sets the times of positions, as measured separately.
func (c *Cost) Set(attended, read time.Duration) {
	c.attended, c.read = max(float64(attended), 0), max(float64(read), 0)
}

// SetRow sets the time of a row of logits after the first, as measured separately.
func (c *Cost) SetRow(each time.Duration) { c.row = max(float64(each), 0) }

// Row is the time of a row of logits after the first.
func (c *Cost) Row() time.Duration { return time.Duration(min(c.row, float64(longest))) }

// learn is the learning rate: the share of a deviation that is applied. One pass that
// was delayed by other work on the machine should not distort the next hundred.
const learn = 0.2

const (
	// mostOff is the maximum factor by which a pass counts as slower or faster than expected. Other work on the
	// machine can make a single pass several times as long, which says nothing about the next one.
	mostOff = 1.6
	// mostWrong is the maximum part of a pass's time that is attributed to its branches.
	mostWrong = 0.5
	// forgetBranch is the decay of the time of a branch with each pass without branches: a cost that is never
	// tried is never corrected.
	forgetBranch = 0.998
)

// Observe updates the model with the measured time of a pass.
func (c *Cost) Observe(s Shape, took time.Duration) {
	if s.Tokens <= 0 || took <= 0 {
		return
	}
	if 2*s.Rows > s.Tokens {
		c.verified = max(c.verified, s.Tokens)
	}
	k, f := place(s.Tokens)
	at := k // the knot nearest to the pass
	if f >= 0.5 {
		at = k + 1
	}
	if !c.seen[at] {
		c.seed(at, max(float64(took)-c.beside(s), float64(took)/4)*float64(sizes[at])/float64(s.Tokens))
		return
	}
	guess := c.tokens(s.Tokens) + c.beside(s)
	if s.Branches > 0 {
		// The smaller of the errors of two consecutive such passes, if they have the same sign: branches win
		// little, so one outlier would disable them for long.
		wrong := min(max(float64(took)/guess-1, -mostWrong), mostWrong)
		if both := wrong * c.wrong; both > 0 {
			least := math.Copysign(min(math.Abs(wrong), math.Abs(c.wrong)), wrong)
			c.branch = max(c.branch+learn*least*guess/float64(s.Branches), 0)
		}
		c.wrong = wrong
		return
	}
	c.branch *= forgetBranch
	// The factor by which the estimate was wrong, clamped. A share of its logarithm is
	// applied, so that a knot stays positive and follows the median of observed times.
	wrong := math.Log(min(max(float64(took)/guess, 1/mostOff), mostOff))
	low := c.low(k)
	high := max(low, c.knots[k+1])
	adjust := func(knot *float64, to float64) {
		if wrong > 0 {
			*knot = to
		} else {
			*knot = min(*knot, to) // less, if the estimate was that of fewer tokens
		}
	}
	lower := low * math.Exp(learn*(1-f)*wrong)
	adjust(&c.knots[k], lower)
	if f > 0 {
		adjust(&c.knots[k+1], high*math.Exp(learn*f*wrong))
	}
	for i := range k { // fewer tokens do not take more: otherwise an outlier of theirs would persist
		c.knots[i] = min(c.knots[i], lower)
	}
	c.derive()
	share := c.positions(s) / guess
	scale := math.Exp(learn / 2 * share * wrong)
	c.attended *= scale
	c.read *= scale
	c.row *= math.Exp(learn / 2 * c.rows(s) / guess * wrong)
}

// seed sets a knot for the first time.
func (c *Cost) seed(at int, ns float64) {
	c.knots[at], c.seen[at] = ns, true
	c.derive()
}

// derive sets the knots that were not observed yet by those that were.
func (c *Cost) derive() {
	for lo := -1; lo < knots; { // linear between two observed knots; outside, the last slope or none
		hi := lo + 1
		for hi < knots && !c.seen[hi] {
			hi++
		}
		for i := lo + 1; i < hi; i++ {
			switch {
			case lo >= 0 && hi < knots:
				w := float64(sizes[i]-sizes[lo]) / float64(sizes[hi]-sizes[lo])
				c.knots[i] = c.knots[lo] + w*(c.knots[hi]-c.knots[lo])
			case lo >= 0:
				c.knots[i] = c.knots[lo] * float64(sizes[i]) / float64(sizes[lo])
			default:
				c.knots[i] = c.knots[hi]
			}
		}
		lo = hi
	}
}
