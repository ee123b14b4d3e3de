// Package scratch makes models from nothing: by their shape, with random weights and a vocabulary that is learnt from texts.
// They are files of GGUF like others, from which training begins.
package scratch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Shape is what a model is to be. Fields that are 0 or empty have a meaning of their own.
type Shape struct {
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"` // llama or qwen3
	Layers       int     `json:"layers"`
	Width        int     `json:"width"`
	Heads        int     `json:"heads"`
	KVHeads      int     `json:"kv_heads"`   // 0: as many as heads
	HeadDim      int     `json:"head_dim"`   // 0: the width divided by the heads
	Hidden       int     `json:"hidden"`     // columns of the feed-forward
	Context      int     `json:"context"`    // tokens
	RopeBase     float64 `json:"rope_base"`  // 0: 10000
	Eps          float64 `json:"eps"`        // of norms; 0: 1e-5
	Tied         bool    `json:"tied"`       // the embeddings are also the output matrix
	Vocabulary   int     `json:"vocabulary"` // tokens

	Words    string   `json:"words"`    // how texts are cut before tokens are learnt; empty: gpt-2
	Control  []string `json:"control"`  // tokens that are no text, of which the first begins texts and the second ends them; empty: DefaultControl
	Template string   `json:"template"` // of chats; empty: one of the roles system, user and assistant, with DefaultControl
}

// DefaultControl are the control tokens where a Shape has none.
var DefaultControl = []string{"<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"}

// template writes chats with DefaultControl.
const template = "{{ bos_token }}{% for message in messages %}" +
	"{% if message.role not in ['system', 'user', 'assistant'] %}" +
	"{{ raise_exception('roles are system, user and assistant, not ' ~ message.role) }}{% endif %}" +
	"{{ '<|' ~ message.role ~ '|>' ~ message.content | trim ~ '<|end|>' }}" +
	"{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

// Limits of shapes.
const (
	maxShape     = 1 << 20 // bytes of a description
	maxLayers    = 1 << 10
	maxColumns   = 1 << 17 // of the width, of hidden, of all heads together
	maxContext   = 1 << 24
	maxControl   = 1 << 10
	maxNumbers   = 1 << 40
	defaultWords = "gpt-2"
)

// Read reads a description in JSON. Errors name the field.
func Read(in io.Reader) (s Shape, err error) {
	text, err := io.ReadAll(io.LimitReader(in, maxShape+1))
	if err == nil && len(text) > maxShape {
		err = errors.New("too long for a shape")
	}
	if err != nil {
		return s, err
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return s, fmt.Errorf("%s: a JSON %s is not what it takes", wrong.Field, wrong.Value)
		}
		return s, err
	}
	if d.More() {
		return s, errors.New("more than one shape")
	}
	return s.complete()
}

