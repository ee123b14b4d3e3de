package sample

import (
	"fmt"
	"sync"
)

// Tokens is the vocabulary of a tokenizer.
type Tokens interface {
	Len() int
	Detokenize(ids []int32, special bool) string
	EncodePart(text string) []int32      // a part of a text
	Piece(id int32, special bool) []byte // the bytes of a token
	IsEOG(id int32) bool                 // whether it ends the text
	EOS() (id int32, ok bool)
}

// A Vocabulary is what samplers have to know of a model's tokens. It is safe for
// concurrent use.
type Vocabulary struct {
	tokens Tokens
	mu     sync.Mutex
	known  map[string]*Breakers // by their texts
}

// NewVocabulary returns a Vocabulary of these tokens.
func NewVocabulary(tokens Tokens) *Vocabulary {
	return &Vocabulary{tokens: tokens, known: map[string]*Breakers{}}
}

// DefaultBreakers are the texts at which DRY ends repetitions in llama.cpp.
var DefaultBreakers = []string{"\n", ":", "\"", "*"}

// Limits of breakers: each is looked for in all tokens.
const (
	MaxBreakers      = 32
	MaxBreakerLength = 40 // bytes
)

// maxKnown is how many sets of breakers are kept. One of the worst kind takes a few MiB.
const maxKnown = 8

// Breakers returns the sequences of tokens that spell any of the texts, each not empty.
func (v *Vocabulary) Breakers(texts []string) *Breakers {
	key := fmt.Sprintf("%q", texts)
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.known[key]; b != nil {
		return b
	}
	one := make([]int32, 1)
	b := newBreakers(texts, v.tokens.Len(), func(id int32) string {
		one[0] = id
		return v.tokens.Detokenize(one, true)
	}, v.tokens.EncodePart)
	if len(v.known) == maxKnown {
		clear(v.known)
	}
	v.known[key] = b
	return b
}

// Infill returns what the infill sampler needs; nil if no token ends a text.
func (v *Vocabulary) Infill() *Infill {
	end, ok := v.tokens.EOS()
	if !ok {
		return nil
	}
	piece := func(id int32) []byte { return v.tokens.Piece(id, false) }
	return &Infill{Piece: piece, Ends: v.tokens.IsEOG, End: end}
}
