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

// NewBreakers returns the sequences that spell a text, whatever tokens it is cut into: a
// token that has the text inside breaks by itself, and one that ends with the beginning
// of the text does with the tokens of the rest. words are the texts of all tokens by id.
func NewBreakers(text string, words []string, encode func(string) []int32) *Breakers {
	b := &Breakers{map[int32][][]int32{}}
	if text == "" {
		return b
	}
	rests := map[int][]int32{} // by where the rest begins
	for id, word := range words {
		if strings.Contains(word, text) {
			b.add(int32(id), nil)
			continue
		}
		for n := min(len(word), len(text)-1); n > 0; n-- {
			if !strings.HasSuffix(word, text[:n]) {
				continue
			}
			rest, ok := rests[n]
			if !ok {
				rest = encode(text[n:])
				rest = rest[:min(len(rest), maxTail)]
				rests[n] = rest
			}
			b.add(int32(id), rest)
		}
	}
	return b
}

func (b *Breakers) add(id int32, tail []int32) {
	if !slices.ContainsFunc(b.tails[id], func(t []int32) bool { return slices.Equal(t, tail) }) {
		b.tails[id] = append(b.tails[id], tail)
	}
}

// JoinBreakers returns the sequences of all.
func JoinBreakers(all []*Breakers) *Breakers {
	if len(all) == 1 {
		return all[0]
	}
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
