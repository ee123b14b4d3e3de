package model

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/model/arch"
)

// Config is the sizes and constants of a model.
type Config = arch.Config

// What a model may measure. Real ones stay far below; a file beyond is damaged
// or means harm, and is refused before its numbers size anything.
const (
	maxCtx     = 1 << 28
	maxEmbd    = 1 << 20
	maxFF      = 1 << 22
	maxLayer   = 1 << 12
	maxHead    = 1 << 14
	maxHeadDim = 1 << 12
	maxVocab   = 1 << 24
	maxExpert  = 1 << 12
	maxUsed    = 1 << 8
)

// ReadConfig converts the metadata of a file. Errors name the key.
func ReadConfig(f *gguf.File) (*Config, error) {
	name, err := f.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	if _, err := arch.Lookup(name); err != nil {
		return nil, err
	}
	k := keys{f: f, prefix: name + "."}
	c := &Config{Arch: name}
	c.Name, _ = f.Str("general.name")

	c.NCtx = k.int("context_length", 1, maxCtx)
	c.NEmbd = k.int("embedding_length", 1, maxEmbd)
	c.NLayer = k.int("block_count", 1, maxLayer)
	c.NHead = k.int("attention.head_count", 1, maxHead)
	c.NHeadKV = k.intOr("attention.head_count_kv", c.NHead, 1, c.NHead)
	c.RMSEps = float32(k.float("attention.layer_norm_rms_epsilon", 0, 1))
	if k.err == nil && c.NHead%c.NHeadKV != 0 {
		k.fail("attention.head_count_kv", "%d, want a divisor of the %d heads", c.NHeadKV, c.NHead)
	}

	if k.has("attention.key_length") {
		c.HeadDim = k.int("attention.key_length", 1, maxHeadDim)
	} else if k.err == nil {
		c.HeadDim = c.NEmbd / c.NHead
		if c.NEmbd%c.NHead != 0 {
			k.fail("attention.head_count", "%d, want a divisor of the embedding length %d", c.NHead, c.NEmbd)
		}
	}
	if v := k.intOr("attention.value_length", c.HeadDim, 1, maxHeadDim); v != c.HeadDim {
		k.fail("attention.value_length", "%d, want the key length %d", v, c.HeadDim)
	}

	c.NExpert = k.intOr("expert_count", 0, 0, maxExpert)
	if c.NExpert > 0 {
		c.NExpertUsed = k.int("expert_used_count", 1, min(c.NExpert, maxUsed))
	}
	if c.NExpert == 0 || !k.has("expert_feed_forward_length") {
		c.NFF = k.int("feed_forward_length", 1, maxFF)
	}
	c.NFFExpert = k.intOr("expert_feed_forward_length", c.NFF, 0, maxFF)

	c.NRot = k.intOr("rope.dimension_count", c.HeadDim, 2, max(c.HeadDim, 2))
	if k.err == nil && c.NRot%2 != 0 {
		k.fail("rope.dimension_count", "%d, want an even number", c.NRot)
	}
	c.RopeTheta = k.floatOr("rope.freq_base", 10000, 1.001, 1e15)
	c.Rope = k.rope(c.NCtx)
	if k.err != nil {
		return nil, k.err
	}
	if c.NVocab, err = vocab(f); err != nil {
		return nil, err
	}
	return c, nil
}

// vocab returns the rows of the embedding. That is what logits are made for:
// the tokenizer may know fewer, where a model's vocabulary was padded.
func vocab(f *gguf.File) (int, error) {
	const name = "token_embd.weight"
	t, ok := f.Tensor(name)
	if !ok {
		return 0, missingTensor(name)
	}
	if len(t.Dims) != 2 || t.Dims[1] > maxVocab {
		return 0, fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", name, t.Dims, maxVocab)
	}
	return int(t.Dims[1]), nil
}

// rope reads how the rotations are stretched.
func (k *keys) rope(nCtx int) arch.RopeScaling {
	s := arch.RopeScaling{Type: "none", Factor: 1, NCtxOrig: nCtx, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	const typ = "rope.scaling.type"
	switch {
	case k.has(typ):
		var err error
		if s.Type, err = k.f.Str(k.prefix + typ); err != nil {
			k.keep(err)
			return s
		}
	case k.has("rope.scaling.factor") || k.has("rope.scale_linear"):
		s.Type = "linear" // what the key meant before there were types
	}
	if !slices.Contains([]string{"none", "linear", "yarn"}, s.Type) {
		k.fail(typ, "%.40q is not supported, supported are none linear yarn", s.Type)
		return s
	}
	if s.Type == "none" {
		return s
	}
	s.Factor = k.floatOr("rope.scaling.factor", k.floatOr("rope.scale_linear", 1, 0, 1e6), 0, 1e6)
	if s.Factor == 0 { // how some files say that there is none
		s.Factor = 1
	}
	if s.Type != "yarn" {
		return s
	}
	s.NCtxOrig = k.intOr("rope.scaling.original_context_length", nCtx, 1, maxCtx)
	s.ExtFactor = k.floatOr("rope.scaling.yarn_ext_factor", 1, 0, 1)
	s.AttnFactor = k.floatOr("rope.scaling.yarn_attn_factor", k.floatOr("rope.scaling.attn_factor", 1, 1e-3, 1e3), 1e-3, 1e3)
	s.BetaFast = k.floatOr("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6)
	s.BetaSlow = k.floatOr("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6)
	return s
}

// keys reads the keys of an architecture. After the first error it returns
// zeros, and the error is kept.
type keys struct {
	f      *gguf.File
	prefix string
	err    error
}

func (k *keys) keep(err error) {
	if k.err == nil {
		k.err = err
	}
}

func (k *keys) fail(key, format string, args ...any) {
	k.keep(fmt.Errorf("key %q: %s", k.prefix+key, fmt.Sprintf(format, args...)))
}

func (k *keys) has(key string) bool {
	_, ok := k.f.Value(k.prefix + key)
	return ok
}

// int returns a key from lo to hi. It may be an array, with an element for each
// layer, as long as all are equal.
func (k *keys) int(key string, lo, hi int) int {
	n, err := k.f.Int(k.prefix + key)
	if errors.Is(err, gguf.ErrFormat) {
		if all, arrErr := k.f.Ints(k.prefix + key); arrErr == nil && len(all) > 0 {
			n, err = all[0], nil
			if i := slices.IndexFunc(all, func(v int64) bool { return v != n }); i >= 0 {
				k.fail(key, "%d in layer 0 and %d in layer %d, layers that differ are not supported", n, all[i], i)
				return 0
			}
		}
	}
	if err != nil {
		k.keep(err)
		return 0
	}
	if n < int64(lo) || n > int64(hi) {
		k.fail(key, "%d, want %d to %d", n, lo, hi)
		return 0
	}
	return int(n)
}

func (k *keys) intOr(key string, def, lo, hi int) int {
	if !k.has(key) {
		return def
	}
	return k.int(key, lo, hi)
}

func (k *keys) float(key string, lo, hi float64) float64 {
	v, err := k.f.Float(k.prefix + key)
	if err != nil {
		k.keep(err)
		return 0
	}
	if !(v >= lo && v <= hi) || math.IsInf(v, 0) { // NaN is in no range
		k.fail(key, "%v, want %v to %v", v, lo, hi)
		return 0
	}
	return v
}

func (k *keys) floatOr(key string, def, lo, hi float64) float64 {
	if !k.has(key) {
		return def
	}
	return k.float(key, lo, hi)
}
