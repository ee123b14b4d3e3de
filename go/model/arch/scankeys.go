package arch

import "github.com/quern-llm/quern/go/kernel"

// maxChannelState is the most numbers of state that a channel with decays of its own may have.
const maxChannelState = 256

// scan reads the sizes that all selective state spaces have.
func (k *keys) scan(maxState int) {
	k.c.NTap = k.int("ssm.conv_kernel", 2, maxTap)
	k.c.Scan.Inner = k.int("ssm.inner_size", 1, maxEmbd)
	k.c.Scan.State = k.int("ssm.state_size", 1, maxState)
}

// mamba reads the sizes of state spaces of the first kind.
func (k *keys) mamba() {
	k.scan(maxChannelState)
	s := &k.c.Scan
	s.Rank = k.int("ssm.time_step_rank", 1, maxEmbd)
	for _, n := range []struct {
		key string
		n   int
	}{{"ssm.inner_size", s.Inner}, {"ssm.state_size", s.State}, {"ssm.time_step_rank", s.Rank}} {
		if n.n%kernel.Panel != 0 {
			k.fail(n.key, "%d, want a multiple of %d", n.n, kernel.Panel)
		}
	}
}

// headScan reads the sizes of state spaces whose heads share what multiplies their states, and have steps of low rank.
func (k *keys) headScan() {
	k.scan(maxHeadDim)
	s := &k.c.Scan
	s.NHead = k.int("ssm.time_step_rank", 1, maxHead)
	s.Rank = max(64, k.c.NEmbd/16) // as all models have it: files do not say
	switch {
	case s.Inner%(s.NHead*kernel.Panel) != 0:
		k.fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d heads", s.Inner, kernel.Panel, s.NHead)
	case s.State%kernel.Panel != 0 || s.Rank%kernel.Panel != 0:
		k.fail("ssm.state_size", "%d, with steps of rank %d, want multiples of %d", s.State, s.Rank, kernel.Panel)
	}
}

// mamba2 reads the sizes of state spaces of the second kind.
func (k *keys) mamba2() {
	k.scan(maxHeadDim)
	s := &k.c.Scan
	s.NHead = k.int("ssm.time_step_rank", 1, maxHead)
	s.NGroup = k.int("ssm.group_count", 1, maxHead)
	switch {
	case s.NHead%s.NGroup != 0:
		k.fail("ssm.group_count", "%d, want a divisor of the %d heads", s.NGroup, s.NHead)
	case s.Inner%(s.NHead*kernel.Panel) != 0:
		k.fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d heads", s.Inner, kernel.Panel, s.NHead)
	case s.NGroup*s.State%kernel.Panel != 0:
		k.fail("ssm.state_size", "%d, want %d groups of it to be a multiple of %d", s.State, s.NGroup, kernel.Panel)
	}
}
