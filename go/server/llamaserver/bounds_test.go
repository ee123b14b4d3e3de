package llamaserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/llamaserver"
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
}

// Documents come in one of two forms, and each has its answer.
func TestFormsOfReranking(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	s.Refused("/v1/rerank", `{"query":"a"}`, 400, "documents")
	s.Refused("/v1/rerank", `{"query":"a","documents":["b"],"texts":["c"]}`, 400, "texts")
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
	s := fake.Demo(t, fake.Setup{Server: server.Config{SlotPath: t.TempDir()}})
	fake.Post[struct{}](s, "/completion", `{"prompt":"Once upon a time","n_predict":1,"id_slot":0}`)
	for name, want := range map[string]int{
		strings.Repeat("a", 255): 200, strings.Repeat("a", 256): 400, "a.B-_9": 200, "": 400, ".a": 400, "-a": 400, "a/b": 400, "a b": 400,
		"a:b": 400, "a@b": 400, "a[b": 400, "a`b": 400, "a{b": 400, "..": 400,
	} {
		if got, b, _ := s.Do("POST", "/slots/0?action=save", `{"filename":"`+name+`"}`); got != want {
			t.Errorf("%.20q of %d letters: %d %s", name, len(name), got, b)
		}
	}
}
