package arch

import . "github.com/quern-llm/quern/go/model/nn"

// mamba is Mamba, and Falcon Mamba, which normalises what its state spaces are given.
var mamba = Arch{
	Name: "mamba",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Mamba()
		k.Config.Scan.NormAll = k.BoolOr("ssm.dt_b_c_rms", false)
		k.Config.Scan.Eps = float32(k.FloatOr("quern.ssm.dt_b_c_rms_epsilon", float64(k.Config.Eps), 0, 1))
	},
	build: func(b *Builder) {
		norms := ScanNormNone
		if b.Config.Scan.NormAll {
			norms = ScanNormUnweighted
		}
		b.Begin()
		b.Layers(func(l Layer) { l.Residual("attn_norm", l.Mamba(norms)) })
		b.End("output_norm")
	},
}

// mamba2 is Mamba 2, and Codestral Mamba.
var mamba2 = Arch{
	Name: "mamba2",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Mamba2()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) { l.Residual("attn_norm", l.Mamba2(false)) })
		b.End("output_norm")
	},
}
