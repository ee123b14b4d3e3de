package synth

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
)

// A Sight has what an encoder of pictures has beside the dimensions of its layers.
type Sight struct {
	Kind         string // as clip.projector_type has it
	Patch, Side  int    // pixels
	Merge        int    // patches of a side of a row
	Width        int    // of the text model
	Deep         []int  // layers that rows have further columns of
	Positions    int    // embeddings of positions
	Fused, Films bool   // queries, keys and values are one matrix; patches are of two frames
}

// sight lists the tensors of an encoder.
func (d *directory) sight() {
	s := d.m.Shape
	v := s.Sight
	n := s.NEmbd
	biased := func(name string, in, out int) {
		d.matrix(name, in, out)
		d.slope(name, out)
	}
	norm := func(name string, n int) {
		d.ones(name, n)
		d.slope(name, n)
	}
	d.typed("v.patch_embd", d.m.wide(), v.Patch, v.Patch, 3, n)
	if v.Films {
		d.typed("v.patch_embd", d.m.wide(), v.Patch, v.Patch, 3, n)
		d.list[len(d.list)-1].name += ".1"
	}
	d.slope("v.patch_embd", n)
	d.values("v.position_embd.weight", func(i int) float32 { return 0.25 * float32(i%7-3) / 3 }, n, v.Positions)
	for i := range s.NLayer {
		blk := fmt.Sprintf("v.blk.%d.", i)
		norm(blk+"ln1", n)
		if v.Fused {
			biased(blk+"attn_qkv", n, 3*n)
		} else {
			for _, part := range "qkv" {
				biased(blk+"attn_"+string(part), n, n)
			}
		}
		biased(blk+"attn_out", n, n)
		norm(blk+"ln2", n)
		biased(blk+"ffn_up", n, s.NFF)
		biased(blk+"ffn_down", s.NFF, n)
	}
	norm("v.post_ln", n)
	if v.Kind == "gemma3" {
		d.typed("mm.input_projection", d.m.wide(), v.Width, n)
		d.ones("mm.soft_emb_norm", n)
		return
	}
	in := n * v.Merge * v.Merge
	for _, il := range v.Deep {
		name := fmt.Sprintf("v.deepstack.%d.", il)
		norm(name+"norm", in)
		biased(name+"fc1", in, in)
		biased(name+"fc2", in, v.Width)
	}
	biased("mm.0", in, in)
	biased("mm.2", in, v.Width)
}

// wide is the type of matrices that quantizers leave as they are.
func (m Model) wide() gguf.Type {
	if m.Mix.Base == gguf.F32 || m.Mix.Base == gguf.BF16 {
		return m.Mix.Base
	}
	return gguf.F16
}

// slope adds a bias.
func (d *directory) slope(name string, n int) {
	d.values(name+".bias", func(i int) float32 { return 0.01 * float32(i%7-3) }, n)
}

// settings sets the keys of an encoder.
func (v *Sight) settings(s *Shape, set func(key string, value any)) {
	set("general.type", "mmproj")
	set("clip.has_vision_encoder", true)
	set("clip.projector_type", v.Kind)
	set("clip.use_gelu", true)
	const p = "clip.vision."
	for _, k := range []struct {
		key string
		n   int
	}{
		{"embedding_length", s.NEmbd}, {"feed_forward_length", s.NFF}, {"block_count", s.NLayer}, {"projection_dim", v.Width},
		{"attention.head_count", s.NHead}, {"image_size", v.Side}, {"patch_size", v.Patch}, {"spatial_merge_size", v.Merge},
		{"projector.scale_factor", v.Merge},
	} {
		set(p+k.key, uint32(k.n))
	}
	set(p+"attention.layer_norm_epsilon", s.RMSEps)
	set(p+"image_mean", []float32{0.5, 0.5, 0.5})
	set(p+"image_std", []float32{0.5, 0.5, 0.5})
	if v.Deep != nil {
		deep := make([]bool, s.NLayer)
		for _, il := range v.Deep {
			deep[il] = true
		}
		set(p+"is_deepstack_layers", deep)
	}
}
