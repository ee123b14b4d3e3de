package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// fused puts the shares of the previous token, a tensor for each input of a layer, into one.
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

// apart gives such a tensor the shape that GGUF has: inputs, 1, 1, channels.
var apart = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	v = v.Squeezed()
	if len(v.Shape) != 2 {
		return lang.View{}, fmt.Errorf("the shape %v, want shares by inputs and channels", v.Shape)
	}
	return v.As(v.Shape[0], 1, 1, v.Shape[1])
})

// rwkvKeys sets keys of attention for models that have none.
func rwkvKeys(k *lang.Keys) {
	k.N("context_length", 1<<20)
	k.N("attention.head_count", 0)
	k.Drop("attention.head_count_kv", "rope.freq_base")
}
