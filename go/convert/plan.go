package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/projector"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// A group is the tensors of a checkpoint that one use of a rule takes together.
type group struct {
	rule   *lang.Rule
	layer  int
	suffix string
	parts  [][]string // names by the position in From, then by expert
}

// plan returns the tensors that are written.
func (m *Model) plan() ([]*lang.Target, error) {
	groups, err := m.groups()
	if err != nil {
		return nil, err
	}
	var all []*lang.Target
	for _, g := range groups {
		made, err := m.make(g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.dir, err)
		}
		all = append(all, made...)
	}
	for name, v := range m.factors {
		all = append(all, &lang.Target{Name: name, View: v})
	}
	if m.family.Extra != nil {
		for name, v := range m.family.Extra(m.config) {
			all = append(all, &lang.Target{Name: name, View: v})
		}
	}
	if m.config.Err() != nil {
		return nil, m.config.Err()
	}
	slices.SortStableFunc(all, func(a, b *lang.Target) int {
		return cmp.Or(cmp.Compare(layerOf(a.Name), layerOf(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for i, t := range all {
		if i > 0 && t.Name == all[i-1].Name {
			return nil, fmt.Errorf("%s: two tensors become %s", m.dir, t.Name)
		}
		if err := m.setType(t); err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", m.dir, t.Name, err)
		}
	}
	for _, t := range all {
		t.Held = slices.DeleteFunc(t.Held, func(h lang.Held) bool { return h.Scales != nil && beside(t, h, all) == nil })
	}
	if m.kind.auto {
		m.kind.typ = kept(all, m.kind.typ)
	}
	return all, nil
}

// layerOf returns the number of a tensor's layer, -1 if it is outside of layers.
func layerOf(name string) int {
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil {
			return n
		}
	}
	return -1
}

// groups finds the rule of each tensor.
func (m *Model) groups() ([]*group, error) {
	type key struct {
		rule   *lang.Rule
		layer  int
		suffix string
	}
	found := map[key]*group{}
	var list []*group
	for _, name := range m.names() {
		if m.skipped(name) {
			continue
		}
		s := m.source(name)
		r, part, suffix := lang.Match(m.family.Rules, s)
		switch {
		case r == nil && m.quantized.Zeros(m.weights.Tensor(name)):
			continue
		case r == nil:
			return nil, fmt.Errorf("%s: tensor %q is none of %s's; it is left out with --skip %q", m.dir, name,
				m.kin(), name)
		case s.Layer >= m.layers:
			return nil, fmt.Errorf("%s: tensor %q is of layer %d, config.json has %d", m.dir, name, s.Layer, m.layers)
		case r.To == "":
			continue
		}
		k := key{r, s.Layer, suffix}
		g := found[k]
		if g == nil {
			g = &group{rule: r, layer: s.Layer, suffix: suffix,
				parts: make([][]string, len(strings.Fields(r.From)))}
			found[k] = g
			list = append(list, g)
		}
		m.config.Layer = s.Layer
		expert := max(s.Expert, 0)
		if limit := max(m.stacked(s.Name), 1); s.Expert >= limit {
			return nil, fmt.Errorf("%s: tensor %q has the number %d, config.json has %d", m.dir, name, s.Expert, limit)
		}
		for len(g.parts[part]) <= expert {
			g.parts[part] = append(g.parts[part], "")
		}
		if was := g.parts[part][expert]; was != "" {
			return nil, fmt.Errorf("%s: tensors %q and %q are the same one", m.dir, was, name)
		}
		g.parts[part][expert] = name
	}
	return list, nil
}

// source returns the name of a tensor as the family's rules have it.
func (m *Model) source(name string) lang.Source {
	if m.projector {
		return projector.Parse(m.family.Rename(m.config, name))
	}
	known := lang.Plain(name)
	if m.family.Rename != nil {
		known = m.family.Rename(m.config, known)
	}
	return lang.Parse(known, m.family.Trim())
}

// stacked returns the number of tensors that a name with a * stands for.
func (m *Model) stacked(name string) int {
	if m.family.Count != nil {
		if n := m.family.Count(m.config, name); n > 0 {
			return n
		}
	}
	return m.config.Experts()
}

// make applies the rule of a group to its tensors.
func (m *Model) make(g *group) ([]*lang.Target, error) {
	names := lang.Targets(g.rule, g.layer, g.suffix)
	m.config.Layer = g.layer
	var in []lang.View
	for i, list := range g.parts {
		from := strings.Fields(g.rule.From)[i]
		if !strings.Contains(from, "*") {
			if len(list) == 0 {
				return nil, fmt.Errorf("tensor %s is missing, of which with others %s is made", from, names[0])
			}
			v, err := m.of(list[0])
			if err != nil {
				return nil, err
			}
			in = append(in, v)
			continue
		}
		if n := m.stacked(from); len(list) != n || slices.Contains(list, "") {
			return nil, fmt.Errorf("%s of layer %d: not all of %d are there", from, g.layer, n)
		}
		var each []lang.View
		for _, name := range list {
			v, err := m.of(name)
			if err != nil {
				return nil, err
			}
			each = append(each, v)
		}
		v, err := lang.Stacked(each)
		if err != nil {
			return nil, fmt.Errorf("%s of layer %d: they have %w", from, g.layer, err)
		}
		in = append(in, v)
	}
	if g.rule.Do != nil {
		var err error
		if in, err = g.rule.Do(m.config, in); err != nil {
			return nil, fmt.Errorf("tensor %s has %w", names[0], err)
		}
	}
	if len(in) != len(names) {
		panic("a rule for " + g.rule.From + " makes another number of tensors than it names")
	}
	var all []*lang.Target
	was := slices.ContainsFunc(slices.Concat(g.parts...), m.quantized.Has)
	for i, v := range in {
		all = append(all, &lang.Target{Name: names[i], Type: v.Type, Quantized: was, View: v})
	}
	return all, nil
}

// of returns a tensor of the checkpoint as a view: a quantized one as numbers, one in several files as a whole.
func (m *Model) of(name string) (lang.View, error) {
	if v, ok := m.quantized.View(name); ok {
		return v, nil
	}
	t := m.weights.Tensor(name)
	if parts := m.weights.Parts(t.Name); parts != nil {
		return m.whole(parts)
	}
	v := lang.View{Shape: slices.Clone(t.Shape), Read: t.Floats}
	if len(v.Shape) == 0 {
		v.Shape = []uint64{1}
	}
	if scale := m.weights.Tensor(strings.TrimSuffix(t.Name, ".weight") + ".scale"); scale != nil &&
		(t.DType == safetensors.I8 || t.DType == safetensors.U8) {
		return fours(t, scale)
	}
	switch t.DType {
	case safetensors.U8:
		v.Bytes = copied(t)
		return v, nil
	case safetensors.F8E4M3, safetensors.F8E5M2:
		return m.scaled(t, v)
	case safetensors.F64, safetensors.F32, safetensors.F16, safetensors.BF16, safetensors.I64, safetensors.I32:
		return v, nil
	}
	return lang.View{}, fmt.Errorf("tensor %q is %s, want floats", t.Name, t.DType)
}

// whole joins the parts of a tensor, along the rows unless the family says otherwise.
func (m *Model) whole(parts []*safetensors.Tensor) (lang.View, error) {
	var all []lang.View
	for _, t := range parts {
		if t.DType != safetensors.F32 && t.DType != safetensors.F16 && t.DType != safetensors.BF16 ||
			len(t.Shape) == 0 {
			return lang.View{}, fmt.Errorf("tensor %q is in parts of %s, want floats", t.Name, t.DType)
		}
		all = append(all, lang.View{Shape: slices.Clone(t.Shape), Read: t.Floats})
	}
	if m.family.Across != "" && strings.HasSuffix(parts[0].Name, m.family.Across) {
		return lang.Beside(all...)
	}
	return lang.Joined(all...)
}

// setType chooses the type of a tensor in the file.
func (m *Model) setType(t *lang.Target) error {
	if m.projector {
		return setProjectorType(t, m.kind.typ, m.family)
	}
	return setType(t, m.kind.typ)
}

// setType chooses the type of a tensor in the file, as llama.cpp's converter does: vectors, norms and small matrices
// stay F32, and matrices whose rows are not whole blocks become F16.
func setType(t *lang.Target, want gguf.Type) error {
	t.Dims = slices.Clone(t.Shape)
	slices.Reverse(t.Dims)
	if t.Bytes != nil {
		if t.Type == gguf.F32 {
			return fmt.Errorf("bytes, want floats")
		}
	} else if t.Type = want; len(t.Dims) <= 1 || floats(t.Name) {
		t.Type = gguf.F32
	} else if len(t.Dims) > 0 && t.Dims[0]%uint64(want.BlockElems()) != 0 {
		t.Type = gguf.F16
	}
	_, err := t.Type.Size(t.Dims)
	return err
}

// floats reports whether a tensor stays F32.
func floats(name string) bool {
	if !strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, "_norm.weight") {
		return true
	}
	module := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(name, ".weight"), "enc."), "dec.")
	if rest, ok := strings.CutPrefix(module, "blk."); ok {
		_, module, _ = strings.Cut(rest, ".")
	}
	return slices.Contains([]string{
		"ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv",
		"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v", "altup_correct_coef", "altup_predict_coef", "indexer.proj",
		"ple_conv1d", "hc_attn_fn", "hc_ffn_fn", "output_hc_fn",
		"time_mix_first", "time_mix_w1", "time_mix_w2", "time_mix_decay_w1", "time_mix_decay_w2", "time_mix_lerp_fused",
	}, module)
}

