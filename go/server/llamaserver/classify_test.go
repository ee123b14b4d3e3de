package llamaserver_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// vllmList is what vLLM's clients read of the answers to /classify, /pooling and /score.
type vllmList struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Data    []struct {
		Index   *int            `json:"index"`
		Object  string          `json:"object"`
		Label   json.RawMessage `json:"label"`
		Probs   []float64       `json:"probs"`
		Classes int             `json:"num_classes"`
		Score   float64         `json:"score"`
		Data    json.RawMessage `json:"data"`
		Tokens  []int32         `json:"tokens"`
		Labels  []string        `json:"labels"`
	} `json:"data"`
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

// is checks what such lists have in common.
func (l *vllmList) is(t *testing.T, prefix string, texts, tokens int) {
	t.Helper()
	if !strings.HasPrefix(l.ID, prefix) || len(l.ID) != len(prefix)+24 || l.Object != "list" || l.Created < 1e9 ||
		l.Model != "fake/model" || len(l.Data) != texts || l.Usage.Prompt != tokens || l.Usage.Total != tokens {
		t.Fatalf("%+v, want %d entries of %d tokens", l, texts, tokens)
	}
	for i, one := range l.Data {
		if one.Index == nil || *one.Index != i {
			t.Errorf("entry %d has the index %v", i, one.Index)
		}
	}
}

// reads serves a model whose vector of a token says which it is and where.
func reads(t *testing.T, c nn.Classifier, pooling nn.Pooling) *fake.Site {
	t.Helper()
	return fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		m.Classifier, m.Pooling, m.Info.NEmbd = c, pooling, 3
		f.Vector = func(r *engine.Request, token int) []float32 { return vectorOf(r.Prompt[token], token) }
	})
}

func vectorOf(id int32, at int) []float32 { return []float32{float32(id % 5), float32(at), 2} }

// probabilities are those of scores, together 1 or each by itself.
func probabilities(scores []float32, several bool) (all []float64) {
	sum := 0.0
	for _, x := range scores {
		sum += math.Exp(float64(x))
	}
	for _, x := range scores {
		if several {
			all = append(all, 1/(1+math.Exp(-float64(x))))
		} else {
			all = append(all, math.Exp(float64(x))/sum)
		}
	}
	return all
}

func near(got []float64, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
}

func floats(v []float32) (all []float64) {
	for _, x := range v {
		all = append(all, float64(x))
	}
	return all
}

// Classes of texts are those of the classifier's scores, as probabilities unless a request asks for the scores; the label
// is that of the greatest.
func TestClassesOfTexts(t *testing.T) {
	t.Parallel()
	const texts = `"input":["ab","b"]`
	for _, several := range []bool{false, true} {
		for _, labels := range [][]string{nil, {"none", "some", "all"}} {
			s := reads(t, nn.Classifier{NScore: 3, Several: several, Labels: labels}, nn.PoolRank)
			for fields, raw := range map[string]bool{"": false, `,"use_activation":true`: false, `,"activation":false`: true,
				`,"use_activation":false`: true} {
				l := fake.Post[vllmList](s, "/v1/classify", "{"+texts+fields+"}")
				l.is(t, "classify-", 2, 5)
				for _, one := range l.Data {
					scores := vectorOf(1, 0) // BOS is the first token of each, whose vector this engine's classifier takes
					want := probabilities(scores, several)
					if raw {
						want = floats(scores)
					}
					label := "null"
					if labels != nil {
						label = `"all"`
					}
					if !near(one.Probs, want) || one.Classes != 3 || string(one.Label) != label {
						t.Errorf("several %v, %s: %+v, want %v, %s", several, fields, one, want, label)
					}
				}
			}
		}
	}
	s := reads(t, nn.Classifier{NScore: 3}, nn.PoolRank)
	l := fake.Post[vllmList](s, "/classify", `{"input":["abcdef","b"],"truncate_prompt_tokens":2}`)
	l.is(t, "classify-", 2, 4)
	s.Refused("/classify", `{}`, 400, "input")
	s.Refused("/classify", `{"input":"`+strings.Repeat("ab", 300)+`"}`, 400, "")
	s.Err = engine.ErrClosing
	for path, body := range map[string]string{"/classify": "{" + texts + "}", "/pooling": "{" + texts + "}", "/score": `{"text_1":"a","text_2":"b"}`} {
		if status, b, _ := s.Do("POST", path, body); status != 503 {
			t.Errorf("%s of an engine that ends: %d %s", path, status, b)
		}
	}
}

