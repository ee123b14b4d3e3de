package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// ofClasses are tensors of a classifier without a hidden layer.
var ofClasses = []string{"cls.output.weight", "cls.output.bias"}

// wholeFloats are the flags with which a text has the same numbers alone and in company, served and not.
var wholeFloats = []string{"-ctk", "f32", "-ctv", "f32"}

// A text's probabilities are made of the scores that "quern embed" prints, by a softmax, or where it may be of several
// classes by a sigmoid each; "quern classify" prints them too.
func TestClassify(t *testing.T) {
	texts, labels := []string{"the dog", "a big red dog was there and ran to the girl"}, []string{"no", "perhaps", "yes"}
	for name, several := range map[string]bool{"one": false, "several": true} {
		path := classifier(t, "bert", map[string]any{"quern.classifier.multi_label": several}, labels, ofClasses...)
		s := serveFile(t, path, wholeFloats...)
		body := func(more string) string { return fmt.Sprintf(`{"input":["%s","%s"]%s}`, texts[0], texts[1], more) }
		type answer struct {
			ID, Object, Model string
			Created           int64
			Data              []struct {
				Index   int
				Label   *string
				Probs   []float64
				Classes int `json:"num_classes"`
			}
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			}
		}
		var got, raw answer
		s.posted("/v1/classify", body(""), &got)
		s.posted("/classify", body(`,"use_activation":false`), &raw)
		if len(got.Data) != 2 || len(raw.Data) != 2 || got.Object != "list" || !strings.HasPrefix(got.ID, "classify-") ||
			got.Created == 0 || got.Usage.Prompt == 0 {
			t.Fatalf("%s: %+v", name, got)
		}
		lines := strings.Split(succeed(t, slices.Concat([]string{"embed", "-m", path, "--pooling", "rank"}, wholeFloats, texts)...), "\n")
		printed := ""
		for i, x := range got.Data {
			sum, best := 0.0, 0
			for k, score := range strings.Fields(lines[i]) {
				v, err := strconv.ParseFloat(score, 64)
				if err != nil || math.Abs(v-raw.Data[i].Probs[k]) > 1e-6 {
					t.Errorf("%s: score %d is %v, want %s", name, k, raw.Data[i].Probs, score)
				}
				if sum += math.Exp(v); v > raw.Data[i].Probs[best] {
					best = k
				}
			}
			for k, v := range raw.Data[i].Probs {
				want := math.Exp(v) / sum
				if several {
					want = 1 / (1 + math.Exp(-v))
				}
				if math.Abs(x.Probs[k]-want) > 1e-5 {
					t.Errorf("%s: probability %d is %v, want %v", name, k, x.Probs[k], want)
				}
			}
			if x.Index != i || x.Classes != 3 || x.Label == nil || *x.Label != labels[best] || *raw.Data[i].Label != labels[best] {
				t.Errorf("%s: %+v, want %s", name, x, labels[best])
			}
			printed += fmt.Sprintf("%s\t%.6f\t%s\n", labels[best], slices.Max(x.Probs), texts[i])
		}
		args := slices.Concat([]string{"classify", "-m", path}, wholeFloats)
		for _, in := range []invocation{{args: slices.Concat(args, texts)}, {args: args, stdin: strings.Join(texts, "\n") + "\n"}} {
			if r := in.run(t); r.code != 0 || r.stdout != printed {
				t.Errorf("%s: %q: code %d, %q, want %q; %s", name, in.args, r.code, r.stdout, printed, r.stderr)
			}
		}
		var list struct {
			Results []struct {
				Index       int
				Text, Label string
				Probs       []float64
			}
		}
		err := json.Unmarshal([]byte(succeed(t, slices.Concat(args, []string{"--json"}, texts)...)), &list)
		if err != nil || len(list.Results) != 2 || list.Results[1].Label != *got.Data[1].Label || len(list.Results[1].Probs) != 3 {
			t.Errorf("%s: %v, %+v", name, err, list)
		}
	}
}

