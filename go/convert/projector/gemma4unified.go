package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// gemma4unified has no transformer: patches and frames become rows of the text model by norms and a product.
var gemma4unified = lang.Family{
	Arch:  arch,
	Names: "Gemma4UnifiedForConditionalGeneration",
	Rules: lang.Rules{
		{"vision_embedder.patch_ln1.weight", "v.patch_norm.1.weight", byColour},
		{"vision_embedder.patch_ln1.bias", "v.patch_norm.1.bias", byColour},
		{"vision_embedder.patch_ln2", "v.patch_norm.2", nil},
		{"vision_embedder.pos_norm", "v.patch_norm.3", nil},
		{"vision_embedder.patch_dense.weight", "v.patch_embd.weight", byColour},
		{"vision_embedder.patch_dense.bias", "v.patch_embd.bias", nil},
		{"vision_embedder.pos_embedding", "v.position_embd.weight", axesFirst},
		{"embed_vision.embedding_projection", "mm.input_projection", nil},
		{"embed_audio.embedding_projection", "mm.a.input_projection", nil},
	},
	Keys: func(k *lang.Keys) {
		v, a := encoder(k, "vision_config"), encoder(k, "audio_config")
		for name, n := range map[string]int{"intermediate_size": 0, "num_hidden_layers": 0, "num_attention_heads": 0} {
			v.Put(name, float64(n))
			a.Put(name, float64(n))
		}
		v.Put("hidden_size", v.Value("mm_embed_dim"))
		a.Put("hidden_size", a.Value("audio_embed_dim"))
		k.Take(vision(k, pixels{224, 16}))
		k.N("vision.image_size", 224) // pictures of any size
		k.Set("vision.projector_type", "gemma4uv")
		k.F("vision.attention.layer_norm_epsilon", v.NumberOr("layer_norm_eps", 1e-6))
		k.Take(audio(k))
		k.Set("audio.projector_type", "gemma4ua")
		k.N("audio.num_mel_bins", a.CountOr("input_feat_size", 128))
		k.F("audio.attention.layer_norm_epsilon", a.NumberOr("layer_norm_eps", 1e-6))
		k.Take(v)
		k.Take(a)
	},
}

// byColour orders the last dimension as pictures for each colour. In checkpoints the colours of a pixel are neighbours.
var byColour = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	s := encoder(&lang.Keys{Config: c}, "vision_config")
	side := uint64(s.CountOr("model_patch_size", s.CountOr("patch_size", 16)*s.CountOr("pooling_kernel_size", 3)))
	c.Take(s)
	columns := v.Shape[len(v.Shape)-1]
	if columns != 3*side*side || side == 0 {
		return lang.View{}, fmt.Errorf("the shape %v, want patches of %d pixels and 3 colours", v.Shape, side*side)
	}
	rows := v.Elems() / columns
	return v.Strided(0, lang.Dim{N: rows, Stride: columns}, lang.Dim{N: 3, Stride: 1},
		lang.Dim{N: side * side, Stride: 3}).As(v.Shape...)
})

// axesFirst makes positions of two axes two tables.
var axesFirst = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 3 {
		return lang.View{}, fmt.Errorf("the shape %v, want positions, axes and numbers of each", v.Shape)
	}
	n, axes, each := v.Shape[0], v.Shape[1], v.Shape[2]
	return v.Strided(0, lang.Dim{N: axes, Stride: each}, lang.Dim{N: n, Stride: axes * each},
		lang.Dim{N: each, Stride: 1}), nil
})
