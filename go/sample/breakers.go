package sample

import (
	"slices"
	"strings"
)

// Breakers are the sequences of tokens at which DRY ends repetitions. They are not
// changed once they are made, and may be shared. A nil *Breakers has none.
type Breakers struct {
	alone []uint64 // one bit for each token: it breaks by itself
	heads []head   // first tokens of longer sequences, in order of id
	tails [][]int32
}

// A head is the first token of a sequence; tail is the place of the others in tails.
type head struct{ id, tail int32 }

// maxTail bounds the tokens of a sequence after its first.
const maxTail = 20

// newBreakers returns the sequences that spell any of the texts, whatever tokens these
// are cut into: a token that has a text inside breaks by itself, and one that ends with
// the beginning of a text does with the tokens of the rest. word is the text of each of
// the n tokens.
func newBreakers(texts []string, n int, word func(id int32) string, encode func(text string) []int32) *Breakers {
	b := &Breakers{alone: make([]uint64, (n+63)/64)}
	rests := map[string]int32{} // places in tails
	for id := range int32(n) {
		spelled := word(id)
		for _, text := range texts {
			if strings.Contains(spelled, text) {
				b.alone[id/64] |= 1 << (id % 64)
				continue
			}
			for k := min(len(spelled), len(text)-1); k > 0; k-- {
				if !strings.HasSuffix(spelled, text[:k]) {
					continue
				}
				rest, ok := rests[text[k:]]
				if !ok {
					tail := encode(text[k:])
					rest = int32(len(b.tails))
					b.tails = append(b.tails, tail[:min(len(tail), maxTail)])
					rests[text[k:]] = rest
				}
				b.heads = append(b.heads, head{id, rest})
			}
		}
	}
	return b
}

// single tells whether the token is a breaker by itself.
func (b *Breakers) single(id int32) bool {
	return b != nil && int(id/64) < len(b.alone) && b.alone[id/64]>>(id%64)&1 != 0
}

// distance returns how many tokens follow the last breaker, all of them if there is none.
func (b *Breakers) distance(tokens []int32) int {
	if b == nil {
		return len(tokens)
	}
	for i := len(tokens) - 1; i >= 0; i-- {
		longest := -1
		if b.single(tokens[i]) {
			longest = 0
		}
		at, _ := slices.BinarySearchFunc(b.heads, tokens[i], func(h head, id int32) int { return int(h.id) - int(id) })
		for ; at < len(b.heads) && b.heads[at].id == tokens[i]; at++ {
			tail := b.tails[b.heads[at].tail]
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
