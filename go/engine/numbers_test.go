package engine

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
)

// A normalized vector has the direction that it had, and a norm of 1: the sum of magnitudes, the Euclidean, or another;
// for 0 the largest magnitude is 32760. What has no length stays as it is.
func TestNormalize(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, v := range [][]float32{{3, -4}, {0.5, 0, -0.25, 7}, {-1e-3}, {1e20, 1e20, -1e20}} {
		for p := -1; p <= 4; p++ {
			got := slices.Clone(v)
			Normalize(got, p)
			if p < 0 {
				if !slices.Equal(got, v) {
					t.Errorf("%v by %d: %v", v, p, got)
				}
				continue
			}
			norm, largest := 0.0, 0.0
			for _, x := range got {
				norm += math.Pow(math.Abs(float64(x)), float64(p))
				largest = max(largest, math.Abs(float64(x)))
			}
			if p == 0 {
				norm = largest / 32760
			}
			if math.Abs(norm-1) > 1e-5 {
				t.Errorf("%v by %d: %v has a norm of %v", v, p, got, norm)
			}
			for i := range v {
				a, b := float64(v[i])*float64(got[0]), float64(v[0])*float64(got[i])
				if math.Abs(a-b) > 1e-6*math.Abs(a) {
					t.Errorf("%v by %d: %v has another direction", v, p, got)
				}
			}
		}
	}
	for _, v := range [][]float32{{}, {0, 0}, {1, inf}} {
		for p := range 4 {
			got := slices.Clone(v)
			if Normalize(got, p); !slices.Equal(got, v) {
				t.Errorf("%v by %d: %v", v, p, got)
			}
		}
	}
}

// Probabilities of scores are as their exponentials, and their sum is 1.
func TestSoftmax(t *testing.T) {
	for _, scores := range [][]float32{{0}, {1, 1}, {1, 2, 3}, {-100, 0, 5}, {80, 90}} {
		got, sum := slices.Clone(scores), 0.0
		softmax(got)
		for _, x := range scores {
			sum += math.Exp(float64(x))
		}
		for i, x := range scores {
			if want := math.Exp(float64(x)) / sum; math.Abs(float64(got[i])-want) > 1e-6 {
				t.Errorf("%v: %v, want %v at %d", scores, got, want, i)
			}
		}
	}
}

// Of the tokens that a file says are never generated those count that the vocabulary has, each once.
func TestBanned(t *testing.T) {
	for _, c := range []struct {
		value any
		want  []int32
		fails bool
	}{
		{value: nil},
		{value: []int32{7, 3, 3, 99, 0, 100, -1}, want: []int32{0, 3, 7, 99}},
		{value: []int32{100}},
		{value: "3", fails: true},
	} {
		w := gguf.NewWriter()
		if c.value != nil {
			w.Set("tokenizer.ggml.suppress_tokens", c.value)
		}
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := banned(f, 100); !slices.Equal(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%v: %v, %v, want %v", c.value, got, err, c.want)
		}
	}
}

// Rates are of what was computed: without cached tokens, and without the first, which the prompt's pass gives.
func TestRates(t *testing.T) {
	s := Stats{PromptTokens: 110, CachedTokens: 10, Generated: 21, Prefill: 2 * time.Second, Decode: 4 * time.Second}
	if s.PrefillRate() != 50 || s.DecodeRate() != 5 {
		t.Errorf("%v and %v tokens per second, want 50 and 5", s.PrefillRate(), s.DecodeRate())
	}
	for _, c := range []struct {
		n    int
		took time.Duration
		want float64
	}{{0, time.Second, 0}, {-1, time.Second, 0}, {1, time.Second, 1}, {1, 0, 0}, {5, -1, 0}, {3, 1, 3e9}} {
		if got := rate(c.n, c.took); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%d in %v: %v per second, want %v", c.n, c.took, got, c.want)
		}
	}
}

// Sizes up to their limits are taken, the next is refused by name and limit.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		most int
		set  func(c *Config, n int)
	}{
		"context":   {maxContext, func(c *Config, n int) { c.Ctx = n }},
		"sequences": {1 << 16, func(c *Config, n int) { c.Sequences = n }},
		"batch":     {1 << 20, func(c *Config, n int) { c.Batch = n }},
	} {
		for n, ok := range map[int]bool{-1: false, 0: true, 1: true, c.most: true, c.most + 1: false} {
			var of Config
			c.set(&of, n)
			want := fmt.Sprintf("%s %d, want 0 to %d", name, n, c.most)
			if err := of.fill(); (err == nil) != ok || err != nil && err.Error() != want {
				t.Errorf("%s %d: %v, want %v, or %s", name, n, err, ok, want)
			}
		}
	}
}
