package pdf

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// A span is what the numbers from low to high say.
type span[T any] struct {
	low, high int
	says      T
	cut       int // how many of its numbers are before low, in another span
}

// ranges are spans. Once they are apart, in their order, one is found in halves: a file may have as many as there are codes in it.
type ranges[T any] []span[T]

// apart returns ranges in their order, none of which is over another. Of those that are, that which begins last is valid, and of
// those that begin together the shorter one, and then the first: so exceptions are.
func (r ranges[T]) apart() ranges[T] {
	slices.SortStableFunc(r, func(a, b span[T]) int { return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.high, a.high)) })
	var all, open ranges[T] // open are those that have begun; the last is valid
	from := 0               // numbers before are done
	put := func(s span[T], last int) {
		if from = max(from, s.low); from <= last {
			all = append(all, span[T]{from, last, s.says, from - s.low})
			from = last + 1
		}
	}
	before := func(low int) {
		for len(open) > 0 {
			last := open[len(open)-1]
			put(last, min(last.high, low-1))
			if last.high >= low {
				return
			}
			open = open[:len(open)-1]
		}
	}
	for i, s := range r {
		if s.high < s.low || i > 0 && s.low == r[i-1].low && s.high == r[i-1].high {
			continue
		}
		before(s.low)
		open = append(open, s)
	}
	before(math.MaxInt)
	return all
}

// at returns what a number says, and how many numbers it is after the first that says it.
func (r ranges[T]) at(n int) (says T, after int, ok bool) {
	i := sort.Search(len(r), func(i int) bool { return r[i].high >= n })
	if i == len(r) || r[i].low > n {
		return says, 0, false
	}
	return r[i].says, n - r[i].low + r[i].cut, true
}
