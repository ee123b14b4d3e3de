package arch

// electra is ELECTRA's discriminator (Clark et al. 2020): BERT, whose embeddings may be narrower than its layers.
var electra = Arch{Name: "electra", config: bert.config, build: bert.build}
