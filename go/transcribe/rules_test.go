package transcribe

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
)

// noise returns element i of the noise of a name, as scripts/golden_hf.py has it.
func noise(name string, i int) float64 {
	hash := uint32(2166136261)
	for _, b := range []byte(name) {
		hash = (hash ^ uint32(b)) * 16777619
	}
	x := uint32(i)*0x9E3779B9 + hash
	x = (x ^ x>>16) * 0x85EBCA6B
	x = (x ^ x>>13) * 0xC2B2AE35
	return float64((x^x>>16)>>8)/(1<<23) - 1
}

// The rules of times leave what transformers' leave, and the same token is the likeliest.
func TestRules(t *testing.T) {
	data, err := os.ReadFile("testdata/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases [][4]json.RawMessage
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 20 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	kernel.Init(kernel.CPU())
	v := &Vocabulary{end: 256, noTimes: 265, times: 266, blank: 32}
	for i, c := range cases {
		var said []int32
		var raised, allowed, likeliest int
		for k, to := range []any{&said, &raised, &allowed, &likeliest} {
			if err := json.Unmarshal(c[k], to); err != nil {
				t.Fatal(err)
			}
		}
		logits := make([]float32, 347)
		for k := range logits {
			x := 3 * noise(fmt.Sprintf("logits %d", i), k)
			if k >= 266 {
				x += float64(raised)
			}
			logits[k] = float32(x)
		}
		v.rule(said, logits)
		left := 0
		for _, x := range logits {
			if !math.IsInf(float64(x), -1) {
				left++
			}
		}
		if best := slices.Index(logits, slices.Max(logits)); left != allowed || best != likeliest {
			t.Errorf("after %v with %+d: %d tokens, the likeliest %d; want %d and %d", said, raised, left, best, allowed, likeliest)
		}
	}
}

// Texts are cut where two times are side by side. What is behind the last pair is heard again, unless a single time
// ends the text.
func TestSegments(t *testing.T) {
	v := &Vocabulary{end: 256, noTimes: 265, times: 266}
	at := func(hundredths int) int32 { return v.times + int32(hundredths/2) }
	for _, c := range []struct {
		said  []int32
		times []float64 // from and to of each segment
		done  int
	}{
		{[]int32{at(0), 1, 2, at(120)}, []float64{0, 1.2}, 3000},
		{[]int32{at(0), 1, 2, at(120), at(120), 3, at(500)}, []float64{0, 1.2, 1.2, 5}, 3000},
		{[]int32{at(0), 1, 2, at(120), at(140), 3, at(500), at(500)}, []float64{0, 1.2, 1.4, 5}, 500},
		{[]int32{at(0), 1, 2, at(120), at(140), 3}, []float64{0, 1.2}, 120},
		{[]int32{at(0), 1, 2}, []float64{0, 30}, 3000},
		{nil, []float64{0, 30}, 3000},
	} {
		list, done, _ := v.segments(c.said, 3000)
		var times []float64
		for _, s := range list {
			times = append(times, s.Start, s.End)
		}
		if !slices.Equal(times, c.times) {
			t.Errorf("%v: times %v, want %v", c.said, times, c.times)
		}
		if done != c.done {
			t.Errorf("%v: %d hundredths are done, want %d", c.said, done, c.done)
		}
	}
}
