package finetune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/safetensors"
)

// The files of an adapter in PEFT's format.
const (
	peftWeights = "adapter_model.safetensors"
	peftConfig  = "adapter_config.json"
)

// PEFT returns the paths of an adapter's files in a folder.
func PEFT(dir string) []string {
	return []string{filepath.Join(dir, peftWeights), filepath.Join(dir, peftConfig)}
}

// A peft is a matrix under its name in checkpoints, with B as it is there.
type peft struct {
	name string
	rows []int // as family.Origin has them
	model.Matrix
}

// inOrder returns rows of n numbers in the order of the checkpoint.
func (p *peft) inOrder(x []float32, n int) []float32 {
	if p.rows == nil {
		return x
	}
	y := make([]float32, len(x))
	for i, from := range p.rows {
		copy(y[from*n:(from+1)*n], x[i*n:])
	}
	return y
}

// origins returns the matrices under their names in checkpoints.
func (j *Job) origins() (all []peft, err error) {
	if j.Settings.OfModel() {
		return nil, errors.New("a model is trained, and no adapter")
	}
	c := j.model.Config
	for _, m := range j.trainer.Adapter.Parts(j.Numbers()) {
		if m.N > 1 {
			return nil, fmt.Errorf("%q of %s: adapters of experts are written as GGUF alone", m.Name, c.Arch)
		}
		if slices.Contains(model.ClassifierTargets, strings.TrimSuffix(m.Name, ".weight")) {
			return nil, fmt.Errorf("%q of %s: its name depends on the classifier's class; --targets names matrices without it", m.Name, c.Arch)
		}
		s := family.Sizes{Width: c.NEmbd, Layers: len(c.Layers), Gated: m.Parts > 1}
		if il := layerOf(m.Name); il >= 0 && il < len(c.Layers) {
			s.Heads, s.HeadsKV, s.HeadDim = c.Layers[il].NHead, c.Layers[il].NHeadKV, c.Layers[il].HeadDim
		}
		o, err := family.OriginOf(c.Arch, s, m.Name, m.Out)
		if err != nil {
			return nil, err
		}
		name, err := loadedAs(j.Pooling, o.Name)
		if err != nil {
			return nil, fmt.Errorf("%q of %s: %w", m.Name, c.Arch, err)
		}
		all = append(all, peft{name, o.Rows, m})
	}
	return all, nil
}

// loadedAs returns a checkpoint's name of a matrix in the class with which Transformers loads it: one that writes text has the
// checkpoint's names; AutoModel, for vectors, has those behind "model."; those with classes have what their family puts before.
func loadedAs(p nn.Pooling, name string) (string, error) {
	inner, outer := strings.CutPrefix(name, "model.")
	switch {
	case p == nn.PoolNone, p == nn.PoolRank && outer:
		return name, nil
	case p == nn.PoolRank:
		return "", errors.New("what stands before its name in a checkpoint with a classifier depends on the class, which the file does not say")
	case outer, strings.HasPrefix(name, "layers."), strings.HasPrefix(name, "encoder."):
		return inner, nil
	}
	return "", errors.New("its name where the model makes vectors is not known")
}

// taskOf is PEFT's task_type; nil: none, as it is not known whether a model that scores is made of one that writes text.
func taskOf(p nn.Pooling) any {
	switch p {
	case nn.PoolNone:
		return "CAUSAL_LM"
	case nn.PoolRank:
		return nil
	}
	return "FEATURE_EXTRACTION"
}

// layerOf returns the layer of a tensor such as blk.3.attn_q.weight, -1 if it is of none.
func layerOf(tensor string) int {
	rest, ok := strings.CutPrefix(tensor, "blk.")
	number, _, more := strings.Cut(rest, ".")
	il, err := strconv.Atoi(number)
	if !ok || !more || err != nil {
		return -1
	}
	return il
}

// CheckPEFT returns why the adapter cannot be written in PEFT's format, before it is trained.
func (j *Job) CheckPEFT() error {
	_, err := j.origins()
	return err
}

// WritePEFT writes the best adapter in PEFT's format to a folder, which may be there. base is what the model's checkpoint is called.
func (j *Job) WritePEFT(dir, base string, replace bool) (int64, error) {
	all, err := j.origins()
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return 0, err
	}
	var w safetensors.Writer
	w.Set("format", "pt")
	rank := j.Settings.LoRA.Rank
	var modules []string
	for _, p := range all {
		b := p.inOrder(p.B, rank)
		name := "base_model.model." + p.name
		w.AddFloats(name+".lora_A.weight", []uint64{uint64(rank), uint64(p.In)}, p.A)
		w.AddFloats(name+".lora_B.weight", []uint64{uint64(p.Out), uint64(rank)}, b)
		if p.M != nil {
			w.AddFloats(name+".lora_magnitude_vector", []uint64{uint64(p.Out)}, p.inOrder(p.M, 1))
		}
		modules = append(modules, p.name[strings.LastIndexByte(p.name, '.')+1:])
	}
	slices.Sort(modules)
	var config bytes.Buffer
	enc := json.NewEncoder(&config)
	enc.SetIndent("", "  ")
	if err := enc.Encode(map[string]any{
		"peft_type": "LORA", "task_type": taskOf(j.Pooling), "base_model_name_or_path": base, "r": rank, "lora_alpha": j.Settings.LoRA.Alpha,
		"use_rslora": j.Settings.LoRA.RankStable, "use_dora": j.Settings.LoRA.Magnitudes, "target_modules": slices.Compact(modules), "lora_dropout": 0.0, "bias": "none",
		"fan_in_fan_out": false, "inference_mode": true,
	}); err != nil {
		return 0, err
	}
	paths := PEFT(dir)
	n, err := newfile.Write(paths[0], replace, 0o644, w.Size(), func(out io.Writer) (int64, error) { return w.WriteTo(out) })
	if err != nil {
		return 0, err
	}
	k, err := newfile.Write(paths[1], replace, 0o644, 0, func(out io.Writer) (int64, error) { return config.WriteTo(out) })
	return n + k, err
}