// complete returns the shape with what its zeros mean, or an error that names a field.
func (s Shape) complete() (Shape, error) {
	if s.KVHeads == 0 {
		s.KVHeads = s.Heads
	}
	if s.HeadDim == 0 && s.Heads > 0 {
		s.HeadDim = s.Width / s.Heads
	}
	if s.RopeBase == 0 {
		s.RopeBase = 10000
	}
	if s.Eps == 0 {
		s.Eps = 1e-5
	}
	if s.Words == "" {
		s.Words = defaultWords
	}
	if len(s.Control) == 0 {
		s.Control = DefaultControl
		if s.Template == "" {
			s.Template = template
		}
	}
	within := func(n, low, high int) bool { return n >= low && n <= high }
	switch {
	case s.Architecture != "llama" && s.Architecture != "qwen3":
		return s, fmt.Errorf("architecture %q, want llama or qwen3", s.Architecture)
	case !within(s.Layers, 1, maxLayers):
		return s, fmt.Errorf("layers %d, want 1 to %d", s.Layers, maxLayers)
	case !within(s.Width, 1, maxColumns) || !within(s.Hidden, 1, maxColumns):
		return s, fmt.Errorf("width %d and hidden %d, want 1 to %d", s.Width, s.Hidden, maxColumns)
	case !within(s.Heads, 1, maxColumns) || !within(s.KVHeads, 1, s.Heads) || s.Heads%s.KVHeads != 0:
		return s, fmt.Errorf("heads %d and kv_heads %d, want as many, or a multiple", s.Heads, s.KVHeads)
	case !within(s.HeadDim, 2, 512) || s.HeadDim%2 != 0 || s.Heads*s.HeadDim > maxColumns:
		return s, fmt.Errorf("head_dim %d, want an even number from 2 to 512", s.HeadDim)
	case !within(s.Context, 2, maxContext):
		return s, fmt.Errorf("context %d, want 2 to %d", s.Context, maxContext)
	case !(s.RopeBase >= 1 && s.RopeBase <= 1e12) || !(s.Eps >= 1e-12 && s.Eps <= 1):
		return s, fmt.Errorf("rope_base %v and eps %v, want numbers such as 10000 and 1e-5", s.RopeBase, s.Eps)
	case len(s.Control) < 2 || len(s.Control) > maxControl || slices.Contains(s.Control, ""):
		return s, fmt.Errorf("control has %d tokens, want 2 to %d that are not empty", len(s.Control), maxControl)
	}
	if twice := slices.Compact(slices.Sorted(slices.Values(s.Control))); len(twice) < len(s.Control) {
		return s, errors.New("control has a token twice")
	}
	if at := slices.IndexFunc(s.Control, tokenizer.IsByte); at >= 0 {
		return s, fmt.Errorf("control has %q, which is the token of a byte; give it a longer name, such as %q", s.Control[at], "<|"+s.Control[at]+"|>")
	}
	if _, err := chat.Parse(s.Template, chat.SpecialTokens{}); err != nil {
		return s, fmt.Errorf("template: %w", err)
	}
	if n := s.numbers(); n > maxNumbers {
		return s, fmt.Errorf("%.3g weights, want at most %.3g", float64(n), float64(maxNumbers))
	}
	return s, nil
}

// numbers returns how many weights there are, about.
func (s *Shape) numbers() int {
	return s.Vocabulary*s.Width + s.Layers*s.Width*(2*(s.Heads+s.KVHeads)*s.HeadDim+3*s.Hidden)
}

// Model returns the file of a new model: its vocabulary is learnt from texts, and its weights are random by the seed, with the
// same bits everywhere.
func (s Shape) Model(texts iter.Seq[string], seed uint64) (*gguf.Writer, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	v, err := tokenizer.LearnBPE(texts, s.Vocabulary, s.Words, s.Control)
	if err != nil {
		return nil, err
	}
	s.Vocabulary = len(v.Tokens)
	w := gguf.NewWriter()
	s.metadata(w)
	s.vocabulary(w, v)
	s.tensors(w, seed)
	return w, nil
}

func (s *Shape) metadata(w *gguf.Writer) {
	w.Set("general.architecture", s.Architecture)
	if s.Name != "" {
		w.Set("general.name", s.Name)
	}
	w.Set("general.file_type", uint32(0))
	for _, x := range []struct {
		key string
		n   int
	}{
		{"context_length", s.Context}, {"embedding_length", s.Width}, {"block_count", s.Layers}, {"feed_forward_length", s.Hidden},
		{"attention.head_count", s.Heads}, {"attention.head_count_kv", s.KVHeads}, {"attention.key_length", s.HeadDim},
		{"attention.value_length", s.HeadDim}, {"rope.dimension_count", s.HeadDim}, {"vocab_size", s.Vocabulary},
	} {
		w.Set(s.Architecture+"."+x.key, uint32(x.n))
	}
	w.Set(s.Architecture+".rope.freq_base", float32(s.RopeBase))
	w.Set(s.Architecture+".attention.layer_norm_rms_epsilon", float32(s.Eps))
}

