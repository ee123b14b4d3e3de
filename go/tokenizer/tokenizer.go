// Package tokenizer converts text to token ids and back, with the vocabulary of a GGUF file. It supports
// SentencePiece-style vocabularies with scores ("llama") and with probabilities ("t5", Unigram), byte-level
// BPE ("gpt2") with the pre-tokenizers of the model families that use it, BPE in SentencePiece's spelling
// ("gemma4") or of words whose separators are discarded ("whitespace"), WordPiece ("bert"), greedy longest
// match ("rwkv"), and PLaMo 2's ("plamo2").
//
// Encoding never fails: text without a token becomes the unknown token, or nothing if there is none. Its
// worst-case time is O(n log n) in the bytes of the text. New validates the vocabulary completely.
//
// The package reads metadata through a small interface and imports no other package of this module.
package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Metadata is the source of a vocabulary. Value returns the value of a key: a string, bool, float or integer
// of any width, or a slice of one of these.
type Metadata interface {
	Value(key string) (any, bool)
}

// TokenType is the kind of a token, with GGUF's numbers.
type TokenType int32

// The types of tokens. A vocabulary entry without a type is Normal.
const (
	Normal      TokenType = 1 // a piece of text
	Unknown     TokenType = 2 // stands for what the vocabulary cannot spell
	Control     TokenType = 3 // structure, such as the end of a turn; not text
	UserDefined TokenType = 4 // text that is always one token
	Unused      TokenType = 5 // padding of the vocabulary
	Byte        TokenType = 6 // one byte, spelled <0xXX>
)

// String returns the name of the type.
func (t TokenType) String() string {
	names := [...]string{"undefined", "normal", "unknown", "control", "user-defined", "unused", "byte"}
	if t < 0 || int(t) >= len(names) {
		return fmt.Sprintf("TokenType(%d)", int32(t))
	}
	return names[t]
}

// none marks a special token that a vocabulary does not have.
const none int32 = -1

// A Tokenizer is one vocabulary. It is immutable and safe for concurrent use.
type Tokenizer struct {
	tokens []string // by id, as spelled in the file
	types  []TokenType
	pieces []byte   // what each token prints, end to end
	ends   []uint32 // end of each token's bytes in pieces

	model model

	bos, eos       int32
	addBOS, addEOS bool
	afterBOS       []int32 // tokens that Encode puts between BOS and a text
	afterEOS       []int32 // and behind EOS
	spacePrefix    bool    // a space goes before each plain text: at the start and after special tokens
	eog            []int32

	controls *specials // everything but plain text
	defined  *specials // only what is always one token
	stripped map[int32]bool

	hash    func() string // see Hash
	longest int           // bytes of text that an id stands for at most; 0: no bound
	scratch chan *scratch // that are not in use, at most as many as can run
}

// model is an algorithm that encodes plain text without special tokens.
type model interface {
	// encode appends the ids of text to dst, or some of them once s is over.
	encode(dst []int32, text string, s *scratch) []int32
	// perID returns how many bytes of plain text an id stands for at most; 0: no bound, since some texts have none.
	perID() int
}

// Options changes what Encode does. The zero value encodes plain text as a whole prompt: with the BOS and EOS
// tokens that the model requires, and without recognizing control tokens in it.
type Options struct {
	NoSpecial    bool // add neither BOS nor EOS
	ParseSpecial bool // texts of control tokens become their ids
	Continues    bool // the text follows another: no space is put before it

	// Literal are ranges of the text, in order, in which ParseSpecial does not apply: no control token overlaps one.
	Literal [][2]int
}

// Encode returns the ids of text. Bytes that are not UTF-8 are kept if the vocabulary can spell them.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	ids, _ := t.EncodeUpTo(0, text, o)
	return ids
}

// EncodeUpTo is Encode for a text that is of no use if it has more ids than `most`, unless that is 0. Such a text
// is not encoded to its end, if at all: there are no ids then, and least is a number above `most` that the text has
// at least. Else least is the number of the ids.
func (t *Tokenizer) EncodeUpTo(most int, text string, o Options) (ids []int32, least int) {
	room := len(text)/4 + 2
	if most > 0 {
		if least := atLeast(text, t.longest); least > most {
			return nil, least
		}
		room = min(room, most+2+len(t.afterBOS)+len(t.afterEOS))
	}
	s := t.take()
	defer t.give(s)
	s.most, s.longest, s.least = most, t.longest, 0

	ids = make([]int32, 0, room)
	if t.addBOS && !o.NoSpecial {
		ids = append(append(ids, t.bos), t.afterBOS...)
	}
	special := t.defined
	if o.ParseSpecial {
		special = t.controls
	}
	special.cut(text, literal{ranges: o.Literal, always: t.defined.ids}, t.stripped, func(plain string, id int32) bool {
		if id != none {
			ids = append(ids, id)
			return !s.over(ids, "")
		}
		if t.spacePrefix && !o.Continues {
			plain = " " + plain
		}
		ids = t.model.encode(ids, plain, s)
		return !s.over(ids, "")
	})
	if t.addEOS && !o.NoSpecial {
		ids = append(append(ids, t.eos), t.afterEOS...)
	}
	if s.least > 0 || s.over(ids, "") {
		return nil, s.least
	}
	return ids, len(ids)
}

