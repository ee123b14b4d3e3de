package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// vectors reads what embed prints by default.
func vectors(t *testing.T, out string) [][]float64 {
	t.Helper()
	var all [][]float64
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		var v []float64
		for _, field := range strings.Fields(line) {
			x, err := strconv.ParseFloat(field, 32)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, x)
		}
		all = append(all, v)
	}
	return all
}

// apart returns the largest difference of two vectors' numbers.
func apart(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range a {
		worst = max(worst, math.Abs(a[i]-b[i]))
	}
	return worst
}

// Texts have the vectors that a reference in NumPy gives them, from their characters on.
func TestEmbedMatchesReference(t *testing.T) {
	var ref struct {
		Cases []struct {
			Text string
			Mean []float64 `json:"mean_gelu_erf"`
			CLS  []float64 `json:"cls_gelu_erf"`
		}
	}
	raw, err := os.ReadFile(modelPath(t, "reference_bert_numpy.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &ref); err != nil || len(ref.Cases) == 0 {
		t.Fatalf("%d cases: %v", len(ref.Cases), err)
	}
	for pooling, other := range map[string]string{"mean": "cls", "cls": "mean"} {
		for _, asked := range []string{"", other} {
			args := []string{"embed", "-m", modelPath(t, "tiny-random-bert-"+pooling+"-f16.gguf"), "-ctk", "f32", "-ctv", "f32"}
			want := pooling
			if asked != "" {
				want = asked
				args = append(args, "--pooling", asked)
			}
			for _, c := range ref.Cases {
				args = append(args, c.Text)
			}
			got := vectors(t, succeed(t, args...))
			if len(got) != len(ref.Cases) {
				t.Fatalf("%d vectors of %d texts", len(got), len(ref.Cases))
			}
			for i, c := range ref.Cases {
				v := map[string][]float64{"mean": c.Mean, "cls": c.CLS}[want]
				if d := apart(got[i], v); !(d < 2e-6) {
					t.Errorf("%s: %q: vector off by %g", want, c.Text, d)
				}
			}
		}
	}
}

// A vector from the text on is the witness's, which cut its ids off: the text ends where they do.
func TestEmbedMatchesWitness(t *testing.T) {
	model := testdata.Path(t, "archs/nomic-bert.gguf")
	raw, err := os.ReadFile(testdata.Path(t, "archs/nomic-bert.json"))
	if err != nil {
		t.Fatal(err)
	}
	var w struct {
		Text string
		IDs  []int
		Mean []float64 `json:"embedding_mean"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	const last = "a very old dog"
	text := w.Text[:strings.Index(w.Text, last)+len(last)]
	if ids := strings.TrimSpace(succeed(t, "tokenize", "-m", model, "--ids", "-p", text)); "["+ids+"]" != fmt.Sprint(w.IDs) {
		t.Fatalf("ids %s, want %v", ids, w.IDs)
	}
	got := vectors(t, succeed(t, "embed", "-m", model, "--embd-normalize", "-1", "-ctk", "f32", "-ctv", "f32", text))
	if d := apart(got[0], w.Mean); !(d < 1e-5) {
		t.Errorf("vector off by %g", d)
	}
}

// Ways to give texts and to print vectors, for encoders and others.
func TestEmbed(t *testing.T) {
	for _, m := range []string{testdata.Path(t, "archs/bert.gguf"), testdata.Path(t, "archs/qwen3.gguf"), testdata.Path(t, "archs/jina-bert-v2.gguf"), demo.Name} {
		texts := []string{"a little girl", "the big red box was there", "a"}
		plain := succeed(t, append([]string{"embed", "-m", m}, texts...)...)
		all := vectors(t, plain)
		if len(all) != 3 || apart(all[0], all[1]) == 0 {
			t.Fatalf("%s: %d vectors", m, len(all))
		}
		for _, v := range all {
			sum := 0.0
			for _, x := range v {
				sum += x * x
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("%s: squares sum to %g", m, sum)
			}
		}
		lines := strings.Join(texts, "\n")
		for _, in := range []invocation{
			{args: []string{"embed", "-m", m}, stdin: lines + "\n"},
			{args: []string{"embed", "-m", m, "-p", lines}},
			{args: []string{"embed", "-m", m, "-f", "-", "--embd-separator", "<#>"}, stdin: strings.Join(texts, "<#>")},
		} {
			if r := in.run(t); r.stdout != plain {
				t.Errorf("%q: other vectors, %s", in.args, r.stderr)
			}
		}
		var array [][]float64
		if err := json.Unmarshal([]byte(succeed(t, append([]string{"embed", "-m", m, "--embd-output-format", "array"}, texts...)...)), &array); err != nil || len(array) != 3 || apart(array[1], all[1]) > 1e-7 {
			t.Errorf("%s: array: %d vectors, %v", m, len(array), err)
		}
		var list struct {
			Object string
			Data   []struct {
				Object    string
				Index     int
				Embedding []float64
			}
			CosineSimilarity [][]float64
		}
		if err := json.Unmarshal([]byte(succeed(t, append([]string{"embed", "-m", m, "--embd-output-format", "json+"}, texts...)...)), &list); err != nil {
			t.Fatal(err)
		}
		if list.Object != "list" || len(list.Data) != 3 || list.Data[2].Index != 2 || list.Data[2].Object != "embedding" || apart(list.Data[2].Embedding, all[2]) > 1e-7 {
			t.Errorf("%s: %d vectors, of which the last is %+v", m, len(list.Data), list.Data[len(list.Data)-1])
		}
		dot := 0.0
		for i := range all[0] {
			dot += all[0][i] * all[1][i]
		}
		if s := list.CosineSimilarity; len(s) != 3 || math.Abs(s[0][0]-1) > 1e-9 || math.Abs(s[1][0]-dot) > 1e-5 {
			t.Errorf("%s: similarities %v, of the first two %g", m, s, dot)
		}
	}
}

// Poolings of the same vectors, and lengths.
func TestEmbedPooling(t *testing.T) {
	m := testdata.Path(t, "archs/qwen3.gguf")
	run := func(args ...string) [][]float64 {
		return vectors(t, succeed(t, append([]string{"embed", "-m", m, "Once upon a time"}, args...)...))
	}
	tokens := run("--pooling", "none", "--embd-normalize", "-1")
	if len(tokens) < 3 {
		t.Fatalf("%d vectors of tokens", len(tokens))
	}
	mean := make([]float64, len(tokens[0]))
	for _, v := range tokens {
		for i, x := range v {
			mean[i] += x / float64(len(tokens))
		}
	}
	for pooling, want := range map[string][]float64{"cls": tokens[0], "last": tokens[len(tokens)-1], "mean": mean} {
		if d := apart(run("--pooling", pooling, "--embd-normalize", "-1")[0], want); !(d < 1e-6) {
			t.Errorf("%s: off by %g", pooling, d)
		}
	}
	if d := apart(run("--embd-normalize", "-1")[0], tokens[len(tokens)-1]); d != 0 {
		t.Errorf("by itself: off by %g from the last token", d)
	}
	for p, length := range map[string]func(v []float64) float64{
		"0": func(v []float64) float64 { return max(slices.Max(v), -slices.Min(v)) / 32760 },
		"1": func(v []float64) float64 {
			sum := 0.0
			for _, x := range v {
				sum += math.Abs(x)
			}
			return sum
		},
		"3": func(v []float64) float64 {
			sum := 0.0
			for _, x := range v {
				sum += math.Pow(math.Abs(x), 3)
			}
			return sum
		},
	} {
		if l := length(run("--embd-normalize", p)[0]); math.Abs(l-1) > 1e-5 {
			t.Errorf("norm %s: length %g", p, l)
		}
	}
	// In passes of three tokens, the same; so is the mean.
	for _, pooling := range []string{"last", "mean"} {
		if got := run("--pooling", pooling, "-b", "3"); !slices.Equal(got[0], run("--pooling", pooling)[0]) {
			t.Errorf("%s: another vector in slices", pooling)
		}
	}
}

func TestEmbedRefuses(t *testing.T) {
	m := testdata.Path(t, "archs/bert.gguf")
	for _, c := range []struct {
		args, want []string
		code       int
	}{
		{[]string{"x"}, []string{"-m"}, 2},
		{[]string{"-m", m, "x", "-p", "y"}, []string{`"x"`, "-p"}, 2},
		{[]string{"-m", m, "x", "--pooling", "rank"}, []string{"cls, last, mean, none"}, 2},
		{[]string{"-m", m, "x", "--embd-normalize", "-2"}, []string{"-2"}, 2},
		{[]string{"-m", m, "x", "--embd-output-format", "xml"}, []string{"array"}, 2},
		{[]string{"-m", m, "-p", "x", "--embd-separator", ""}, []string{"--embd-separator"}, 2},
		{[]string{"-m", m, "x", "-c", "129"}, []string{"129", "128 positions"}, 1},
		{[]string{"-m", m, "a", strings.Repeat("a ", 200)}, []string{"text 1", "202 tokens in a context of 128"}, 1},
		{[]string{"-m", testdata.Path(t, "archs/t5.gguf"), "a"}, []string{`"t5"`, "not supported"}, 1},
	} {
		quern(t, append([]string{"embed"}, c.args...)...).refused(t, c.code, c.want...)
	}
	for _, cmd := range [][]string{{"chat"}, {"serve", "--port", "0"}, {"perplexity", "-f", "../../../README.md"}, {"bench"}} {
		r := quern(t, append(cmd, "-m", m)...)
		if r.code != 1 || !strings.Contains(r.stderr, "both directions") {
			t.Errorf("%s: code %d, %s", cmd[0], r.code, r.stderr)
		}
	}
}
