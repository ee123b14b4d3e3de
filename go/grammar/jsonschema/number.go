package jsonschema

import (
	"math/big"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
)

// numbers is what numbers may be.
type numbers struct {
	integer, fraction bool // only integers; only others
	lo, hi            *bound
	multiple          *big.Rat // nil: any
	in                []*value // nil: any
	only              bool     // in counts, though it may be empty
}

// A bound of a range; open excludes the bound itself.
type bound struct {
	at   *big.Rat
	open bool
}

// maxDigits is how many digits are written before and after the point where nothing asks
// for more: as many as a float64 keeps. To the letter it is mostDigits.
const (
	maxDigits  = 16
	mostDigits = 64
)

// longest bounds the digits of a schema's numbers.
const longest = 400

// rational returns the number as it is written.
func rational(v *value) (*big.Rat, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(v.text), "e")
	if v.kind != '0' || len(mantissa) > longest || len(strings.TrimLeft(exponent, "+-0")) > 3 {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(v.text)
	return r, ok && len(r.Num().String()) <= longest && len(r.Denom().String()) <= longest
}

func (n *numbers) has(v *value) bool {
	r, ok := rational(v)
	switch {
	case !ok:
		return false
	case n.integer && !r.IsInt(), n.fraction && r.IsInt():
		return false
	case n.lo != nil && (r.Cmp(n.lo.at) < 0 || n.lo.open && r.Cmp(n.lo.at) == 0):
		return false
	case n.hi != nil && (r.Cmp(n.hi.at) > 0 || n.hi.open && r.Cmp(n.hi.at) == 0):
		return false
	case n.multiple != nil && !new(big.Rat).Quo(r, n.multiple).IsInt():
		return false
	}
	return true
}

// merge adds what m says.
func (n *numbers) merge(m numbers) {
	n.integer, n.fraction = n.integer || m.integer, n.fraction || m.fraction
	n.lo, n.hi = tighter(n.lo, m.lo, 1), tighter(n.hi, m.hi, -1)
	switch {
	case n.multiple == nil:
		n.multiple = m.multiple
	case m.multiple != nil:
		n.multiple = lcm(n.multiple, m.multiple)
	}
	if m.only {
		if n.only {
			var both []*value
			for _, v := range n.in {
				for _, w := range m.in {
					if equal(v, w) {
						both = append(both, v)
						break
					}
				}
			}
			m.in = both
		}
		n.in, n.only = m.in, true
	}
}

// count returns how many numbers there are; nil where there is no bound.
func (n *numbers) count() *big.Int {
	if n.only {
		return big.NewInt(int64(len(n.in)))
	}
	step := n.multiple
	if n.integer {
		if step = big.NewRat(1, 1); n.multiple != nil {
			step = lcm(n.multiple, step)
		}
	}
	if step == nil || n.lo == nil || n.hi == nil {
		return nil
	}
	lo := whole(&bound{new(big.Rat).Quo(n.lo.at, step), n.lo.open}, 1).at.Num()
	hi := whole(&bound{new(big.Rat).Quo(n.hi.at, step), n.hi.open}, -1).at.Num()
	many := new(big.Int).Sub(hi, lo)
	return many.Add(many, big.NewInt(1))
}

func tighter(a, b *bound, sign int) *bound {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	if c := a.at.Cmp(b.at) * sign; c > 0 || c == 0 && a.open {
		return a
	}
	return b
}

// lcm is the least number that both divide.
func lcm(a, b *big.Rat) *big.Rat {
	d := new(big.Int).Mul(a.Denom(), b.Denom())
	x := new(big.Int).Mul(a.Num(), b.Denom())
	y := new(big.Int).Mul(b.Num(), a.Denom())
	g := new(big.Int).GCD(nil, nil, x, y)
	return new(big.Rat).SetFrac(x.Div(x.Mul(x, y), g), d)
}

// settle drops the values that cannot be, and reports whether any can.
func (n *numbers) settle() bool {
	if n.integer && n.fraction {
		return false
	}
	if n.only {
		var in []*value
		for _, v := range n.in {
			if n.has(v) {
				in = append(in, v)
			}
		}
		n.in = in
		return len(in) > 0
	}
	if n.integer {
		n.lo, n.hi = whole(n.lo, 1), whole(n.hi, -1)
	}
	if n.lo == nil || n.hi == nil {
		return true
	}
	c := n.lo.at.Cmp(n.hi.at)
	return c < 0 || c == 0 && !n.lo.open && !n.hi.open
}

