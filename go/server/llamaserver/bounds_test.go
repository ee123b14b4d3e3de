package llamaserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/llamaserver"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A page of the models ends where they do, and an empty one has no ends.
func TestPagesOfModels(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Names: []string{"a", "b", "c"}})
	for query, want := range map[string]string{
		"": "a-c of 3, more false", "?limit=2": "a-b of 2, more true", "?limit=3": "a-c of 3, more false",
		"?limit=1&after_id=a": "b-b of 1, more true", "?limit=2&after_id=a": "b-c of 2, more false", "?after_id=c": "- of 0, more false",
		"?limit=1&before_id=c": "b-b of 1, more true", "?limit=2&before_id=c": "a-b of 2, more false", "?before_id=a": "- of 0, more false",
		"?limit=1000": "a-c of 3, more false", "?limit=0": "limit: ", "?limit=1001": "limit: ", "?limit=x": "limit: ", "?after_id=z": "after_id: ",
	} {
		r, _ := http.NewRequest("GET", s.URL+"/v1/models"+query, nil)
		r.Header.Set("anthropic-version", "2023-06-01")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Data    []struct{ ID string }
			More    bool    `json:"has_more"`
			FirstID *string `json:"first_id"`
			LastID  *string `json:"last_id"`
			Error   struct{ Message string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		resp.Body.Close()
		text := func(p *string) string {
			if p == nil {
				return ""
			}
			return *p
		}
		got := fmt.Sprintf("%s-%s of %d, more %v", text(page.FirstID), text(page.LastID), len(page.Data), page.More)
		if resp.StatusCode != 200 {
			got = page.Error.Message
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %d %s, want %s", query, resp.StatusCode, got, want)
		}
	}
}

// A page of Anthropic's has 20 models where the request does not say.
func TestUsualPage(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	for i := range 21 {
		src := catalog.Source{}
		src.Names = []string{fmt.Sprint("model", i)}
		if err := s.Server.Add(src); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := http.NewRequest("GET", s.URL+"/v1/models", nil)
	r.Header.Set("anthropic-version", "2023-06-01")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var page struct {
		Data []struct{ ID string }
		More bool `json:"has_more"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil || len(page.Data) != 20 || !page.More {
		t.Errorf("%d, more %v, %v", len(page.Data), page.More, err)
	}
}

// Among choices that are as likely the first is chosen; there are so many at most, a prior counting twice.
func TestEqualChoices(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	got := fake.Post[struct {
		Decisions []struct {
			Choice  string
			Index   int
			Choices []struct{ Probability float64 }
		}
	}](s, "/v1/decisions", `{"prompt":"a","choices":["xy","zw","vu"]}`).Decisions
	if len(got) != 1 || got[0].Choice != "xy" || got[0].Index != 0 || len(got[0].Choices) != 3 || got[0].Choices[2].Probability < 0.333 {
		t.Errorf("%+v", got)
	}
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%c%c%c"`, 'a'+i/676%26, 'a'+i/26%26, 'a'+i%26))
		}
		return strings.Join(all, ",")
	}
	const half = llamaserver.MaxBranches / 2
	for n, status := range map[int]int{half: 200, half + 1: 400} {
		if got, b, _ := s.Do("POST", "/v1/decisions", `{"prompt":"a","prior":"b","choices":[`+many(n)+`]}`); got != status {
			t.Errorf("%d choices with a prior: %d %.300s", n, got, b)
		}
	}
	s.Refused("/v1/decisions", `{"prompt":"a","choices":["xy"]}`, 400, "choices")
	s.Refused("/v1/decisions", `{"prompt":"a","choices":["xy",""]}`, 400, "choices")
}

// Each event of a stream has the probabilities of its tokens, of one as of several.
func TestProbsInAStream(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "abc", nil)
	tokens := 0
	for _, data := range s.Events("/completion", `{"prompt":"x","n_probs":2,"stream":true}`) {
		e := fake.Parse[struct {
			Tokens []int32
			Stop   bool
			Probs  []struct{ ID int32 } `json:"completion_probabilities"`
		}](t, []byte(data))
		if !e.Stop && len(e.Probs) != len(e.Tokens) {
			t.Errorf("%s", data)
		}
		tokens += len(e.Probs)
	}
	if tokens != 3 {
		t.Errorf("%d tokens have probabilities, want 3", tokens)
	}
	// Where there is no token there are none.
	for _, fields := range []string{`"n_probs":2,"return_progress":true`, `"n_probs":0`, ``} {
		for _, data := range s.Events("/completion", `{"prompt":"x","stream":true,`+strings.TrimPrefix(fields+`,"top_k":1}`, ",")) {
			e := fake.Parse[map[string]any](t, []byte(data))
			if _, ok := e["completion_probabilities"]; ok && (e["prompt_progress"] != nil || !strings.Contains(fields, ":2")) {
				t.Errorf("%s: %s", fields, data)
			}
		}
	}
}

