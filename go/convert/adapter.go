package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

const (
	adapterWeights = "adapter_model.safetensors"
	adapterConfig  = "adapter_config.json"
)

// An Adapter is a LoRA adapter in PEFT's format, ready to be written as GGUF.
type Adapter struct {
	dir     string
	weights *safetensors.Checkpoint
	output
}

// IsAdapter reports whether path is a folder with an adapter.
func IsAdapter(path string) bool {
	_, err := os.Stat(filepath.Join(path, adapterConfig))
	return err == nil
}

// A pair is the two matrices that change one matrix of the model, and the magnitudes of its rows, if it has some (DoRA).
type pair struct{ a, b, m *safetensors.Tensor }

// OpenAdapter reads an adapter's settings and the list of its tensors, and checks that they fit its base model. That is
// the model in the folder base, or in the folder that adapter_config.json names if base is empty; of it only
// config.json is read.
func OpenAdapter(dir, base string, o Options) (_ *Adapter, err error) {
	settings, err := hf.ReadFile(filepath.Join(dir, adapterConfig))
	if err != nil {
		return nil, err
	}
	if base == "" {
		base = settings.Text("base_model_name_or_path")
		if _, err := os.Stat(filepath.Join(base, "config.json")); base == "" || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: the model that it is made for, %.80q, is no folder here; name it with --base",
				settings.Path(), base)
		}
	}
	model, err := hf.Read(base)
	if err != nil {
		return nil, err
	}
	f, err := family.Of(model)
	if err != nil {
		return nil, err
	}
	a := &Adapter{dir: dir, output: output{threads: o.Threads, progress: o.Progress}}
	if a.weights, err = safetensors.OpenFile(filepath.Join(dir, adapterWeights)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	dora := settings.Flag("use_dora")
	pairs, rank, err := a.pairs(dora)
	if err != nil {
		return nil, err
	}
	alpha, err := alphaOf(settings, rank)
	if err != nil {
		return nil, err
	}
	kind, err := parseKind(o.Type, func() gguf.Type { return gguf.F16 })
	if err == nil && kind.mixed {
		err = fmt.Errorf("an adapter as %s; want f32, f16, bf16 or q8_0", o.Type)
	}
	if err != nil {
		return nil, err
	}
	layers := (&lang.Keys{Config: model, Arch: f.Arch}).All(f)
	if model.Err() != nil {
		return nil, model.Err()
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		if err := a.add(name, pairs[name], f, model, layers, kind.typ); err != nil {
			return nil, fmt.Errorf("%s: %w", a.path(), err)
		}
	}
	if model.Err() != nil {
		return nil, model.Err()
	}
	kindOf := "lora"
	if dora {
		kindOf = "dora"
	}
	a.keys = []gguf.KV{
		{Key: "general.architecture", Value: f.Arch}, {Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: kindOf}, {Key: "adapter.lora.alpha", Value: float32(alpha)},
		{Key: "general.quantization_version", Value: uint32(quantizationVersion)},
	}
	return a, nil
}

func (a *Adapter) path() string { return filepath.Join(a.dir, adapterWeights) }

// Close closes the adapter's file.
func (a *Adapter) Close() error { return a.weights.Close() }

// Name returns a name for the file: that of the folder.
func (a *Adapter) Name() string { return filepath.Base(filepath.Clean(a.dir)) + "-lora" }

