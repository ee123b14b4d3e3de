package family

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var bart = lang.Family{
	Arch:       "bart",
	Names:      "BartForConditionalGeneration",
	Rules:      bartRules(learnedPositions),
	Keys:       bartKeys,
	Rename:     bartName,
	Change:     bartKind,
	Vocab:      bartVocab,
	Fixed:      bartFixed.And(lang.Fixed{{"normalize_before add_final_layer_norm", "false"}, {"normalize_embedding", "true"}}),
	Tied:       true,
	Activation: "gelu",
}

var mbart = lang.Family{
	Arch:       "mbart",
	Names:      "MBartForConditionalGeneration",
	Rules:      bartRules(learnedPositions),
	Keys:       bartKeys,
	Rename:     bartName,
	Change:     bartKind,
	Vocab:      mbartVocab,
	Fixed:      bartFixed.And(lang.Fixed{{"normalize_before add_final_layer_norm normalize_embedding", "true"}}),
	Tied:       true,
	Activation: "gelu",
}

var pegasus = lang.Family{
	Arch:       "pegasus",
	Names:      "PegasusForConditionalGeneration",
	Rules:      bartRules(nil),
	Keys:       bartKeys,
	Rename:     bartName,
	Change:     bartKind,
	Finish:     sinusoids,
	Vocab:      bartVocab,
	Fixed:      bartFixed.And(lang.Fixed{{"normalize_before add_final_layer_norm", "true"}, {"normalize_embedding", "false"}}),
	Tied:       true,
	Activation: "gelu",
}

var marian = lang.Family{
	Arch:       "marian",
	Names:      "MarianMTModel",
	Rules:      bartRules(nil),
	Keys:       bartKeys,
	Rename:     bartName,
	Change:     bartKind,
	Finish:     sinusoids,
	Vocab:      bartVocab,
	Fixed:      bartFixed.And(lang.Fixed{{"normalize_before add_final_layer_norm normalize_embedding", "false"}, {"share_encoder_decoder_embeddings", "true"}}),
	Tied:       true,
	Activation: "gelu",
}

// bartFixed is what has one value in all models of this kind: older configurations have switches that transformers no
// longer reads.
var bartFixed = lang.Fixed{{"is_decoder", "false"}, {"add_cross_attention", "false"}, {"is_encoder_decoder", "true"}}

// learnedPositions are tables that begin with two rows which nothing is at.
var learnedPositions = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	rows, each := v.Rows()
	if rows < 2 {
		return lang.View{}, fmt.Errorf("%d rows, want those of positions behind two", rows)
	}
	return v.Strided(2*each, lang.Dim{rows - 2, each}, lang.Dim{each, 1}), nil
})

// bartRules are the rules of an encoder and a decoder. positions is what is done to their tables of positions.
func bartRules(positions lang.Op) lang.Rules {
	rules := lang.Rules{
		{"shared", "token_embd", nil},
		{"encoder.embed_tokens", "token_embd", nil},
		{"encoder.layernorm_embedding", "enc.token_embd_norm", nil},
		{"decoder.layernorm_embedding", "dec.token_embd_norm", nil},
		{"encoder.layer_norm", "enc.output_norm", nil},
		{"decoder.layer_norm", "dec.output_norm", nil},
		{"lm_head", "output", nil},
		{"final_logits_bias", "output.bias", lang.Flat},
		{"dec.encoder_attn.q_proj", "dec.blk.#.cross_attn_q", nil},
		{"dec.encoder_attn.k_proj", "dec.blk.#.cross_attn_k", nil},
		{"dec.encoder_attn.v_proj", "dec.blk.#.cross_attn_v", nil},
		{"dec.encoder_attn.out_proj", "dec.blk.#.cross_attn_o", nil},
		{"dec.encoder_attn_layer_norm", "dec.blk.#.cross_attn_norm", nil},
	}
	for _, half := range [][2]string{{"encoder", "enc"}, {"decoder", "dec"}} {
		side, blk := half[1]+".", half[1]+".blk.#."
		rules = append(rules, lang.Rules{
			{half[0] + ".embed_positions", side + "position_embd", positions},
			{side + "self_attn.q_proj", blk + "attn_q", nil},
			{side + "self_attn.k_proj", blk + "attn_k", nil},
			{side + "self_attn.v_proj", blk + "attn_v", nil},
			{side + "self_attn.out_proj", blk + "attn_o", nil},
			{side + "self_attn_layer_norm", blk + "attn_norm", nil},
			{side + "fc1", blk + "ffn_up", nil},
			{side + "fc2", blk + "ffn_down", nil},
			{side + "final_layer_norm", blk + "ffn_norm", nil},
		}...)
	}
	return rules
}

// bartName puts the side of a layer behind its number.
func bartName(_ *hf.Config, name string) string {
	for _, half := range [][2]string{{"encoder", "enc"}, {"decoder", "dec"}} {
		if rest, ok := strings.CutPrefix(name, "model."+half[0]+".layers."); ok {
			number, tail, _ := strings.Cut(rest, ".")
			return "layers." + number + "." + half[1] + "." + tail
		}
	}
	return name
}

