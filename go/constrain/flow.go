package constrain

import (
	"encoding/binary"
	"sort"
	"unicode/utf8"
	"unique"

	"github.com/quern-llm/quern/go/grammar"
)

// beyond is a proper, non-empty subset of the code points beyond ASCII, such as the letters: sorted ranges,
// the first and the last of each in 8 bytes. Equal ones are identical, so all grammars share their slices.
// The zero value is empty.
type beyond struct{ unique.Handle[string] }

// maxBeyond is the maximum number of ranges in a run: every Unicode category has fewer.
const maxBeyond = 2048

// addBeyond adds the non-ASCII code points of a class to a run that has none.
func (r *run) addBeyond(c grammar.Class) {
	b := make([]byte, 0, 8*min(len(c), maxBeyond))
	missing := rune(0x110000 - 0x800 - 0x80) // of all but the surrogates
	for _, x := range c {
		lo := max(x.Lo, 0x80)
		if lo > x.Hi {
			continue
		}
		missing -= x.Hi + 1 - lo - max(min(x.Hi, 0xDFFF)+1-max(lo, 0xD800), 0)
		b = binary.BigEndian.AppendUint32(b, uint32(lo))
		b = binary.BigEndian.AppendUint32(b, uint32(x.Hi))
	}
	switch {
	case missing == 0:
		r.rest = true
	case len(b) > 0 && len(b) <= 8*maxBeyond:
		r.beyond = beyond{unique.Make(string(b))}
	}
}

// some reports whether b contains a code point of a range.
func (b beyond) some(lo, hi rune) bool {
	if b == (beyond{}) {
		return false
	}
	s := b.Value()
	at := func(i int) rune {
		return rune(s[i])<<24 | rune(s[i+1])<<16 | rune(s[i+2])<<8 | rune(s[i+3])
	}
	i := sort.Search(len(s)/8, func(i int) bool { return at(8*i+4) >= lo })
	return 8*i < len(s) && at(8*i) <= hi
}

// class returns the ranges.
func (b beyond) class() (c grammar.Class) {
	if b == (beyond{}) {
		return nil
	}
	for s := []byte(b.Value()); len(s) > 0; s = s[8:] {
		c = append(c, grammar.Range{Lo: rune(binary.BigEndian.Uint32(s)), Hi: rune(binary.BigEndian.Uint32(s[4:]))})
	}
	return c
}

// A flow is the destination of a range of code points, or of their remaining bytes.
type flow struct {
	lo, hi rune
	to     int32
}

// flows computes the destinations of non-ASCII code points from the states of a dfa.
type flows struct {
	*dfa
	known map[midway]led
	kept  int // ranges
}

// maxFlows limits the ranges kept for all states of a dfa. Beyond it, states have no slices.
const maxFlows = 1 << 18

// A midway is a state inside a code point: the number of remaining bytes, the first of which is from lo to
// hi.
type midway struct {
	state  int32
	more   int
	lo, hi byte
}

type led struct {
	flows []flow
	stray bool // other bytes lead somewhere as well, or there are too many ranges
}

// from returns the destinations of code points from a state between two code points.
func (f *flows) from(state int32) (all led) {
	if f.kept > maxFlows {
		return led{stray: true}
	}
	for k, to := range f.row(state) {
		if to < 0 {
			continue
		}
		for b := max(int(f.first[k]), 0x80); b <= f.last(k); b++ {
			lo, hi, more := leads(byte(b))
			if more == 0 {
				all.stray = true
				continue
			}
			all.add(rune(b)&(0x3F>>more)<<(6*more), f.after(midway{to, more, lo, hi}))
		}
	}
	f.kept += len(all.flows)
	return all
}

// after returns the destinations of the remaining bytes of a code point.
func (f *flows) after(at midway) led {
	if known, ok := f.known[at]; ok {
		return known
	}
	var all led
	for k, to := range f.row(at.state) {
		if to < 0 {
			continue
		}
		lo, hi := max(int(f.first[k]), int(at.lo)), min(f.last(k), int(at.hi))
		all.stray = all.stray || int(f.first[k]) < int(at.lo) || f.last(k) > int(at.hi)
		if at.more == 1 && lo <= hi {
			all.add(0, led{flows: []flow{{rune(lo) & 0x3F, rune(hi) & 0x3F, to}}})
			continue
		}
		for b := lo; b <= hi; b++ {
			all.add(rune(b)&0x3F<<(6*(at.more-1)), f.after(midway{to, at.more - 1, 0x80, 0xBF}))
		}
	}
	if f.kept += len(all.flows); f.kept > maxFlows {
		all = led{stray: true}
	}
	f.known[at] = all
	return all
}

// add appends ranges.
func (l *led) add(base rune, more led) {
	l.stray = l.stray || more.stray
	for _, x := range more.flows {
		x.lo, x.hi = x.lo+base, x.hi+base
		if n := len(l.flows) - 1; n >= 0 && l.flows[n].to == x.to && l.flows[n].hi+1 == x.lo {
			l.flows[n].hi = x.hi
		} else if n+1 < maxBeyond {
			l.flows = append(l.flows, x)
		} else {
			l.stray = true
			break
		}
	}
}

// loop returns the code points that lead from a state to itself, and those with which no text continues.
func (f *flows) loop(n int32) (turns, dead run) {
	row := f.row(n)
	for b := range rune(utf8.RuneSelf) {
		switch row[f.classOf[b]] {
		case n:
			turns.add(b, b)
		case -1:
			dead.add(b, b)
		}
	}
	all := f.from(n)
	var c grammar.Class
	dead.rest = !all.stray
	for _, x := range all.flows {
		if x.to == n {
			c = append(c, grammar.Range{Lo: x.lo, Hi: x.hi})
		} else {
			dead.rest = false
		}
	}
	turns.addBeyond(c)
	return turns, dead
}
