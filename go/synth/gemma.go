package synth

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/gguf"
)

// A Gemma has the dimensions that models from Gemma 3n on have beside the others'. One layer of Every
// sees all positions, the others a window.
type Gemma struct {
	Every      int
	NHeadKV    int  // in layers without a window
	HeadDim    int  // there
	KeysServe  bool // there, as values too
	NOwn       int  // layers with keys and values of their own: those after them read theirs
	NPerLayer  int  // numbers of each token that every layer has an embedding for; 0: none
	NFF        int  // of the feed-forward beside experts
	NFFSparse  int  // layers whose feed-forward is sparse
	Streams    int  // of the residual, as AltUp has them; 0: Gemma 4
	LaurelRank int  // of the projection beside the attention, which AltUp comes with
}

// windowed says whether layer i has a window.
func (g *Gemma) windowed(i int) bool { return (i+1)%g.Every != 0 }

// kvHeads returns the heads of keys and values of layer i.
func (s *Shape) kvHeads(i int) int {
	if s.Gemma.windowed(i) {
		return s.NHeadKV
	}
	return s.Gemma.NHeadKV
}

// headDim returns the width of a head of layer i.
func (s *Shape) headDim(i int) int {
	if s.Gemma.windowed(i) {
		return s.HeadDim
	}
	return s.Gemma.HeadDim
}

// gemma adds what lies between the embeddings and the last norm.
func (d *directory) gemma() {
	s, g := d.m.Shape, d.m.Shape.Gemma
	n, all := s.NEmbd, g.NPerLayer*s.NLayer
	if g.NPerLayer > 0 {
		d.matrix("per_layer_token_embd", all, s.NVocab) // as token_embd, which is the output too
		d.typed("per_layer_model_proj", gguf.BF16, n, all)
		d.ones("per_layer_proj_norm", g.NPerLayer)
	}
	if g.Streams > 0 {
		d.typed("altup_proj", gguf.F16, n, n, g.Streams-1)
		d.typed("altup_unembd_proj", gguf.F16, n, n, g.Streams-1)
	} else if s.NLayer >= g.Every {
		// A quarter of the channels is rotated.
		d.values("rope_freqs.weight", func(i int) float32 {
			if i < g.HeadDim/8 {
				return 1
			}
			return 1e30
		}, g.HeadDim/2)
	}
	for i := range s.NLayer {
		blk := fmt.Sprintf("blk.%d.", i)
		d.gemmaAttention(blk, i)
		d.gemmaFeedForward(blk, i)
		if g.NPerLayer > 0 {
			d.matrix(blk+"inp_gate", n, g.NPerLayer)
			d.matrix(blk+"proj", g.NPerLayer, n)
			d.ones(blk+"post_norm", n)
		}
		if g.Streams == 0 {
			d.ones(blk+"layer_output_scale", 1)
			continue
		}
		small := func(i int) float32 { return 0.01 * float32(i%7-3) }
		d.values(blk+"altup_correct_coef.weight", small, g.Streams, g.Streams)
		d.values(blk+"altup_predict_coef.weight", small, g.Streams, g.Streams*g.Streams)
		d.ones(blk+"altup_correct_scale", n)
		d.typed(blk+"altup_router", gguf.F16, n, g.Streams)
		d.ones(blk+"altup_router_norm", n)
		d.typed(blk+"laurel_l", gguf.F16, n, g.LaurelRank)
		d.typed(blk+"laurel_r", gguf.F16, g.LaurelRank, n)
		d.ones(blk+"laurel_post_norm", n)
	}
}

func (d *directory) gemmaAttention(blk string, i int) {
	s, g := d.m.Shape, d.m.Shape.Gemma
	n, dim, kv := s.NEmbd, s.headDim(i), s.kvHeads(i)
	d.ones(blk+"attn_norm", n)
	d.matrix(blk+"attn_q", n, s.NHead*dim)
	d.ones(blk+"attn_q_norm", dim)
	d.matrix(blk+"attn_k", n, kv*dim) // in layers that read those of others as well: files have them
	d.ones(blk+"attn_k_norm", dim)
	if g.windowed(i) || !g.KeysServe {
		d.matrix(blk+"attn_v", n, kv*dim)
	}
	d.matrix(blk+"attn_output", s.NHead*dim, n)
	d.ones(blk+"post_attention_norm", n)
}

func (d *directory) gemmaFeedForward(blk string, i int) {
	s, n := d.m.Shape, d.m.Shape.NEmbd
	d.ones(blk+"ffn_norm", n)
	d.ones(blk+"post_ffw_norm", n)
	if s.NExpert == 0 {
		d.feedForward(blk, "", i, s.NFF)
		return
	}
	d.feedForward(blk, "", i, s.Gemma.NFF)
	d.typed(blk+"ffn_gate_inp", gguf.F32, n, s.NExpert)
	spread := float32(math.Sqrt(float64(n))) // of the router's logits: 1
	d.values(blk+"ffn_gate_inp.scale", func(int) float32 { return spread }, n)
	for _, name := range []string{"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"} {
		d.ones(blk+name, n)
	}
	d.matrix(blk+"ffn_gate_up_exps", n, 2*s.NFF, s.NExpert)
	d.matrix(blk+"ffn_down_exps", s.NFF, n, s.NExpert)
	d.values(blk+"ffn_down_exps.scale", func(int) float32 { return 1 }, s.NExpert)
}

// metadata sets the keys that these models alone have, and those that differ by layer.
func (g *Gemma) metadata(s *Shape, set func(key string, value any)) {
	windowed, kv := make([]bool, s.NLayer), make([]int32, s.NLayer)
	for i := range s.NLayer {
		windowed[i], kv[i] = g.windowed(i), int32(s.kvHeads(i))
	}
	set("attention.sliding_window_pattern", windowed)
	set("attention.shared_kv_layers", uint32(s.NLayer-min(g.NOwn, s.NLayer)))
	set("embedding_length_per_layer_input", uint32(g.NPerLayer))
	set("rope.freq_base_swa", float32(10000))
	set("final_logit_softcapping", float32(30))
	if g.Streams > 0 {
		cutoff := make([]float32, s.NLayer)
		for i := range cutoff {
			if cutoff[i] = float32(math.Inf(-1)); i < g.NFFSparse {
				cutoff[i] = 1.6448534 // one number of twenty is kept
			}
		}
		set("activation_sparsity_scale", cutoff)
		set("altup.num_inputs", uint32(g.Streams))
		set("altup.active_idx", uint32(0))
		return
	}
	set("attention.head_count_kv", kv)
	set("attention.key_length", uint32(g.HeadDim))
	set("attention.value_length", uint32(g.HeadDim))
	set("attention.key_length_swa", uint32(s.HeadDim))
	set("attention.value_length_swa", uint32(s.HeadDim))
	set("rope.dimension_count", uint32(g.HeadDim))
	set("rope.dimension_count_swa", uint32(s.HeadDim))
	if s.NExpert > 0 {
		set("feed_forward_length", uint32(g.NFF))
	}
}
