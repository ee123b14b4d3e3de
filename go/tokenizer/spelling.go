package tokenizer

import "bytes"

// A Spelling translates texts between two vocabularies, for a draft model with its own.
type Spelling struct{ *Tokenizer }

// Text appends the text of ids to dst: the beginning of a text, or a continuation. Control tokens are written
// by name, except BOS.
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

// IDs appends the ids of a text to dst: of a beginning, with the BOS that the model requires, or of a
// continuation. Names of control tokens are recognized.
func (s Spelling) IDs(dst []int32, text []byte, begins bool) []int32 {
	if begins && s.addBOS {
		dst = append(dst, s.bos)
	}
	return append(dst, s.Encode(string(text), Options{NoSpecial: true, ParseSpecial: true, Continues: !begins})...)
}
