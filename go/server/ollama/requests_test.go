package ollama_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Thinking is what the template makes of it, in both endpoints.
func TestThink(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	const none = "<think>\n\n</think>"
	for path, body := range map[string]string{"/api/chat": fake.Hi, "/api/generate": `"prompt":"hi"`} {
		for think, off := range map[string]bool{"": false, `,"think":true`: false, `,"think":"high"`: false, `,"think":false`: true} {
			fake.Post[struct{}](s, path, "{"+body+`,"stream":false`+think+"}")
			if got := s.LastPrompt(); strings.Contains(got, none) != off {
				t.Errorf("%s%s: the prompt is %q", path, think, got)
			}
		}
	}
}

// A context is of the vocabulary's tokens, and what follows it does not begin once more.
func TestContext(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	n := s.Tok.Len()
	first := fake.Post[line](s, "/api/generate", `{"prompt":"hi","system":"be brief","stream":false}`)
	fresh := s.Last().Prompt
	if bos := fresh[0]; bos != 1 || first.Context[0] != bos || slices.Contains(fresh[1:], bos) {
		t.Fatalf("the prompt is %v", fresh)
	}
	for _, context := range [][]int32{{1}, {1, 75}, {75, int32(n - 1)}, first.Context} {
		ids := strings.ReplaceAll(fmt.Sprint(context), " ", ",")
		fake.Post[line](s, "/api/generate", `{"prompt":"hi","system":"be brief","stream":false,"context":`+ids+`}`)
		if got, want := s.Last().Prompt, slices.Concat(context, fresh[1:]); !slices.Equal(got, want) {
			t.Errorf("behind %v: %v, want %v", context, got, want)
		}
	}
	fake.Post[line](s, "/api/generate", `{"prompt":"<s>","raw":true,"stream":false,"context":[75]}`)
	if got := s.Last().Prompt; !slices.Equal(got, []int32{75}) {
		t.Errorf("a prompt that only begins a text, behind another: %v", got)
	}
	for body, want := range map[string]string{
		fmt.Sprintf(`"context":[1,%d]`, n): fmt.Sprintf("context: element 1: token %d is not in the vocabulary, want 0 to %d", n, n-1),
		`"suffix":"b","system":"c"`:        "suffix: given together with system or context",
		`"suffix":"b","context":[1]`:       "suffix: given together with system or context",
	} {
		if code, b, _ := s.Do("POST", "/api/generate", `{"prompt":"a",`+body+"}"); code != 400 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %s", body, code, b)
		}
	}
}

