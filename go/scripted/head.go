package scripted

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// A Head is a file of layers that draft for a model, of random weights, whose guesses are worth nothing, unless it knows the model.
type Head struct {
	Arch    string // eagle3, dflash or gemma4-assistant
	NEmbd   int    // its width, with embeddings and an output of its own; 0: the model's, with the model's
	Guesses int    // tokens that it guesses among, by a map to every third of the model's and an output of its own; 0: all
	Inputs  []int  // layers of the model whose inputs it reads
	Knows   bool   // it guesses what a Model says

	NormInputs, NormResidual bool

	Keys map[string]any // in place of its own; nil: left out
	Lack string         // a tensor that it lacks
}

// GGUF returns the file, for a model's.
func (h Head) GGUF(model []byte) ([]byte, error) {
	f, err := gguf.Parse(model)
	if err != nil {
		return nil, err
	}
	table, ok := f.Tensor("token_embd.weight")
	if !ok || len(table.Dims) != 2 {
		return nil, fmt.Errorf("a model without token_embd.weight")
	}
	w := &headWriter{h: h, w: gguf.NewWriter()}
	width, vocab := table.Dims[0], table.Dims[1]
	if h.Arch == "gemma4-assistant" {
		w.assistant(f, width, vocab)
		return w.file()
	}
	n := uint64(h.NEmbd)
	if n == 0 {
		n = width
	}
	const ff = 96
	heads, kv, dim := uint64(4), uint64(2), uint64(16)
	if h.Knows { // which takes a value as wide as an embedding
		kv, dim = heads, n/heads
	}
	w.w.Set("general.architecture", h.Arch)
	w.w.Set("general.name", "head")
	w.key("context_length", uint32(512))
	w.key("embedding_length", uint32(n))
	w.key("feed_forward_length", uint32(ff))
	w.key("attention.head_count", uint32(heads))
	w.key("attention.head_count_kv", uint32(kv))
	w.key("attention.key_length", uint32(dim))
	w.key("attention.value_length", uint32(dim))
	w.key("attention.layer_norm_rms_epsilon", float32(1e-5))
	w.key("rope.dimension_count", uint32(dim))
	w.key("rope.freq_base", float32(10000))
	var inputs []int32
	for _, il := range h.Inputs {
		inputs = append(inputs, int32(il))
	}
	w.key("target_layers", inputs)
	for _, kv := range f.KVs {
		if strings.HasPrefix(kv.Key, "tokenizer.") {
			w.w.Set(kv.Key, kv.Value)
		}
	}

	w.random("fc.weight", uint64(len(inputs))*width, n)
	w.random("output_norm.weight", n)
	guesses := vocab
	if h.Guesses > 0 {
		guesses = uint64(h.Guesses)
		ids := make([]int64, guesses)
		for i := range ids {
			ids[i] = 3*int64(i) + 1
		}
		w.tensor("d2t", gguf.I64, ids, guesses)
	}
	if n != width {
		w.random("token_embd.weight", n, vocab)
	}
	if n != width || h.Guesses > 0 {
		w.random("output.weight", n, guesses)
	}
	layers := 1
	switch blk := "blk.0."; h.Arch {
	case "dflash":
		layers = 2
		w.key("block_count", uint32(layers))
		w.key("block_size", uint32(8))
		w.key("attention.causal", false)
		w.w.Set("tokenizer.ggml.mask_token_id", uint32(3))
		w.random("enc.output_norm.weight", n)
	case "eagle3":
		w.key("block_count", uint32(1))
		w.key("target_hidden_size", uint32(width))
		w.key("norm_before_fc", h.NormInputs)
		w.key("norm_before_residual", h.NormResidual || h.Knows)
		if h.NormInputs {
			w.random("enc.output_norm.weight", uint64(len(inputs))*width)
		}
		w.random(blk+"attn_norm.weight", n)
		w.random(blk+"attn_norm_2.weight", n)
		w.random(blk+"attn_q.weight", 2*n, heads*dim)
		w.random(blk+"attn_k.weight", 2*n, kv*dim)
		w.random(blk+"attn_v.weight", 2*n, kv*dim)
	default:
		return nil, fmt.Errorf("no head of architecture %q is known", h.Arch)
	}
	for il := range layers {
		blk := fmt.Sprintf("blk.%d.", il)
		if h.Arch == "dflash" {
			w.random(blk+"attn_norm.weight", n)
			w.random(blk+"attn_q.weight", n, heads*dim)
			w.random(blk+"attn_k.weight", n, kv*dim)
			w.random(blk+"attn_v.weight", n, kv*dim)
			w.random(blk+"attn_q_norm.weight", dim)
			w.random(blk+"attn_k_norm.weight", dim)
		}
		w.random(blk+"attn_output.weight", heads*dim, n)
		w.random(blk+"ffn_norm.weight", n)
		w.random(blk+"ffn_gate.weight", n, ff)
		w.random(blk+"ffn_up.weight", n, ff)
		w.random(blk+"ffn_down.weight", ff, n)
	}
	return w.file()
}

