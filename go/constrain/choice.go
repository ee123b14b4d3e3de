package constrain

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Bounds of a list of choices. A mask takes as many lookups as there are bytes, in
// the worst case, times the length of the longest token.
const (
	MaxChoices     = 4096
	MaxChoiceBytes = 64 << 10 // of all together
)

// choice tracks a text that must be one of several. It is a walk down the trie of the
// choices: as they are sorted, those that remain possible are a contiguous range.
type choice struct {
	v     *Vocabulary
	texts []string
	ends  []int32
	stuck [][]bool // of each text: positions at which no tokens spell the rest; nil: none
	place
	past []place
}

// A place is a position in the walk.
type place struct {
	from, to int // range of the texts that remain possible
	at       int // bytes
	ended    bool
}

// Choice restricts a text to one of several, spelled with any tokens. A complete one is
// followed by a token that ends the text. Without ends, or if the vocabulary has none,
// the text is complete there, unless it is a prefix of another choice: then that is
// chosen.
func Choice(v *Vocabulary, texts []string, ends bool) (Constraint, error) {
	if len(texts) == 0 || len(texts) > MaxChoices {
		return nil, fmt.Errorf("%d choices, want 1 to %d", len(texts), MaxChoices)
	}
	total := 0
	for _, t := range texts {
		if total += len(t); t == "" {
			return nil, errors.New("a choice is empty, want a text")
		}
	}
	if total > MaxChoiceBytes {
		return nil, fmt.Errorf("the choices have %d bytes, want at most %d", total, MaxChoiceBytes)
	}
	c := &choice{v: v, texts: slices.Compact(slices.Sorted(slices.Values(texts)))}
	c.to = len(c.texts)
	if ends {
		c.ends = v.ends
	}
	for i, t := range c.texts {
		stuck := v.stuck(t)
		if stuck == nil {
			continue
		}
		if stuck[0] {
			return nil, fmt.Errorf("the model has no tokens to spell the choice %.40q", t)
		}
		if c.stuck == nil {
			c.stuck = make([][]bool, len(c.texts))
		}
		c.stuck[i] = stuck
	}
	return c, nil
}

// stuck returns at which bytes of a text no tokens spell the rest; nil is at none,
// which is so wherever each byte is a token.
func (v *Vocabulary) stuck(text string) []bool {
	bytes := true
	for i := range len(text) {
		bytes = bytes && v.ids[text[i:i+1]] != nil
	}
	if bytes {
		return nil
	}
	stuck := make([]bool, len(text)+1)
	for i := len(text) - 1; i >= 0; i-- {
		stuck[i] = true
		for n := 1; n <= min(v.longest, len(text)-i) && stuck[i]; n++ {
			stuck[i] = stuck[i+n] || v.ids[text[i:i+n]] == nil
		}
	}
	return stuck
}

func (c *choice) Mask(next Set) {
	if c.ended {
		return
	}
	if len(c.texts[c.from]) == c.at { // the shortest comes first
		for _, id := range c.ends {
			next.Add(id)
		}
	}
	last := ""
	for i := c.from; i < c.to; i++ {
		rest := c.texts[i][c.at:]
		for n := 1; n <= min(c.v.longest, len(rest)); n++ {
			switch {
			case c.stuck == nil && strings.HasPrefix(last, rest[:n]): // already handled
			case c.stuck == nil || c.stuck[i] == nil || !c.stuck[i][c.at+n]:
				for _, id := range c.v.ids[rest[:n]] {
					next.Add(id)
				}
			}
		}
		last = rest
	}
}

func (c *choice) Accept(id int32) bool {
	to := c.place
	piece := string(c.v.piece(id))
	switch {
	case c.ended:
		return false
	case slices.Contains(c.ends, id):
		if len(c.texts[c.from]) != c.at {
			return false
		}
		to.ended = true
	case piece == "":
		return false
	default:
		rest := func(i int) string { return c.texts[i][c.at:] }
		to.from += sort.Search(c.to-c.from, func(i int) bool { return rest(c.from+i) >= piece })
		to.to = to.from + sort.Search(c.to-to.from, func(i int) bool { return !strings.HasPrefix(rest(to.from+i), piece) })
		if to.at += len(piece); !c.spells(to) {
			return false
		}
	}
	c.past = append(c.past, c.place)
	c.place = to
	return true
}

// spells tells whether tokens spell the rest of a text that is left.
func (c *choice) spells(p place) bool {
	for i := p.from; i < p.to; i++ {
		if c.stuck == nil || c.stuck[i] == nil || !c.stuck[i][p.at] {
			return true
		}
	}
	return false
}

func (c *choice) Rollback(n int) {
	if n > 0 {
		c.place = c.past[len(c.past)-n]
		c.past = c.past[:len(c.past)-n]
	}
}

func (c *choice) Fork() Constraint {
	f := *c
	f.past = slices.Clone(c.past)
	return &f
}
