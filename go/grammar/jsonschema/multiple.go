package jsonschema

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
)

// maxRemainders bounds multipleOf: a rule is made for each remainder that matters before so many digits, and from which they
// lead to a multiple. Powers of 2 and 5 in the divisor matter for the last digits alone.
const maxRemainders = 1 << 14

// multiples returns the multiples of m within bounds, with as many digits after the point
// as m has, or fewer.
func (c *compiler) multiples(m *big.Rat, lo, hi *bound) (grammar.Expr, error) {
	places, exact := m.FloatPrec()
	if !exact || places > maxDigits {
		return nil, fmt.Errorf("%s has too many digits", m.RatString())
	}
	out := grammar.Alt{}
	for n := range places + 1 {
		scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
		// Of the numbers with n places, the i/scale that m divides.
		step := lcm(new(big.Rat).Mul(m, scale), big.NewRat(1, 1)).Num()
		d := digits{c: c, places: n}
		if step.IsInt64() && step.Int64() < math.MaxInt32 {
			d.modulus = int(step.Int64())
		}
		if d.modulus == 0 || d.remainders() > maxRemainders {
			return nil, fmt.Errorf("%s is too large: want a step of at most 1000, or one with more factors of 2 and 5, as 3600, 65536 and 86400 have", m.RatString())
		}
		d.last = n
		for d.rest(d.last+1) < d.rest(d.last) {
			d.last++
		}
		scaled := func(b *bound, sign int64) *bound {
			return whole(&bound{new(big.Rat).Mul(b.at, scale), b.open}, sign)
		}
		e := signed(scaled(lo, 1), scaled(hi, -1), func(lo, hi *bound) grammar.Expr {
			return d.between(whole(lo, 1).at.Num(), whole(hi, -1).at.Num(), 0)
		})
		if d.err != nil {
			return nil, d.err
		}
		out = append(out, e)
	}
	return out, nil
}

// digits makes expressions of integers written with digits, that a modulus divides and
// with a point before the last places.
type digits struct {
	c       *compiler
	modulus int
	places  int
	last    int                    // the last digits decide the part of the modulus that divides powers of 10; the digits before count modulo the rest
	rules   map[[3]int]grammar.Ref // by digits left, at least and at most, and remainder
	err     error                  // the rules are too many
}

// remainders returns about how many matter, by digits left.
func (d *digits) remainders() int {
	all, n, texts := 0, 1, 10
	for ; d.rest(n+1) < d.rest(n); n++ {
		all += min(d.rest(n), d.rest(n)*texts/d.modulus+1)
		texts = min(texts*10, d.modulus)
	}
	return all + d.rest(n)*maxDigits
}

// leads reports whether some n digits lead from a remainder to a multiple: the least that are missing are few enough.
func (d *digits) leads(n, rem int) bool {
	texts := 1
	for range n {
		if rem, texts = d.step(rem, '0'), texts*10; texts >= d.modulus {
			return true
		}
	}
	return (d.modulus-rem)%d.modulus < texts
}

// between returns the numbers from lo to hi, of any number of digits.
func (d *digits) between(lo, hi *big.Int, rem int) grammar.Expr {
	out := grammar.Alt{}
	for n := max(len(lo.String()), d.places+1); n <= max(len(hi.String()), d.places+1); n++ {
		least := "1" + strings.Repeat("0", n-1)
		if n == d.places+1 {
			least = strings.Repeat("0", n)
		}
		from, to := pad(lo, n), strings.Repeat("9", n)
		if len(hi.String()) <= n {
			to = pad(hi, n)
		}
		if len(lo.String()) < n || from < least {
			from = max(from, least)
		}
		if from == least && strings.Trim(to, "9") == "" && n > d.places+1 {
			last := n // this number of digits or more
			for last+1 < len(hi.String()) || last+1 == len(hi.String()) && strings.Trim(hi.String(), "9") == "" {
				last++
			}
			out = append(out, d.all(n-1-d.places, last-1-d.places, rem))
			n = last
		} else if from <= to {
			out = append(out, d.same(from, to, rem))
		}
	}
	return out
}

// all returns the numbers that begin with a digit other than 0 and have some more before the point.
func (d *digits) all(least, most, rem int) grammar.Expr {
	if d.modulus == 1 {
		return grammar.Seq{grammar.NewClass(grammar.Range{Lo: '1', Hi: '9'}), grammar.Repeat{Expr: digit, Min: least, Max: most}, d.free(d.places, 0)}
	}
	var out grammar.Alt
	last := d.last - d.places
	for ; least < last && least <= most; least++ {
		out = append(out, d.digit('1', rem, least+d.places, d.free))
	}
	if least <= most {
		out = append(out, d.digit('1', rem, d.last, func(_, rem int) grammar.Expr { return d.span(least-last, most-last, rem) }))
	}
	return out
}

