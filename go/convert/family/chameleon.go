package family

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var chameleon = lang.Family{
	Arch:  "chameleon",
	Names: "ChameleonForConditionalGeneration ChameleonForCausalLM",
	Rules: lang.Rules{
		{"self_attn.q_norm", "attn_q_norm", headPairs((*hf.Config).Heads)},
		{"self_attn.k_norm", "attn_k_norm", headPairs((*hf.Config).HeadsKV)},
	}.And(ends, pairs, dense),
	Keys: func(k *lang.Keys) {
		commonKeys(k)
		k.B("swin_norm", k.Flag("swin_norm"))
		imageTokens(k)
	},
	Skip: []string{"model.vqmodel."},
}

// imageTokens sets which tokens are of images, and never said, unless they are those of the published models.
func imageTokens(k *lang.Keys) {
	const usualFirst, usualCount = 4, 8192
	var ids []int
	for name, v := range k.Object("vocabulary_map") {
		if id, ok := hf.AsCount(v); ok && strings.HasPrefix(name, "IMGIMG") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	first, n := usualFirst, len(ids)
	if n > 0 {
		first = ids[0]
		if ids[n-1] != first+n-1 {
			k.Fail("vocabulary_map: tokens of images are %d from %d to %d, want neighbours", n, first, ids[n-1])
		}
	}
	if k.Has("vocabulary_map") && n != usualCount {
		k.N("quern.image_tokens.count", n)
	}
	if first != usualFirst {
		k.N("quern.image_tokens.first", first)
	}
}

// headPairs is lang.Permute for the weights of norms that each head has of its own.
func headPairs(heads func(*hf.Config) int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		flat, err := v.As(v.Elems())
		if err != nil {
			return lang.View{}, err
		}
		made, err := lang.Permute(heads)(c, []lang.View{flat})
		if err != nil {
			return lang.View{}, err
		}
		h := uint64(max(heads(c), 1))
		return made[0].As(h, v.Elems()/h)
	})
}
