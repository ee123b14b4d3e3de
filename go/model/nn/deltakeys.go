package nn

import "github.com/quern-llm/quern/go/kernel"

// DeltaNets reads the sizes of gated delta nets, and which layers are such: their NHeadKV is 0.
func (k *Keys) DeltaNets() {
	c := k.Config
	c.NTap = k.Int("ssm.conv_kernel", 2, MaxTap)
	c.Delta = Delta{
		NHead:    k.Int("ssm.time_step_rank", 1, MaxHead),
		NHeadKey: k.Int("ssm.group_count", 1, MaxHead),
		KeyDim:   k.Int("ssm.state_size", 1, MaxHeadDim),
	}
	inner := k.Int("ssm.inner_size", 1, MaxEmbd)
	d := &c.Delta
	d.ValueDim = inner / d.NHead
	switch {
	case d.NHead%d.NHeadKey != 0:
		k.Fail("ssm.group_count", "%d, want a divisor of the %d heads", d.NHeadKey, d.NHead)
	case inner%(d.NHead*kernel.Panel) != 0 || d.ValueDim > MaxHeadDim:
		k.Fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d heads", inner, kernel.Panel, d.NHead)
	case d.NHeadKey*d.KeyDim%kernel.Panel != 0:
		k.Fail("ssm.state_size", "%d, want %d heads of it to be a multiple of %d", d.KeyDim, d.NHeadKey, kernel.Panel)
	}
	for il, recurrent := range k.RecurrentLayers(4) {
		if recurrent {
			c.Layers[il].NHeadKV = 0
		}
	}
}

// RecurrentLayers reports for each layer whether it is recurrent: as the file lists them, or else all but every n-th; n
// is in the file, or else `every`.
func (k *Keys) RecurrentLayers(every int) []bool {
	const list = "attention.recurrent_layers"
	n := len(k.Config.Layers)
	if k.Has(list) {
		all, err := k.File.Bools(k.Name(list))
		k.Check(err)
		k.ForLayers(list, len(all))
		return all[:n]
	}
	linear := AllBut(k.IntOr("full_attention_interval", every, 1, MaxLayer))
	all := make([]bool, n)
	for il := range all {
		all[il] = linear(il)
	}
	return all
}
