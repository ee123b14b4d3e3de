package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
)

// merges reports whether OUT is the model with the adapter in it, and not the adapter, or weights that are all trained.
func (f *finetuneFlags) merges(job *finetune.Job) bool {
	return job.Settings.Weights == "" && f.target.head == "" && (f.target.model != "" || f.classes.from != "")
}

// merged returns the bytes of that model, about, which is written beside the adapter; 0: none is.
func (f *finetuneFlags) merged(base *model.File, job *finetune.Job) uint64 {
	if !f.merges(job) {
		return 0
	}
	return mergedBytes(base, job.Adapts)
}

// mergedBytes returns the size of the model in base, about, with an adapter of some of its tensors in it.
func mergedBytes(base *model.File, adapts func(tensor string) bool) uint64 {
	n := base.Size()
	for i := range base.GGUF.Tensors {
		if t := &base.GGUF.Tensors[i]; adapts(t.Name) {
			in := int(t.Dims[0])
			n += t.Elems()/t.Dims[0]*uint64(quant.RowBytes(quant.Fallback(withAdapterType(t), in), in)) - uint64(len(t.Data))
		}
	}
	return n
}

// writeMerged writes the model in base with the best adapter in it, if there is one, and returns the size of the file.
func (f *finetuneFlags) writeMerged(ctx context.Context, job *finetune.Job, base *model.File) (int64, error) {
	var adapters []model.ScaledFile
	if job.Size().Matrices > 0 {
		dir, err := os.MkdirTemp(filepath.Dir(filepath.Clean(f.out)), ".adapter-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir) // what is in it is in the model, or in the run that is saved
		path := filepath.Join(dir, "adapter.gguf")
		if _, err := job.WriteGGUF(path, false, 0o600); err != nil {
			return 0, err
		}
		adapter, err := model.OpenFile(path)
		if err != nil {
			return 0, err
		}
		defer adapter.Close()
		adapters = append(adapters, model.ScaledFile{File: adapter, Scale: 1})
	}
	w, err := model.MergeAdapters(base, adapters, withAdapterType)
	if err != nil {
		return 0, err
	}
	size, err := w.Size()
	if err != nil {
		return 0, err
	}
	write := splitFlags{force: f.force}
	return int64(size), job.WithBest(func() error { return write.writeModel(ctx, f.out, size, base, w) })
}

// withAdapterType returns the type that a tensor has once the adapter is in it. Those of fewer than 8 bits lose too much where they are
// rounded again.
func withAdapterType(t *gguf.Tensor) gguf.Type {
	if t.Type == gguf.F32 || t.Type == gguf.F16 || t.Type == gguf.BF16 || !quant.CanEncode(gguf.Q8_0, int(t.Dims[0])) {
		return model.AsFloats(t)
	}
	return gguf.Q8_0
}
