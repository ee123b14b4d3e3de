package quant

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// A Mix is a name under which a type is chosen for each tensor. Names and choices are those of llama-quantize;
// the trellis types have ik_llama.cpp's names and numbers, and choices of our own.
type Mix struct {
	Name string
	Kind uint32 // general.file_type
	Base gguf.Type
}

var mixes = []Mix{
	{"F32", 0, gguf.F32}, {"F16", 1, gguf.F16}, {"BF16", 32, gguf.BF16},
	{"Q8_0", 7, gguf.Q8_0}, {"Q5_1", 9, gguf.Q5_1}, {"Q5_0", 8, gguf.Q5_0}, {"Q4_1", 3, gguf.Q4_1}, {"Q4_0", 2, gguf.Q4_0},
	{"Q6_K", 18, gguf.Q6_K}, {"Q5_K_M", 17, gguf.Q5_K}, {"Q5_K_S", 16, gguf.Q5_K}, {"Q4_K_M", 15, gguf.Q4_K},
	{"Q4_K_S", 14, gguf.Q4_K}, {"Q3_K_L", 13, gguf.Q3_K}, {"Q3_K_M", 12, gguf.Q3_K}, {"Q3_K_S", 11, gguf.Q3_K},
	{"Q2_K", 10, gguf.Q2_K}, {"Q2_K_S", 21, gguf.Q2_K},
	{"IQ4_NL", 25, gguf.IQ4_NL}, {"IQ4_XS", 30, gguf.IQ4_XS},
	{"IQ3_M", 27, gguf.IQ3_S}, {"IQ3_S", 26, gguf.IQ3_S}, {"IQ3_XS", 22, gguf.IQ3_S}, {"IQ3_XXS", 23, gguf.IQ3_XXS},
	{"IQ2_M", 29, gguf.IQ2_S}, {"IQ2_S", 28, gguf.IQ2_XS}, {"IQ2_XS", 20, gguf.IQ2_XS}, {"IQ2_XXS", 19, gguf.IQ2_XXS},
	{"IQ1_M", 31, gguf.IQ1_M}, {"IQ1_S", 24, gguf.IQ1_S},
	{"TQ2_0", 37, gguf.TQ2_0}, {"TQ1_0", 36, gguf.TQ1_0},
	{"IQ4_KT", 153, gguf.IQ4_KT}, {"IQ3_KT", 152, gguf.IQ3_KT}, {"IQ2_KT", 151, gguf.IQ2_KT}, {"IQ1_KT", 156, gguf.IQ1_KT},
	{"MXFP4_MOE", 38, gguf.MXFP4}, {"NVFP4", 39, gguf.NVFP4}, {"Q2_0", 41, gguf.Q2_0}, {"Q1_0", 40, gguf.Q1_0},
}

// Mixes returns the names of all mixes.
func Mixes() []string {
	var names []string
	for _, m := range mixes {
		names = append(names, m.Name)
	}
	return names
}

// aliases are short names of mixes.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"}

// ParseMix returns the mix of a name in any case, or of its number.
func ParseMix(s string) (Mix, error) {
	name := strings.ToUpper(s)
	if full, ok := aliases[name]; ok {
		name = full
	}
	kind, err := strconv.ParseUint(s, 10, 32)
	for _, m := range mixes {
		if m.Name == name || err == nil && uint64(m.Kind) == kind {
			return m, nil
		}
	}
	return Mix{}, fmt.Errorf("unknown quantization %q, want one of %s", s, strings.Join(Mixes(), " "))
}

// An Override is a type for the tensors whose names a pattern matches.
type Override struct {
	Pattern *regexp.Regexp
	Type    gguf.Type
}

// Options are what llama-quantize's flags say about types.
type Options struct {
	Pure        bool       // one type for all, without a mix
	LeaveOutput bool       // output.weight stays as it is
	Output      *gguf.Type // of output.weight
	Embedding   *gguf.Type // of token_embd.weight
	Overrides   []Override // the first that matches; not where the mix is of plain floats
	Importance  Importance // nil: none
	Trellis     bool       // an Allocation chooses among the trellis types too
}

// A Choice is the type that a tensor gets.
type Choice struct {
	*gguf.Tensor
	To     gguf.Type
	Wanted gguf.Type // what To is in place of, where rows do not fit it; else To
}

