package convert

var t5Encoder = family{
	arch:   "t5encoder",
	names:  "T5EncoderModel UMT5EncoderModel",
	rules:  t5Ends.And(t5Halves("enc")),
	keys:   t5Keys,
	rename: t5Name,
	vocab:  t5Vocab,
	alike:  t5Shared,
}