// whole moves a bound inwards to an integer; sign is 1 for the lower one.
func whole(b *bound, sign int64) *bound {
	if b == nil {
		return nil
	}
	i := floor(b.at)
	if sign > 0 && !b.at.IsInt() {
		i.Add(i, big.NewInt(1))
	}
	if b.open && b.at.IsInt() {
		i.Add(i, big.NewInt(sign))
	}
	return &bound{at: new(big.Rat).SetInt(i)}
}

func floor(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	_ = m // DivMod rounds down, as the denominator is positive
	return q
}

var digit = grammar.Class{{Lo: '0', Hi: '9'}}

func optional(e grammar.Expr) grammar.Expr { return grammar.Repeat{Expr: e, Min: 0, Max: 1} }

// integerExpr and numberExpr are those without bounds, of so many digits before the point.
func integerExpr(digits int) grammar.Expr {
	more := grammar.Repeat{Expr: digit, Min: 0, Max: digits - 1}
	return grammar.Seq{optional(grammar.Lit("-")), grammar.Alt{grammar.Lit("0"), grammar.Seq{grammar.Class{{Lo: '1', Hi: '9'}}, more}}}
}

func numberExpr(digits int) grammar.Expr {
	exponent := grammar.Seq{grammar.Runes("eE"), optional(grammar.Runes("+-")), grammar.Repeat{Expr: digit, Min: 1, Max: 2}}
	return grammar.Seq{integerExpr(digits), pointExpr, optional(exponent)}
}

var pointExpr = optional(grammar.Seq{grammar.Lit("."), grammar.Repeat{Expr: digit, Min: 1, Max: maxDigits}})

// digits is how many digits numbers have before the point, where nothing asks for more and none is counted.
func (c *compiler) digits() int {
	if c.opts.Exact {
		return mostDigits
	}
	return maxDigits
}

// number returns the texts of the numbers.
func (c *compiler) number(n numbers) (grammar.Expr, error) {
	switch {
	case n.only:
		out := grammar.Alt{}
		for _, v := range n.in {
			out = append(out, grammar.Lit(v.text))
		}
		return out, nil
	case n.lo == nil && n.hi == nil && n.multiple == nil && !n.fraction:
		if n.integer {
			return c.shared("integer", c.whole(integerExpr(c.digits()))), nil
		}
		return c.shared("number", numberExpr(c.digits())), nil
	}
	if n.integer && n.multiple == nil {
		n.multiple = big.NewRat(1, 1)
	} else if n.integer {
		n.multiple = lcm(n.multiple, big.NewRat(1, 1))
	}
	digits := maxDigits
	if n.multiple == nil {
		digits = c.digits()
	}
	lo, hi := n.closed(digits)
	var e grammar.Expr
	if n.multiple != nil {
		var err error
		if e, err = c.multiples(n.multiple, lo, hi); err != nil {
			return nil, err
		}
	} else {
		e = signed(lo, hi, func(lo, hi *bound) grammar.Expr { return reals(lo, hi) })
	}
	if n.integer {
		return c.whole(e), nil
	}
	if n.fraction { // not an integer, with or without zeros after the point
		ints := grammar.Seq{grammar.Repeat{Expr: grammar.Runes("-0123456789"), Min: 0, Max: -1}, optional(grammar.Seq{grammar.Lit("."), grammar.Repeat{Expr: grammar.Runes("0"), Min: 0, Max: -1}})}
		e = grammar.And{e, grammar.Not{Expr: ints}}
	}
	return e, nil
}

// whole returns the texts of integers: to the letter, 1.0 is one.
func (c *compiler) whole(e grammar.Expr) grammar.Expr {
	if !c.opts.Exact {
		return e
	}
	return grammar.Seq{e, optional(grammar.Seq{grammar.Lit("."), zeros})}
}

// zeros are what follows the point of an integer.
var zeros = grammar.Repeat{Expr: grammar.Lit("0"), Min: 1, Max: maxDigits}

// closed returns the bounds, and where one is missing or far out one that leaves the other
// and numbers of so many digits.
func (n *numbers) closed(least int) (lo, hi *bound) {
	most := func(other *bound) *bound {
		digits := least
		if other != nil {
			digits = max(digits, len(new(big.Int).Abs(floor(other.at)).String())+1)
		}
		r := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
		return &bound{at: new(big.Rat).SetInt(r), open: true}
	}
	lo, hi = n.lo, n.hi
	zero := new(big.Rat)
	top := most(lo)
	if lo != nil && lo.at.Cmp(zero) < 0 {
		top = most(nil)
	}
	bottom := most(hi)
	if hi != nil && hi.at.Cmp(zero) > 0 {
		bottom = most(nil)
	}
	bottom.at.Neg(bottom.at)
	return tighter(lo, bottom, 1), tighter(hi, top, -1)
}

