package model

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// Types of a file that the kernels do not take: no matrix of a model has them.
var noKernel = []gguf.Type{
	gguf.Q8_1, gguf.Q8_K, gguf.I8, gguf.I16, gguf.I32, gguf.I64, gguf.F64,
}

// The kernels' list of types and the file format's agree on numbers, names and sizes.
func TestTypesAgree(t *testing.T) {
	for _, typ := range gguf.Types() {
		k := kernel.Type(typ)
		if has := slices.Contains(kernel.Types(), k); has == slices.Contains(noKernel, typ) {
			t.Errorf("%v has a kernel: %v", typ, has)
		} else if !has {
			continue
		}
		if k.String() != typ.String() {
			t.Errorf("type %d is %v in files and %v in kernels", typ, typ, k)
		}
		if got, want := kernel.RowBytes(k, 512), 512/typ.BlockElems()*typ.BlockBytes()+typ.RowHead(); got != want {
			t.Errorf("%v: rows of %d bytes in kernels, of %d in files", typ, got, want)
		}
	}
	if got, want := len(kernel.Types())+len(noKernel), len(gguf.Types()); got != want {
		t.Errorf("%d types, files have %d", got, want)
	}
}

// README names each type that runs.
func TestTypesInReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(readme), "\n| weights | ")
	row, _, _ = strings.Cut(row, " |")
	var names []string
	for _, typ := range kernel.Types() {
		names = append(names, typ.String())
	}
	listed := slices.DeleteFunc(strings.Fields(row), func(s string) bool { return s == "·" })
	slices.Sort(listed)
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		t.Errorf("README lists %v, the kernels have %v", listed, names)
	}
}

// A matrix of a type without kernels is refused by its name, in one line.
func TestNoKernel(t *testing.T) {
	for _, typ := range noKernel {
		const name = "blk.0.attn_q.weight"
		d := read(t, "tiny-llama-mixed.gguf")
		x := d.tensor(name)
		size, err := typ.Size(x.Dims)
		if err != nil {
			t.Fatal(err)
		}
		x.Type, x.Data = typ, make([]byte, size)
		_, err = load(t, d.write(t, "x.gguf"), Packed)
		want := fmt.Sprintf("tensor %q: type %v is not supported, supported are [F32 F16", name, typ)
		if !errors.Is(err, kernel.ErrType) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: error %v, want one line with %q", typ, err, want)
		}
	}
}
