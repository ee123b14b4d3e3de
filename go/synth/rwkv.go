package synth

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
)

// rwkv adds what lies between the embeddings and the last norm. Matrices of low rank, and that for the shares of
// the token before, are no smaller in quantized files.
func (d *directory) rwkv() {
	s, r := d.m.Shape, d.m.Shape.RWKV
	n := s.NEmbd
	constant := func(c float32) func(int) float32 { return func(int) float32 { return c } }
	small := func(i int) float32 { return 0.01 * float32(i%7-3) }
	norm := func(name string) {
		d.ones(name, n)
		d.values(name+".bias", small, n)
	}
	norm("token_embd_norm")
	for i := range s.NLayer {
		blk := fmt.Sprintf("blk.%d.", i)
		norm(blk + "attn_norm")
		d.values(blk+"time_mix_lerp_fused.weight", func(i int) float32 { return float32(i%11) / 10 }, n, 1, 1, 6)
		for _, low := range []struct {
			of   string
			rank int
			bias float32
		}{{"w", r.Decay, -2}, {"a", r.Rate, 0}, {"v", r.Value, 0.5}, {"g", r.Gate, 0}} {
			if low.of == "v" && i == 0 { // there is nothing to take a share of, but llama.cpp wants to be given one
				low.rank = r.Rate
			}
			d.typed(blk+"time_mix_"+low.of+"1", gguf.F32, n, low.rank)
			d.typed(blk+"time_mix_"+low.of+"2", gguf.F32, low.rank, n)
			if low.of != "g" {
				d.values(blk+"time_mix_"+low.of+"0.weight", constant(low.bias), n)
			}
		}
		d.values(blk+"time_mix_k_k.weight", constant(0.85), n)
		d.values(blk+"time_mix_k_a.weight", constant(1), n)
		d.values(blk+"time_mix_r_k.weight", func(i int) float32 { return 0.1 * float32(i%5-2) }, n)
		d.matrix(blk+"time_mix_receptance", n, n)
		d.matrix(blk+"time_mix_key", n, n)
		d.matrix(blk+"time_mix_value", n, n)
		d.matrix(blk+"time_mix_output", n, n)
		norm(blk + "time_mix_ln")
		norm(blk + "attn_norm_2")
		d.values(blk+"channel_mix_lerp_k.weight", func(i int) float32 { return float32(i%11) / 10 }, n)
		d.matrix(blk+"channel_mix_key", n, s.NFF)
		d.matrix(blk+"channel_mix_value", s.NFF, n)
	}
	d.values("output_norm.bias", small, n)
}

// metadata sets the keys of these dimensions.
func (r *RWKV) metadata(set func(key string, value any)) {
	set("wkv.head_size", uint32(r.HeadDim))
	set("attention.head_count", uint32(0))
	set("attention.layer_norm_epsilon", float32(1e-5))
	set("attention.decay_lora_rank", uint32(r.Decay))
	set("attention.iclr_lora_rank", uint32(r.Rate))
	set("attention.value_residual_mix_lora_rank", uint32(r.Value))
	set("attention.gate_lora_rank", uint32(r.Gate))
}
