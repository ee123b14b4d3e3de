// Package convert makes GGUF files of Hugging Face checkpoints: folders with config.json, weights in safetensors and a
// tokenizer. What the models of an architecture call their tensors and settings is a table in package family; the rest is
// the same for all.
//
// Weights are read, computed and written in pieces of some megabytes, several at a time, so a conversion takes
// little memory whatever the size of the model.
package convert

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/convert/quantized"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// Options are the settings of a conversion.
type Options struct {
	Type     string   // of matrices, or a mix of types; "auto" or empty: the type of most numbers of the checkpoint
	Pre      string   // the pre-tokenizer, for tokenizers that do not name a known one
	Skip     []string // names of tensors that are left out
	Threads  int
	Progress func(done, total uint64) // is told how many bytes are written; may be nil
}

// A Model is a checkpoint that is ready to be written as GGUF.
type Model struct {
	dir       string
	family    *lang.Family
	config    *hf.Config
	layers    int
	projector bool                 // it is the encoders that are written, see OpenProjector
	factors   map[string]lang.View // tensors that are computed of settings, or are in other folders
	kind      kind
	skip      []string
	isTied    *bool // see tied
	weights   *safetensors.Checkpoint
	quantized quantized.Weights
	modules   modules
	Options
	output
}

// Is reports whether path is a folder with a checkpoint.
func Is(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return false
	}
	_, err := os.Stat(filepath.Join(path, "config.json"))
	return err == nil && safetensors.Has(path)
}