// kept gives quantized matrices the type whose blocks hold them, or else F16, the nearest of 16 bits. It returns the type of
// most numbers in matrices, and typ if none is quantized.
func kept(all []*lang.Target, typ gguf.Type) gguf.Type {
	counts, some := map[gguf.Type]uint64{}, false
	for _, t := range all {
		if len(t.Dims) < 2 || t.Bytes != nil || floats(t.Name) {
			continue
		}
		if t.Quantized {
			t.Type, some = gguf.F16, true
			for _, h := range t.Held {
				if t.Dims[0]%uint64(h.Type.BlockElems()) == 0 {
					t.Type = h.Type
					break
				}
			}
		}
		counts[t.Type] += t.Elems()
	}
	if some {
		for _, t := range slices.Sorted(maps.Keys(counts)) {
			if counts[t] > counts[typ] {
				typ = t
			}
		}
	}
	return typ
}

// beside returns the tensor with the scales of blocks that are multiplied by some, nil if it can't be there.
func beside(t *lang.Target, h lang.Held, all []*lang.Target) *lang.Target {
	base, ok := strings.CutSuffix(t.Name, ".weight")
	if !ok || len(t.Dims) < 2 || strings.Contains(base, "token_embd") { // rows are looked up as they are
		return nil
	}
	matrices := uint64(1)
	for _, d := range t.Dims[2:] {
		matrices *= d
	}
	factors, ok := h.Factors(matrices)
	name := base + ".scale"
	if !ok || slices.ContainsFunc(all, func(other *lang.Target) bool { return other.Name == name }) {
		return nil
	}
	return &lang.Target{Name: name, Type: gguf.F32, Dims: []uint64{matrices}, View: lang.Constant(factors)}
}

// hold takes blocks of the checkpoint for the tensors whose type has them.
func (m *Model) hold() {
	var all []*lang.Target
	for _, t := range m.targets {
		all = append(all, t)
		h, ok := t.HeldAs(t.Type)
		if !ok || t.Bytes != nil || len(t.Dims) == 0 || t.Dims[0]%uint64(h.Type.BlockElems()) != 0 {
			continue
		}
		t.Bytes = h.Bytes
		if h.Scales != nil {
			all = append(all, beside(t, h, m.targets))
		}
	}
	m.targets = all
}
