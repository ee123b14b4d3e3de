package server_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/quota"
)

// callerOfHeader takes the header X-Who for whose request it is. Root is the administrator, and may ask for any
// priority.
func callerOfHeader(c *gin.Context) answer.Caller {
	who := c.GetHeader("X-Who")
	caller := answer.Caller{Flow: who, Owner: who, Admin: who == "root"}
	if caller.Admin {
		caller.Priority = ask.MaxPriority
	}
	return caller
}

// as sends a request of somebody.
func as(t *testing.T, s *fake.Site, who, method, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Who", who)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// said is the status of an answer and its body.
func said(t *testing.T, resp *http.Response) (int, string) {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Each request says whose text it is, so that nobody has drafts from what others were told, though all find prefixes in
// one cache.
func TestRequestsHaveAnOwner(t *testing.T) {
	t.Parallel()
	owners := make(chan [2]string, 1)
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: callerOfHeader}, Submitted: func(r *engine.Request) {
		owners <- [2]string{r.Owner, r.Namespace}
	}})
	for _, path := range []string{"/completion", "/v1/completions"} {
		for _, who := range []string{"ann", "bob", ""} {
			status, _ := said(t, as(t, s, who, "POST", path, `{"prompt":"a","max_tokens":1,"n_predict":1}`))
			if got := <-owners; status != 200 || got != [2]string{who, ""} {
				t.Errorf("%s of %q: status %d, owner and namespace %q", path, who, status, got)
			}
		}
	}
}

// slowSink is a Sink that takes time for each token.
type slowSink struct{ engine.Sink }

func (s slowSink) Token(t generate.Token) bool {
	time.Sleep(5 * time.Millisecond)
	return s.Sink.Token(t)
}

// A user can neither end the request of another nor see what it asks for; the administrator can.
func TestRequestsOfOthers(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: callerOfHeader},
		Submitted: func(r *engine.Request) { r.Sink = slowSink{r.Sink} }})
	begin := func() (id string, lines *bufio.Scanner) {
		resp := as(t, s, "ann", "POST", "/v1/chat/completions",
			"{"+fake.Hi+`,"ignore_eos":true`+`,"stream":true,"seed":424242,"reasoning_control":true}`)
		lines = bufio.NewScanner(resp.Body)
		lines.Scan()
		return resp.Header.Get("X-Completion-Id"), lines
	}
	id, _ := begin()
	control := `{"id":"` + id + `","action":"reasoning_end"}`
	if status, body := said(t, as(t, s, "bob", "DELETE", "/v1/chat/completions/"+id, "")); status != 404 {
		t.Errorf("bob ends ann's: %d %s", status, body)
	}
	if status, body := said(t, as(t, s, "bob", "POST", "/v1/chat/completions/control", control)); status != 404 {
		t.Errorf("bob controls ann's: %d %s", status, body)
	}
	for who, sees := range map[string]bool{"ann": true, "bob": false, "root": true} {
		if status, body := said(t, as(t, s, who, "GET", "/slots", "")); status != 200 ||
			strings.Contains(body, "424242") != sees {
			t.Errorf("%s sees the slots: %d %s", who, status, body)
		}
	}
	if status, body := said(t, as(t, s, "ann", "DELETE", "/v1/chat/completions/"+id, "")); status != 200 {
		t.Errorf("ann ends her own: %d %s", status, body)
	}
	id, _ = begin()
	if status, body := said(t, as(t, s, "root", "DELETE", "/v1/chat/completions/"+id, "")); status != 200 {
		t.Errorf("root ends ann's: %d %s", status, body)
	}
	s.Idle()
	if status, body := said(t, as(t, s, "bob", "GET", "/slots", "")); status != 200 || strings.Contains(body, "424242") {
		t.Errorf("bob sees what has run: %d %s", status, body)
	}
}

