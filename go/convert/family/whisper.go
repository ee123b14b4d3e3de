package family

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/vocab"
)

var whisper = lang.Family{
	Arch:  "whisper",
	Names: "WhisperForConditionalGeneration",
	Rules: lang.Rules{
		{"encoder.conv1.weight", "enc.conv1d.1.weight", tapsBeside},
		{"encoder.conv1.bias", "enc.conv1d.1.bias", nil},
		{"encoder.conv2.weight", "enc.conv1d.2.weight", tapsBeside},
		{"encoder.conv2.bias", "enc.conv1d.2.bias", nil},
		{"proj_out", "output", nil},
	}.And(bartRules(nil)),
	Keys:       whisperKeys,
	Rename:     bartName,
	Change:     whisperKind,
	Vocab:      whisperVocab,
	Fixed:      bartFixed.And(lang.Fixed{{"scale_embedding", "false"}}),
	Tied:       true,
	Activation: "gelu",
}

// whisperKind is bart's, with an embedding that only the decoder has.
func whisperKind(c *hf.Config, f *lang.Family) *lang.Family {
	kind := bartKind(c, f)
	kind.Alike = ""
	kind.Rules = lang.Rules{{"decoder.embed_tokens", "token_embd", nil}}.And(f.Rules)
	return kind
}

func whisperKeys(k *lang.Keys) {
	k.F("attention.layer_norm_epsilon", 1e-5)
	k.N("decoder_block_count", k.Count("decoder_layers"))
	if n := k.CountOr("decoder_ffn_dim", 0); n > 0 && n != k.Count("encoder_ffn_dim") {
		k.N("quern.decoder.feed_forward_length", n)
	}
	k.N("context_length", k.Count("max_target_positions"))
	k.N("encoder.context_length", k.Count("max_source_positions"))
	k.N("num_mel_bins", k.Count("num_mel_bins"))
	var heads []uint32
	for _, pair := range generationList(k.Config, "alignment_heads") {
		list, _ := pair.([]any)
		if len(list) != 2 {
			k.Fail("alignment_heads has %.40v, want pairs of a layer and a head", pair)
		}
		heads = append(heads, k.Integers("alignment_heads", list)...)
	}
	if heads != nil {
		k.Ns("quern.alignment_heads", heads)
	}
}

// whisperVocab names the tokens of times, which tokenizers may leave out, and sets what is never generated. Texts are
// framed by whoever transcribes.
func whisperVocab(c *hf.Config, v *vocab.Vocabulary) {
	v.SetAdd("bos", false)
	v.SetAdd("eos", false)
	if end := slices.Index(v.Tokens, "<|endoftext|>"); end >= 0 {
		v.ReplaceSpecial("bos", end)
		v.ReplaceSpecial("eos", end)
	}
	nameTimes(v)
	var never []int32
	for _, word := range generationList(c, "suppress_tokens") {
		if id, ok := hf.AsCount(word); ok {
			never = append(never, int32(id))
		}
	}
	if never != nil {
		v.Set("suppress_tokens", never)
	}
}

// nameTimes names the tokens of times, which are behind that for no times and two hundredths of a second apart.
func nameTimes(v *vocab.Vocabulary) {
	none := slices.Index(v.Tokens, "<|notimestamps|>")
	if none < 0 {
		return
	}
	for i := none + 1; i < len(v.Tokens); i++ {
		hundredths := 2 * (i - none - 1)
		v.Tokens[i], v.Types[i] = fmt.Sprintf("<|%d.%02d|>", hundredths/100, hundredths%100), vocab.Control
	}
}
