package family

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/vocab"
)

// What families in common know of vocabularies, and the files of tokenizers do not say.

// noSpace is for tokenizers that put no space before a text.
func noSpace(_ *hf.Config, v *vocab.Vocabulary) {
	if v.Model == "llama" {
		v.Set("add_space_prefix", false)
	}
}

// noBOS is for tokenizers that do not begin texts with a token.
func noBOS(_ *hf.Config, v *vocab.Vocabulary) { v.SetAdd("bos", false) }

// glmVocab sets the tokens that end texts and turns.
func glmVocab(_ *hf.Config, v *vocab.Vocabulary) {
	end := slices.Index(v.Tokens, "<|endoftext|>")
	begin := slices.Index(v.Tokens, "[gMASK]")
	if begin < 0 {
		begin = end
	}
	set := func(name string, id int) {
		if id >= 0 {
			v.ReplaceSpecial(name, id)
		}
	}
	set("eos", end)
	set("eot", slices.Index(v.Tokens, "<|user|>"))
	set("unk", end)
	set("bos", begin)
}

// worldVocab is for RWKV's vocabulary: its first token begins and ends texts, and an empty line ends turns.
func worldVocab(_ *hf.Config, v *vocab.Vocabulary) {
	if v.Model != "rwkv" {
		return
	}
	v.ReplaceSpecial("bos", 0)
	v.ReplaceSpecial("eos", 0)
	v.ReplaceSpecial("eot", slices.Index(v.Tokens, `\n\n`))
}

// typesOfTexts sets how many types of text there are embeddings for.
func typesOfTexts(c *hf.Config, v *vocab.Vocabulary) {
	n := c.CountOr("type_vocab_size", 1)
	v.Set("token_type_count", uint32(n))
	if n > 1 {
		v.SetPairTypes()
	}
}
