package synth

import (
	"maps"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// What loaders report of the published files: how many tensors of each type.
func TestMixCounts(t *testing.T) {
	for _, tt := range []struct {
		spec string
		want map[gguf.Type]int
	}{
		{"llama-3.1-8b:Q4_K_M", map[gguf.Type]int{gguf.F32: 66, gguf.Q4_K: 193, gguf.Q6_K: 33}},
		{"llama-3.2-1b:Q4_K_M", map[gguf.Type]int{gguf.F32: 34, gguf.Q4_K: 96, gguf.Q6_K: 17}},
		{"llama-3.2-3b:Q4_K_M", map[gguf.Type]int{gguf.F32: 58, gguf.Q4_K: 168, gguf.Q6_K: 29}},
		{"qwen3-0.6b:Q4_K_M", map[gguf.Type]int{gguf.F32: 113, gguf.Q4_K: 168, gguf.Q6_K: 29}},
		{"qwen3-4b:Q4_K_M", map[gguf.Type]int{gguf.F32: 145, gguf.Q4_K: 216, gguf.Q6_K: 37}},
		{"mixtral-8x7b:Q4_K_M", map[gguf.Type]int{gguf.F32: 97, gguf.Q4_K: 113, gguf.Q5_K: 32, gguf.Q6_K: 17, gguf.Q8_0: 64}},
		// As many as loaders report: 851, 733 and 843.
		{"qwen3.8-27b:Q4_K_M", map[gguf.Type]int{gguf.F32: 353, gguf.Q4_K: 433, gguf.Q6_K: 65}},
		{"qwen3.6-35b-a3b:Q8_0", map[gguf.Type]int{gguf.F32: 301, gguf.Q8_0: 432}},
		{"qwen3-next-80b-a3b:Q8_0", map[gguf.Type]int{gguf.F32: 361, gguf.Q8_0: 482}},
		// 658, 720 and 847.
		{"gemma-4-26b-a4b:Q8_0", map[gguf.Type]int{gguf.F32: 392, gguf.Q8_0: 266}},
		{"gemma-4-e4b:Q4_K_M", map[gguf.Type]int{gguf.F32: 339, gguf.BF16: 1, gguf.Q4_K: 336, gguf.Q6_K: 44}},
		{"gemma-3n-e4b:Q8_0", map[gguf.Type]int{gguf.F32: 422, gguf.F16: 107, gguf.BF16: 1, gguf.Q8_0: 317}},
		{"llama-3.1-8b:Q8_0", map[gguf.Type]int{gguf.F32: 66, gguf.Q8_0: 226}},
		{"llama-3.1-8b:Q6_K", map[gguf.Type]int{gguf.F32: 66, gguf.Q6_K: 226}},
		{"llama-3.1-8b:Q4_0", map[gguf.Type]int{gguf.F32: 66, gguf.Q4_0: 225, gguf.Q6_K: 1}},
		{"llama-3.1-8b:Q5_K_M", map[gguf.Type]int{gguf.F32: 66, gguf.Q5_K: 193, gguf.Q6_K: 33}},
		{"llama-3.1-8b:Q4_K_S", map[gguf.Type]int{gguf.F32: 66, gguf.Q4_K: 217, gguf.Q5_K: 8, gguf.Q6_K: 1}},
		{"llama-3.1-8b:Q3_K_M", map[gguf.Type]int{gguf.F32: 66, gguf.Q3_K: 129, gguf.Q4_K: 92, gguf.Q5_K: 4, gguf.Q6_K: 1}},
		{"llama-3.1-8b:Q2_K", map[gguf.Type]int{gguf.F32: 66, gguf.Q2_K: 129, gguf.Q3_K: 64, gguf.Q4_K: 32, gguf.Q6_K: 1}},
		{"llama-3.1-8b:IQ4_XS", map[gguf.Type]int{gguf.F32: 66, gguf.IQ4_XS: 189, gguf.Q5_K: 36, gguf.Q6_K: 1}},
		{"gpt-oss-20b:MXFP4_MOE", map[gguf.Type]int{gguf.F32: 289, gguf.Q8_0: 98, gguf.MXFP4: 72}},
		{"gpt-oss-20b/6:MXFP4_MOE", map[gguf.Type]int{gguf.F32: 73, gguf.Q8_0: 26, gguf.MXFP4: 18}},
		{"llama-3.1-8b:F16", map[gguf.Type]int{gguf.F32: 66, gguf.F16: 226}},
		{"llama-3.1-8b:F32", map[gguf.Type]int{gguf.F32: 292}},
	} {
		m, err := ParseShape(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		got := map[gguf.Type]int{}
		for _, tn := range m.tensors() {
			got[tn.typ]++
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.spec, got, tt.want)
		}
	}
}

// The parameter counts of the published models, exactly.
func TestParams(t *testing.T) {
	for shape, want := range map[string]uint64{
		"llama-3.1-8b": 8030261248 + 64, // rope_freqs are counted too
		"llama-3.2-1b": 1235814400 + 32,
		"llama-3.2-3b": 3212749824 + 64,
		"qwen3-0.6b":   596049920,
		"qwen3-4b":     4022468096,
		"mixtral-8x7b": 46702792704,
		// Of these loaders report 25.23, 7.52 and 6.87 billions.
		"gemma-4-26b-a4b": 25233142046,
		"gemma-4-e4b":     7518069290,
		"gemma-3n-e4b":    6868990448,
		"olmoe-7b":        6919161856 - 2*16*2048, // less the norms of queries and keys

		"lfm2-8b-a1b":      8339930560,
		"granite-4-h-tiny": 6939037248,
		"nemotron-3-nano":  31577940288,
	} {
		m, err := ParseShape(shape)
		if err != nil {
			t.Fatal(err)
		}
		var got uint64
		for _, tn := range m.tensors() {
			n := uint64(1)
			for _, d := range tn.dims {
				n *= d
			}
			got += n
		}
		if got != want {
			t.Errorf("%s: %d parameters, want %d", shape, got, want)
		}
	}
}

// Every shape can be had in every mix.
func TestSizes(t *testing.T) {
	for _, s := range Shapes() {
		for _, x := range Mixes() {
			m, err := ParseShape(s + ":" + strings.ToLower(x))
			if err != nil {
				t.Fatal(err)
			}
			if m.String() != s+":"+x {
				t.Errorf("%s:%s is called %s", s, x, m)
			}
			if _, err := m.DataBytes(); err != nil {
				t.Errorf("%s: %v", m, err)
			}
		}
	}
}

func TestParseShapeErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"":                       "llama-3.2-1b",
		"llama-9b:Q4_K_M":        `unknown shape "llama-9b", known are llama-3.1-8b`,
		"llama-3.2-1b:":          "Q4_K_M",
		"llama-3.2-1b:Q4_K":      `unknown type "Q4_K", known are F32 F16`,
		"llama-3.2-1b:Q4_K_M:Q8": "known are",
	} {
		if _, err := ParseShape(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", spec, err, want)
		}
	}
}