// pairs finds the pairs of matrices by the names of the matrices that they change, and their rank; with magnitudes each has those
// too.
func (a *Adapter) pairs(magnitudes bool) (map[string]*pair, uint64, error) {
	all := map[string]*pair{}
	rank := uint64(0)
	for _, name := range a.weights.Names() {
		t := a.weights.Tensor(name)
		plain := strings.TrimPrefix(strings.TrimPrefix(name, "base_model.model."), "base_model.")
		base, isA := strings.CutSuffix(plain, ".lora_A.weight")
		if !isA {
			base, isA = strings.CutSuffix(plain, ".lora_A.default.weight")
		}
		isB := false
		if !isA {
			if base, isB = strings.CutSuffix(plain, ".lora_B.weight"); !isB {
				base, isB = strings.CutSuffix(plain, ".lora_B.default.weight")
			}
		}
		isM := false
		if !isA && !isB && magnitudes && len(t.Shape) == 1 {
			if base, isM = strings.CutSuffix(plain, ".lora_magnitude_vector"); !isM {
				base, isM = strings.CutSuffix(plain, ".lora_magnitude_vector.default.weight")
			}
		}
		if !isM && (!isA && !isB || len(t.Shape) != 2) {
			return nil, 0, fmt.Errorf("%s: tensor %q of the shape %v is none of a plain LoRA adapter, which has a matrix lora_A and one lora_B for each that it changes; merge it into its model first",
				a.path(), name, t.Shape)
		}
		p := all[base]
		if p == nil {
			p = &pair{}
			all[base] = p
		}
		switch {
		case isM:
			p.m = t
		case isA:
			p.a = t
		default:
			p.b = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if p.a == nil || p.b == nil {
			return nil, 0, fmt.Errorf("%s: of %q there is only one of lora_A and lora_B", a.path(), name)
		}
		if magnitudes && (p.m == nil || p.m.Shape[0] != p.b.Shape[0]) {
			return nil, 0, fmt.Errorf("%s: %q has no lora_magnitude_vector of %d numbers, which use_dora wants", a.path(), name, p.b.Shape[0])
		}
		if p.a.Shape[0] != p.b.Shape[1] || rank != 0 && rank != p.a.Shape[0] {
			return nil, 0, fmt.Errorf("%s: %q has the shapes %v and %v; want one rank in all", a.path(), name,
				p.a.Shape, p.b.Shape)
		}
		rank = p.a.Shape[0]
	}
	if rank == 0 {
		return nil, 0, fmt.Errorf("%s has no tensors", a.path())
	}
	return all, rank, nil
}

// alphaOf returns the adapter's alpha: its change is multiplied by alpha/rank.
func alphaOf(c *hf.Config, rank uint64) (float64, error) {
	alpha := c.Number("lora_alpha")
	if c.Flag("use_rslora") {
		alpha *= math.Sqrt(float64(rank))
	}
	if len(c.Object("alpha_pattern")) > 0 || len(c.Object("rank_pattern")) > 0 {
		c.Fail("alpha_pattern and rank_pattern: GGUF has one of each for all matrices")
	}
	c.Want("peft_type", "LORA")
	return alpha, c.Err()
}

// add plans the pair that changes a matrix of the model. The rows of lora_B are reordered or split as those of that
// matrix.
func (a *Adapter) add(name string, p *pair, f *lang.Family, model *hf.Config, layers int, typ gguf.Type) error {
	if isOther(name) {
		return fmt.Errorf("%q is none of the text model's; merge the adapter into its model first", name)
	}
	known := lang.Plain(name + ".weight")
	if f.Rename != nil {
		known = f.Rename(model, known)
	}
	s := lang.Parse(known, f.Trim())
	r, _, suffix := lang.Match(f.Rules, s)
	if r == nil || r.To == "" || s.Expert >= 0 || len(strings.Fields(r.From)) > 1 {
		return fmt.Errorf("%q is no matrix of %s that an adapter can change in GGUF", name, f.Arch)
	}
	if s.Layer >= layers {
		return fmt.Errorf("%q is of layer %d, and the model has %d: the adapter is of another one", name, s.Layer,
			layers)
	}
	of := func(t *safetensors.Tensor) lang.View { return lang.View{Shape: slices.Clone(t.Shape), Read: t.Floats} }
	rows := func(x lang.View) ([]lang.View, error) {
		if r.Do == nil {
			return []lang.View{x}, nil
		}
		return r.Do(model, []lang.View{x})
	}
	out, err := rows(of(p.b))
	if err != nil {
		return fmt.Errorf("lora_B of %q has %w", name, err)
	}
	var magnitudes []lang.View
	if p.m != nil { // a column, whose rows go where those of lora_B do
		if magnitudes, err = rows(lang.View{Shape: []uint64{p.m.Shape[0], 1}, Read: p.m.Floats}); err != nil {
			return fmt.Errorf("lora_magnitude_vector of %q has %w", name, err)
		}
	}
	for i, to := range lang.Targets(r, s.Layer, suffix) {
		if f.Folded != nil && slices.ContainsFunc(strings.Fields(f.Folded(model)),
			func(end string) bool { return strings.HasSuffix(to, "."+end+".weight") }) {
			return fmt.Errorf("%q changes more than this matrix: others are made of it; merge the adapter into its model first",
				name)
		}
		if len(out[i].Shape) != 2 || out[i].Shape[1] != p.b.Shape[1] {
			return fmt.Errorf("%q is no matrix of %s that an adapter can change in GGUF", name, f.Arch)
		}
		for _, x := range []struct {
			end string
			v   lang.View
		}{{".lora_a", of(p.a)}, {".lora_b", out[i]}} {
			t := &lang.Target{Name: to + x.end, View: x.v, Type: typ, Dims: []uint64{x.v.Shape[1], x.v.Shape[0]}}
			if t.Dims[0]%uint64(typ.BlockElems()) != 0 {
				t.Type = gguf.F16
			}
			if _, err := t.Type.Size(t.Dims); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
			a.targets = append(a.targets, t)
		}
		if p.m != nil {
			m := magnitudes[i]
			if len(m.Shape) != 2 || m.Shape[1] != 1 {
				return fmt.Errorf("%q is no matrix of %s that an adapter can change in GGUF", name, f.Arch)
			}
			a.targets = append(a.targets, &lang.Target{Name: to + ".lora_m", View: m, Type: gguf.F32, Dims: []uint64{m.Shape[0]}})
		}
	}
	return nil
}
