package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
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
	t.Parallel()
	m := testdata.Path(t, "archs/bert.gguf")
	for _, c := range []struct {
		args, want []string
		code       int
	}{
		{[]string{"x"}, []string{"-m"}, 2},
		{[]string{"-m", m, "x", "-p", "y"}, []string{`"x"`, "-p"}, 2},
		{[]string{"-m", m, "x", "--pooling", "rank"}, []string{"does not rank"}, 1},
		{[]string{"-m", m, "x", "--pooling", "max"}, []string{"cls, last, mean, none, rank"}, 2},
		{[]string{"-m", m, "x", "--embd-normalize", "-2"}, []string{"-2"}, 2},
		{[]string{"-m", m, "x", "--embd-output-format", "xml"}, []string{"array"}, 2},
		{[]string{"-m", m, "-p", "x", "--embd-separator", ""}, []string{"--embd-separator"}, 2},
		{[]string{"-m", m, "a", strings.Repeat("a ", 200)}, []string{"text 1", "202 tokens in a context of 128"}, 1},
		{[]string{"-m", unsupported(t), "a"}, []string{`"graniteswitch"`, "not supported"}, 1},
	} {
		quern(t, append([]string{"embed"}, c.args...)...).refused(t, c.code, c.want...)
	}
	// A longer context than there are positions is as long as these, and a line says so.
	long := quern(t, "embed", "-m", m, "x", "-c", "129")
	if want := succeed(t, "embed", "-m", m, "x"); long.code != 0 || long.stdout != want || !strings.Contains(long.stderr, "128 tokens, not the 129") {
		t.Errorf("a context of 129: code %d, %q, %q", long.code, long.stdout, long.stderr)
	}
	for _, cmd := range [][]string{{"chat"}, {"perplexity", "-f", "../../../README.md"}, {"bench"}} {
		r := quern(t, append(cmd, "-m", m)...)
		if r.code != 1 || !strings.Contains(r.stderr, "both directions") {
			t.Errorf("%s: code %d, %s", cmd[0], r.code, r.stderr)
		}
	}
}

// Scores of classifiers are the witness's, which has its own form of GELU, and what /v1/rerank says.
func TestRankMatchesWitness(t *testing.T) {
	const text = "a little girl and the dog"
	for _, tt := range []struct {
		base    string
		labels  []string
		tensors []string
		want    []float64
	}{
		{"bert", nil, []string{"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"}, []float64{1.251522}},
		{"bert", []string{"a", "b", "c"}, []string{"cls.output.weight"}, []float64{-1.585557, -1.399755, 0.8493652}},
		{"jina-bert-v2", nil, []string{"cls.weight", "cls.bias"}, []float64{-0.9779012}},
		{"modern-bert", nil, []string{"cls.weight", "cls.norm.weight", "cls.output.weight", "cls.output.bias"}, []float64{-0.4595568}},
		{"qwen3", []string{"yes", "no"}, []string{"cls.output.weight"}, []float64{0.6662751, 0.3337249}},
	} {
		path := reranker(t, tt.base, tt.labels, tt.tensors...)
		got := vectors(t, succeed(t, "embed", "-m", path, "-ctk", "f32", "-ctv", "f32", text))
		if d := apart(got[0], tt.want); !(d < 2e-3) {
			t.Errorf("%s: scores %v, want %v", tt.base, got[0], tt.want)
		}
	}
}