// Documents come in one of two forms, and each has its answer.
func TestFormsOfReranking(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	s.Refused("/v1/rerank", `{"query":"a"}`, 400, "documents")
	s.Refused("/v1/rerank", `{"query":"a","documents":["b"],"texts":["c"]}`, 400, "texts")
	s.Refused("/v1/rerank", `{"query":7,"documents":["b"]}`, 400, "query")
	for docs, want := range map[string]string{
		`[{}]`: "documents: element 0: an object without text", `["a",{"text":7}]`: "documents: element 1: text: 7, want a string",
		`[]`: "documents: empty, want", `[7]`: "documents: element 0: 7, want", `["a"` + strings.Repeat(`,"a"`, 2048) + `]`: "documents: 2049 texts, want at most 2048",
	} {
		if status, b, _ := s.Do("POST", "/v1/rerank", `{"query":"a","documents":`+docs+"}"); status != 400 || !strings.HasPrefix(fake.ErrorOf(t, b).Message, want) {
			t.Errorf("%.40s: %d %s", docs, status, b)
		}
	}
	if got := fake.Post[struct {
		Results []struct{ Document struct{ Text string } }
	}](s, "/v1/rerank",
		`{"query":"a","documents":[{"id":[1],"text":"b"}],"return_documents":true}`).Results; len(got) != 1 || got[0].Document.Text != "b" {
		t.Errorf("%+v", got)
	}
	for docs, several := range map[string]bool{`"` + strings.Repeat("b ", 600) + `"`: false, `"a","` + strings.Repeat("b ", 600) + `"`: true} {
		if status, b, _ := s.Do("POST", "/v1/rerank", `{"query":"a","documents":[`+docs+`]}`); status != 400 || strings.HasPrefix(fake.ErrorOf(t, b).Message, "element 1 has") != several {
			t.Errorf("%.20s: %d %s", docs, status, b)
		}
	}
	for _, c := range []struct {
		path, fields string
		raw          bool
	}{
		{"/v1/rerank", "", true}, {"/v1/rerank", `,"raw_scores":false`, false}, {"/v2/rerank", "", false},
		{"/v2/rerank", `,"raw_scores":true`, true},
	} {
		got := fake.Post[struct {
			Results []struct {
				Score float64 `json:"relevance_score"`
			}
			Meta *struct {
				Version struct{ Version string } `json:"api_version"`
				Tokens  struct {
					Input int `json:"input_tokens"`
				}
			}
		}](s, c.path, `{"query":"a","documents":["b"]`+c.fields+`}`)
		if score := got.Results[0].Score; (score == 3) != c.raw || !c.raw && math.Abs(score-1/(1+math.Exp(-3))) > 1e-9 {
			t.Errorf("%s%s: the score of 3 is %g", c.path, c.fields, score)
		}
		if (got.Meta != nil) != (c.path == "/v2/rerank") || got.Meta != nil && (got.Meta.Version.Version != "2" || got.Meta.Tokens.Input == 0) {
			t.Errorf("%s: %+v", c.path, got.Meta)
		}
	}
	if got := fake.Post[[]struct {
		Index int
		Score float64
	}](s, "/rerank", `{"query":"a","texts":["b","c"]}`); len(got) != 2 || got[0].Index != 0 || got[0].Score != got[1].Score || got[0].Score < 0.9 {
		t.Errorf("%+v", got)
	}
	for top, want := range map[int]int{0: 3, 1: 1, 2: 2, 9: 3} {
		got := fake.Post[struct {
			Results []struct {
				Index    int
				Document *struct{ Text string }
			}
		}](s, "/v1/rerank", fmt.Sprintf(`{"query":"a","documents":["b","c","d"],"top_n":%d,"return_documents":true}`, top)).Results
		if len(got) != want || got[0].Document == nil || got[0].Document.Text != "b" {
			t.Errorf("the first %d: %+v", top, got)
		}
	}
}

