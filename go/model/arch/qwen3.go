package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen3 is Qwen 3: rotations across halves of a head, each head of queries and
// keys normalised first. Its heads may be wider than n_embd/n_head.
var qwen3 = Arch{Name: "qwen3", build: func(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		l.attend(attention{rope: kernel.RopeNeox, qkNorm: true})
		l.feedForward()
	})
	b.end()
}}