// What is made of texts is what the task says, or else what the model is for: vectors of texts have length 1 by the norm
// that is asked for, those of tokens are as they are, and classes are probabilities unless scores are asked for.
func TestTasksOfPooling(t *testing.T) {
	t.Parallel()
	none, ofText, ofTokens := nn.Classifier{}, nn.Classifier{NScore: 3}, nn.Classifier{NScore: 3, Tokens: true, Labels: []string{"A", "B", "C"}}
	const first, mean, last, each, class, classes = "first", "mean", "last", "each token", "class", "class of each token"
	for _, c := range []struct {
		classifier nn.Classifier
		pooling    nn.Pooling
		task, want string
	}{
		{none, nn.PoolLast, "", last}, {none, nn.PoolCLS, "", first}, {none, nn.PoolMean, "", mean}, {none, nn.PoolNone, "", each},
		{ofText, nn.PoolLast, "", class}, {ofTokens, nn.PoolLast, "", classes},
		{none, nn.PoolLast, "embed", last}, {none, nn.PoolNone, "embed", mean}, {ofText, nn.PoolRank, "embed", mean}, {ofTokens, nn.PoolCLS, "embed", first},
		{ofText, nn.PoolLast, "classify", class}, {ofTokens, nn.PoolLast, "classify", class},
		{none, nn.PoolMean, "token_embed", each}, {ofText, nn.PoolRank, "token_embed", each},
		{ofTokens, nn.PoolMean, "token_classify", classes},
	} {
		s := reads(t, c.classifier, c.pooling)
		for _, fields := range []string{"", `,"use_activation":false`, `,"embd_normalize":-1`, `,"embd_normalize":1`} {
			what := fmt.Sprintf("%+v, pooling %v, task %q%s", c.classifier, c.pooling, c.task, fields)
			l := fake.Post[vllmList](s, "/pooling", fmt.Sprintf(`{"input":["ab","abc"],"task":%q%s}`, c.task, fields))
			l.is(t, "pool-", 2, 7)
			for i, text := range []string{"ab", "abc"} {
				ids := s.Tokens(text)
				var rows [][]float64 // by the definition
				for at, id := range ids {
					rows = append(rows, floats(vectorOf(id, at)))
				}
				n := float64(len(rows))
				centre := []float64{0, 0, 0}
				for _, row := range rows {
					for k, x := range row {
						centre[k] += x / n
					}
				}
				unit := func(v []float64) []float64 {
					length := 0.0
					for _, x := range v {
						switch {
						case strings.HasSuffix(fields, ":-1"):
							length = 1
						case strings.HasSuffix(fields, ":1"):
							length += math.Abs(x)
						default:
							length = math.Hypot(length, x)
						}
					}
					for k := range v {
						v[k] /= length
					}
					return v
				}
				chances := func(v []float64) []float64 {
					if strings.Contains(fields, "use_activation") {
						return v
					}
					return probabilities([]float32{float32(v[0]), float32(v[1]), float32(v[2])}, false)
				}
				one := l.Data[i]
				var got [][]float64
				if c.want == each || c.want == classes {
					if err := json.Unmarshal(one.Data, &got); err != nil || !slices.Equal(one.Tokens, ids) {
						t.Fatalf("%s: %v, tokens %v of %s, want %v", what, err, one.Tokens, one.Data, ids)
					}
				} else {
					got = [][]float64{nil}
					if err := json.Unmarshal(one.Data, &got[0]); err != nil || one.Tokens != nil {
						t.Fatalf("%s: %v, tokens %v of %s", what, err, one.Tokens, one.Data)
					}
				}
				var labels []string
				want := rows
				switch c.want {
				case first:
					want = [][]float64{unit(rows[0])}
				case mean:
					want = [][]float64{unit(centre)}
				case last:
					want = [][]float64{unit(rows[len(rows)-1])}
				case class:
					want = [][]float64{chances(rows[0])}
				case classes:
					for k, row := range rows {
						labels = append(labels, c.classifier.Labels[slices.Index(row, slices.Max(row))])
						want[k] = chances(row)
					}
				}
				if !slices.EqualFunc(got, want, near) || !slices.Equal(one.Labels, labels) || one.Object != "pooling" {
					t.Errorf("%s of %q: %v with %v, want %s: %v with %v", what, text, got, one.Labels, c.want, want, labels)
				}
			}
		}
	}
	s := reads(t, none, nn.PoolLast)
	s.Refused("/pooling", `{"input":"a","task":"rank"}`, 400, "task")
	s.Refused("/pooling", `{"input":[]}`, 400, "input")
	s.Refused("/pooling", `{"input":"a","embd_normalize":-2}`, 400, "embd_normalize")
}