// Open reads everything of a checkpoint but the values of its weights, and checks that it is complete. Errors are one
// line and name the file.
func Open(dir string, o Options) (_ *Model, err error) {
	m := &Model{dir: dir, Options: o, skip: o.Skip, output: output{threads: o.Threads, progress: o.Progress}}
	if m.config, err = hf.Read(dir); err != nil {
		return nil, err
	}
	if m.family, err = family.Of(m.config); err != nil {
		return nil, err
	}
	if err = m.modules.list(m.config); err != nil {
		return nil, err
	}
	if m.modules.sparse() {
		if m.family, err = family.Sparse(m.config, m.family); err != nil {
			return nil, err
		}
	}
	if err = m.openWeights(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if transposed := []string{"gpt2", "jais"}; m.quantized.Any() &&
		slices.Contains(transposed, m.family.Arch) { // and which of them are not, once they are quantized, is not said
		return nil, fmt.Errorf("%s: matrices of %s that are quantized by %s are not read", dir, m.family.Arch,
			m.quantized.Method)
	}
	if m.kind, err = parseKind(o.Type, m.mostly); err != nil {
		return nil, err
	}
	if m.family.Next != nil {
		m.family.Next(m.config, slices.DeleteFunc(m.names(),
			func(name string) bool { return slices.Contains(m.skip, name) }))
	}
	k := &lang.Keys{Config: m.config, Arch: m.family.Arch}
	m.layers = k.All(m.family)
	m.factors = map[string]lang.View{}
	maps.Copy(m.factors, k.Factors)
	if m.config.Err() != nil {
		return nil, m.config.Err()
	}
	after, err := m.modules.read(dir, k)
	if err != nil {
		return nil, err
	}
	if err = prompts(dir, k); err != nil {
		return nil, err
	}
	maps.Copy(m.factors, after)
	if m.targets, err = m.plan(); err != nil {
		return nil, err
	}
	if m.family.Finish != nil {
		d := &lang.Draft{Layers: m.layers, Weights: m.weights, Targets: m.targets}
		m.family.Finish(d, k)
		m.targets = d.Targets
	}
	if m.config.Err() != nil {
		return nil, m.config.Err()
	}
	if m.keys, err = m.metadata(k); err != nil {
		return nil, err
	}
	if m.kind.mixed {
		if err = m.choose(m.kind.mix); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	m.hold()
	if err = m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// openWeights reads the headers of the weights, and how they are quantized.
func (m *Model) openWeights() (err error) {
	if m.weights, err = safetensors.Open(m.dir); err != nil {
		return err
	}
	m.quantized, err = quantized.Read(m.config, m.weights)
	if m.config.Err() != nil {
		err = m.config.Err()
	} else if err != nil {
		err = fmt.Errorf("%s: %w", m.dir, err)
	}
	if err != nil {
		m.weights.Close()
	}
	return err
}

// Unknown returns keys of config.json, sorted, of which nobody knows whether they change what the model computes.
func (m *Model) Unknown() []string {
	if m.projector {
		return nil
	}
	return family.Unjudged(m.config, m.family.Arch)
}

// Close closes the checkpoint's files.
func (m *Model) Close() error { return errors.Join(m.weights.Close(), m.modules.close()) }

// Name returns a name for the file: that of the folder, and the type of most matrices. Names of projectors begin with
// mmproj-, by which other programs know them.
func (m *Model) Name() string {
	name := m.folder() + "-" + strings.ToLower(m.kind.name())
	if m.projector {
		name = "mmproj-" + name
	}
	return name
}

// folder returns the name of the folder, which becomes that of the model.
func (m *Model) folder() string {
	abs, err := filepath.Abs(m.dir)
	if err != nil {
		abs = m.dir
	}
	return filepath.Base(abs)
}

// names returns the names of the tensors that a checkpoint has, with one for each quantized matrix.
func (m *Model) names() []string { return m.quantized.Names(m.weights) }

// mostly returns the type of most numbers in the matrices that are written, but for quantized ones.
func (m *Model) mostly() gguf.Type {
	counts := map[gguf.Type]uint64{}
	for _, name := range m.names() {
		t := m.weights.Tensor(name)
		if t == nil || len(t.Shape) < 2 || m.skipped(name) {
			continue
		}
		switch t.DType {
		case safetensors.F32, safetensors.F64:
			counts[gguf.F32] += t.Elems()
		case safetensors.F16:
			counts[gguf.F16] += t.Elems()
		default: // types of 8 bits and less: with their scales they fit BF16
			counts[gguf.BF16] += t.Elems()
		}
	}
	best := gguf.F16
	for _, t := range []gguf.Type{gguf.F16, gguf.BF16, gguf.F32} {
		if counts[t] > counts[best] {
			best = t
		}
	}
	return best
}

// others are parts of the names of tensors that do not belong to the text model.
var others = []string{
	"visual.", "vision.", "vision_", "audio.", "audio_", "multi_modal_projector.", "mm_projector.", "image_newline",
	"embed_vision.", "embed_audio.", "patch_embed", "resampler.", "talker.", "token2wav.", "code2wav.",
}

// isOther reports whether a tensor does not belong to the text model.
func isOther(name string) bool {
	return slices.ContainsFunc(others, func(part string) bool { return strings.Contains(name, part) })
}

// skipped reports whether a tensor is left out: because it is computed when a model is loaded, because the user or the
// family says so, or because it belongs to images or sounds.
func (m *Model) skipped(name string) bool {
	for _, end := range []string{".rotary_emb.inv_freq", ".attention.masked_bias", ".attn.masked_bias", "_scale_inv",
		".weight_scale", ".input_scale", ".k_scale", ".v_scale"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	if slices.Contains(m.skip, name) {
		return true
	}
	if m.projector {
		return !m.encodes(name)
	}
	if isOther(name) {
		return true
	}
	if strings.HasSuffix(name, "lm_head.weight") && m.config.FlagOr("tie_word_embeddings", m.family.Tied) && m.tied(name) {
		return true
	}
	alike := strings.Fields(m.family.Alike)
	if i := slices.Index(alike, name); i > 0 && slices.ContainsFunc(alike[:i],
		func(first string) bool { return m.weights.Tensor(first) != nil }) {
		return true
	}
	return slices.ContainsFunc(m.family.Skip, func(part string) bool {
		return strings.HasPrefix(lang.Plain(name), part) || strings.HasSuffix(name, part)
	})
}

// tied reports whether an output matrix is the embedding, or has no embedding that it could differ from. One that has
// other numbers is used, whatever config.json says.
func (m *Model) tied(name string) bool {
	if m.isTied == nil {
		head := m.weights.Tensor(name)
		tied := !slices.ContainsFunc(m.names(), func(other string) bool {
			if !strings.HasSuffix(other, ".embed_tokens.weight") && !strings.HasSuffix(other, ".embeddings.weight") ||
				isOther(other) {
				return false
			}
			table := m.weights.Tensor(other) // quantized matrices are not
			return head == nil || table == nil || !head.Equal(table)
		})
		m.isTied = &tied
	}
	return *m.isTied
}
