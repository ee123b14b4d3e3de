package ollama_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// status is a line about a download or a persona.
type status struct {
	Status    string `json:"status"`
	Digest    string `json:"digest"`
	Total     int64  `json:"total"`
	Completed int64  `json:"completed"`
	Error     string `json:"error"`
}

func statuses(t *testing.T, s *fake.Site, path, body string) []status {
	t.Helper()
	code, b, h := s.Do("POST", path, body)
	if code != 200 || h.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%s %s: %d, %s: %s", path, body, code, h.Get("Content-Type"), b)
	}
	var all []status
	for text := range strings.Lines(string(b)) {
		all = append(all, fake.Parse[status](t, []byte(text)))
	}
	return all
}

// A persona is what its request says, and cannot be what no conversation takes.
func TestCreate(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{}
	s := fake.Demo(t, fake.Setup{Server: server.Config{Library: lib}})
	const most = `"model":"mario","from":"demo:latest","system":"You are Mario.","parameters":{"temperature":1,"stop":["x"]},` +
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"It's me"}]`
	if got := statuses(t, s, "/api/create", "{"+most+`,"license":"MIT","files":{},"adapters":null,"quantize":""}`); len(got) != 3 ||
		got[0].Status != "using existing layers of demo" || got[1].Status != "writing manifest" || got[2].Status != "success" {
		t.Errorf("%+v", got)
	}
	if got := fake.Post[status](s, "/api/create", "{"+most+`,"license":["MIT","and more"],"stream":false}`); got != (status{Status: "success"}) {
		t.Errorf("%+v", got)
	}
	if len(lib.Created) != 2 {
		t.Fatalf("%d are stored", len(lib.Created))
	}
	p := lib.Created[1]
	if p.Name != "mario" || p.From != "demo" || p.System != "You are Mario." || p.License != "MIT\nand more" || lib.Created[0].License != "MIT" ||
		fmt.Sprint(p.Messages) != fmt.Sprint([]persona.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "It's me"}}) ||
		!strings.Contains(p.Parameters.Lines(), "temperature") || !strings.Contains(p.Parameters.Lines(), "stop") {
		t.Errorf("%+v", p)
	}
	for body, want := range map[string]string{
		`{"from":"demo"}`:                             "model: missing",
		`{"model":"a"}`:                               "from: missing",
		`{"model":"a","from":"other"}`:                "model 'other' not found, want one of demo",
		`{"model":"a","from":"demo","parameters":[]}`: "parameters: an array, want an object",
		`{"model":"a","from":"demo","parameters":{"temperature":"hot"}}`: "temperature",
		`{"model":"a","from":"demo","messages":[{"role":"alien"}]}`:      "message 0: the role",
		`{"model":"a","from":"demo","license":7}`:                        "license: ",
		`{"model":"a","from":"demo","license":[7]}`:                      "license: ",
		`{"model":"a","from":"demo","files":{"a":"b"}}`:                  "files: ",
		`{"model":"a","from":"demo","adapters":["b"]}`:                   "adapters: ",
		`{"model":"a","from":"demo","quantize":"q4_K_M"}`:                "quantize: ",
		`{"model":"demo","from":"demo"}`:                                 "not in the cache, want another",
		`{"model":"a","from":"demo","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}`: "message 1 has calls of tools",
	} {
		code, b, _ := s.Do("POST", "/api/create", body)
		if e := fake.Parse[status](t, b).Error; code < 400 || code > 404 || !strings.Contains(e, want) {
			t.Errorf("%s: %d %s, want %s", body, code, b, want)
		}
	}
	if len(lib.Created) != 2 {
		t.Errorf("%d are stored", len(lib.Created))
	}
}

