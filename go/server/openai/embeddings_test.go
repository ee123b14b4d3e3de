package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// oneVector returns what /v1/embeddings says of one text.
func oneVector(t *testing.T, s *fake.Site, fields string) []float32 {
	t.Helper()
	a := fake.Post[struct {
		Object string
		Data   []struct {
			Object    string
			Index     int
			Embedding []float32
		}
		Usage tokenUsage
	}](s, "/v1/embeddings", "{"+fields+"}")
	if a.Object != "list" || len(a.Data) != 1 || a.Data[0].Object != "embedding" || a.Usage.PromptTokens == 0 ||
		a.Usage.TotalTokens != a.Usage.PromptTokens {
		t.Errorf("%s: %+v", fields, a)
	}
	return a.Data[0].Embedding
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// A text has the same vector, bit for bit, alone and among others, beside texts that are generated, and
// those are the same too.
func TestVectorsInCompany(t *testing.T) {
	t.Parallel()
	for _, pooling := range []nn.Pooling{nn.PoolMean, nn.PoolLast} {
		s := fake.Embedder(t, func(m *ask.Model) { m.Pooling = pooling })
		texts := []string{"Once upon a time", "a", strings.Repeat("The dog ran to the big tree. ", 20), "Lily"}
		var alone [][]float32
		for _, text := range texts {
			v := oneVector(t, s, fmt.Sprintf(`"input":%q`, text))
			if math.Abs(length(v)-1) > 1e-6 {
				t.Errorf("%q has the length %g", text, length(v))
			}
			alone = append(alone, v)
		}
		if slices.Equal(alone[0], alone[1]) {
			t.Error("two texts have one vector")
		}
		ask := `{"prompt":"Once upon a time","n_predict":16,"temperature":0,"ignore_eos":true}`
		type native struct{ Content string }
		want := fake.Post[native](s, "/completion", ask).Content
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if got := fake.Post[native](s, "/completion", ask).Content; got != want {
					t.Errorf("pooling %d: beside vectors %q, alone %q", pooling, got, want)
				}
			})
			wg.Go(func() {
				body, _ := json.Marshal(map[string]any{"input": append(texts, texts...)})
				a := fake.Post[struct {
					Data []struct{ Embedding []float32 }
				}](s, "/v1/embeddings", string(body))
				if len(a.Data) != 2*len(texts) {
					t.Errorf("%d vectors of %d texts", len(a.Data), 2*len(texts))
					return
				}
				for i, d := range a.Data {
					if !slices.Equal(d.Embedding, alone[i%len(texts)]) {
						t.Errorf("pooling %d: text %d has another vector in company", pooling, i)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestVectorForms(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	text := "Once upon a time"
	v := oneVector(t, s, `"input":"`+text+`"`)
	ids, err := json.Marshal(s.Tokens(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{`["` + text + `"]`, string(ids), "[" + string(ids) + "]"} {
		if got := oneVector(t, s, `"input":`+input); !slices.Equal(got, v) {
			t.Errorf("%s has another vector", input)
		}
	}
	// base64 is the same numbers.
	b := fake.Post[struct{ Data []struct{ Embedding string } }](s, "/v1/embeddings",
		`{"input":"`+text+`","encoding_format":"base64"}`)
	raw, err := base64.StdEncoding.DecodeString(b.Data[0].Embedding)
	if err != nil || len(raw) != 4*len(v) ||
		math.Float32frombits(uint32(raw[0])|uint32(raw[1])<<8|uint32(raw[2])<<16|uint32(raw[3])<<24) != v[0] {
		t.Errorf("base64: %v, %d bytes", err, len(raw))
	}
	// Fewer numbers are the first ones, with their length again.
	short := oneVector(t, s, `"dimensions":16,"input":"`+text+`"`)
	if len(short) != 16 || math.Abs(length(short)-1) > 1e-6 || math.Abs(float64(short[3]/short[5]-v[3]/v[5])) > 1e-3 {
		t.Errorf("16 numbers: %v", short)
	}
	plain := oneVector(t, s, `"embd_normalize":-1,"input":"`+text+`"`)
	if math.Abs(length(plain)-1) < 1e-3 || math.Abs(float64(plain[3]/plain[5]-v[3]/v[5])) > 1e-3 {
		t.Errorf("not normalised: %v", plain[:4])
	}
}

func TestVectorsRefused(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	long := strings.Repeat("a dog and ", 2000)
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/embeddings", `{}`, 400, "input: missing"},
		{"/v1/embeddings", `{"input":[]}`, 400, "input: empty"},
		{"/v1/embeddings", `{"input":{"a":1}}`, 400, "input: "},
		{"/v1/embeddings", `{"input":[1,99999999]}`, 400, "input: element 1"},
		{"/v1/embeddings", `{"input":"a","dimensions":257}`, 400, "dimensions: 257, want at most 256"},
		{"/v1/embeddings", `{"input":"a","dimensions":"x"}`, 400, "dimensions: "},
		{"/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, 400, "encoding_format: "},
		{"/v1/embeddings", `{"input":"` + long + `"}`, 400, "exceeds the available context size of 1024 tokens: too large"},
		{"/v1/embeddings", `{"input":["a","` + long + `"]}`, 400, "element 1 has"},
		{"/v1/embeddings", `{"input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, 400, "at most 2048"},
		{"/v1/rerank", `{"query":"a","documents":["b"]}`, 501, "no classifier"},
		{"/v1/rerank", `{"query":"a"}`, 400, "documents: missing"},
		{"/v1/rerank", `{"documents":["b"]}`, 400, "query: missing"},
		{"/v1/rerank", `{"query":"a","documents":[]}`, 400, "documents: empty"},
		{"/v1/rerank", `{"query":"a","documents":[{"body":"b"}]}`, 400, "documents: element 0"},
		{"/rerank", `{"query":"a","documents":["b"],"texts":["b"]}`, 400, "texts: "},
	} {
		status, body, _ := s.Do("POST", tt.path, tt.body)
		if status != tt.status || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s %.60s: %d %s, want %d %s", tt.path, tt.body, status, body, tt.status, tt.want)
		}
	}
	only := fake.Embedder(t, func(m *ask.Model) { m.VectorsOnly = "bert reads both ways" })
	for path, body := range map[string]string{"/completion": `{"prompt":"a"}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}]}`} {
		if status, answer, _ := only.Do("POST", path, body); status != 501 ||
			!strings.Contains(string(answer), "bert reads both ways; use /v1/embeddings") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	ranker := fake.Embedder(t, func(m *ask.Model) { m.Pooling = nn.PoolRank })
	if status, answer, _ := ranker.Do("POST", "/v1/embeddings", `{"input":"a"}`); status != 501 ||
		!strings.Contains(string(answer), "/v1/rerank") {
		t.Errorf("vectors of a reranker: %d %s", status, answer)
	}
}
