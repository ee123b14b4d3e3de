// Package convert makes GGUF files of Hugging Face checkpoints: folders with config.json, weights in safetensors and a
// tokenizer. What the models of an architecture call their tensors and settings is a table in package family; the rest is
// the same for all.
//
// Weights are read, computed and written in pieces of some megabytes, several at a time, so a conversion takes
// little memory whatever the size of the model.
package convert

import (
	"fmt"
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

// Options says how to convert.
type Options struct {
	Type     string   // of matrices, or a mix of types; "auto" or empty: the type that the checkpoint has most of them in
	Pre      string   // name of the pre-tokenizer, where it cannot be found
	Skip     []string // tensors to leave out
	Threads  int
	Progress func(done, total uint64) // bytes written; nil: silent
}

// A Model is a checkpoint that is ready to be written as GGUF.
type Model struct {
	dir     string
	family  *lang.Family
	config  *hf.Config
	layers  int
	kind    kind
	skip    []string
	weights *safetensors.Checkpoint
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

// Open reads all of a checkpoint but its weights, and checks that they are complete. Errors are one line and name the file.
func Open(dir string, o Options) (_ *Model, err error) {
	m := &Model{dir: dir, Options: o, skip: o.Skip, output: output{threads: o.Threads, progress: o.Progress}}
	if m.config, err = hf.Read(dir); err != nil {
		return nil, err
	}
	if m.family, err = family.Of(m.config); err != nil {
		return nil, err
	}
	if m.weights, err = safetensors.Open(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err = m.checkQuantization(); err != nil {
		return nil, err
	}
	if m.kind, err = parseKind(o.Type, m.mostly); err != nil {
		return nil, err
	}
	if m.family.Next != nil {
		m.family.Next(m.config, slices.DeleteFunc(m.weights.Names(), func(name string) bool { return slices.Contains(m.skip, name) }))
	}
	k := &lang.Keys{Config: m.config, Arch: m.family.Arch}
	m.layers = k.All(m.family)
	if m.config.Err() != nil {
		return nil, m.config.Err()
	}
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
	if err = m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// Close closes the checkpoint's files.
func (m *Model) Close() error { return m.weights.Close() }

// Name returns a name for the file: the folder's, and the type of most matrices.
func (m *Model) Name() string { return m.folder() + "-" + strings.ToLower(m.kind.name()) }

// folder returns the folder's name, which is the model's.
func (m *Model) folder() string {
	abs, err := filepath.Abs(m.dir)
	if err != nil {
		abs = m.dir
	}
	return filepath.Base(abs)
}

// mostly returns the type that most numbers of the checkpoint's matrices have, among those that are written.
func (m *Model) mostly() gguf.Type {
	counts := map[gguf.Type]uint64{}
	for _, name := range m.weights.Names() {
		t := m.weights.Tensor(name)
		if len(t.Shape) < 2 || m.skipped(name) {
			continue
		}
		switch t.DType {
		case safetensors.F32, safetensors.F64:
			counts[gguf.F32] += t.Elems()
		case safetensors.F16:
			counts[gguf.F16] += t.Elems()
		default: // of fewer bits, whose scales are BF16 at best
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

// others are parts of names of tensors that are none of a text model's.
var others = []string{
	"visual.", "vision.", "vision_", "audio.", "audio_", "multi_modal_projector.", "mm_projector.", "image_newline",
	"embed_vision.", "embed_audio.", "patch_embed", "resampler.", "talker.", "token2wav.", "code2wav.",
}

// isOther reports whether a tensor is none of a text model's.
func isOther(name string) bool {
	return slices.ContainsFunc(others, func(part string) bool { return strings.Contains(name, part) })
}

// skipped reports whether a tensor is left out: what is computed anew, what was asked for, and what belongs to images and
// sounds.
func (m *Model) skipped(name string) bool {
	for _, end := range []string{".rotary_emb.inv_freq", ".attention.masked_bias", ".attn.masked_bias", "_scale_inv", ".weight_scale", ".input_scale", ".k_scale", ".v_scale"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	if isOther(name) || slices.Contains(m.skip, name) {
		return true
	}
	if m.config.Flag("tie_word_embeddings") && strings.HasSuffix(name, "lm_head.weight") {
		return true
	}
	alike := strings.Fields(m.family.Alike)
	if i := slices.Index(alike, name); i > 0 && slices.ContainsFunc(alike[:i], func(first string) bool { return m.weights.Tensor(first) != nil }) {
		return true
	}
	return slices.ContainsFunc(m.family.Skip, func(part string) bool {
		return strings.HasPrefix(lang.Plain(name), part) || strings.HasSuffix(name, part)
	})
}

// checkQuantization refuses checkpoints whose weights are quantized in a way that is not read.
func (m *Model) checkQuantization() error {
	q := m.config.Within("quantization_config compression_config")
	switch method := q.Text("quant_method"); method {
	case "", "fp8", "mxfp4", "compressed-tensors":
	default:
		return fmt.Errorf("%s: weights quantized by %s are not read; want the checkpoint that they were made of", m.dir, method)
	}
	m.config.Take(q)
	return m.config.Err()
}
