package nn

import "github.com/quern-llm/quern/go/kernel"

// Dense reads the keys of a model whose layers are attention and a feed-forward, with RMS norms and with rotations.
func (k *Keys) Dense(rope kernel.Rope) {
	k.RMSNorm()
	k.Heads()
	k.FeedForward()
	k.Rope(rope)
}

// Dense builds such a model: x += attention(norm(x)) and x += feed-forward(norm(x)) in each layer, by the norms
// attn_norm and ffn_norm, and logits after the norm output_norm.
func (b *Builder) Dense(a Attention, f FeedForward) {
	b.Begin()
	b.Layers(func(l Layer) {
		l.Residual("attn_norm", l.Attention(a))
		l.Residual("ffn_norm", l.FeedForward(f))
	})
	b.End("output_norm")
}
