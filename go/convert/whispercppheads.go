package convert

import "slices"

// headsOf are heads of models of some sizes.
type headsOf struct {
	layers, width, bands int32
	english              bool
	heads                []uint32
}

// alignedHeads are the heads whose attention follows what is said, as generation_config.json of OpenAI's checkpoints has them: a
// layer and a head each, by layers of the decoder, width, bands of the spectrum, and whether other languages than English are known.
// Files of whisper.cpp do not have them. The first and second large models have the same sizes and other heads, so none are known.
var alignedHeads = []headsOf{
	{4, 384, 80, true, []uint32{1, 0, 2, 0, 2, 5, 3, 0, 3, 1, 3, 2, 3, 3, 3, 4}},
	{4, 384, 80, false, []uint32{2, 2, 3, 0, 3, 2, 3, 3, 3, 4, 3, 5}},
	{6, 512, 80, true, []uint32{3, 3, 4, 7, 5, 1, 5, 5, 5, 7}},
	{6, 512, 80, false, []uint32{3, 1, 4, 2, 4, 3, 4, 7, 5, 1, 5, 2, 5, 4, 5, 6}},
	{12, 768, 80, true, []uint32{6, 6, 7, 0, 7, 3, 7, 8, 8, 2, 8, 5, 8, 7, 9, 0, 9, 4, 9, 8, 9, 10, 10, 0, 10, 1, 10, 2, 10, 3, 10, 6, 10, 11, 11, 2, 11, 4}},
	{12, 768, 80, false, []uint32{5, 3, 5, 9, 8, 0, 8, 4, 8, 7, 8, 8, 9, 0, 9, 7, 9, 9, 10, 5}},
	{24, 1024, 80, true, []uint32{11, 4, 14, 1, 14, 12, 14, 14, 15, 4, 16, 0, 16, 4, 16, 9, 17, 12, 17, 14, 18, 7, 18, 10, 18, 15, 20, 0, 20, 3, 20, 9, 20, 14, 21, 12}},
	{24, 1024, 80, false, []uint32{13, 15, 15, 4, 15, 15, 16, 1, 20, 0, 23, 4}},
	{32, 1280, 128, false, []uint32{7, 0, 10, 17, 12, 18, 13, 12, 16, 1, 17, 14, 19, 11, 21, 4, 24, 1, 25, 6}},
	{4, 1280, 128, false, []uint32{2, 4, 2, 11, 3, 3, 3, 6, 3, 11, 3, 14}},
}

// heads returns those of a model of these sizes; nil: they are not known.
func (s *whisperSizes) heads() []uint32 {
	i := slices.IndexFunc(alignedHeads, func(a headsOf) bool {
		return a.layers == s.TextLayer && a.width == s.TextState && a.bands == s.Mels && a.english == (s.Vocab == englishVocab)
	})
	if i < 0 {
		return nil
	}
	return alignedHeads[i].heads
}
