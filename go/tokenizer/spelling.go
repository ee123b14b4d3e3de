package tokenizer

import "bytes"

// A Spelling is a vocabulary as a way to write texts, for what has a text in two vocabularies.
type Spelling struct{ *Tokenizer }

// Text appends what ids say to dst: the beginning of a text, or what continues one. Control tokens have their names, but for BOS.
func (s Spelling) Text(dst []byte, ids []int32, begins bool) []byte {
	if begins && len(ids) > 0 && s.bos != none && ids[0] == s.bos {
		ids = ids[1:]
	}
	for i, id := range ids {
		piece := s.Piece(id, true)
		if i == 0 && begins && s.spacePrefix {
			piece = bytes.TrimPrefix(piece, []byte(" "))
		}
		dst = append(dst, piece...)
	}
	return dst
}

// IDs appends the ids of a text to dst: of one that begins, with the BOS that the model asks for, or of what continues one.
// Names of control tokens are read as such.
func (s Spelling) IDs(dst []int32, text []byte, begins bool) []int32 {
	if begins && s.addBOS {
		dst = append(dst, s.bos)
	}
	return append(dst, s.Encode(string(text), Options{NoSpecial: true, ParseSpecial: true, Continues: !begins})...)
}