// /v1/rerank and its aliases order documents by the scores of query and document, in each form.
func TestRerank(t *testing.T) {
	bert := []string{"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"}
	path := reranker(t, "bert", nil, bert...)
	// One token type, so that embed has the scores of texts that say [CLS] query [SEP] document [SEP]: TestPairTypes has two.
	s := serveFile(t, path, "--reranking", "-ctk", "f32", "-ctv", "f32", "--override-kv", "quern.tokenizer.pair_types=bool:false")
	query, docs := "the dog", []string{"a little girl", "a big red dog was there and ran to the girl", "no"}
	want := map[int]float64{}
	for i, d := range docs {
		want[i] = vectors(t, succeed(t, "embed", "-m", path, "-ctk", "f32", "-ctv", "f32", query+"[SEP]"+d))[0][0]
	}
	body, _ := json.Marshal(map[string]any{"query": query, "documents": docs, "top_n": 2, "return_documents": true})
	for _, at := range []string{"/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"} {
		status, a := s.post(at, string(body))
		results, _ := a["results"].([]any)
		if status != 200 || len(results) != 2 {
			t.Fatalf("%s: %d %v", at, status, a)
		}
		last := math.Inf(1)
		for _, r := range results {
			one := r.(map[string]any)
			i, score := int(one["index"].(float64)), one["relevance_score"].(float64)
			exact := want[i]
			if at == "/v2/rerank" {
				exact = 1 / (1 + math.Exp(-exact))
			}
			if math.Abs(score-exact) > 1e-6 || score > last || one["document"].(map[string]any)["text"] != docs[i] {
				t.Errorf("%s: %v, want %g after %g", at, one, exact, last)
			}
			last = score
		}
	}
	status, raw := s.postRaw("/rerank", `{"query":"the dog","texts":["a little girl","no"],"raw_scores":true,"return_text":true}`)
	var tei []struct {
		Index int
		Score float64
		Text  string
	}
	if err := json.Unmarshal(raw, &tei); err != nil || status != 200 || len(tei) != 2 || tei[0].Text == "" || tei[0].Score < tei[1].Score {
		t.Errorf("TEI's form: %d %s", status, raw)
	}
	if status, a := s.post("/v1/embeddings", `{"input":"a"}`); status != 501 {
		t.Errorf("vectors of a reranker: %d %v", status, a)
	}
	if status, a := s.post("/completion", `{"prompt":"a"}`); status != 501 {
		t.Errorf("text of a reranker: %d %v", status, a)
	}
	// A template of the file says how a query and a document become a prompt.
	file := reranker(t, "qwen3", []string{"yes", "no"}, "cls.output.weight")
	q := serveFile(t, file, "-ctk", "f32", "-ctv", "f32")
	_, a := q.post("/v1/rerank", `{"query":"{document}","documents":["a dog"]}`)
	exact := vectors(t, succeed(t, "embed", "-m", file, "-ctk", "f32", "-ctv", "f32", "Is {document} in a dog?"))[0][0]
	if score := a["results"].([]any)[0].(map[string]any)["relevance_score"].(float64); math.Abs(score-exact) > 1e-6 {
		t.Errorf("by a template %g, want %g", score, exact)
	}
	quern(t, "serve", "-m", testdata.Path(t, "archs/bert.gguf"), "--reranking", "--port", "0").refused(t, 1, "does not rank", "bert.gguf")
}

