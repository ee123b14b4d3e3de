package main

import (
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model"
)

// The space that is asked for is that of the model with the adapter: its matrices have 8 bits, also where they had fewer, and others
// stay as they are.
func TestMergedBytes(t *testing.T) {
	t.Parallel()
	open := func(name string) *model.File {
		f, err := model.OpenFile(testdata.Path(t, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	base, adapter := open("models/quant/TinyStories-656K-Q4_0.gguf"), open("models/TinyStories-656K-lora-r32-f16.gguf")
	merged, err := model.MergeAdapters(base, []model.ScaledFile{{File: adapter, Scale: 1}}, withAdapterType)
	if err != nil {
		t.Fatal(err)
	}
	size, err := merged.Size()
	if err != nil {
		t.Fatal(err)
	}
	const padding = 4 << 10 // bytes by which heads and ends of tensors may differ
	got := mergedBytes(base, func(name string) bool { _, ok := adapter.GGUF.Tensor(name + ".lora_a"); return ok })
	if got+padding < size || got > size+padding || got < base.Size()+2*padding {
		t.Errorf("%d bytes, want about %d, of a base of %d", got, size, base.Size())
	}
}