// Without a classifier, an embedding model scores documents by their vectors, if it has one of a text.
func TestRankingByVectors(t *testing.T) {
	t.Parallel()
	type ranked struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	for only, more := range map[string]map[nn.Pooling]int{
		"": {nn.PoolLast: 501}, "it makes vectors": {nn.PoolLast: 200, nn.PoolRank: 501},
	} {
		for pooling, want := range more {
			s := fake.Embedder(t, func(m *ask.Model) { m.VectorsOnly, m.Pooling = only, pooling })
			status, b, _ := s.Do("POST", "/v1/rerank", `{"query":"the dog","documents":["a big red ball","the dog","no"]}`)
			if status != want {
				t.Errorf("%q, pooling %v: %d %s, want %d", only, pooling, status, b, want)
			}
			if status != 200 {
				continue
			}
			if r := fake.Parse[ranked](t, b).Results; len(r) != 3 || r[0].Index != 1 || r[0].Score < 0.9999 || r[1].Score > 0.9999 {
				t.Errorf("by vectors: %s", b)
			}
		}
	}
}

// A choice that the model rules out has no chance, in numbers that JSON has, and so have all where all are; what is no
// number is an error.
func TestChoicesThatCannotCome(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	token := func(text string) int32 {
		ids := s.Tok.Encode(text, tokenizer.Options{NoSpecial: true})
		if len(ids) != 1 {
			t.Fatalf("%q has the tokens %v", text, ids)
		}
		return ids[0]
	}
	decide(t, s, `{"prompt":"abc","choices":["xx","yy"]}`)
	if got := s.Requests[0].Prompt; !slices.Equal(got, []int32{1, token("a"), token("b")}) {
		t.Errorf("what choices have in common is %v", got) // less the last, whose logits say how they begin
	}
	const body = `{"prompt":"a","prior":"b","choices":["x","y"]}`
	least := -math.MaxFloat64
	for _, c := range []struct {
		out    []int32
		index  int
		chance [2]float64
	}{
		{[]int32{token("x")}, 1, [2]float64{0, 1}}, {[]int32{token("y")}, 0, [2]float64{1, 0}},
		{[]int32{token("x"), token("y")}, 0, [2]float64{0, 0}},
	} {
		s.RuledOut = c.out
		d := decide(t, s, body).Decisions[0]
		if d.Index != c.index {
			t.Errorf("without %v: %d is chosen", c.out, d.Index)
		}
		for i, one := range d.Choices {
			if out := slices.Contains(c.out, token(one.Text)); one.Probability != c.chance[i] || (one.Logprob == least) != out ||
				one.Prior == nil || (*one.Prior == least) != out || *one.Prior > 0 {
				t.Errorf("without %v: %+v", c.out, one)
			}
		}
	}
	s.Overflows = true
	if status, b, _ := s.Do("POST", "/v1/decisions", body); status != 500 {
		t.Errorf("without numbers: %d %s", status, b)
	}
	s.Err = engine.ErrClosing
	if status, b, _ := s.Do("POST", "/v1/decisions", body); status != 503 {
		t.Errorf("of an engine that ends: %d %s", status, b)
	}
}

// What questions have in common is evaluated once, and first: before it there is nothing, and behind it what each has.
func TestStagesOfDecisions(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	for body, want := range map[string]string{
		`{"prompt":"abc","choices":["xx","yy"]}`: "<s>ab, <s>abcx, <s>abcy",
		`{"questions":[{"prompt":"ab","choices":["xx","yy"]},{"prompt":"abcd","choices":["xx","yy"]}],"prompt":"z"}`: "<s>zabc, <s>zabx, <s>zaby, <s>zabcdx, <s>zabcdy",
		`{"questions":[{"prompt":"bb","choices":["xx","yy"]},{"prompt":"cc","choices":["xx","yy"]}],"prompt":"z"}`:   "<s>z, <s>zb, <s>zc, <s>zbbx, <s>zbby, <s>zccx, <s>zccy",
		`{"prompt":"a</s>","choices":["xx","yy"]}`: "<s>a, <s>a</s>x, <s>a</s>y",
		// Choices that differ in their last token only, and may go on, are read from the rows before it.
		`{"prompt":"abc","choices":["x","y"]}`:                                                                 "<s>abc",
		`{"prompt":"abc","choices":["x","xy","xz"]}`:                                                           "<s>ab, <s>abc, <s>abcx",
		`{"prompt":"abc","choices":["x","y"],"ends":true}`:                                                     "<s>ab, <s>abcx, <s>abcy",
		`{"questions":[{"prompt":"bb","choices":["x","y"]},{"prompt":"cc","choices":["x","y"]}],"prompt":"z"}`: "<s>z, <s>zbb, <s>zcc",
	} {
		s.Requests = nil
		decide(t, s, body)
		var got []string
		for _, r := range s.Requests {
			got = append(got, s.Tok.Detokenize(r.Prompt, true))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s, want %s", body, text, want)
		}
	}
}

