package arch

// mamba is Mamba, and Falcon Mamba, which normalises what its state spaces are given.
var mamba = Arch{
	Name: "mamba",
	config: func(k *keys) {
		k.rms()
		k.mamba()
		k.c.Scan.NormAll = k.boolOr("ssm.dt_b_c_rms", false)
	},
	build: func(b *builder) {
		norms := scanNone
		if b.cfg.Scan.NormAll {
			norms = scanPlain
		}
		b.begin()
		b.layers(func(l layer) { l.residual("attn_norm", l.mamba(norms)) })
		b.end("output_norm")
	},
}

// mamba2 is Mamba 2, and Codestral Mamba.
var mamba2 = Arch{
	Name: "mamba2",
	config: func(k *keys) {
		k.rms()
		k.mamba2()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) { l.residual("attn_norm", l.mamba2(false)) })
		b.end("output_norm")
	},
}
