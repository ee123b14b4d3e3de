package convert

var t5Encoder = Family{
	Arch:   "t5encoder",
	Names:  "T5EncoderModel UMT5EncoderModel",
	Rules:  t5Ends.And(t5Halves("enc")),
	Keys:   t5Keys,
	Rename: t5Name,
	Vocab:  t5Vocab,
	Alike:  t5Shared,
}
