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
	apart := read(t, testdata.Path(t, "archs/phi2.gguf"))
	sameLogits(t, apart, fuse(apart))

	// Some files have one matrix, and three biases.
	biases := &draft{kvs: apart.kvs}
	for _, x := range fuse(apart).tensors {
		if !strings.HasSuffix(x.Name, "attn_qkv.bias") {
			biases.tensors = append(biases.tensors, x)
			continue
		}
		for _, part := range []string{"attn_q.bias", "attn_k.bias", "attn_v.bias"} {
			biases.tensors = append(biases.tensors, *apart.tensor(strings.TrimSuffix(x.Name, "attn_qkv.bias") + part))
		}
	}
	sameLogits(t, apart, biases)
}

// Early files of mixtures have no key for the width of an expert, and one for that of all that a token uses.
func TestEarlyExperts(t *testing.T) {
	now := read(t, testdata.Path(t, "archs/qwen2moe.gguf"))
	early := read(t, testdata.Path(t, "archs/qwen2moe.gguf"))
	early.drop("qwen2moe.expert_feed_forward_length")
	early.set("qwen2moe.feed_forward_length", uint32(4096))
	sameLogits(t, now, early)
}

// Gates and ups of experts in one tensor, as some files have them, are those in two.
func TestFusedExperts(t *testing.T) {
	apart := read(t, testdata.Path(t, "archs/qwen2moe.gguf"))
	fused := &draft{kvs: apart.kvs}
	for _, x := range apart.tensors {
		prefix, rest, ok := strings.Cut(x.Name, "ffn_gate_exps.")
		if !ok {
			if !strings.Contains(x.Name, "ffn_up_exps.") {
				fused.tensors = append(fused.tensors, x)
			}
			continue
		}
		up := apart.tensor(prefix + "ffn_up_exps." + rest)
		both := x
		both.Name, both.Dims, both.Data = prefix+"ffn_gate_up_exps."+rest, slices.Clone(x.Dims), nil
		both.Dims[1] *= 2
		each := len(x.Data) / int(x.Dims[2])
		for e := range int(x.Dims[2]) {
			both.Data = append(both.Data, x.Data[e*each:(e+1)*each]...)
			both.Data = append(both.Data, up.Data[e*each:(e+1)*each]...)
		}
		fused.tensors = append(fused.tensors, both)
	}
	sameLogits(t, apart, fused)
}

// sameLogits fails unless both files give the same bits.
func sameLogits(t *testing.T, apart, fused *draft) {
	t.Helper()
	ids := []int32{1, 20, 30, 40, 50}
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
