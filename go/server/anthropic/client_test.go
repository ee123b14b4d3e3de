package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Clients compact a conversation that is too long if they know the message by these words.
func TestAnthropicPromptIsTooLong(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	known := regexp.MustCompile(`prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)`)
	prompt := `"messages":[{"role":"user","content":"` + strings.Repeat("a dog and ", 2000) + `"}]`
	for _, fields := range []string{`"max_tokens":8,`, `"max_tokens":8,"stream":true,`} {
		status, b, _ := s.Do("POST", "/v1/messages", `{`+fields+prompt+`}`)
		var a struct {
			Type  string `json:"type"`
			Error struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		got := known.FindStringSubmatch(a.Error.Message)
		if status != 400 || a.Type != "error" || a.Error.Type != "invalid_request_error" || got == nil || len(got[1]) != 4 ||
			got[2] != "1024" || !strings.Contains(a.Error.Message, "--ctx-size") {
			t.Errorf("%s: status %d, %s", fields, status, b)
		}
	}
	if got := anthropic.TooLong(&engine.TooLongError{Prompt: 1024, Ctx: 1024}); !strings.Contains(got,
		"1024 tokens > 1023 maximum") {
		t.Errorf("a prompt as large as the context: %s", got)
	}
}

// anthropicRefusal is an error of /v1/messages as its clients read it.
type anthropicRefusal struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Details *struct {
			Code        string   `json:"error_code"`
			Unsupported []string `json:"unsupported"`
		} `json:"details"`
	} `json:"error"`
}

// What the server of a model cannot do for a conversation is refused by name. A client that sends only what is new of a
// conversation goes on without when it reads this code.
func TestAnthropicRefusesWhatItWouldIgnore(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	const turn = `"max_tokens":4,"messages":[{"role":"user","content":"Hello"}]`
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		for name, value := range map[string]string{
			"thread":      `{"type":"create"}`,
			"mcp_servers": `[{"type":"url","url":"https://example.com","name":"x"}]`,
			"container":   `"container_1"`,
		} {
			status, b, _ := s.Do("POST", path, `{`+turn+`,"`+name+`":`+value+`}`)
			a := fake.Parse[anthropicRefusal](t, b)
			if status != 400 || a.Type != "error" || a.Error.Type != "invalid_request_error" ||
				!strings.HasPrefix(a.Error.Message, name+": ") {
				t.Errorf("%s with %s: %d %s", path, name, status, b)
			}
			if coded := a.Error.Details != nil && a.Error.Details.Code == "thread_unsupported_request" &&
				a.Error.Details.Unsupported != nil; coded != (name == "thread") {
				t.Errorf("%s with %s: details %s", path, name, b)
			}
		}
		for _, nothing := range []string{`"thread":null`, `"mcp_servers":[]`, `"mcp_servers":null`, `"container":null`} {
			if status, b, _ := s.Do("POST", path, `{`+turn+`,`+nothing+`}`); status != 200 {
				t.Errorf("%s with %s: %d %s", path, nothing, status, b)
			}
		}
	}
}

// Models are listed as Anthropic does for its clients, which say so in a header.
func TestAnthropicModels(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Names: []string{"a", "b", "c"}})
	type info struct {
		Type      string    `json:"type"`
		ID        string    `json:"id"`
		Name      string    `json:"display_name"`
		Created   time.Time `json:"created_at"`
		Lifecycle string    `json:"lifecycle"`
		Input     int       `json:"max_input_tokens"`
		Output    int       `json:"max_tokens"`
	}
	type list struct {
		Data   []info  `json:"data"`
		More   bool    `json:"has_more"`
		First  *string `json:"first_id"`
		Last   *string `json:"last_id"`
		Object string  `json:"object"`
	}
	get := func(path string, status int) []byte {
		t.Helper()
		r, _ := http.NewRequest("GET", s.URL+path, nil)
		r.Header.Set("anthropic-version", "2023-06-01")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != status {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, b)
		}
		return b
	}
	ids := func(path string) (got string) {
		t.Helper()
		l := fake.Parse[list](t, get(path, 200))
		for _, m := range l.Data {
			got += m.ID
		}
		if n := len(l.Data); n > 0 && (*l.First != l.Data[0].ID || *l.Last != l.Data[n-1].ID) {
			t.Errorf("%s: %+v", path, l)
		}
		if l.More {
			got += " and more"
		}
		return got
	}
	for path, want := range map[string]string{
		"/v1/models": "abc", "/v1/models?limit=2": "ab and more", "/v1/models?limit=2&after_id=b": "c",
		"/v1/models?before_id=c": "ab", "/v1/models?limit=1&before_id=c": "b and more", "/v1/models?after_id=c": "",
	} {
		if got := ids(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	one := fake.Parse[info](t, get("/v1/models/b", 200))
	if one.Type != "model" || one.ID != "b" || one.Name == "" || one.Created.IsZero() || one.Lifecycle != "active" ||
		one.Input != 1024 || one.Output != 1024 {
		t.Errorf("%+v", one)
	}
	if a := fake.Parse[anthropicRefusal](t, get("/v1/models/none", 404)); a.Type != "error" ||
		a.Error.Type != "not_found_error" {
		t.Errorf("%+v", a)
	}
	get("/v1/models?limit=0", 400)
	get("/v1/models?after_id=none", 400)
	if _, b, _ := s.Do("GET", "/v1/models", ""); !strings.Contains(string(b), `"object":"list"`) {
		t.Errorf("without the header: %s", b)
	}
}

// Ids of calls begin as Anthropic's do, and results that are sent back for them find their calls.
func TestAnthropicCallIDs(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	const tools = `"tools":[{"name":"get_time","input_schema":{"type":"object","properties":{"zone":{"enum":["UTC","CET"]}},"required":["zone"]}}],"tool_choice":{"type":"any"},"max_tokens":200`
	type call struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	a := fake.Post[struct {
		Content []call `json:"content"`
	}](s, "/v1/messages", `{"messages":[{"role":"user","content":"What time is it?"}],`+tools+`}`)
	last := a.Content[len(a.Content)-1]
	if last.Type != "tool_use" || !strings.HasPrefix(last.ID, "toolu_") || len(last.ID) != len("toolu_")+24 {
		t.Fatalf("%+v", a)
	}
	begun := ""
	for _, e := range s.NamedEvents("/v1/messages",
		`{"stream":true,"messages":[{"role":"user","content":"What time is it?"}],`+tools+`}`) {
		if block := fake.Parse[struct {
			Block call `json:"content_block"`
		}](t, []byte(e)).Block; block.Type == "tool_use" {
			begun = block.ID
		}
	}
	if !strings.HasPrefix(begun, "toolu_") {
		t.Errorf("a stream's call is %q", begun)
	}
	// the last two are models' own
	for _, id := range []string{"call_abcdefghijklmnopqrstuvwx", "abcdefghi", "functions.get_time:0"} {
		if got := anthropic.ModelID(anthropic.NewID(id)); got != id {
			t.Errorf("%s comes back as %s", id, got)
		}
	}
	back, _ := json.Marshal(last)
	fake.Post[struct{}](s, "/v1/messages", `{"messages":[{"role":"user","content":"What time is it?"},{"role":"assistant","content":[`+string(back)+`]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+last.ID+`","content":"noon"}]}],`+tools+`}`)
}