// Choose returns the tensors of a file in the order in which they are written, by layer and then by name, with the types
// that a mix gives them.
func Choose(f *gguf.File, m Mix, o Options) ([]Choice, error) {
	r, err := newRecipe(f, m, o)
	if err != nil {
		return nil, err
	}
	var tensors []*gguf.Tensor
	for i := range f.Tensors {
		tensors = append(tensors, &f.Tensors[i])
	}
	slices.SortStableFunc(tensors, func(a, b *gguf.Tensor) int {
		return cmp.Or(cmp.Compare(LayerOf(a.Name), LayerOf(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for _, t := range tensors {
		switch roleOf(t.Name) {
		case attnV, attnQKV, attnKVB:
			r.nAttnV++
		case output:
			r.tied = false
		}
	}
	choices := make([]Choice, len(tensors))
	for i, t := range tensors {
		c := Choice{Tensor: t, To: t.Type, Wanted: t.Type}
		if r.takes(t) {
			if c.Wanted, c.To, err = r.choose(t); err != nil {
				return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
			}
		}
		choices[i] = c
	}
	return choices, nil
}

// A recipe chooses types, tensor by tensor in their order: some choices depend on how many there were before.
type recipe struct {
	mix Mix
	Options
	arch                    string
	nLayer, nExpert, nGroup int // nGroup: query heads to a key
	large                   bool
	tied                    bool

	nAttnV, iAttnV, iDown, iGate, iUp int
}

func newRecipe(f *gguf.File, m Mix, o Options) (*recipe, error) {
	arch, err := f.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	number := func(key string) int {
		if v, err := f.Uint(arch + "." + key); err == nil {
			return int(min(v, 1<<20))
		}
		if all, err := f.Ints(arch + "." + key); err == nil && len(all) > 0 {
			return int(min(max(all[0], 0), 1<<20))
		}
		return 0
	}
	r := &recipe{mix: m, Options: o, arch: arch, tied: true, nLayer: number("block_count"), nExpert: number("expert_count")}
	heads, keys := number("attention.head_count"), number("attention.head_count_kv")
	if keys == 0 {
		if _, ok := f.Value(arch + ".attention.head_count_kv"); !ok {
			keys = heads
		}
	}
	if keys > 0 {
		r.nGroup = heads / keys
	}
	switch arch {
	case "llama":
		r.large = r.nLayer == 80 && heads != keys
	case "qwen2", "olmo", "deci":
		r.large = r.nLayer == 80
	case "jais2":
		r.large = r.nLayer == 68
	}
	return r, nil
}

// A role is what a matrix does in the model.
type role int

const (
	other role = iota
	output
	embed
	attnQKV
	attnKVB
	attnV
	attnK
	attnQ
	attnOut
	ffnUp
	ffnGate
	ffnDown
)

// roleOf returns the role of a tensor by its name.
func roleOf(name string) role {
	switch name {
	case "output.weight":
		return output
	case "token_embd.weight", "per_layer_token_embd.weight":
		return embed
	}
	for _, r := range []struct {
		part string
		role role
	}{
		{"attn_qkv.weight", attnQKV}, {"attn_kv_b.weight", attnKVB}, {"attn_v.weight", attnV}, {"attn_k.weight", attnK},
		{"attn_q.weight", attnQ}, {"attn_output.weight", attnOut}, {"ffn_up", ffnUp}, {"ffn_gate", ffnGate}, {"ffn_down", ffnDown},
	} {
		if strings.Contains(name, r.part) {
			return r.role
		}
	}
	return other
}

// LayerOf returns the layer of a tensor by its name, -1 for one of none. Tensors are written layer by layer.
func LayerOf(name string) int {
	rest, ok := strings.CutPrefix(name, "blk.")
	digits, _, dot := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if !ok || !dot || err != nil {
		return -1
	}
	return n
}

// kept are parts of the names of matrices that stay as they are: small ones, and those that a rounding error spoils.
var kept = []string{
	"_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
	"ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight",
	"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight",
	"time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
	"time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
	"time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_",
	".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd",
}

// takes reports whether a tensor is quantized at all.
func (r *recipe) takes(t *gguf.Tensor) bool {
	dims := len(t.Dims)
	for dims > 1 && t.Dims[dims-1] == 1 {
		dims--
	}
	if dims < 2 || !strings.HasSuffix(t.Name, "weight") || t.Name == "position_embd.weight" || t.Name == "token_types.weight" {
		return false
	}
	if r.LeaveOutput && t.Name == "output.weight" {
		return false
	}
	return !slices.ContainsFunc(kept, func(part string) bool { return strings.Contains(t.Name, part) })
}

// choose returns the type that a tensor should get, and the one that its rows fit.
func (r *recipe) choose(t *gguf.Tensor) (wanted, fits gguf.Type, err error) {
	override, named := r.override(t.Name)
	switch role := roleOf(t.Name); {
	case role == embed && r.Embedding != nil && !(named && t.Name == "per_layer_token_embd.weight"):
		wanted = *r.Embedding
	case role == output && r.Output != nil:
		wanted = *r.Output
	case r.mix.Base.BlockElems() == 1:
		return r.mix.Base, r.mix.Base, nil
	case named:
		wanted = override
	case r.Pure:
		wanted = r.mix.Base
	default:
		if wanted, err = r.mixed(t, role); err != nil {
			return 0, 0, err
		}
	}
	return wanted, Fallback(wanted, int(t.Dims[0])), nil
}

func (r *recipe) override(name string) (gguf.Type, bool) {
	for _, o := range r.Overrides {
		if o.Pattern.MatchString(name) {
			return o.Type, true
		}
	}
	return 0, false
}
