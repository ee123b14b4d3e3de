package sample

import (
	"slices"
	"strings"
)

// Breakers are the sequences of tokens at which DRY ends repetitions. They are not
// changed once they are made, and may be shared. A nil *Breakers has none.
type Breakers struct {
	tails map[int32][][]int32 // what follows a first token; empty: the token suffices
}

// maxTail bounds the tokens of a breaker after its first.
const maxTail = 20

// breaker collects the sequences that spell a text, whatever tokens it is cut into: a
// token that has the text inside breaks by itself, and one that ends with the beginning
// of the text does with the tokens of the rest.
type breaker struct {
	Breakers
	text   string
	rests  map[int][]int32 // by where the rest begins
	encode func(text string) []int32
}

func newBreaker(text string, encode func(string) []int32) *breaker {
	return &breaker{Breakers{map[int32][][]int32{}}, text, map[int][]int32{}, encode}
}

// meet adds what begins with a token.
func (b *breaker) meet(id int32, word string) {
	if strings.Contains(word, b.text) {
		b.add(id, nil)
		return
	}
	for n := min(len(word), len(b.text)-1); n > 0; n-- {
		if !strings.HasSuffix(word, b.text[:n]) {
			continue
		}
		rest, ok := b.rests[n]
		if !ok {
			rest = b.encode(b.text[n:])
			rest = rest[:min(len(rest), maxTail)]
			b.rests[n] = rest
		}
		b.add(id, rest)
	}
}

func (b *Breakers) add(id int32, tail []int32) {
	if !slices.ContainsFunc(b.tails[id], func(t []int32) bool { return slices.Equal(t, tail) }) {
		b.tails[id] = append(b.tails[id], tail)
	}
}

func join(all []*Breakers) *Breakers {
	b := &Breakers{map[int32][][]int32{}}
	for _, one := range all {
		for id, tails := range one.tails {
			for _, tail := range tails {
				b.add(id, tail)
			}
		}
	}
	return b
}

// single tells whether the token is a breaker by itself.
func (b *Breakers) single(id int32) bool {
	return b != nil && slices.ContainsFunc(b.tails[id], func(t []int32) bool { return len(t) == 0 })
}

// distance returns how many tokens follow the last breaker, all of them if there is none.
func (b *Breakers) distance(tokens []int32) int {
	if b == nil || len(b.tails) == 0 {
		return len(tokens)
	}
	for i := len(tokens) - 1; i >= 0; i-- {
		longest := -1
		for _, tail := range b.tails[tokens[i]] {
			if len(tail) > longest && len(tail) < len(tokens)-i && slices.Equal(tail, tokens[i+1:i+1+len(tail)]) {
				longest = len(tail)
			}
		}
		if longest >= 0 {
			return len(tokens) - 1 - i - longest
		}
	}
	return len(tokens)
}