// A classifier of tokens has a row for each, with its class, and none for a text.
func TestClassifyTokens(t *testing.T) {
	path := classifier(t, "bert", map[string]any{"quern.classifier.pooling": "tokens"}, []string{"O", "B-DOG"}, ofClasses...)
	s := serveFile(t, path, wholeFloats...)
	type answer struct {
		Object string
		Data   []struct {
			Object string
			Data   [][]float64
			Tokens []int32
			Labels []string
		}
	}
	var got, vectors answer
	s.posted("/pooling", `{"input":"the dog"}`, &got)
	s.posted("/pooling", `{"input":"the dog","task":"token_embed"}`, &vectors)
	if len(got.Data) != 1 || got.Data[0].Object != "pooling" || len(got.Data[0].Tokens) < 3 ||
		len(got.Data[0].Data) != len(got.Data[0].Tokens) || len(got.Data[0].Labels) != len(got.Data[0].Tokens) {
		t.Fatalf("%+v", got)
	}
	if len(vectors.Data) != 1 || len(vectors.Data[0].Data) != len(got.Data[0].Tokens) || len(vectors.Data[0].Data[0]) != 64 {
		t.Errorf("%d vectors of tokens", len(vectors.Data[0].Data))
	}
	lines := strings.Split(succeed(t, slices.Concat([]string{"classify", "-m", path, "the dog"}, wholeFloats)...), "\n")
	if len(lines) != len(got.Data[0].Tokens)+2 {
		t.Fatalf("%q, want a line for each token", lines)
	}
	for i, row := range got.Data[0].Data {
		best := slices.Index(row, slices.Max(row))
		if want := []string{"O", "B-DOG"}[best]; math.Abs(row[0]+row[1]-1) > 1e-6 || got.Data[0].Labels[i] != want ||
			!strings.HasPrefix(lines[i], fmt.Sprintf("%s\t%.6f\t", want, row[best])) {
			t.Errorf("token %d: %v, %s, %q, want %s", i, row, got.Data[0].Labels[i], lines[i], want)
		}
	}
	for path, body := range map[string]string{
		"/v1/classify": `{"input":"the dog"}`, "/pooling": `{"input":"a","task":"classify"}`,
	} {
		if status, raw := s.postRaw(path, body); status != 501 || !strings.Contains(string(raw), "each token") {
			t.Errorf("%s of a classifier of tokens: %d %s", path, status, raw)
		}
	}
}

// /v1/score has the scores of pairs as /v1/rerank has them, of one text with several or of each with its own.
func TestScore(t *testing.T) {
	docs := `["a little girl","a big red dog was there and ran to the girl"]`
	for name, path := range map[string]string{
		"classifier": reranker(t, "bert", nil, ofClasses...), "vectors": testdata.Path(t, "archs/bert.gguf"),
		"classes": reranker(t, "bert", []string{"a", "b"}, ofClasses...),
	} {
		s := serveFile(t, path, wholeFloats...)
		var ranked struct {
			Results []struct {
				Index int
				Score float64 `json:"relevance_score"`
			}
		}
		s.posted("/v1/rerank", `{"query":"the dog","raw_scores":false,"documents":`+docs+`}`, &ranked)
		want := make([]float64, 2)
		for _, r := range ranked.Results {
			want[r.Index] = r.Score
		}
		for _, c := range []struct {
			body string
			want []float64
		}{
			{`"text_1":"the dog","text_2":` + docs, want},
			{`"text_1":["the dog","the dog"],"text_2":` + docs, want},
			{`"queries":"the dog","documents":"a little girl"`, want[:1]},
		} {
			var got struct {
				ID, Object string
				Data       []struct {
					Index  int
					Object string
					Score  float64
				}
			}
			s.posted("/v1/score", "{"+c.body+"}", &got)
			if len(got.Data) != len(c.want) || got.Object != "list" {
				t.Fatalf("%s: %+v, want %v", name, got, c.want)
			}
			for i, x := range got.Data {
				if x.Index != i || x.Object != "score" || math.Abs(x.Score-c.want[i]) > 1e-6 {
					t.Errorf("%s: %s: %+v, want %v", name, c.body, x, c.want[i])
				}
			}
		}
		if status, raw := s.postRaw("/score", `{"text_1":["a","b"],"text_2":["c"]}`); status != 400 || !strings.Contains(string(raw), "text_1") {
			t.Errorf("%s: two texts with one: %d %s", name, status, raw)
		}
	}
}