// bartKind is the family with the sizes under the names that most have for them. Where the embeddings are not the
// output matrix, encoder and decoder may have tables of their own.
func bartKind(c *hf.Config, f *lang.Family) *lang.Family {
	for name, own := range map[string]string{"num_hidden_layers": "encoder_layers", "hidden_size": "d_model",
		"num_attention_heads": "encoder_attention_heads", "intermediate_size": "encoder_ffn_dim"} {
		c.Put(name, c.Value(own))
	}
	const heads = "decoder_attention_heads"
	if n := c.Count("encoder_attention_heads"); c.CountOr(heads, n) != n {
		c.Fail("%s is %d, want %d as in the encoder", heads, c.Count(heads), n)
	}
	if n := c.Count("vocab_size"); c.CountOr("decoder_vocab_size", n) != n {
		c.Fail("decoder_vocab_size is %d, want %d as vocab_size: two vocabularies are not supported",
			c.Count("decoder_vocab_size"), n)
	}
	kind := *f
	own := ""
	kind.Alike = "model.shared.weight model.encoder.embed_tokens.weight"
	if !c.FlagOr("tie_word_embeddings", true) {
		own, kind.Alike = "dec.token_embd", "model.encoder.embed_tokens.weight model.shared.weight"
	}
	kind.Rules = lang.Rules{{"decoder.embed_tokens", own, nil}}.And(f.Rules)
	return &kind
}

// bartKeys sets what encoder and decoder have in common, and what answers begin with.
func bartKeys(k *lang.Keys) {
	k.F("attention.layer_norm_epsilon", 1e-5)
	k.N("decoder_block_count", k.Count("decoder_layers"))
	if n := k.CountOr("decoder_ffn_dim", 0); n > 0 && n != k.Count("encoder_ffn_dim") {
		k.N("quern.decoder.feed_forward_length", n)
	}
	if k.Flag("scale_embedding") {
		k.F("embedding_scale", math.Sqrt(float64(k.Count("d_model"))))
	}
	start, ok := generation(k.Config, "decoder_start_token_id")
	if !ok { // then it is the one that begins texts
		start = k.Count("bos_token_id")
	}
	k.N("decoder_start_token_id", start)
	if forced, ok := generation(k.Config, "forced_bos_token_id"); ok {
		k.N("quern.forced_bos_token_id", forced)
	}
}

// generation returns the number of a token of generation_config.json, or else of config.json, and whether there is one.
func generation(c *hf.Config, name string) (id int, ok bool) {
	if c.Exists("generation_config.json") {
		g, err := hf.ReadFile(filepath.Join(filepath.Dir(c.Path()), "generation_config.json"))
		if err != nil {
			c.Fail("%v", err)
			return 0, false
		}
		if g.Has(name) {
			id := g.Count(name)
			c.Take(g)
			return id, true
		}
	}
	return c.CountOr(name, 0), c.Has(name)
}

// sinusoids makes the tables of positions of encoder and decoder (Vaswani et al. 2017), which only some checkpoints have:
// sines, and behind them cosines.
func sinusoids(d *lang.Draft, k *lang.Keys) {
	n, width := uint64(k.Count("max_position_embeddings")), uint64(k.Count("d_model"))
	half := (width + 1) / 2
	table := lang.View{Shape: []uint64{n, width}, Read: func(dst []float32, at uint64) error {
		for i := range dst {
			position, channel, wave := (at+uint64(i))/width, (at+uint64(i))%width, math.Sin
			if channel >= half {
				wave, channel = math.Cos, channel-half
			}
			dst[i] = float32(wave(float64(position) / math.Pow(10000, 2*float64(channel)/float64(width))))
		}
		return nil
	}}
	for _, name := range []string{"enc.position_embd.weight", "dec.position_embd.weight"} {
		if d.Target(name) == nil {
			d.Targets = append(d.Targets, &lang.Target{Name: name, View: table, Dims: []uint64{width, n}})
		}
	}
}

// bartVocab sets which tokens are never generated: in Marian's models it is the one for padding, which answers begin
// with.
func bartVocab(c *hf.Config, v *vocab.Vocabulary) {
	if v.Special("bos") < 0 {
		v.SetAdd("bos", false)
	}
	v.SetAdd("eos", true)
	var never []int32
	for _, word := range generationList(c, "bad_words_ids") {
		ids, _ := word.([]any)
		if len(ids) != 1 {
			continue // a token is refused alone, not what follows another
		}
		if id, ok := hf.AsCount(ids[0]); ok {
			never = append(never, int32(id))
		}
	}
	if never != nil {
		v.Set("suppress_tokens", never)
	}
}

// generationList returns a list of generation_config.json, or else of config.json.
func generationList(c *hf.Config, name string) []any {
	if c.Exists("generation_config.json") {
		g, err := hf.ReadFile(filepath.Join(filepath.Dir(c.Path()), "generation_config.json"))
		if err == nil && g.Has(name) {
			return g.List(name)
		}
	}
	return c.List(name)
}

// mbartVocab is bartVocab where a text's end is no token of a language, which tokenizers put there or at its beginning: it
// is part of the prompt.
func mbartVocab(c *hf.Config, v *vocab.Vocabulary) {
	bartVocab(c, v)
	v.SetAdd("bos", false)
}