// signed puts a range together from what is below 0 and what is not.
func signed(lo, hi *bound, positive func(lo, hi *bound) grammar.Expr) grammar.Expr {
	zero := new(big.Rat)
	var out grammar.Alt
	if lo.at.Cmp(zero) < 0 {
		from := &bound{at: zero, open: true}
		if hi.at.Cmp(zero) < 0 {
			from = &bound{at: new(big.Rat).Neg(hi.at), open: hi.open}
		}
		out = append(out, grammar.Seq{grammar.Lit("-"), positive(from, &bound{at: new(big.Rat).Neg(lo.at), open: lo.open})})
		lo = &bound{at: zero}
	}
	if c := hi.at.Cmp(zero); c > 0 || c == 0 && !hi.open {
		out = append(out, positive(lo, hi))
	}
	return out
}

// reals returns the decimals between two bounds that are not negative.
func reals(lo, hi *bound) grammar.Expr {
	first, last := floor(lo.at), floor(hi.at)
	if first.Cmp(last) == 0 {
		return grammar.Seq{grammar.Lit(first.String()), point(lo, hi)}
	}
	out := grammar.Alt{grammar.Seq{grammar.Lit(first.String()), point(lo, nil)}}
	one := big.NewInt(1)
	from, to := new(big.Int).Add(first, one), new(big.Int).Sub(last, one)
	if from.Cmp(to) <= 0 {
		d := digits{modulus: 1}
		out = append(out, grammar.Seq{d.between(from, to, 0), pointExpr})
	}
	return append(out, grammar.Seq{grammar.Lit(last.String()), point(nil, hi)})
}

// point returns what may follow the integer part of a bound: nothing, or a point and
// digits. A nil bound does not bind.
func point(lo, hi *bound) grammar.Expr {
	f := fraction{left: maxDigits}
	if lo != nil {
		f.lo, f.above, f.loOpen = decimals(lo.at), true, lo.open
	}
	if hi != nil {
		f.hi, f.below, f.hiOpen = decimals(hi.at), true, hi.open
	}
	f.left = max(f.left, len(f.lo)+1, len(f.hi)+1)
	out := grammar.Alt{}
	if f.mayEnd() {
		out = append(out, grammar.Lit(""))
	}
	return append(out, grammar.Seq{grammar.Lit("."), f.digits(true)})
}

// decimals returns the digits after the point; a number in JSON has a finite number.
func decimals(r *big.Rat) string {
	f := new(big.Rat).Sub(r, new(big.Rat).SetInt(floor(r)))
	n, _ := f.FloatPrec()
	_, text, _ := strings.Cut(f.FloatString(n), ".")
	return strings.TrimRight(text, "0")
}

// A fraction is the digits that may follow others after a point. above says that those
// before are the lower bound's, so that lo, the rest of its digits, still binds.
type fraction struct {
	lo, hi         string
	above, below   bool
	loOpen, hiOpen bool
	left           int // digits at most
}

// mayEnd reports whether the digits before are a number in the range.
func (f fraction) mayEnd() bool {
	return !(f.above && (f.lo != "" || f.loOpen)) && !(f.below && f.hi == "" && f.hiOpen)
}

func (f fraction) digits(first bool) grammar.Expr {
	if f.above && f.lo == "" && !f.loOpen {
		f.above = false // zeros without end
	}
	if !f.above && !f.below {
		least := 0
		if first {
			least = 1
		}
		return grammar.Repeat{Expr: digit, Min: least, Max: f.left}
	}
	out := grammar.Alt{}
	if !first && f.mayEnd() {
		out = append(out, grammar.Lit(""))
	}
	if f.left == 0 {
		return out
	}
	lo, hi := byte('0'), byte('9')
	if f.above && f.lo != "" {
		lo = f.lo[0]
	}
	if f.below {
		if hi = '0'; f.hi != "" {
			hi = f.hi[0]
		}
	}
	next := func(above, below bool) fraction {
		n := f
		n.left--
		n.lo, n.hi = f.lo[min(1, len(f.lo)):], f.hi[min(1, len(f.hi)):]
		n.above, n.below = above, below
		return n
	}
	var free grammar.Class
	for d := lo; d <= hi; d++ {
		above, below := f.above && d == lo, f.below && d == hi
		if !above && !below {
			free = append(free, grammar.Range{Lo: rune(d), Hi: rune(d)})
			continue
		}
		out = append(out, grammar.Seq{grammar.Lit(string(rune(d))), next(above, below).digits(false)})
	}
	if len(free) > 0 {
		out = append(out, grammar.Seq{grammar.NewClass(free...), next(false, false).digits(false)})
	}
	return out
}
