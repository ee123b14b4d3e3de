package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// vaultgemma is VaultGemma: Gemma 2 without norms behind its sublayers.
var vaultgemma = Arch{
	Name:   "vaultgemma",
	config: gemma2.config,
	build:  func(b *Builder) { b.Dense(Attention{}, FeedForward{Fn: kernel.GELU}) },
}
