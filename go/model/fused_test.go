package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// fuse returns the model with queries, keys and values in one matrix.
func fuse(apart *draft) *draft {
	fused := &draft{kvs: apart.kvs}
	for _, x := range apart.tensors {
		prefix, rest, ok := strings.Cut(x.Name, "attn_q.")
		if !ok {
			if !strings.Contains(x.Name, "attn_k.") && !strings.Contains(x.Name, "attn_v.") {
				fused.tensors = append(fused.tensors, x)
			}
			continue
		}
		all := x
		all.Name, all.Dims, all.Data = prefix+"attn_qkv."+rest, slices.Clone(x.Dims), slices.Clone(x.Data)
		for _, part := range []string{"attn_k.", "attn_v."} {
			p := apart.tensor(prefix + part + rest)
			all.Dims[len(all.Dims)-1] += p.Dims[len(p.Dims)-1]
			all.Data = append(all.Data, p.Data...)
		}
		fused.tensors = append(fused.tensors, all)
	}
	return fused
}

// Queries, keys and values in one matrix, as many files have them, are those in three.
func TestFusedProjections(t *testing.T) {
	ids := []int32{1, 20, 30, 40, 50}
	apart := read(t, testdata.Path(t, "archs/phi2.gguf"))
	fused := fuse(apart)
	for _, r := range []Residency{Packed, Mapped} {
		m, err := load(t, apart.write(t, "apart.gguf"), r)
		if err != nil {
			t.Fatal(err)
		}
		want := logits(t, m, ids)
		if m, err = load(t, fused.write(t, "fused.gguf"), r); err != nil {
			t.Fatal(err)
		}
		for i, row := range logits(t, m, ids) {
			if !slices.Equal(row, want[i]) {
				t.Errorf("%v: logits after token %d differ", r, i)
			}
		}
	}
}
