package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// chatglm is ChatGLM 3, GLM 4 of 9B and GLM Edge: Llama with queries, keys and values in one matrix, gate and up in
// another, and half of each head rotated.
var chatglm = Arch{
	Name:   "chatglm",
	config: func(k *Keys) { k.Dense(kernel.RopeNorm) },
	build:  func(b *Builder) { b.Dense(Attention{}, FeedForward{Fused: true}) },
}
