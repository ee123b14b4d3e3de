package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// rwkv is the vocabulary of RWKV World: encoding takes the longest token from left to right. Tokens are byte
// strings, spelled in files as Python literals.
type rwkv struct {
	prefixes
	unk int32
}

// newRWKV builds the vocabulary from the bytes of the tokens.
func newRWKV(r *reader, t *Tokenizer, unk int32) *rwkv {
	index := make(map[string]int32, len(t.tokens))
	for i, typ := range t.types {
		id := int32(i)
		text := string(t.Piece(id, true))
		if typ != Normal || text == "" {
			continue
		}
		if first, twice := index[text]; twice {
			r.fail("%stokens has %q twice, as %d and %d", prefix, text, first, id)
		}
		index[text] = id
	}
	return &rwkv{newPrefixes(r, index), unk}
}

func (m *rwkv) encode(dst []int32, text string, s *scratch) []int32 {
	for text != "" && !s.over(dst, "") {
		id, size := m.unk, 1
		m.each(text, func(i, n int) { id, size = m.ids[i], n })
		if id != none {
			dst = append(dst, id)
		}
		text = text[size:]
	}
	return dst
}

func (m *rwkv) perID() int {
	bytes := 0 // that are tokens
	for _, text := range m.texts {
		if len(text) == 1 {
			bytes++
		}
	}
	if bytes < 256 && m.unk == none {
		return 0
	}
	return m.prefixes.longest()
}

// appendUnescaped appends the bytes of a Python literal.
func appendUnescaped(dst []byte, text string) ([]byte, error) {
	for {
		plain, rest, escaped := strings.Cut(text, `\`)
		dst = append(dst, plain...)
		switch {
		case !escaped:
			return dst, nil
		case rest == "":
			return nil, errors.New(`it ends in \`)
		}
		text = rest[1:]
		switch c := rest[0]; c {
		case 't':
			dst = append(dst, '\t')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 'x':
			if len(text) < 2 {
				return nil, errors.New(`it ends in \x`)
			}
			b, err := strconv.ParseUint(text[:2], 16, 8)
			if err != nil {
				return nil, fmt.Errorf(`\x%s is no byte`, text[:2])
			}
			dst, text = append(dst, byte(b)), text[2:]
		case '\\', '\'', '"':
			dst = append(dst, c)
		default:
			return nil, fmt.Errorf(`\%c is no escape`, c)
		}
	}
}