// A text is scored with each of several, or several with as many.
func TestScoresOfPairs(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, _ *ask.Model, f *fake.Engine) {
		f.Vector = func(r *engine.Request, _ int) []float32 { return []float32{float32(len(r.Prompt)), 1} }
	})
	length := func(text string) float64 {
		fake.Post[struct{}](s, "/score", `{"text_1":"`+text+`","text_2":""}`)
		return float64(len(s.Last().Prompt))
	}
	more := length("ab") - length("a")
	if more != 1 {
		t.Fatalf("a letter has %g tokens", more)
	}
	bare := length("a") - 1
	for _, c := range []struct {
		body string
		want []float64 // letters of each pair
	}{
		{`"text_1":"a","text_2":["b","cd","efg"]`, []float64{2, 3, 4}}, {`"queries":["a"],"documents":"b"`, []float64{2}},
		{`"data_1":["a","bcd"],"data_2":["e","f"]`, []float64{2, 4}},
	} {
		for fields, raw := range map[string]bool{"": false, `,"activation":true`: false, `,"use_activation":false`: true} {
			l := fake.Post[vllmList](s, "/v1/score", "{"+c.body+fields+"}")
			tokens := 0
			for _, n := range c.want {
				tokens += int(bare + n)
			}
			l.is(t, "score-", len(c.want), tokens)
			for i, one := range l.Data {
				want := bare + c.want[i]
				if !raw {
					want = 1 / (1 + math.Exp(-want))
				}
				if math.Abs(one.Score-want) > 1e-9 || one.Object != "score" {
					t.Errorf("%s%s: %+v, want %g", c.body, fields, one, want)
				}
			}
		}
	}
	for body, want := range map[string]string{
		`{"text_1":["a","b"],"text_2":["c"]}`:         "text_1: 2 texts beside 1 of text_2, want one, or as many",
		`{"text_1":["a","b"],"text_2":["c","d","e"]}`: "text_1: 2 texts beside 3 of text_2, want one, or as many",
		`{"text_1":"a"}`: "text_2: missing", `{"text_1":7,"text_2":"a"}`: "text_1: 7, want",
	} {
		if status, b, _ := s.Do("POST", "/score", body); status != 400 || !strings.HasPrefix(fake.ErrorOf(t, b).Message, want) {
			t.Errorf("%s: %d %s, want %s", body, status, b, want)
		}
	}
}

// Without a classifier, pairs are scored by the cosines of their vectors, each text with the prompt of its kind before it.
func TestCosinesOfPairs(t *testing.T) {
	t.Parallel()
	for name, prompts := range map[string]nn.Prompts{
		"none": {}, "default": {Names: []string{"x"}, Texts: []string{"X"}, Default: "x"},
		"both": {Names: []string{"query", "passage"}, Texts: []string{"Q", "P"}},
		"all":  {Names: []string{"x", "query", "passage", "document"}, Texts: []string{"X", "Q", "P", "D"}, Default: "x"},
	} {
		before := map[string][2]string{"none": {"", ""}, "default": {"X", "X"}, "both": {"Q", "P"}, "all": {"Q", "D"}}[name]
		s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
			m.VectorsOnly, m.Prompts = "it makes vectors", prompts
			m.Engine = unclassed{f}
			f.Vector = func(r *engine.Request, at int) []float32 { // of the last token, which is the text's
				return []float32{float32(r.Prompt[at] % 5), 3}
			}
		})
		cosine := func(a, b string) float64 {
			of := func(text string) (float64, float64) { return float64(s.Tokens(text)[1] % 5), 3 }
			x1, y1 := of(a)
			x2, y2 := of(b)
			return (x1*x2 + y1*y2) / math.Hypot(x1, y1) / math.Hypot(x2, y2)
		}
		for body, pairs := range map[string][][2]string{
			`{"text_1":"a","text_2":["b","c","a"]}`:           {{"a", "b"}, {"a", "c"}, {"a", "a"}},
			`{"text_1":["a","b","e"],"text_2":["c","d","f"]}`: {{"a", "c"}, {"b", "d"}, {"e", "f"}},
		} {
			s.Requests = nil
			l := fake.Post[vllmList](s, "/score", body)
			for i, p := range pairs {
				if want := cosine(p[0], p[1]); i >= len(l.Data) || math.Abs(l.Data[i].Score-want) > 1e-6 {
					t.Errorf("%s: %s: %+v, want %g at %d", name, body, l.Data, want, i)
				}
			}
			for _, r := range s.Requests {
				text := strings.TrimPrefix(s.Tok.Detokenize(r.Prompt, true), "<s>")
				kind := 1
				if letter := text[len(text)-1:]; strings.Contains(strings.Split(body, `"text_2"`)[0], `"`+letter+`"`) {
					kind = 0
				}
				if body == `{"text_1":"a","text_2":["b","c","a"]}` && text[len(text)-1:] == "a" { // it is both
					continue
				}
				if text[:len(text)-1] != before[kind] {
					t.Errorf("%s: %q, want %q before it", name, text, before[kind])
				}
			}
		}
	}
}

// What the template of a conversation refuses, and an engine that ends while it makes vectors, are errors.
func TestDecisionsAndCosinesThatFail(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		m.Engine = unclassed{f}
	})
	if status, b, _ := s.Do("POST", "/v1/decisions", `{"messages":[{"role":"alien","content":"x"}],"choices":["a","b"]}`); status != 400 ||
		!strings.Contains(string(b), "roles must be of this world") {
		t.Errorf("%d %s", status, b)
	}
	s.Model().VectorsOnly = "it makes vectors"
	s.Err = engine.ErrClosing
	if status, b, _ := s.Do("POST", "/v1/rerank", `{"query":"a","documents":["b"]}`); status != 503 {
		t.Errorf("%d %s", status, b)
	}
}

// unclassed is an engine without a classifier.
type unclassed struct{ *fake.Engine }

func (e unclassed) Embedding(tokens int, pooling nn.Pooling) (*engine.Embedding, error) {
	if pooling == nn.PoolRank {
		return nil, engine.ErrNoScores
	}
	return e.Engine.Embedding(tokens, pooling)
}