// digit returns a digit, from one on, before n others or more, and what follows it by the remainder that it leaves.
func (d *digits) digit(from byte, rem, n int, then func(n, rem int) grammar.Expr) grammar.Alt {
	var out grammar.Alt
	at := map[int]int{} // by remainder
	var classes [][]grammar.Range
	for x := from; x <= '9'; x++ {
		to := d.step(rem, x) % d.rest(n)
		i, ok := at[to]
		if !ok {
			i = len(out)
			at[to] = i
			out = append(out, then(n, to))
			classes = append(classes, nil)
		}
		classes[i] = append(classes[i], grammar.Range{Lo: rune(x), Hi: rune(x)})
	}
	for i, c := range classes {
		out[i] = grammar.Seq{grammar.NewClass(c...), out[i]}
	}
	return out
}

// rest returns the modulus less what of it divides 10^n. Before n digits or more, remainders by it are all that matters of a number.
func (d *digits) rest(n int) int {
	m := d.modulus
	for _, prime := range []int{2, 5} {
		for i := 0; i < n && m%prime == 0; i++ {
			m /= prime
		}
	}
	return m
}

// span returns all texts of some digits before the last ones, and those, with which the modulus divides the number: a state of theirs
// leads to one by each digit.
func (d *digits) span(least, most, rem int) grammar.Expr {
	if most == 0 {
		return d.free(d.last, rem)
	}
	return d.rule([3]int{least + d.last, most + d.last, rem}, func() grammar.Alt {
		out := grammar.Alt{}
		if least == 0 {
			out = append(out, d.free(d.last, rem))
		}
		return append(out, d.digit('0', rem, d.last, func(_, rem int) grammar.Expr { return d.span(max(least-1, 0), most-1, rem) })...)
	})
}

// rule returns the rule of a key, which is made once.
func (d *digits) rule(key [3]int, of func() grammar.Alt) grammar.Expr {
	if r, ok := d.rules[key]; ok {
		return r
	}
	if len(d.c.g.Rules) > maxRules {
		d.err = fmt.Errorf("the schema makes more than %d rules", maxRules)
	}
	if d.err != nil {
		return grammar.Alt{}
	}
	e := of()
	if d.err != nil {
		return grammar.Alt{}
	}
	r := d.c.g.Add(fmt.Sprintf("multiple-%d-%d-%d", key[0], key[1], key[2]), e)
	if d.rules == nil {
		d.rules = map[[3]int]grammar.Ref{}
	}
	d.rules[key] = r
	return r
}

func pad(i *big.Int, n int) string {
	s := i.String()
	return strings.Repeat("0", max(n-len(s), 0)) + s
}

// same returns the numbers between two of as many digits, where those before left rem.
func (d *digits) same(lo, hi string, rem int) grammar.Expr {
	n := len(lo)
	if strings.Trim(lo, "0") == "" && strings.Trim(hi, "9") == "" {
		return d.free(n, rem)
	}
	out := grammar.Alt{}
	for x := lo[0]; x <= hi[0]; x++ {
		if d.modulus == 1 && x > lo[0] && x < hi[0] { // those between are all alike
			between := grammar.Class{{Lo: rune(x), Hi: rune(hi[0] - 1)}}
			out = append(out, grammar.Seq{d.point(n), between, d.free(n-1, 0)})
			x = hi[0] - 1
			continue
		}
		from, to := strings.Repeat("0", n-1), strings.Repeat("9", n-1)
		if x == lo[0] {
			from = lo[1:]
		}
		if x == hi[0] {
			to = hi[1:]
		}
		out = append(out, grammar.Seq{d.point(n), grammar.Lit(string(rune(x))), d.same(from, to, d.step(rem, x))})
	}
	return out
}

func (d *digits) step(rem int, x byte) int { return (rem*10 + int(x-'0')) % d.modulus }

// point is what comes before the last n digits.
func (d *digits) point(n int) grammar.Expr {
	if n == d.places && n > 0 {
		return grammar.Lit(".")
	}
	return grammar.Lit("")
}

// free returns all texts of n digits with which the modulus divides the number.
func (d *digits) free(n, rem int) grammar.Expr {
	rem %= d.rest(n)
	switch {
	case !d.leads(n, rem):
		return grammar.Alt{}
	case n == 0 && rem == 0:
		return grammar.Lit("")
	case n == 0:
		return grammar.Alt{}
	case d.modulus == 1 && n > d.places && d.places > 0:
		return grammar.Seq{grammar.Repeat{Expr: digit, Min: n - d.places, Max: n - d.places}, d.free(d.places, 0)}
	case d.modulus == 1:
		return grammar.Seq{d.point(n), grammar.Repeat{Expr: digit, Min: n, Max: n}}
	}
	return d.rule([3]int{n, n, rem}, func() grammar.Alt {
		return grammar.Alt{grammar.Seq{d.point(n), d.digit('0', rem, n-1, d.free)}}
	})
}
