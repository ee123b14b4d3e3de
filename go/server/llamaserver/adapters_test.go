package llamaserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

type adapterEntry struct {
	ID    int     `json:"id"`
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Scale float64 `json:"scale"`
}

// Adapters come and go while the server runs, from one folder; each is a model by its name until then.
func TestAdaptersThatComeAndGo(t *testing.T) {
	t.Parallel()
	elsewhere := testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf")
	data, err := os.ReadFile(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	poet := filepath.Join(dir, "poet.gguf")
	if err := errors.Join(os.WriteFile(poet, data, 0o600), os.WriteFile(filepath.Join(dir, "bad.gguf"), data[:1000], 0o600),
		os.Symlink(elsewhere, filepath.Join(dir, "link.gguf"))); err != nil {
		t.Fatal(err)
	}
	file := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	s := fake.Demo(t, fake.Setup{File: file, Names: []string{"base"}, Server: server.Config{LoraDir: dir},
		Model: func(m *ask.Model) { m.Aliases = []string{"basis"} }})
	text := func(model string) string {
		t.Helper()
		return fake.Post[struct{ Content string }](s, "/completion",
			`{"model":"`+model+`","prompt":"Once upon a time","temperature":0,"n_predict":30,"ignore_eos":true}`).Content
	}
	plain := text("base")
	for _, c := range []struct {
		body, param, want string
	}{
		{`{"lora_name":"p"}`, "lora_path", "missing"},
		{`{"lora_name":"","lora_path":"poet.gguf"}`, "lora_name", "empty, want a name"},
		{`{"lora_name":"base","lora_path":"poet.gguf"}`, "lora_name", `\"base\" is taken`},
		{`{"lora_name":"basis","lora_path":"poet.gguf"}`, "lora_name", `\"basis\" is taken`},
		{`{"lora_name":"poet","lora_path":"../x.gguf"}`, "lora_path", "is not in the folder"},
		{`{"lora_name":"poet","lora_path":"` + elsewhere + `"}`, "lora_path", "is not in the folder"},
		{`{"lora_name":"poet","lora_path":"link.gguf"}`, "lora_path", "is not in the folder"},
		{`{"lora_name":"poet","lora_path":"none.gguf"}`, "lora_path", `there is no file \"none.gguf\" in the folder`},
		{`{"lora_name":"poet","lora_path":"bad.gguf"}`, "lora_path", `\"bad.gguf\"`},
	} {
		status, b, _ := s.Do("POST", "/v1/load_lora_adapter", c.body)
		if status != 400 || fake.ErrorOf(t, b).Param != c.param || !strings.Contains(string(b), c.want) ||
			strings.Contains(string(b), dir) {
			t.Errorf("%s: %d %s", c.body, status, b)
		}
	}
	for range 2 { // a name is free again when its adapter has gone
		if got, want := fake.Post[adapterEntry](s, "/v1/load_lora_adapter", `{"lora_name":"poet","lora_path":"poet.gguf"}`),
			(adapterEntry{0, "poet", poet, 0}); got != want {
			t.Errorf("it is %+v, want %+v", got, want)
		}
		if list := fake.Parse[[]adapterEntry](t, s.Get("/lora-adapters")); len(list) != 1 || list[0].Name != "poet" {
			t.Errorf("the list is %+v", list)
		}
		s.Refused("/v1/load_lora_adapter", `{"lora_name":"poet","lora_path":"poet.gguf"}`, 400, "lora_name")
		if text("poet") == plain || text("base") != plain {
			t.Error("the adapter is not used by its name alone")
		}
		type model struct{ ID, Root, Parent string }
		if m := fake.Parse[model](t, s.Get("/v1/models/poet")); m != (model{"poet", poet, "base"}) {
			t.Errorf("as a model it is %+v", m)
		}
		if list := fake.Parse[struct{ Data []model }](t, s.Get("/v1/models")).Data; len(list) != 2 || list[1].ID != "poet" {
			t.Errorf("models %+v", list)
		}
		s.Refused("/v1/unload_lora_adapter", `{}`, 400, "lora_name")
		if got := fake.Post[map[string]any](s, "/v1/unload_lora_adapter", `{"lora_name":"poet"}`); got["success"] != true {
			t.Errorf("unloaded: %v", got)
		}
		if status, b, _ := s.Do("POST", "/completion", `{"model":"poet","prompt":"x"}`); status != 404 {
			t.Errorf("one that has gone: %d %s", status, b)
		}
		if status, b, _ := s.Do("POST", "/v1/unload_lora_adapter", `{"lora_name":"poet"}`); status != 404 ||
			fake.ErrorOf(t, b).Param != "lora_name" {
			t.Errorf("unloaded again: %d %s", status, b)
		}
	}
	// Requests that do not say have those with a scale, of which there may be eight; what is not listed has none.
	scales := ""
	for i := range 9 {
		fake.Post[adapterEntry](s, "/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"p%d","lora_path":"%s"}`, i, poet))
		scales += fmt.Sprintf(`,{"id":%d,"scale":0.5}`, i)
	}
	if status, b, _ := s.Do("POST", "/lora-adapters", "["+scales[1:]+"]"); status != 400 ||
		!strings.Contains(string(b), "9 adapters at once, want at most 8 with a scale other than 0") {
		t.Errorf("%d %s", status, b)
	}
	for _, list := range []string{strings.Replace(scales, "0.5", "0", 1), scales[:strings.LastIndex(scales, ",{")]} {
		fake.Post[struct{}](s, "/lora-adapters", "["+list[1:]+"]")
		if text("base") == plain {
			t.Errorf("%s changes nothing", list)
		}
	}
	fake.Post[struct{}](s, "/lora-adapters", "[]")
	if text("base") != plain {
		t.Error("adapters that are not listed still have a scale")
	}
}

// Without a folder no adapter is loaded.
func TestNoFolderOfAdapters(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	for path, body := range map[string]string{
		"/v1/load_lora_adapter": `{"lora_name":"a","lora_path":"b"}`, "/v1/unload_lora_adapter": `{"lora_name":"a"}`,
	} {
		if status, b, _ := s.Do("POST", path, body); status != 501 || !strings.Contains(string(b), "--lora-dir") {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}
