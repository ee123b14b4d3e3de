package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// fused puts the shares of the token before, one tensor for each input, into one.
var fused lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	rows := make([]lang.View, len(in))
	for i, v := range in {
		rows[i] = v.Squeezed()
	}
	v, err := lang.Stacked(rows)
	if err != nil {
		return nil, err
	}
	return apart(c, []lang.View{v})
}

// apart returns such a tensor in GGUF's layout, with dimensions of 1 between inputs and channels.
var apart = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	v = v.Squeezed()
	if len(v.Shape) != 2 {
		return lang.View{}, fmt.Errorf("the shape %v, want shares by inputs and channels", v.Shape)
	}
	return v.As(v.Shape[0], 1, 1, v.Shape[1])
})

// rwkvKeys has what models without attention say in its place.
func rwkvKeys(k *lang.Keys) {
	k.N("context_length", 1<<20)
	k.N("attention.head_count", 0)
	k.Drop("attention.head_count_kv", "rope.freq_base")
}