// What changes the server for all is for the administrator.
func TestAdministration(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: callerOfHeader, SlotPath: t.TempDir(), LoraDir: t.TempDir(),
		Proxy: true, Library: &fake.Shelf{}, Rescan: func() error { return nil }}})
	n := 0
	for _, r := range s.Server.Routes() {
		if !r.Admin {
			continue
		}
		for _, path := range r.Paths {
			n++
			path = strings.Replace(path, ":id", "0", 1)
			if status, body := said(t, as(t, s, "ann", r.Method, path, "{}")); status != 403 || !strings.Contains(body, "role") {
				t.Errorf("ann: %s %s: %d %s", r.Method, path, status, body)
			}
			if status, body := said(t, as(t, s, "root", r.Method, path, "{}")); status == 403 {
				t.Errorf("root: %s %s: %d %s", r.Method, path, status, body)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d paths are for the administrator", n)
	}
	for _, c := range []struct {
		method, path, body string
		ann, root          int
	}{
		{"GET", "/models?reload=1", "", 403, 200},
		{"GET", "/models", "", 200, 200},
		{"POST", "/api/chat", `{"keep_alive":0}`, 403, 200},
		{"POST", "/api/chat", "{" + fake.Hi + `,"keep_alive":"1s","stream":false,"options":{"num_predict":1}}`, 200, 200},
		{"POST", "/completion", `{"prompt":"a","n_predict":1,"priority":1}`, 403, 200},
		{"POST", "/completion", `{"prompt":"a","n_predict":1,"priority":-1}`, 200, 200},
		{"POST", "/v1/decisions", `{"prompt":"a","choices":["b","c"],"priority":1}`, 403, 200},
	} {
		for who, want := range map[string]int{"ann": c.ann, "root": c.root} {
			if status, body := said(t, as(t, s, who, c.method, c.path, c.body)); status != want {
				t.Errorf("%s: %s %s %s: %d %s, want %d", who, c.method, c.path, c.body, status, body, want)
			}
		}
	}
}

// Apart, a grammar that somebody else has compiled is compiled again: else the time would tell that it was.
func TestCompiledGrammarsApart(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: callerOfHeader, Apart: apart}})
		ask := func(who, grammar string) uint64 {
			t.Helper()
			if status, body := said(t, as(t, s, who, "POST", "/completion",
				`{"prompt":"a","n_predict":2,"temperature":0,"grammar":"`+grammar+`"}`)); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			s.Idle() // an automaton in use counts as it was before
			return s.Model().Grammars()
		}
		const grammar = "root ::= [a-m]+"
		// What follows a text is computed ahead beside it, and may be counted when the text has ended, or never come that far.
		first := ask("ann", grammar)
		for same := 0; same < 3; {
			again := ask("ann", grammar)
			if same++; again != first {
				same = 0
			}
			first = again
		}
		if other := ask("bob", grammar); other > first != apart {
			t.Errorf("apart %v: when bob has asked for what ann did, %d bytes are compiled, %d before", apart, other, first)
		}
	}
}

// Who may ask a persona alone may ask it as it is, and is told of nothing else. What only describes a model is not counted.
func TestPersonaOfKey(t *testing.T) {
	t.Parallel()
	account := quota.New(quota.Limits{}, nil)
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: func(c *gin.Context) answer.Caller {
		return answer.Caller{Owner: "ann", Account: account, Models: []string{"mario"}}
	}}})
	mario, err := ask.NewPersona(&persona.Persona{Name: "mario", System: "You are Mario."})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.SetPersonas([]catalog.Persona{{Persona: mario, Base: "demo"}})
	for _, c := range []struct {
		method, path, body string
		want               int
		has                string
	}{
		{"POST", "/v1/chat/completions", `{"model":"mario",` + fake.Hi + `}`, 200, ""},
		{"POST", "/v1/chat/completions", `{"model":"mario","lora":[],` + fake.Hi + `}`, 403, "by the name mario alone"},
		{"POST", "/v1/chat/completions", `{"model":"demo",` + fake.Hi + `}`, 403, "may not ask the model demo"},
		{"GET", "/v1/models/mario", "", 200, "mario"},
		{"GET", "/v1/models/demo", "", 404, ""},
		{"GET", "/api/ps", "", 200, `[{"name":"mario`},
		{"POST", "/api/show", `{"model":"mario"}`, 200, "You are Mario"},
	} {
		if status, body := said(t, as(t, s, "ann", c.method, c.path, c.body)); status != c.want || !strings.Contains(body, c.has) {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, body)
		}
	}
	if got := s.Server.Unknown([]string{"demo", "mario", "mari", "ft:demo:x:1"}); len(got) != 1 || got[0] != "mari" {
		t.Errorf("unknown are %q", got)
	}
	if n := account.Usage().Sum(quota.Day).Requests; n != 2 {
		t.Errorf("%d requests are counted", n)
	}
}
