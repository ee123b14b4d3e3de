package model

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// chains are models with three layers that predict further tokens, each of them one: what is different of their files.
var chains = map[string]struct {
	keys   map[string]any
	layers func(d *drawn, il int, windowed bool)
}{
	"mimo2": {map[string]any{"attention.value_scale": float32(0.7)}, func(d *drawn, il int, windowed bool) {
		d.tensor(il, "attn_qkv.weight", 64, 128)
		d.tensor(il, "attn_output.weight", 64, 64)
		if windowed && il < chainLayers { // where layers that draft have some, llama.cpp leaves them out
			d.tensor(il, "attn_sinks.weight", 4)
		}
	}},
	"step35": {map[string]any{
		"expert_weights_norm": true, "expert_weights_scale": float32(1.5), "expert_shared_feed_forward_length": uint32(32),
		"attention.head_count": []int32{4, 8, 8, 4, 8, 8, 8},
	}, func(d *drawn, il int, windowed bool) {
		heads := uint64(4)
		if windowed {
			heads = 8
		}
		d.tensor(il, "attn_q.weight", 64, 16*heads)
		d.tensor(il, "attn_k.weight", 64, 32)
		d.tensor(il, "attn_v.weight", 64, 32)
		d.tensor(il, "attn_output.weight", 16*heads, 64)
		d.tensor(il, "attn_gate.weight", 64, heads)
		d.tensor(il, "attn_q_norm.weight", 16)
		d.tensor(il, "attn_k_norm.weight", 16)
		if il > 0 && il < chainLayers {
			d.tensor(il, "ffn_gate_shexp.weight", 64, 32)
			d.tensor(il, "ffn_up_shexp.weight", 64, 32)
			d.tensor(il, "ffn_down_shexp.weight", 32, 64)
		}
	}},
}

const chainLayers, chainNexts = 4, 3

// A drawn is a file of random weights.
type drawn struct{ *draft }

// tensor adds random numbers, which follow from the name: norms and sinks around one, matrices that keep the size of what they multiply.
func (d *drawn) tensor(il int, name string, dims ...uint64) {
	if il >= 0 {
		name = fmt.Sprintf("blk.%d.%s", il, name)
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	mean, spread, n := 0.0, 1/math.Sqrt(float64(dims[0])), uint64(1)
	switch {
	case strings.Contains(name, "embd"):
		spread = 1
	case len(dims) == 1:
		mean, spread = 1, 0.1
	}
	for _, k := range dims {
		n *= k
	}
	data := make([]byte, 0, 4*n)
	for range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(mean+spread*r.NormFloat64())))
	}
	d.add(name, gguf.F32, data, dims...)
}

// chained drafts a file of an architecture of chains, with the vocabulary of the golden model.
func chained(t *testing.T, name string) *draft {
	t.Helper()
	of, d := chains[name], &drawn{read(t, headed)}
	vocab := d.draft.tensor("token_embd.weight").Dims[1]
	kept := d.kvs[:0]
	for _, kv := range d.kvs {
		if strings.HasPrefix(kv.Key, "tokenizer.") {
			kept = append(kept, kv)
		}
	}
	d.kvs, d.tensors = kept, nil
	d.set("general.architecture", name)
	windowed := []bool{false, true, true, false, true, true, true}
	keys := map[string]any{
		"block_count": uint32(chainLayers + chainNexts), "nextn_predict_layers": uint32(chainNexts), "context_length": uint32(256),
		"embedding_length": uint32(64), "feed_forward_length": uint32(96), "attention.layer_norm_rms_epsilon": float32(1e-5),
		"attention.head_count": uint32(4), "attention.head_count_kv": uint32(2), "attention.key_length": uint32(16), "attention.value_length": uint32(16),
		"rope.dimension_count": uint32(16), "rope.freq_base": float32(1e6), "rope.freq_base_swa": float32(1e4),
		"attention.sliding_window": uint32(6), "attention.sliding_window_pattern": windowed,
		"expert_count": uint32(8), "expert_used_count": uint32(2), "expert_feed_forward_length": uint32(32),
	}
	maps.Copy(keys, of.keys)
	for key, v := range keys {
		d.set(name+"."+key, v)
	}
	d.tensor(-1, "token_embd.weight", 64, vocab)
	d.tensor(-1, "output_norm.weight", 64)
	d.tensor(-1, "output.weight", 64, vocab)
	for il := range chainLayers + chainNexts {
		d.tensor(il, "attn_norm.weight", 64)
		d.tensor(il, "ffn_norm.weight", 64)
		of.layers(d, il, windowed[il])
		if il > 0 && il < chainLayers {
			d.tensor(il, "ffn_gate_inp.weight", 64, 8)
			d.tensor(il, "exp_probs_b.bias", 8)
			d.tensor(il, "ffn_gate_exps.weight", 64, 32, 8)
			d.tensor(il, "ffn_up_exps.weight", 64, 32, 8)
			d.tensor(il, "ffn_down_exps.weight", 32, 64, 8)
		} else {
			d.tensor(il, "ffn_gate.weight", 64, 96)
			d.tensor(il, "ffn_up.weight", 64, 96)
			d.tensor(il, "ffn_down.weight", 96, 64)
		}
		if il >= chainLayers {
			d.tensor(il, "nextn.eh_proj.weight", 128, 64)
			d.tensor(il, "nextn.enorm.weight", 64)
			d.tensor(il, "nextn.hnorm.weight", 64)
			d.tensor(il, "nextn.shared_head_norm.weight", 64)
		}
	}
	return d.draft
}
