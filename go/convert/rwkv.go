package convert

import "fmt"

// fused puts the shares of the token before, one tensor for each input, into one.
var fused op = func(c *config, in []view) ([]view, error) {
	rows := make([]view, len(in))
	for i, v := range in {
		rows[i] = v.squeezed()
	}
	v, err := stacked(rows)
	if err != nil {
		return nil, err
	}
	return apart(c, []view{v})
}

// apart returns such a tensor in GGUF's layout, with dimensions of 1 between inputs and channels.
var apart = one(func(_ *config, v view) (view, error) {
	v = v.squeezed()
	if len(v.shape) != 2 {
		return view{}, fmt.Errorf("the shape %v, want shares by inputs and channels", v.shape)
	}
	return v.as(v.shape[0], 1, 1, v.shape[1])
})

// rwkvKeys has what models without attention say in its place.
func rwkvKeys(k *keys) {
	k.n("context_length", 1<<20)
	k.n("attention.head_count", 0)
	k.drop("attention.head_count_kv", "rope.freq_base")
}