// take returns a scratch that nobody else uses.
func (t *Tokenizer) take() *scratch {
	select {
	case s := <-t.scratch:
		return s
	default:
		return new(scratch)
	}
}

// give keeps a scratch for the next text, or drops it if there are enough.
func (t *Tokenizer) give(s *scratch) {
	s.trim()
	select {
	case t.scratch <- s:
	default:
	}
}

// EncodePart returns the ids of a part of a text: without BOS or EOS.
func (t *Tokenizer) EncodePart(text string) []int32 { return t.Encode(text, Options{NoSpecial: true}) }

// Lead returns the tokens that Encode puts before a text: BOS and what follows it, if it adds BOS.
func (t *Tokenizer) Lead() []int32 {
	if !t.addBOS {
		return nil
	}
	return append([]int32{t.bos}, t.afterBOS...)
}

// Begin returns ids as the beginning of a text: an empty list becomes what Encode puts before one, or BOS, if there is one; if
// there are two BOS, the template's and Encode's, Encode's and what follows it is removed.
func (t *Tokenizer) Begin(ids []int32) []int32 {
	bos, ok := t.BOS()
	if !ok {
		return ids
	}
	lead := t.Lead()
	switch n := len(lead); {
	case len(ids) == 0 && n == 0:
		return []int32{bos}
	case len(ids) == 0:
		return lead
	case n > 0 && len(ids) > n && slices.Equal(ids[:n], lead) && ids[n] == bos:
		return ids[n:]
	}
	return ids
}

// Detokenize returns the text of ids. Control and unknown tokens are written if special is set, and omitted
// otherwise. If ids begin with BOS they are a whole text, and the space that Encode inserted is removed;
// other ids are a continuation and keep theirs. Ids outside the vocabulary are omitted.
func (t *Tokenizer) Detokenize(ids []int32, special bool) string {
	var text []byte
	if len(ids) > 0 && ids[0] == t.bos && t.bos != none {
		text = append(text, t.Piece(ids[0], special)...)
		ids = ids[1:]
		if t.spacePrefix && len(ids) > 0 {
			text = append(text, bytes.TrimPrefix(t.Piece(ids[0], special), []byte(" "))...)
			ids = ids[1:]
		}
	}
	for _, id := range ids {
		text = append(text, t.Piece(id, special)...)
	}
	return string(text)
}

// Piece returns the bytes of one token: possibly a part of a character, possibly none. Control and unknown
// tokens have bytes only if special is set. The caller must not change the bytes.
func (t *Tokenizer) Piece(id int32, special bool) []byte {
	if !t.valid(id) {
		return nil
	}
	if typ := t.types[id]; !special && (typ == Control || typ == Unknown) {
		return nil
	}
	start := uint32(0)
	if id > 0 {
		start = t.ends[id-1]
	}
	end := t.ends[id]
	return t.pieces[start:end:end]
}

// Hash returns a hash of the vocabulary: of all tokens, as they are spelled, and their types. Ids mean the same where it is the
// same.
func (t *Tokenizer) Hash() string { return t.hash() }

// hashOf is the function of Hash.
func (t *Tokenizer) hashOf() string {
	h := sha256.New()
	for i, token := range t.tokens {
		fmt.Fprintf(h, "%d %q\n", t.types[i], token)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Len returns the number of tokens.
func (t *Tokenizer) Len() int { return len(t.tokens) }

// BOS returns the token that begins a text, if there is one.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos != none }

// EOS returns the token that ends a text, if there is one.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos != none }

// Kept returns how many tokens of a prompt are kept if n are requested, not counting those of Lead; -1 is all.
func (t *Tokenizer) Kept(n int) int {
	if n >= 0 {
		n += len(t.Lead())
	}
	return n
}

// AddBOS reports whether Encode adds BOS to a text.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// AddEOS reports whether Encode adds EOS to a text.
func (t *Tokenizer) AddEOS() bool { return t.addEOS }

// EOG returns the tokens that end a generation, in ascending order: EOS, and end-of-turn and end-of-message
// tokens.
func (t *Tokenizer) EOG() []int32 { return append([]int32(nil), t.eog...) }

// IsEOG reports whether id ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool {
	for _, e := range t.eog {
		if e == id {
			return true
		}
	}
	return false
}

// Token returns a token as the vocabulary spells it, or "" for an id outside of it.
func (t *Tokenizer) Token(id int32) string {
	if !t.valid(id) {
		return ""
	}
	return t.tokens[id]
}

// TokenType returns the type of a token, or 0 for an id outside the vocabulary.
func (t *Tokenizer) TokenType(id int32) TokenType {
	if !t.valid(id) {
		return 0
	}
	return t.types[id]
}

func (t *Tokenizer) valid(id int32) bool { return id >= 0 && int(id) < len(t.tokens) }
