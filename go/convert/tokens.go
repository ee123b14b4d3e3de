package convert

import "slices"

// What the files of tokenizers do not say, and several families have in common.

// noSpace is for vocabularies that put no space before a text.
func noSpace(_ *config, v *vocabulary) {
	if v.model == "llama" {
		v.setMore("add_space_prefix", false)
	}
}

func noBOS(_ *config, v *vocabulary) { v.setAdd("bos", false) }

// glmVocab sets the tokens that end texts and turns.
func glmVocab(_ *config, v *vocabulary) {
	end := slices.Index(v.tokens, "<|endoftext|>")
	begin := slices.Index(v.tokens, "[gMASK]")
	if begin < 0 {
		begin = end
	}
	set := func(name string, id int) {
		if id >= 0 {
			v.replaceSpecial(name, id)
		}
	}
	set("eos", end)
	set("eot", slices.Index(v.tokens, "<|user|>"))
	set("unk", end)
	set("bos", begin)
}

// worldVocab is for vocabularies of RWKV: the first token begins and ends texts, and an empty line ends turns.
func worldVocab(_ *config, v *vocabulary) {
	if v.model != "rwkv" {
		return
	}
	v.replaceSpecial("bos", 0)
	v.replaceSpecial("eos", 0)
	v.replaceSpecial("eot", slices.Index(v.tokens, `\n\n`))
}

// typesOfTexts sets how many kinds of texts there are embeddings of.
func typesOfTexts(c *config, v *vocabulary) {
	v.setMore("token_type_count", uint32(c.countOr("type_vocab_size", 1)))
}
