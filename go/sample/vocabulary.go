package sample

import "sync"

// Tokens is a vocabulary, as a tokenizer has it.
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
	known  map[string]*Breakers // by text
}

// NewVocabulary returns a Vocabulary of these tokens.
func NewVocabulary(tokens Tokens) *Vocabulary {
	return &Vocabulary{tokens: tokens, known: map[string]*Breakers{}}
}

// DefaultBreakers are the texts at which DRY ends repetitions in llama.cpp.
var DefaultBreakers = []string{"\n", ":", "\"", "*"}

// Limits of breakers: each is looked for in all tokens.
const (
	MaxBreakers      = 64
	MaxBreakerLength = 40 // bytes
)

const maxKnown = 256 // texts of breakers whose sequences are kept

// Breakers returns the sequences of tokens that spell any of the texts, each not empty.
func (v *Vocabulary) Breakers(texts []string) *Breakers {
	v.mu.Lock()
	defer v.mu.Unlock()
	var missing []*breaker
	for _, text := range texts {
		if v.known[text] == nil {
			b := newBreaker(text, v.tokens.EncodePart)
			missing = append(missing, b)
		}
	}
	if len(missing) > 0 {
		for id := range int32(v.tokens.Len()) {
			word := v.tokens.Detokenize([]int32{id}, true)
			for _, b := range missing {
				b.meet(id, word)
			}
		}
	}
	all := make([]*Breakers, 0, len(texts))
	for _, text := range texts {
		if b := v.known[text]; b != nil {
			all = append(all, b)
		}
	}
	if len(v.known)+len(missing) > maxKnown {
		clear(v.known)
	}
	for _, b := range missing {
		v.known[b.text] = &b.Breakers
		all = append(all, &b.Breakers)
	}
	return join(all)
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