// A download says how far each of its files is while they are loaded and checked, and how it ended.
func TestPull(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0123456789ab", 6)[:64]
	files := []hub.FileProgress{{Name: "a.gguf", SHA256: sum, Done: 5, Total: 10}, {Name: "b.gguf", Done: 1, Total: -1}}
	for _, step := range []struct {
		stage hub.Stage
		told  bool
	}{{hub.Downloading, true}, {hub.Checking, true}, {hub.Finishing, false}} {
		lib := &fake.Shelf{Begun: make(chan struct{}), GoOn: make(chan struct{}), Ended: make(chan error, 1),
			Progress: &hub.Progress{Stage: step.stage, Files: files}}
		s := fake.Demo(t, fake.Setup{Server: server.Config{Library: lib}})
		lines := s.Lines("POST", "/api/pull", `{"model":"tiny"}`)
		want := []status{{Status: "pulling manifest"}}
		if step.told {
			want = append(want, status{Status: "pulling 0123456789ab", Digest: "sha256:" + sum, Total: 10, Completed: 5},
				status{Status: "pulling b.gguf", Completed: 1})
		}
		next := func(want status) {
			t.Helper()
			if got := fake.Parse[status](t, []byte(<-lines)); got != want {
				t.Errorf("%v: %+v, want %+v", step.stage, got, want)
			}
		}
		<-lib.Begun
		for _, one := range want {
			next(one)
		}
		close(lib.GoOn)
		for _, text := range []string{"verifying sha256 digest", "writing manifest", "success"} {
			next(status{Status: text})
		}
		lib.GoOn = nil
		if one := fake.Post[status](s, "/api/pull", `{"name":"tiny","stream":false}`); one != (status{Status: "success"}) {
			t.Errorf("%+v", one)
		}
		lib.Fails = errors.New("the disk is full")
		if got := statuses(t, s, "/api/pull", `{"model":"tiny"}`); len(got) != 2 || got[1] != (status{Error: "the disk is full"}) {
			t.Errorf("%+v", got)
		}
		code, b, _ := s.Do("POST", "/api/pull", `{"model":"tiny","stream":false}`)
		if code != 500 || fake.Parse[status](t, b).Error != "the disk is full" {
			t.Errorf("%d %s", code, b)
		}
		for _, body := range []string{`{}`, `{"model":7}`, `{"model":"a b"}`} {
			if code, b, _ := s.Do("POST", "/api/pull", body); code != 400 || fake.Parse[status](t, b).Error == "" {
				t.Errorf("%s: %d %s", body, code, b)
			}
		}
	}
}

// A download that the administrator ends tells those who wait for it, and one that all have left ends.
func TestPullThatIsCancelled(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{Begun: make(chan struct{}), GoOn: make(chan struct{}), Ended: make(chan error, 3)}
	s := fake.Demo(t, fake.Setup{Server: server.Config{Library: lib}})
	for _, body := range []string{`{"model":"hf.co/org/repo"}`, `{"model":"hf.co/org/repo","stream":false}`} {
		done := make(chan string, 1)
		go func() {
			_, b, _ := s.Do("POST", "/api/pull", body)
			done <- string(b)
		}()
		<-lib.Begun
		fake.Post[struct{}](s, "/models/unload", `{"model":"org/repo"}`)
		if got := <-done; !strings.HasSuffix(got, `{"error":"the download was cancelled"}`+"\n") && got != `{"error":"the download was cancelled"}` {
			t.Errorf("%s: %s", body, got)
		}
		<-lib.Ended
	}
}

// A model is copied to another name, and removed by its own.
func TestCopyAndDelete(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Library: &fake.Shelf{}}})
	for body, want := range map[string]string{
		`{"source":"demo:latest","destination":"small"}`: "", `{"source":"none","destination":"small"}`: "model 'none' not found",
		`{"source":"demo","destination":"taken:latest"}`: "destination: the name is taken", `{"source":"demo"}`: "destination: missing",
		`{"destination":"a"}`: "source: missing", `{"source":7,"destination":"a"}`: "source: 7, want",
	} {
		code, b, _ := s.Do("POST", "/api/copy", body)
		if want == "" && (code != 200 || string(b) != "{}") || want != "" && (code < 400 || !strings.HasPrefix(fake.Parse[status](t, b).Error, want)) {
			t.Errorf("%s: %d %s, want %q", body, code, b, want)
		}
	}
	for body, want := range map[string]string{`{}`: "model: missing", `{"model":7}`: "model: 7, want", `{"name":"other"}`: ""} {
		code, b, _ := s.Do("DELETE", "/api/delete", body)
		if want == "" && (code != 200 || string(b) != "{}") || want != "" && (code != 400 || !strings.HasPrefix(fake.Parse[status](t, b).Error, want)) {
			t.Errorf("%s: %d %s, want %q", body, code, b, want)
		}
	}
	none := fake.New(t, "", nil)
	if code, b, _ := none.Do("POST", "/api/copy", `{"source":"a","destination":"b"}`); code != 501 {
		t.Errorf("without a cache: %d %s", code, b)
	}
}
