package convert

import (
	"reflect"
	"testing"
)

// The heads that align follow from the sizes of OpenAI's models, are in their layers, and are none of other sizes.
func TestAlignedHeads(t *testing.T) {
	for _, a := range alignedHeads {
		s := whisperSizes{TextLayer: a.layers, TextState: a.width, Mels: a.bands, Vocab: englishVocab + 2}
		if a.english {
			s.Vocab = englishVocab
		}
		if got := s.heads(); !reflect.DeepEqual(got, a.heads) {
			t.Errorf("%+v: %v", s, got)
		}
		for i := 0; i < len(a.heads); i += 2 {
			if a.heads[i] >= uint32(a.layers) || a.heads[i+1] >= uint32(a.width/64) || i > 1 && a.heads[i] < a.heads[i-2] {
				t.Errorf("%+v: head %d of layer %d", s, a.heads[i+1], a.heads[i])
			}
		}
	}
	if large := (&whisperSizes{TextLayer: 32, TextState: 1280, Mels: 80, Vocab: englishVocab + 1}).heads(); large != nil {
		t.Errorf("the first or the second large model has %v", large)
	}
}
