package vocab

import "testing"

// FuzzPieces reads SentencePiece models that are anything.
func FuzzPieces(f *testing.F) {
	f.Add([]byte{10, 9, 10, 2, 'a', 'b', 21, 0, 0, 128, 63, 18, 2, 24, 2})
	f.Add([]byte{10, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parsePieces(b)
		if err == nil && len(m.pieces) == 0 {
			t.Error("no pieces, and no error")
		}
	})
}
