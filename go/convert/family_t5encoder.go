package convert

import "slices"

var t5Encoder = family{
	arch:   "t5encoder",
	names:  "T5EncoderModel UMT5EncoderModel",
	rules:  slices.Concat(t5Ends, t5Halves("enc")),
	keys:   t5Keys,
	rename: t5Name,
	vocab:  t5Vocab,
	alike:  t5Shared,
}
