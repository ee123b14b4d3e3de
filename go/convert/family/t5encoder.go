package family

import "github.com/quern-llm/quern/go/convert/lang"

var t5Encoder = lang.Family{
	Arch:   "t5encoder",
	Names:  "T5EncoderModel UMT5EncoderModel",
	Rules:  t5Ends.And(t5Halves("enc")),
	Keys:   t5Keys,
	Rename: t5Name,
	Vocab:  t5Vocab,
	Alike:  t5Shared,
	Fixed:  t5Fixed,

	Activation: "gelu_new",
}
