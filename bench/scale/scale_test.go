package main

import (
	"bytes"
	"strings"
	"testing"
)

// The model's limits are those of the machine: no pass beats its bandwidth or its products, more hosts read less each, and
// slower links help less.
func TestLimits(t *testing.T) {
	for _, m := range machines {
		for _, s := range shapes {
			for _, n := range []float64{1, 8, 64, 512} {
				took := pass(m, s, n)
				if took < s.bytes(n)/m.read() || took < n*s.macs()/m.multiply() {
					t.Errorf("%s, %s: a pass of %g tokens in %g s beats the machine", m.name, s.name, n, took)
				}
				last := 0.0
				for _, l := range links {
					two := split(m, s, n, 2, l)
					if two < took/2 || two < last {
						t.Errorf("%s, %s over %s: %g s for %g tokens, on one host %g, over a faster link %g", m.name, s.name, l.name, two, n, took, last)
					}
					last = two
				}
			}
			if s.bytes(1) > s.bytes(8) || s.bytes(512) > s.size()*1.0001 {
				t.Errorf("%s: %g bytes for one token, %g for 8, %g for 512, of %g", s.name, s.bytes(1), s.bytes(8), s.bytes(512), s.size())
			}
		}
	}
}

// Sizes of models are those that their files have.
func TestSizes(t *testing.T) {
	for name, want := range map[string]float64{
		"Llama-3.1-8B Q4_K_M": 4.92e9, "Llama-3.1-70B Q4_K_M": 42.5e9, "Qwen3-235B-A22B Q4_K_M": 142e9, "DeepSeek-R1 Q4_K_M": 404e9,
	} {
		for _, s := range shapes {
			if s.name == name && (s.size() < 0.95*want || s.size() > 1.05*want) {
				t.Errorf("%s has %.1f GB, its file %.1f", name, s.size()/1e9, want/1e9)
			}
		}
	}
}

func TestPrint(t *testing.T) {
	var b bytes.Buffer
	print(&b)
	rows := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "| 2x EPYC") {
			rows++
		}
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
			t.Error(line)
		}
	}
	if rows != 1+len(shapes)+4*len(links) {
		t.Errorf("%d rows of a machine", rows)
	}
}