type headWriter struct {
	h   Head
	w   *gguf.Writer
	err error
}

// file returns the file, when all else is there.
func (w *headWriter) file() ([]byte, error) {
	for name, v := range w.h.Keys {
		if v != nil {
			w.w.Set(w.h.Arch+"."+name, v)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	var out bytes.Buffer
	_, err := w.w.WriteTo(&out)
	return out.Bytes(), err
}

// assistant writes the drafter of a Gemma 4, of two layers: with a window and without.
func (w *headWriter) assistant(f *gguf.File, width, vocab uint64) {
	const n, ff = 32, 48
	w.w.Set("general.architecture", w.h.Arch)
	size := map[string]uint64{}
	for _, kv := range f.KVs {
		name, ok := strings.CutPrefix(kv.Key, "gemma4.")
		if ok && (strings.HasPrefix(name, "attention.") || strings.HasPrefix(name, "rope.")) {
			w.key(name, kv.Value)
			if v, err := f.Uint(kv.Key); err == nil {
				size[name] = v
			}
		}
		if strings.HasPrefix(kv.Key, "tokenizer.") {
			w.w.Set(kv.Key, kv.Value)
		}
	}
	w.key("context_length", uint32(512))
	w.key("embedding_length", uint32(n))
	w.key("embedding_length_out", uint32(width))
	w.key("feed_forward_length", uint32(ff))
	w.key("block_count", uint32(2))
	w.key("nextn_predict_layers", uint32(2))
	w.key("attention.shared_kv_layers", uint32(2))
	w.key("attention.sliding_window_pattern", []bool{true, false})
	w.random("token_embd.weight", n, vocab)
	w.random("output_norm.weight", n)
	w.random("nextn.pre_projection.weight", 2*width, n)
	w.random("nextn.post_projection.weight", n, width)
	w.random("rope_freqs.weight", size["attention.key_length"]/2)
	for il, dim := range []uint64{size["attention.key_length_swa"], size["attention.key_length"]} {
		blk, rows := fmt.Sprintf("blk.%d.", il), size["attention.head_count"]*dim
		for _, norm := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			w.random(blk+norm+".weight", n)
		}
		w.random(blk+"attn_q_norm.weight", dim)
		w.random(blk+"layer_output_scale.weight", 1)
		w.random(blk+"attn_q.weight", n, rows)
		w.random(blk+"attn_output.weight", rows, n)
		w.random(blk+"ffn_gate.weight", n, ff)
		w.random(blk+"ffn_up.weight", n, ff)
		w.random(blk+"ffn_down.weight", ff, n)
	}
}

// key sets a key of the head's architecture, unless it is to have another value, or none.
func (w *headWriter) key(name string, v any) {
	if _, ok := w.h.Keys[name]; !ok {
		w.w.Set(w.h.Arch+"."+name, v)
	}
}

func (w *headWriter) tensor(name string, typ gguf.Type, values any, dims ...uint64) {
	data, err := binary.Append(nil, binary.LittleEndian, values)
	if w.err == nil {
		w.err = err
	}
	if name != w.h.Lack {
		w.w.AddTensor(name, typ, dims, gguf.Bytes(data))
	}
}

// random adds a tensor of random floats: about 1 in norms, and about as large sums as inputs in matrices. In a head that knows what
// a Model says, queries and keys are the same for all tokens, so large that each sees but itself, and the value is its embedding,
// which goes unchanged through an otherwise empty layer: of that the output makes what the model says.
func (w *headWriter) random(name string, dims ...uint64) {
	seed := fnv.New64a()
	seed.Write([]byte(name))
	r, n := rand.New(rand.NewPCG(seed.Sum64(), 0)), uint64(1)
	for _, k := range dims {
		n *= k
	}
	values := make([]float32, n)
	for i := range values {
		switch row, col := uint64(i)/dims[0], uint64(i)%dims[0]; {
		case w.h.Knows && len(dims) == 1:
			if name != "blk.0.attn_norm_2.weight" { // hidden states say nothing of the token
				values[i] = 1
			}
		case w.h.Knows && (name == "blk.0.attn_q.weight" || name == "blk.0.attn_k.weight"):
			if col < dims[1] {
				values[i] = 20 / float32(dims[1])
			}
		case w.h.Knows:
			if row == col && (name == "blk.0.attn_v.weight" || name == "blk.0.attn_output.weight") {
				values[i] = 1
			}
		case len(dims) == 1:
			values[i] = float32(1 + 0.2*r.NormFloat64())
		default:
			values[i] = float32(1.5 / math.Sqrt(float64(dims[0])) * r.NormFloat64())
		}
	}
	w.tensor(name, gguf.F32, values, dims...)
}
