package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/projector"
	"github.com/quern-llm/quern/go/gguf"
)

// OpenProjector is Open for what a checkpoint has beside its text model: encoders of pictures and sounds, with what makes
// rows of the text model's embeddings of them. They become a file of their own, a projector.
func OpenProjector(dir string, o Options) (_ *Model, err error) {
	m := &Model{dir: dir, Options: o, skip: o.Skip, projector: true, layers: math.MaxInt,
		output: output{threads: o.Threads, progress: o.Progress}}
	if m.config, err = hf.Read(dir); err != nil {
		return nil, err
	}
	if m.family, err = projector.Of(m.config); err != nil {
		return nil, err
	}
	if err = m.openWeights(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.kind, err = parseKind(o.Type, m.mostly); err != nil {
		return nil, err
	}
	if m.kind.mixed {
		return nil, fmt.Errorf("%s: a projector as %s; want f32, f16, bf16 or q8_0", dir, m.kind.name())
	}
	k := &lang.Keys{Config: m.config, Arch: m.family.Arch}
	if m.family.Keys(k); m.config.Err() != nil {
		return nil, m.config.Err()
	}
	if m.targets, err = m.plan(); err != nil {
		return nil, err
	}
	if m.family.Finish != nil {
		m.family.Finish(&lang.Draft{Weights: m.weights, Targets: m.targets}, k)
		if m.config.Err() != nil {
			return nil, m.config.Err()
		}
	}
	m.keys = append(m.general("mmproj"), k.KVs...)
	m.hold()
	if err = m.checkBlocks(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// HasProjector reports whether a checkpoint has encoders that OpenProjector knows: whether config.json describes some, and
// their tensors are there.
func HasProjector(dir string) bool {
	c, err := hf.Read(dir)
	if err != nil || !projector.Has(c) {
		return false
	}
	m := &Model{dir: dir, projector: true, config: c}
	if m.family, err = projector.Of(c); err != nil {
		return false
	}
	if err = m.openWeights(); err != nil {
		return false
	}
	defer m.Close()
	return slices.ContainsFunc(m.names(), m.isEncoder)
}

// isEncoder reports whether a tensor is part of an encoder: of one of its layers, or by its name.
func (m *Model) isEncoder(name string) bool {
	r, _, _ := lang.Match(m.family.Rules, m.source(name))
	return r != nil && strings.Contains(r.To, ".blk.#.") || isOther(name) && !strings.Contains(name, "projector.")
}

// kin returns what errors call the family.
func (m *Model) kin() string {
	if m.projector {
		return "the projector of " + strings.Fields(m.family.Names)[0]
	}
	return m.family.Arch
}

// encodes reports whether a tensor belongs to a projector: whether a rule has it, or nothing else could.
func (m *Model) encodes(name string) bool {
	s := m.source(name)
	if s.Name == "" {
		return false
	}
	r, _, _ := lang.Match(m.family.Rules, s)
	return r != nil || isOther(name)
}

// setProjectorType chooses the type of a projector's tensor, as llama.cpp's converter does: vectors, norms and positions
// stay F32; patches, whose products are few, are F16 at least.
func setProjectorType(t *lang.Target, want gguf.Type, f *lang.Family) error {
	t.Dims = slices.Clone(t.Shape)
	slices.Reverse(t.Dims)
	name := t.Name
	own, has := f.Types.Of(t.Name)
	exact := slices.ContainsFunc(strings.Fields(f.Exact), func(begin string) bool {
		return strings.HasPrefix(name, begin)
	})
	switch {
	case len(t.Dims) <= 1 || strings.HasSuffix(name, "_norm.weight"):
		t.Type = gguf.F32
	case has && strings.HasSuffix(name, ".weight"):
		t.Type = own
	case exact && strings.HasSuffix(name, ".weight"), strings.Contains(name, ".patch_embd.weight"),
		strings.Contains(name, ".patch_merger.weight"):
		t.Type = gguf.F32
		if want == gguf.F16 {
			t.Type = gguf.F16
		}
	case !strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".position_embd.weight"):
		t.Type = gguf.F32
	case t.Dims[0]%uint64(want.BlockElems()) != 0:
		t.Type = gguf.F16
	default:
		t.Type = want
	}
	_, err := t.Type.Size(t.Dims)
	return err
}

// checkBlocks returns an error unless each encoder has all of its layers, and all of them have the same tensors.
func (m *Model) checkBlocks() error {
	if _, err := m.outline(); err != nil {
		return err
	}
	for _, e := range []struct{ prefix, key string }{
		{"v.blk.", "clip.vision.block_count"}, {"a.blk.", "clip.audio.block_count"},
	} {
		count, has := 0, false
		for _, kv := range m.keys {
			if n, is := kv.Value.(uint32); is && kv.Key == e.key {
				count, has = int(n), true
			}
		}
		names := map[int][]string{}
		for _, t := range m.targets {
			rest, ok := strings.CutPrefix(t.Name, e.prefix)
			number, name, _ := strings.Cut(rest, ".")
			if n, isNumber := hf.Digits(number); ok && isNumber {
				names[n] = append(names[n], name)
			}
		}
		if !has {
			if len(names) > 0 {
				return fmt.Errorf("tensors %s*, and config.json has no such encoder", e.prefix)
			}
			continue
		}
		for il := range count {
			switch {
			case names[il] == nil:
				return fmt.Errorf("layer %d of %d has no tensors %s%d.*", il, count, e.prefix, il)
			case !slices.Equal(names[il], names[0]) && m.family.Count == nil: // else some have experts
				return fmt.Errorf("layers 0 and %d have other tensors: %s and %s", il, strings.Join(names[0], " "),
					strings.Join(names[il], " "))
			}
		}
	}
	return nil
}
