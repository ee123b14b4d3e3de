package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/nn"
)

// HeadArch is the architecture of heads that can be trained.
const HeadArch = "eagle3"

// A HeadShape says what a new head is.
type HeadShape struct {
	Tokens []int32 // that it guesses among, in rising order; nil: all of the model's
	Seed   uint64  // of the matrices, which are random
}

// NewDraftHead returns the weights of a new EAGLE-3 head for the model in f, as numbers to train. f is only read, and its weights
// stay: what is written is the head. Its layer has the sizes of the model's. It reads the inputs of three layers, normalised.
// Matrices are random as those of LoRA are, but for the output, which begins with the model's rows of these tokens, and
// that of the inputs, which passes the last of them on as well.
func NewDraftHead(f *File, h HeadShape, w Whole, pool *kernel.Pool, budget *mem.Budget) (*Tuned, error) {
	n, err := newHead(f, h)
	if err != nil {
		return nil, err
	}
	a := &Tuned{whole: &whole{byName: map[string]*weight{}, identity: f.given(), target: f}}
	for _, t := range n.tensors {
		a.whole.weights = append(a.whole.weights, weight{Tensor: t})
	}
	out := gguf.NewWriter()
	for _, kv := range n.keys {
		out.Set(kv.Key, kv.Value)
	}
	if err := a.fillWhole(out, "the head", func(t *gguf.Tensor) filling { return n.rows[t.Name] }, n.rest, w, pool, budget); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// OfHead reports whether what is trained is a head, which drafts for a model.
func (a *Tuned) OfHead() bool { return a.whole != nil && a.whole.target != nil }

// CanHaveHead returns nil if a head can be trained for the model in f, else the reason.
func CanHaveHead(f *File) error {
	if f.Packed() {
		return errors.New("a packed file cannot be trained for; give the one that it was made of")
	}
	if _, err := newHead(f, HeadShape{}); err != nil {
		return err
	}
	s, err := NewSurvey(f, kernel.KVTypes{}, 0)
	if err == nil && s.Layout.Recurrent() {
		err = fmt.Errorf("%s carries a state along the text, and heads are trained for models that keep keys and values alone", s.Config.Arch)
	}
	return err
}

// A freshHead is a head before it is trained.
type freshHead struct {
	keys    []gguf.KV
	tensors []*gguf.Tensor // that are trained
	rows    map[string]filling
	rest    []*gguf.Tensor
	seed    uint64
}

// headLayers returns the layers of n whose inputs a head reads: a low, a middle and a high one, as Li et al. have it, of few
// layers those before the last.
func headLayers(n int) []int32 {
	low, high := min(2, n/3), n-3
	if n < 12 {
		high = n - 1
	}
	return []int32{int32(low), int32(n / 2), int32(high)}
}

func newHead(f *File, shape HeadShape) (*freshHead, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	n := cfg.NEmbd
	like := headLike(cfg)
	h := &freshHead{rows: map[string]filling{}, seed: shape.Seed}
	inputs := headLayers(len(cfg.Layers))
	if err := (&nn.Head{Arch: HeadArch, NEmbd: n, Width: n}).Fits(cfg); err != nil {
		return nil, err
	}
	set := func(key string, v any) { h.keys = append(h.keys, gguf.KV{Key: key, Value: v}) }
	of := func(key string, v any) { set(HeadArch+"."+key, v) }
	set("general.architecture", HeadArch)
	if cfg.Name != "" {
		set("general.name", "EAGLE-3 of "+cfg.Name)
	}
	eps := cfg.Eps
	if !(eps > 0) {
		eps = 1e-5
	}
	for _, x := range []struct {
		key string
		n   int
	}{
		{"context_length", cfg.NCtx}, {"embedding_length", n}, {"block_count", 1}, {"feed_forward_length", like.NFF},
		{"attention.head_count", like.NHead}, {"attention.head_count_kv", like.NHeadKV}, {"attention.key_length", like.HeadDim},
		{"attention.value_length", like.HeadDim}, {"rope.dimension_count", like.HeadDim}, {"target_hidden_size", n},
	} {
		of(x.key, uint32(x.n))
	}
	of("attention.layer_norm_rms_epsilon", eps)
	of("rope.freq_base", float32(like.Rope.Base))
	of("target_layers", inputs)
	of("norm_before_fc", true)
	of("norm_before_residual", false)
	for _, kv := range f.GGUF.KVs {
		if strings.HasPrefix(kv.Key, "tokenizer.") && kv.Key != "tokenizer.chat_template" {
			set(kv.Key, kv.Value)
		}
	}

	heads, kv := like.NHead*like.HeadDim, like.NHeadKV*like.HeadDim
	h.vector("enc.output_norm.weight", len(inputs)*n)
	h.matrix("fc.weight", len(inputs)*n, n)
	h.identity("fc.weight", (len(inputs)-1)*n, n)
	h.vector("blk.0.attn_norm.weight", n)
	h.vector("blk.0.attn_norm_2.weight", n)
	h.matrix("blk.0.attn_q.weight", 2*n, heads)
	h.matrix("blk.0.attn_k.weight", 2*n, kv)
	h.matrix("blk.0.attn_v.weight", 2*n, kv)
	h.matrix("blk.0.attn_output.weight", heads, n)
	h.vector("blk.0.ffn_norm.weight", n)
	h.matrix("blk.0.ffn_gate.weight", n, like.NFF)
	h.matrix("blk.0.ffn_up.weight", n, like.NFF)
	h.matrix("blk.0.ffn_down.weight", like.NFF, n)
	h.vector("output_norm.weight", n)
	return h, h.output(f, cfg, shape.Tokens)
}

// headLike returns the sizes of the layer of a head for a model: those of its last layer with attention, where they are of the
// usual kind.
func headLike(cfg *Config) nn.LayerConfig {
	n := cfg.NEmbd
	like := nn.LayerConfig{HeadDim: min(n, 128), NFF: (8*n/3 + 255) / 256 * 256}
	like.NHead = max(n/like.HeadDim, 1)
	like.NHeadKV = like.NHead
	like.Rope.Base = 10000
	for _, l := range cfg.Layers {
		if l.NFF > 0 && !l.Sparse && l.NFF%kernel.Panel == 0 {
			like.NFF = l.NFF
		}
		if l.Rope.Base > 0 && l.Window == 0 {
			like.Rope.Base = l.Rope.Base
		}
		plain := cfg.Latent == (nn.Latent{}) && l.NHeadKV > 0 && l.NHead%l.NHeadKV == 0 && l.HeadDim == l.ValueDim
		if plain && l.HeadDim%kernel.Panel == 0 {
			like.NHead, like.NHeadKV, like.HeadDim = l.NHead, l.NHeadKV, l.HeadDim
		}
	}
	return like
}

// add adds a tensor that is trained.
func (h *freshHead) add(name string, rows filling, dims ...uint64) {
	h.tensors = append(h.tensors, &gguf.Tensor{Name: name, Type: gguf.F32, Dims: dims})
	h.rows[name] = rows
}

// vector adds ones.
func (h *freshHead) vector(name string, n int) {
	h.add(name, func(do func(int, []float32) error) error { return do(0, slices.Repeat([]float32{1}, n)) }, uint64(n))
}

// matrix adds random numbers.
func (h *freshHead) matrix(name string, in, out int) {
	number := uint64(len(h.tensors))
	h.add(name, func(do func(int, []float32) error) error {
		rng, some := rand.New(rand.NewPCG(h.seed, number)), max(wholeRows/in, 1)
		rows := make([]float32, min(some, out)*in)
		for i := 0; i < out; i += some {
			rows = rows[:min(some, out-i)*in]
			randomBy(rng, rows, in)
			if err := do(i*in, rows); err != nil {
				return err
			}
		}
		return nil
	}, uint64(in), uint64(out))
}

// identity has a matrix pass on n of its columns, too.
func (h *freshHead) identity(name string, from, n int) {
	before, in := h.rows[name], from+n
	h.rows[name] = func(do func(int, []float32) error) error {
		return before(func(first int, rows []float32) error {
			for i := range len(rows) / in {
				rows[i*in+from+first/in+i]++
			}
			return do(first, rows)
		})
	}
}

// output adds the output matrix, of these tokens or all, and the map to them. It begins as the model's.
func (h *freshHead) output(f *File, cfg *Config, ids []int32) error {
	t, ok := f.GGUF.Tensor("output.weight")
	if !ok {
		t, ok = f.GGUF.Tensor(cfg.Embedding)
	}
	n := cfg.NEmbd
	if !ok || len(t.Dims) != 2 || int(t.Dims[0]) != n || int(t.Dims[1]) < cfg.NVocab || together(t) > 1 {
		return fmt.Errorf("%s has no output matrix of a row for each token, with which a head begins", cfg.Arch)
	}
	if err := kernel.Dequantize(typeOf(t), make([]float32, n), t.Data[:kernel.RowBytes(typeOf(t), n)]); err != nil {
		return unsupported(t, err) // which is to be known before there are answers
	}
	if norm, ok := f.GGUF.Tensor("output_norm.weight"); ok && norm.Elems() == uint64(n) {
		h.rows["output_norm.weight"] = func(do func(int, []float32) error) error { return eachRows(norm, do) }
	}
	count, which := cfg.NVocab, func(i int) int { return i }
	if ids != nil {
		if len(ids) == 0 || ids[0] < 0 || int(ids[len(ids)-1]) >= cfg.NVocab {
			return fmt.Errorf("%d tokens to guess among, of a vocabulary of %d", len(ids), cfg.NVocab)
		}
		count, which = len(ids), func(i int) int { return int(ids[i]) }
	}
	h.add("output.weight", func(do func(int, []float32) error) error { return theseRows(t, count, which, do) }, uint64(n), uint64(count))
	if ids == nil {
		return nil
	}
	data := make([]byte, 0, 8*len(ids))
	for _, id := range ids {
		data = binary.LittleEndian.AppendUint64(data, uint64(id))
	}
	h.rest = append(h.rest, &gguf.Tensor{Name: "d2t", Type: gguf.I64, Dims: []uint64{uint64(len(ids))}, Data: data})
	return nil
}

// HeadTokens returns which n tokens of a vocabulary a head is to guess among: those that texts' weights are most often of, and the
// first others; nil: all.
func HeadTokens(texts []Text, vocab, n int) []int32 {
	if vocab <= n {
		return nil
	}
	type token struct {
		id     int32
		weight float64
	}
	all := make([]token, vocab)
	for i := range all {
		all[i].id = int32(i)
	}
	for _, x := range texts {
		for i, w := range x.Weights {
			if w > 0 && !math.IsInf(float64(w), 0) && int(x.Tokens[i]) < vocab {
				all[x.Tokens[i]].weight += float64(w)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b token) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = all[i].id
	}
	slices.Sort(ids)
	return ids
}
