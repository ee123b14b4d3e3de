package nn

import "github.com/quern-llm/quern/go/kernel"

// maxChannelState bounds the state of a channel in Mamba 1.
const maxChannelState = 256

// scan reads the sizes that all state spaces have.
func (k *Keys) scan(maxState int) {
	k.Config.NTap = k.Int("ssm.conv_kernel", 2, MaxTap)
	k.Config.Scan.Inner = k.Int("ssm.inner_size", 1, MaxEmbd)
	k.Config.Scan.State = k.Int("ssm.state_size", 1, maxState)
}

// Mamba reads the sizes of Mamba 1.
func (k *Keys) Mamba() {
	k.scan(maxChannelState)
	s := &k.Config.Scan
	s.Rank = k.Int("ssm.time_step_rank", 1, MaxEmbd)
	for _, n := range []struct {
		key string
		n   int
	}{{"ssm.inner_size", s.Inner}, {"ssm.state_size", s.State}, {"ssm.time_step_rank", s.Rank}} {
		if n.n%kernel.Panel != 0 {
			k.Fail(n.key, "%d, want a multiple of %d", n.n, kernel.Panel)
		}
	}
}

// HeadScan reads the sizes of state spaces whose heads share b and c, with steps of low rank.
func (k *Keys) HeadScan() {
	k.scan(MaxHeadDim)
	s := &k.Config.Scan
	s.NHead = k.Int("ssm.time_step_rank", 1, MaxHead)
	s.Rank = max(64, k.Config.NEmbd/16) // as all models have it: files do not say
	switch {
	case s.Inner%(s.NHead*kernel.Panel) != 0:
		k.Fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d heads", s.Inner, kernel.Panel, s.NHead)
	case s.State%kernel.Panel != 0 || s.Rank%kernel.Panel != 0:
		k.Fail("ssm.state_size", "%d, with steps of rank %d, want multiples of %d", s.State, s.Rank, kernel.Panel)
	}
}

// Mamba2 reads the sizes of Mamba 2.
func (k *Keys) Mamba2() {
	k.scan(MaxHeadDim)
	s := &k.Config.Scan
	s.NHead = k.Int("ssm.time_step_rank", 1, MaxHead)
	s.NGroup = k.Int("ssm.group_count", 1, MaxHead)
	s.StepMin = float32(k.FloatOr(Own+"ssm.time_step_min", 0, 0, 1e6))
	s.StepMax = float32(k.FloatOr(Own+"ssm.time_step_max", 0, 0, 1e6))
	if s.StepMax != 0 && s.StepMax < s.StepMin {
		k.Fail(Own+"ssm.time_step_max", "%g, want at least the minimum, %g", s.StepMax, s.StepMin)
	}
	switch {
	case s.NHead%s.NGroup != 0:
		k.Fail("ssm.group_count", "%d, want a divisor of the %d heads", s.NGroup, s.NHead)
	case s.Inner%(s.NHead*kernel.Panel) != 0:
		k.Fail("ssm.inner_size", "%d, want a multiple of %d for each of the %d heads", s.Inner, kernel.Panel, s.NHead)
	case s.NGroup*s.State%kernel.Panel != 0:
		k.Fail("ssm.state_size", "%d, want %d groups of it to be a multiple of %d", s.State, s.NGroup, kernel.Panel)
	}
}
