package arch

import "github.com/quern-llm/quern/go/kernel"

// deltaNets reads the sizes of gated delta nets, and which layers are such: these have
// no key-value heads.
func (k *keys) deltaNets() {
	c := k.c
	c.NTap = k.int("ssm.conv_kernel", 2, maxTap)
	c.Delta = Delta{
		NHead:    k.int("ssm.time_step_rank", 1, maxHead),
		NHeadKey: k.int("ssm.group_count", 1, maxHead),
		KeyDim:   k.int("ssm.state_size", 1, maxHeadDim),
	}
	inner := k.int("ssm.inner_size", 1, maxEmbd)
	d := &c.Delta
	d.ValueDim = inner / d.NHead
	switch {
	case d.NHead%d.NHeadKey != 0:
		k.fail("ssm.group_count", "%d, want a divisor of the %d heads", d.NHeadKey, d.NHead)
	case inner%(d.NHead*kernel.Panel) != 0 || d.ValueDim > maxHeadDim:
		k.fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d heads", inner, kernel.Panel, d.NHead)
	case d.NHeadKey*d.KeyDim%kernel.Panel != 0:
		k.fail("ssm.state_size", "%d, want %d heads of it to be a multiple of %d", d.KeyDim, d.NHeadKey, kernel.Panel)
	}
	for il, recurrent := range k.recurrent(4) {
		if recurrent {
			c.Layers[il].NHeadKV = 0
		}
	}
}

// recurrent says of each layer whether it is one without attention: as the file lists
// them, else all but every n-th, of which it may say which.
func (k *keys) recurrent(every int) []bool {
	const list = "attention.recurrent_layers"
	n := len(k.c.Layers)
	if k.has(list) {
		all, err := k.f.Bools(k.name(list))
		k.keep(err)
		k.forLayers(list, len(all))
		return all[:n]
	}
	linear := allBut(k.intOr("full_attention_interval", every, 1, maxLayer))
	all := make([]bool, n)
	for il := range all {
		all[il] = linear(il)
	}
	return all
}