// An encoder serves the vectors that embed makes, many at a time, and says what it cannot do.
func TestServeEncoder(t *testing.T) {
	path := modelPath(t, "tiny-random-bert-cls-f16.gguf")
	s := serveFile(t, path, "-ctk", "f32", "-ctv", "f32", "--queue", "1000", "-c", "4096") // of which it has 128; all texts of all requests at once
	texts := []string{"a cat", "the dog ran", "a", "Hello, world! How are you today?"}
	want := vectors(t, succeed(t, append([]string{"embed", "-m", path, "-ctk", "f32", "-ctv", "f32"}, texts...)...))
	var many []string
	for range 64 {
		many = append(many, texts...)
	}
	body, _ := json.Marshal(map[string]any{"input": many})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			_, raw := s.postRaw("/v1/embeddings", string(body))
			var a struct {
				Data []struct{ Embedding []float64 }
			}
			if err := json.Unmarshal(raw, &a); err != nil || len(a.Data) != len(many) {
				t.Errorf("%v: %.300s", err, raw)
				return
			}
			for i, d := range a.Data {
				if x := apart(d.Embedding, want[i%len(texts)]); !(x < 1e-7) {
					t.Errorf("text %d is off by %g", i, x)
				}
			}
		})
	}
	wg.Wait()
	if status, a := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`); status != 501 || !strings.Contains(fmt.Sprint(a), "both directions") {
		t.Errorf("a chat with an encoder: %d %v", status, a)
	}
	// It scores documents by the cosine of their vectors and the query's.
	for _, path := range []string{"/v1/rerank", "/v2/rerank"} {
		var ranked struct {
			Results []struct {
				Index int
				Score float64 `json:"relevance_score"`
			}
		}
		_, raw := s.postRaw(path, `{"query":"a cat","documents":["the dog ran","a","Hello, world! How are you today?"]}`)
		if err := json.Unmarshal(raw, &ranked); err != nil || len(ranked.Results) != 3 {
			t.Fatalf("%s: %v %s", path, err, raw)
		}
		for i, r := range ranked.Results {
			if i > 0 && r.Score > ranked.Results[i-1].Score {
				t.Errorf("%s: not sorted: %+v", path, ranked.Results)
			}
			cosine := 0.0
			for k, v := range want[1+r.Index] {
				cosine += v * want[0][k]
			}
			if math.Abs(r.Score-cosine) > 1e-6 {
				t.Errorf("%s: document %d has the score %g, want %g", path, r.Index, r.Score, cosine)
			}
		}
	}
	if status, a := serve(t, demo.Name).post("/v1/rerank", `{"query":"a","documents":["b"]}`); status != 501 || !strings.Contains(fmt.Sprint(a), "no classifier") {
		t.Errorf("reranking by a model that generates text: %d %v", status, a)
	}
	if status, a := s.post("/v1/embeddings", `{"input":"`+strings.Repeat("dog ", 200)+`"}`); status != 400 || !strings.Contains(fmt.Sprint(a), "128") {
		t.Errorf("a long text: %d %v", status, a)
	}
}

// serveFile is serve of a file at a path.
func serveFile(t *testing.T, path string, args ...string) *service {
	t.Helper()
	return serve(t, "", append(args, "-m", path)...)
}

// reranker returns the path of a copy of a model with these tensors of a classifier, of random
// weights, and a score for each label, or one.
func reranker(t *testing.T, base string, labels []string, tensors ...string) string {
	t.Helper()
	return classifier(t, base, map[string]any{base + ".pooling_type": uint32(4)}, labels, tensors...)
}

// classifier is reranker with these keys.
func classifier(t *testing.T, base string, keys map[string]any, labels []string, tensors ...string) string {
	t.Helper()
	raw, err := os.ReadFile(testdata.Path(t, "archs/"+base+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		w.Set(kv.Key, kv.Value)
	}
	for key, v := range keys {
		w.Set(key, v)
	}
	n := uint64(1)
	if labels != nil {
		n = uint64(len(labels))
		w.Set(base+".classifier.output_labels", labels)
	}
	if base == "qwen3" {
		w.Set("tokenizer.chat_template.rerank", "Is {query} in {document}?")
	}
	for _, x := range f.Tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	width, _ := f.Uint(base + ".embedding_length")
	dims := map[string][]uint64{
		"cls.weight": {width, width}, "cls.bias": {width}, "cls.norm.weight": {width},
		"cls.output.weight": {width, n}, "cls.output.bias": {n},
	}
	if !slices.Contains(tensors, "cls.output.weight") {
		dims["cls.weight"], dims["cls.bias"] = []uint64{width, n}, []uint64{n}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range tensors {
		count := uint64(1)
		for _, d := range dims[name] {
			count *= d
		}
		data := make([]byte, 0, 4*count)
		for range count {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(random.Float32()-0.5))
		}
		w.AddTensor(name, gguf.F32, dims[name], gguf.Bytes(data))
	}
	path := filepath.Join(t.TempDir(), "reranker.gguf")
	if _, err := newfile.Write(path, false, 0o600, 0, w.WriteTo); err != nil {
		t.Fatal(err)
	}
	return path
}

// postRaw is post of an answer that is no object.
func (s *service) postRaw(path, body string) (int, []byte) {
	s.t.Helper()
	r, err := s.client.Post("http://quern"+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, raw
}