// A call that num_predict ends is what there is of it; calls are numbered.
func TestCalls(t *testing.T) {
	t.Parallel()
	s := fake.Says(t, scripted.Script{Text: fake.Calls})
	type calls struct {
		Message struct {
			Calls []struct {
				Function struct {
					Index     int            `json:"index"`
					Name      string         `json:"name"`
					Arguments map[string]any `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		}
		Eval int `json:"eval_count"`
	}
	ask := "{" + fake.Hi + `,"tools":[` + fake.WeatherTool + "," + fake.TimeTool + `],"stream":false,"options":{"temperature":0,"num_predict":`
	whole := fake.Post[calls](s, "/api/chat", ask+"-1}}")
	if c := whole.Message.Calls; len(c) != 2 || c[0].Function.Index != 0 || c[1].Function.Index != 1 || c[1].Function.Name != "get_time" ||
		c[0].Function.Arguments["place"] != "Rome" {
		t.Fatalf("%+v", whole)
	}
	cut := 0
	for n := 1; n < whole.Eval; n++ {
		for i, c := range fake.Post[calls](s, "/api/chat", ask+fmt.Sprint(n)+"}}").Message.Calls {
			if text, ok := c.Function.Arguments["partial_json"].(string); ok {
				cut++
				if full := `{"place": "Rome"}`; i == 0 && (!strings.HasPrefix(full, text) || text == full) {
					t.Errorf("after %d tokens: %q", n, text)
				}
			}
		}
	}
	if cut == 0 {
		t.Error("no call was cut")
	}
}

// Vectors are of whole texts, or refused.
func TestModelsWithoutVectors(t *testing.T) {
	t.Parallel()
	for _, pooling := range []nn.Pooling{nn.PoolNone, nn.PoolRank} {
		s := fake.Embedder(t, func(m *ask.Model) { m.Pooling = pooling })
		for body, want := range map[string]int{`{"input":"a"}`: 501, `{"input":7}`: 400} {
			if code, b, _ := s.Do("POST", "/api/embed", body); code != want {
				t.Errorf("%v: %s: %d %s, want %d", pooling, body, code, b, want)
			}
		}
	}
}

// What a model can do is what clients choose by.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*ask.Model){
		"completion embedding tools thinking insert": func(*ask.Model) {},
		"embedding": func(m *ask.Model) { m.VectorsOnly = "it makes vectors" },
	} {
		s := fake.New(t, "", nil)
		change(s.Model())
		if got := strings.Join(fake.Post[shownModel](s, "/api/show", `{"model":"fake/model"}`).Capabilities, " "); got != want {
			t.Errorf("it can %s, want %s", got, want)
		}
	}
}

// A persona is listed beside its model, whose memory it shares, and has its system prompt where a conversation begins.
func TestPersonas(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	mario, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "fake/model", System: "You are Mario."})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.SetPersonas([]catalog.Persona{{Persona: mario, Base: "fake/model"}})
	type listed struct {
		Models []struct {
			Name     string
			Size     *int
			Modified string  `json:"modified_at"`
			Expires  string  `json:"expires_at"`
			VRAM     *uint64 `json:"size_vram"`
			Context  int     `json:"context_length"`
		}
	}
	for _, path := range []string{"/api/tags", "/api/ps"} {
		list := fake.Parse[listed](t, s.Get(path)).Models
		if len(list) != 2 || list[0].Name != "fake/model:latest" || list[1].Name != "mario:latest" {
			t.Fatalf("%s: %+v", path, list)
		}
		base, as := list[0], list[1]
		if path == "/api/tags" && !strings.HasPrefix(base.Modified, "20") {
			t.Errorf("it was modified at %s", base.Modified)
		}
		if path == "/api/ps" && (*as.Size != 0 || as.Expires != base.Expires || as.VRAM == nil || as.Context != base.Context || as.Context != 512) {
			t.Errorf("%+v beside %+v", as, base)
		}
	}
	fake.Post[line](s, "/api/generate", `{"model":"mario","prompt":"hi","stream":false}`)
	if got := s.LastPrompt(); !strings.Contains(got, "You are Mario.") {
		t.Errorf("it begins with %q", got)
	}
	fake.Post[line](s, "/api/generate", `{"model":"mario","prompt":"hi","stream":false,"context":[1]}`)
	if got := s.LastPrompt(); strings.Contains(got, "You are Mario.") {
		t.Errorf("it goes on with %q", got)
	}
}

// A model that is loaded is unloaded by a request for nothing else, which says so; otherwise it stays as long as asked.
func TestHowLongAModelStays(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, nil)
	close(b)
	if a := fake.Post[line](s, "/api/generate", `{"model":"a","keep_alive":"50000h"}`); a.Reason != "load" {
		t.Errorf("%+v", a)
	}
	list := fake.Parse[modelList](t, s.Get("/api/ps"))
	if until, err := time.Parse(time.RFC3339, list.Models[0].Expires); err != nil || until.Before(time.Now().Add(49000*time.Hour)) ||
		until.After(time.Now().Add(50001*time.Hour)) {
		t.Errorf("it stays until %v, %v", until, err)
	}
	if a := fake.Post[line](s, "/api/generate", `{"model":"a","keep_alive":0}`); a.Reason != "unload" || a.Model != "a" {
		t.Errorf("%+v", a)
	}
	fake.Eventually(t, "unloaded", func() bool { st, _ := s.Server.Models().Status("a"); return st.State == models.Unloaded })
	if code, b, _ := s.Do("POST", "/api/generate", `{"keep_alive":0}`); code < 400 || code > 404 || !strings.Contains(string(b), "want one of a, b, huge") {
		t.Errorf("of no model: %d %s", code, b)
	}
	if a := fake.Post[line](s, "/api/generate", `{"name":"also-a","keep_alive":0}`); a.Reason != "unload" || a.Model != "a" {
		t.Errorf("by the older name: %+v", a)
	}
}

// What a persona is made of is shown, in fields and as a Modelfile of its model.
func TestShowOfAPersona(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	parameters, err := persona.ReadParameters([]byte(`{"temperature":0.5}`))
	if err != nil {
		t.Fatal(err)
	}
	mario, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "fake/model", System: "You are Mario.", License: "MIT", Parameters: parameters,
		Created: time.Unix(1000, 0), Messages: []persona.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "It's me"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.SetPersonas([]catalog.Persona{{Persona: mario, Base: "fake/model"}})
	type shown struct {
		License, System, Parameters, Modelfile string
		Modified                               string `json:"modified_at"`
		Messages                               []struct{ Role, Content string }
	}
	for name, of := range map[string]bool{"mario": true, "mario:latest": true, "fake/model": false} {
		got := fake.Post[shown](s, "/api/show", `{"model":"`+name+`"}`)
		if !strings.HasPrefix(got.Modelfile, "FROM fake/model\n") || of != strings.Contains(got.Modelfile, "SYSTEM") || of != (got.Modified == "1970-01-01T00:16:40Z") {
			t.Errorf("%s: %+v", name, got)
		}
		if of != (got.License == "MIT" && got.System == "You are Mario." && strings.Contains(got.Parameters, "0.5") && len(got.Messages) == 2) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	fake.Post[line](s, "/api/chat", `{"model":"mario",`+fake.Hi+`,"stream":false}`)
	if r := s.Last(); r.Sampling.Temp != 0.5 {
		t.Errorf("its temperature is %g", r.Sampling.Temp)
	}
}

// How long a model stays is for the administrator to say: a user's request has none unloaded, and changes nothing.
func TestKeepAliveOfAUser(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Caller = func(*gin.Context) answer.Caller { return answer.Caller{} } })
	close(b)
	fake.Post[line](s, "/api/generate", `{"model":"a","prompt":"x","stream":false,"keep_alive":"1ms"}`)
	if code, b, _ := s.Do("POST", "/api/generate", `{"model":"a","keep_alive":0}`); code != 403 {
		t.Errorf("%d %s", code, b)
	}
	if list := fake.Parse[modelList](t, s.Get("/api/ps")).Models; len(list) != 1 || list[0].Expires[:4] != "9999" {
		t.Errorf("%+v", list)
	}
}

// Forms and thoughts have their values, and messages their names; null is as if it was not there.
func TestValuesOfChats(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for fields, want := range map[string]string{
		`"format":""`: "", `"format":null`: "", `"format":7`: `format: 7, want "json" or a JSON schema`, `"format":"yaml"`: `format: the string "yaml", want "json"`,
		`"think":7`: "think: 7, want true, false, low, medium, high or max", `"think":"max"`: "", `"think":null`: "",
		`"top_logprobs":1`: "top_logprobs: 1 without logprobs", `"top_logprobs":0`: "", `"top_logprobs":1,"logprobs":true`: "",
		`"keep_alive":"soon"`: `keep_alive: "soon", want a number of seconds`, `"options":{"top_k":"x"}`: "options: top_k: ",
		`"options":7`: "options: 7, want an object", `"options":null`: "", `"images":[]`: "",
	} {
		code, b, _ := s.Do("POST", "/api/chat", "{"+fake.Hi+`,"stream":false,`+fields+"}")
		if (code == 200) != (want == "") || want != "" && !strings.Contains(fake.Parse[status](t, b).Error, want) {
			t.Errorf("%s: %d %s, want %q", fields, code, b, want)
		}
	}
	fake.Post[line](s, "/api/chat", `{"stream":false,"messages":[{"role":"user","content":"hi","more":[1]},
		{"role":"assistant","thinking":null,"content":null,"tool_calls":[{"function":{"name":"f","arguments":{}}}]},
		{"role":"tool","tool_name":"f","tool_call_id":"x","content":"21"}]}`)
	if got := s.LastPrompt(); !strings.Contains(got, "The result of f:\n21") {
		t.Errorf("the prompt is %q", got)
	}
}

// A model is not listed whose file another one is of, and answers all the same.
func TestCoveredIsNotListed(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	m := *s.Model()
	m.Name = "covered"
	if err := s.Server.Add(catalog.Source{Covered: true, Spec: models.Spec[ask.Model]{Names: []string{"covered"},
		Load: func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			return &fake.Still{Of: &m}, nil
		}}}); err != nil {
		t.Fatal(err)
	}
	if got := fake.Post[struct{ Done bool }](s, "/api/generate", `{"model":"covered","prompt":"hi","stream":false}`); !got.Done {
		t.Error("it does not answer")
	}
	for _, path := range []string{"/api/tags", "/v1/models"} {
		if status, b, _ := s.Do("GET", path, ""); status != 200 || strings.Contains(string(b), "covered") || !strings.Contains(string(b), s.Model().Name) {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}
