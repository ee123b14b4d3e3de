package arch

import "github.com/quern-llm/quern/go/kernel"

// llama is Llama 1 to 3, Mistral, Mixtral and everything that is stored as
// them: rotations of neighbours, biases where the file has them, dense or with
// experts.
var llama = Arch{Name: "llama", build: func(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		l.attend(attention{rope: kernel.RopeNorm})
		if b.cfg.NExpert > 0 {
			l.experts()
		} else {
			l.feedForward()
		}
	})
	b.end()
}}