func (s *Shape) vocabulary(w *gguf.Writer, v *tokenizer.Learnt) {
	const normal, control = 1, 3
	kinds := slices.Repeat([]int32{normal}, len(v.Tokens))
	for i := range s.Control {
		kinds[i] = control
	}
	w.Set("tokenizer.ggml.model", "gpt2")
	w.Set("tokenizer.ggml.pre", v.Pre)
	w.Set("tokenizer.ggml.tokens", v.Tokens)
	w.Set("tokenizer.ggml.token_type", kinds)
	w.Set("tokenizer.ggml.merges", v.Merges)
	w.Set("tokenizer.ggml.bos_token_id", uint32(0))
	w.Set("tokenizer.ggml.eos_token_id", uint32(1))
	w.Set("tokenizer.ggml.add_bos_token", true)
	w.Set("tokenizer.ggml.add_eos_token", false)
	if s.Template != "" {
		w.Set("tokenizer.chat_template", s.Template)
	}
}

// tensors adds the weights. Norms are ones. Others have a standard deviation of 0.02, those that write to the residual less
// the more layers there are (Radford et al. 2019).
func (s *Shape) tensors(w *gguf.Writer, seed uint64) {
	number := uint64(0)
	matrix := func(name string, in, out int, deviation float64) {
		i := number
		number++
		w.AddTensor(name, gguf.F32, []uint64{uint64(in), uint64(out)}, func(to io.Writer) error {
			return random(to, rand.New(rand.NewPCG(seed, i)), in*out, deviation)
		})
	}
	norm := func(name string, n int) {
		w.AddTensor(name, gguf.F32, []uint64{uint64(n)}, func(to io.Writer) error {
			return binary.Write(to, binary.LittleEndian, slices.Repeat([]float32{1}, n))
		})
	}
	const deviation = 0.02
	into := deviation / math.Sqrt(float64(2*s.Layers))
	matrix("token_embd.weight", s.Width, s.Vocabulary, deviation)
	norm("output_norm.weight", s.Width)
	if !s.Tied {
		matrix("output.weight", s.Width, s.Vocabulary, deviation)
	}
	for il := range s.Layers {
		layer := fmt.Sprintf("blk.%d.", il)
		norm(layer+"attn_norm.weight", s.Width)
		matrix(layer+"attn_q.weight", s.Width, s.Heads*s.HeadDim, deviation)
		matrix(layer+"attn_k.weight", s.Width, s.KVHeads*s.HeadDim, deviation)
		matrix(layer+"attn_v.weight", s.Width, s.KVHeads*s.HeadDim, deviation)
		matrix(layer+"attn_output.weight", s.Heads*s.HeadDim, s.Width, into)
		if s.Architecture == "qwen3" {
			norm(layer+"attn_q_norm.weight", s.HeadDim)
			norm(layer+"attn_k_norm.weight", s.HeadDim)
		}
		norm(layer+"ffn_norm.weight", s.Width)
		matrix(layer+"ffn_gate.weight", s.Width, s.Hidden, deviation)
		matrix(layer+"ffn_up.weight", s.Width, s.Hidden, deviation)
		matrix(layer+"ffn_down.weight", s.Hidden, s.Width, into)
	}
}

// random writes n numbers of a uniform distribution around 0: no function that rounds otherwise elsewhere makes them.
func random(to io.Writer, rng *rand.Rand, n int, deviation float64) error {
	most := deviation * math.Sqrt(3)
	some := make([]float32, min(n, 1<<14))
	for ; n > 0; n -= len(some) {
		some = some[:min(n, len(some))]
		for i := range some {
			u := rng.Float64() - 0.5
			some[i] = float32(float64(2*u) * most)
		}
		if err := binary.Write(to, binary.LittleEndian, some); err != nil {
			return err
		}
	}
	return nil
}