// A question that is too long, or whose choices cannot be told apart from its prompt, is named by its place among several.
func TestQuestionsThatAreRefused(t *testing.T) {
	t.Parallel()
	meta := fake.Vocabulary(fake.Controls)
	meta["tokenizer.ggml.add_bos_token"] = false
	tok := fake.Tokenizer(t, meta)
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) { m.Tokenizer, m.Metadata, f.Tok = tok, meta, tok })
	if status, b, _ := s.Do("POST", "/v1/rerank", `{"query":"","documents":["a",""]}`); status != 400 ||
		!strings.HasPrefix(fake.ErrorOf(t, b).Message, "documents: element 1: empty, and so is query") {
		t.Errorf("nothing to compare: %d %s", status, b)
	}
	long, good := strings.Repeat("ab", 400), `{"prompt":"a","choices":["x","y"]}`
	for _, c := range []struct{ body, want string }{
		{`{"prompt":"` + long + `","choices":["x","y"]}`, "the request has 8"},
		{`{"prompt":"a","questions":[` + good + `,{"prompt":"` + long + `","choices":["x","y"]}]}`, "element 1 has 80"},
		{`{"prompt":"Hell","choices":["o","ow"]}`, "choices: no token of the prompt stays the same"},
		{`{"prompt":"Hell","questions":[{"choices":["o","ow"]}]}`, "questions: element 0: no token of the prompt stays the same"},
	} {
		if status, b, _ := s.Do("POST", "/v1/decisions", c.body); status != 400 || !strings.Contains(string(b), c.want) {
			t.Errorf("%.60s: %d %s, want %s", c.body, status, b, c.want)
		}
	}
}

// A vocabulary that ends each text with EOS has it behind no prompt of a decision.
func TestDecisionsOfAVocabularyWithEOS(t *testing.T) {
	t.Parallel()
	meta := fake.Vocabulary(fake.Controls)
	meta["tokenizer.ggml.add_eos_token"] = true
	tok := fake.Tokenizer(t, meta)
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) { m.Tokenizer, m.Metadata, f.Tok = tok, meta, tok })
	for i, c := range decide(t, s, `{"prompt":"a","choices":["x","xy"]}`).Decisions[0].Choices {
		if c.Tokens != i+1 {
			t.Errorf("%q has %d tokens", c.Text, c.Tokens)
		}
	}
	for _, r := range s.Requests {
		if slices.Contains(r.Prompt, 2) {
			t.Errorf("EOS is among %v", r.Prompt)
		}
	}
}

// What runs and what waits is told, and the slots have numbers from 0.
func TestRunningRequests(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	c, _ := s.Ignore("/completion", `{"prompt":"Once","n_predict":-1,"ignore_eos":true,"n":2,"stream":true}`)
	defer c.Close()
	fake.Eventually(t, "two run", func() bool {
		u := fake.Parse[struct {
			Models []struct{ Running int }
		}](t, s.Get("/v1/memory")).Models
		return len(u) == 1 && u[0].Running == 2
	})
	for _, one := range fake.Parse[[]slot](t, s.Get("/slots")) {
		if one.Processing && (one.Next[0].Remain != -1 || !one.Next[0].Has) {
			t.Errorf("one without an end: %+v", one.Next)
		}
	}
	c.Close()
	s.Idle()
	if got := fake.Parse[struct {
		Defaults struct{ ID *int } `json:"default_generation_settings"`
	}](t, s.Get("/props")).Defaults; got.ID == nil || *got.ID != 0 {
		t.Errorf("the settings are those of slot %v", got.ID)
	}
	for i, slot := range fake.Parse[[]struct{ ID int }](t, s.Get("/slots")) {
		if slot.ID != i {
			t.Errorf("slot %d is %d", i, slot.ID)
		}
	}
}