// A text is read to its first tokens where a request says so; the token at its end stays.
func TestTruncated(t *testing.T) {
	s := serveFile(t, testdata.Path(t, "archs/bert.gguf"), wholeFloats...)
	long := strings.Repeat("a dog ", 500) // of which the model takes 128
	var cut, whole struct {
		Data  []struct{ Embedding []float64 }
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if status, _ := s.postRaw("/v1/embeddings", `{"input":"`+long+`"}`); status != 400 {
		t.Errorf("a long text: %d, want 400", status)
	}
	s.posted("/v1/embeddings", `{"input":"`+long+`","truncate_prompt_tokens":-1}`, &cut)
	if cut.Usage.Prompt != 128 {
		t.Errorf("%d tokens, want 128", cut.Usage.Prompt)
	}
	s.posted("/v1/embeddings", `{"input":"a dog a dog","truncate_prompt_tokens":5}`, &cut)
	s.posted("/v1/embeddings", `{"input":"a dog"}`, &whole)
	if cut.Usage.Prompt != 5 || whole.Usage.Prompt != 5 || !slices.Equal(cut.Data[0].Embedding, whole.Data[0].Embedding) {
		t.Errorf("%d tokens, want the vector of the %d of the beginning", cut.Usage.Prompt, whole.Usage.Prompt)
	}
}

// posted is post, whose answer is read into a struct.
func (s *service) posted(path, body string, into any) {
	s.t.Helper()
	status, raw := s.postRaw(path, body)
	if err := json.Unmarshal(raw, into); status != 200 || err != nil {
		s.t.Fatalf("%s: %d %s, %v", path, status, raw, err)
	}
}

// The text that a model has under a name is put before others where a request or a flag names it, or by default.
func TestPromptNames(t *testing.T) {
	path := classifier(t, "bert", map[string]any{"quern.prompts.names": []string{"query", "document"},
		"quern.prompts.texts": []string{"a dog ", ""}, "quern.prompts.default": "query", "quern.max_seq_length": uint32(6)}, nil)
	s := serveFile(t, path, wholeFloats...)
	vector := func(fields string) []float64 {
		var a struct {
			Data []struct{ Embedding []float64 }
		}
		s.posted("/v1/embeddings", "{"+fields+"}", &a)
		return a.Data[0].Embedding
	}
	want, bare := vector(`"input":"a dog ran","prompt_name":"document"`), vector(`"input":"ran","prompt_name":"document"`)
	if got := vector(`"input":"ran"`); !slices.Equal(got, want) || slices.Equal(got, bare) {
		t.Error("the default is not put before a text")
	}
	if got := vector(`"input":"ran","prompt_name":"query"`); !slices.Equal(got, want) {
		t.Error("the text of a name is not put before another")
	}
	if got, six := vector(`"input":"a dog ran a dog ran","prompt_name":"document","truncate_prompt_tokens":-1`),
		vector(`"input":"a dog ran a dog ran","prompt_name":"document","truncate_prompt_tokens":6`); !slices.Equal(got, six) {
		t.Error("a text is not cut to the tokens that the model takes")
	}
	if status, raw := s.postRaw("/v1/embeddings", `{"input":"a","prompt_name":"passage"}`); status != 400 || !strings.Contains(string(raw), "document") {
		t.Errorf("a name that the model lacks: %d %s", status, raw)
	}
	args := slices.Concat([]string{"embed", "-m", path}, wholeFloats)
	if with, whole := succeed(t, slices.Concat(args, []string{"ran"})...), succeed(t, slices.Concat(args, []string{"--prompt-name", "document", "a dog ran"})...); with != whole {
		t.Errorf("%s is not %s", with, whole)
	}
	quern(t, slices.Concat(args, []string{"--prompt-name", "passage", "a"})...).refused(t, 2, "--prompt-name", "document")
}

// The second text of a pair has the second token type, alone and in company, wherever pairs are read; not where the file
// says that there is one type.
func TestPairTypes(t *testing.T) {
	query, docs := "the dog", []string{"a little girl", "", "a big red dog was there and ran to the girl"}
	list, _ := json.Marshal(docs)
	scores := func(keys map[string]any) (all []float64) {
		path := classifier(t, "bert", keys, []string{"no", "yes"}, ofClasses...)
		s := serveFile(t, path, wholeFloats...)
		type answer struct {
			Data []struct {
				Probs []float64
				Data  []float64
				Score float64
			}
		}
		var together, one, other answer
		s.posted("/v1/score", fmt.Sprintf(`{"text_1":%q,"text_2":%s,"use_activation":false}`, query, list), &together)
		printed := succeed(t, slices.Concat([]string{"rerank", "-m", path, "--json", query}, wholeFloats, docs)...)
		var ranked struct {
			Results []struct {
				Index int
				Score float64 `json:"relevance_score"`
			}
		}
		if err := json.Unmarshal([]byte(printed), &ranked); err != nil || len(ranked.Results) != len(docs) {
			t.Fatalf("%v %s", err, printed)
		}
		for _, r := range ranked.Results {
			if want := together.Data[r.Index].Score; math.Abs(r.Score-want) > 1e-6 {
				t.Errorf("document %d: %g printed, %g served", r.Index, r.Score, want)
			}
		}
		for i, d := range docs {
			s.posted("/v1/classify", fmt.Sprintf(`{"input":%q,"text_pair":%q,"use_activation":false}`, query, d), &one)
			s.posted("/pooling", fmt.Sprintf(`{"input":[%q,%q],"text_pair":%q,"use_activation":false}`, query, "no", d), &other)
			if x := float32(together.Data[i].Score); float32(one.Data[0].Probs[0]) != x || float32(other.Data[0].Data[0]) != x {
				t.Errorf("document %d: %g alone and %g in company, want %g", i, one.Data[0].Probs[0], other.Data[0].Data[0], x)
			}
			all = append(all, together.Data[i].Score)
		}
		for _, c := range [][2]string{
			{`"input":[1,2],"text_pair":"a"`, "input"}, {`"input":["a","b"],"text_pair":["c","d","e"]`, "text_pair"},
			{`"input":"a","text_pair":"b","truncate_prompt_tokens":3`, "truncate_prompt_tokens"},
		} {
			if status, raw := s.postRaw("/v1/classify", "{"+c[0]+"}"); status != 400 || !strings.Contains(string(raw), c[1]) {
				t.Errorf("%s: %d %s, want a refusal of %s", c[0], status, raw, c[1])
			}
		}
		line := succeed(t, slices.Concat([]string{"classify", "-m", path, query, "--text-pair", docs[0], "--json"}, wholeFloats)...)
		s.posted("/v1/classify", fmt.Sprintf(`{"input":%q,"text_pair":%q}`, query, docs[0]), &one)
		var classes struct{ Results []struct{ Probs []float64 } }
		if err := json.Unmarshal([]byte(line), &classes); err != nil || len(classes.Results) != 1 ||
			math.Abs(classes.Results[0].Probs[0]-one.Data[0].Probs[0]) > 1e-6 {
			t.Errorf("%v %s, want %v", err, line, one.Data)
		}
		return all
	}
	both := scores(nil)
	for i, x := range scores(map[string]any{"quern.tokenizer.pair_types": false}) {
		if both[i] == x {
			t.Errorf("document %d: %g with both types and with one", i, x)
		}
	}
	path := classifier(t, "bert", map[string]any{"quern.tokenizer.pair_types": "no"}, nil, ofClasses...)
	quern(t, "rerank", "-m", path, "a", "b").refused(t, 1, "quern.tokenizer.pair_types", "true or false")
}
