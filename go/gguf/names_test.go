package gguf

import (
	"strings"
	"testing"
)

func TestSizeName(t *testing.T) {
	for n, want := range map[uint64]string{8030261312: "8B", 1235814400: "1.2B", 46702792704: "46.7B", 596049920: "596M", 1e9: "1B", 999e6: "999M"} {
		if got := SizeName(n); got != want {
			t.Errorf("SizeName(%d) = %s, want %s", n, got, want)
		}
	}
}

// llama.cpp's numbers of mixes and words for them, as its llama_ftype has them.
func TestMixName(t *testing.T) {
	words := map[uint64]string{
		0: "all F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K - Medium",
		11: "Q3_K - Small", 12: "Q3_K - Medium", 13: "Q3_K - Large", 14: "Q4_K - Small", 15: "Q4_K - Medium",
		16: "Q5_K - Small", 17: "Q5_K - Medium", 18: "Q6_K", 25: "IQ4_NL - 4.5 bpw", 30: "IQ4_XS - 4.25 bpw", 32: "BF16",
	}
	for n := range uint64(50) {
		w := NewWriter()
		w.Set("general.file_type", uint32(n))
		w.AddTensor("w", I8, []uint64{1}, Bytes([]byte("x")))
		f, err := Parse(write(t, w))
		if err != nil {
			t.Fatal(err)
		}
		want := words[n]
		if want == "" {
			want = "I8" // what its tensors say, where the number says nothing
		}
		if got := f.MixName(); got != want {
			t.Errorf("file type %d is %q, want %q", n, got, want)
		}
	}
	for _, r := range []struct{ a, b, want string }{{"xxxxx", "x", "I8"}, {"x", "xxxx", "F32"}, {"xxxx", "xxxx", "F32"}} {
		w := NewWriter()
		w.AddTensor("a", I8, []uint64{uint64(len(r.a))}, Bytes([]byte(r.a)))
		w.AddTensor("b", F32, []uint64{uint64(len(r.b)+3) / 4}, Bytes([]byte(strings.Repeat("x", (len(r.b)+3)/4*4))))
		f, err := Parse(write(t, w))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.MixName(); got != r.want {
			t.Errorf("%d bytes of I8 and %d of F32 are %q, want %q", len(r.a), len(r.b), got, r.want)
		}
	}
}