// A file of a slot has a plain name of 255 letters at most.
func TestNamesOfSlotFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := fake.Demo(t, fake.Setup{Server: server.Config{SlotPath: dir}})
	s.Refused("/slots/5?action=save", `{"filename":"a"}`, 400, "id_slot") // which has nothing yet
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a slot that was not saved leaves %v, %v", left, err)
	}
	fake.Post[struct{}](s, "/completion", `{"prompt":"Once upon a time","n_predict":1,"id_slot":0}`)
	for name, want := range map[string]int{
		strings.Repeat("a", 255): 200, strings.Repeat("a", 256): 400, "a.B-_9": 200, "": 400, ".a": 400, "-a": 400, "a/b": 400, "a b": 400,
		"a:b": 400, "a@b": 400, "a[b": 400, "a`b": 400, "a{b": 400, "..": 400, "AZaz09": 200,
	} {
		got, b, _ := s.Do("POST", "/slots/0?action=save", `{"filename":"`+name+`"}`)
		if got != want {
			t.Errorf("%.20q of %d letters: %d %s", name, len(name), got, b)
		}
		if took := fake.Parse[struct {
			Timings struct {
				Save float64 `json:"save_ms"`
			}
		}](t, b).Timings.Save; (took > 0) != (want == 200) || took > 100_000 {
			t.Errorf("%s: it took %g ms", name, took)
		}
	}
}

// Somebody's request is shown to them alone, and only they can end its reasoning.
func TestSlotsOfOthers(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, f *fake.Engine) {
		f.Delay = 5 * time.Millisecond
		c.Caller = func(c *gin.Context) answer.Caller { return answer.Caller{Owner: c.GetHeader("X-Who")} }
	})
	as := func(who, method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Who", who)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	stream := as("ann", "POST", "/v1/chat/completions", "{"+fake.Hi+`,"ignore_eos":true,"stream":true,"top_k":77,"speculative.type":"none","reasoning_control":true}`)
	if _, err := stream.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for who, sees := range map[string]bool{"ann": true, "bob": false} {
		resp := as(who, "GET", "/slots", "")
		var list []struct {
			Processing  bool `json:"is_processing"`
			Speculative bool `json:"speculative"`
			Params      map[string]any
		}
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list) != 4 || !list[0].Processing ||
			(list[0].Params["top_k"] == 77.0) != sees || list[0].Speculative == sees || list[1].Params["top_k"] == 77.0 {
			t.Errorf("%s sees %.200v, %v", who, list, err)
		}
		resp.Body.Close()
	}
	id := stream.Header.Get("X-Completion-Id")
	for _, c := range []struct {
		who, id string
		status  int
	}{{"bob", id, 404}, {"ann", "none", 404}, {"ann", id, 200}} {
		resp := as(c.who, "POST", "/v1/chat/completions/control", `{"id":"`+c.id+`","action":"reasoning_end"}`)
		b, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != c.status || c.status == 200 && string(b) != `{"success":true}` {
			t.Errorf("%s ends the reasoning of %s: %d %s, want %d", c.who, c.id, resp.StatusCode, b, c.status)
		}
	}
	stream.Body.Close()
}

// Tokens are those of the vocabulary, and without a budget there is no memory to show.
func TestLastToken(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	n := s.Tok.Len()
	fake.Post[struct{}](s, "/detokenize", fmt.Sprintf(`{"tokens":[%d]}`, n-1))
	if status, b, _ := s.Do("POST", "/detokenize", fmt.Sprintf(`{"tokens":[0,%d]}`, n)); status != 400 ||
		!strings.Contains(string(b), fmt.Sprintf("tokens: element 1: token %d is not in the vocabulary, want 0 to %d", n, n-1)) {
		t.Errorf("%d %s", status, b)
	}
	if status, b, _ := s.Do("GET", "/v1/memory", ""); status != 501 || !strings.Contains(string(b), "no memory budget") {
		t.Errorf("%d %s", status, b)
	}
}
