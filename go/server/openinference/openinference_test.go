package openinference_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

type metadata struct {
	Name, Platform, Version string
	Extensions              []string
	Inputs, Outputs         []any
	Ready                   bool
}

// The server and its models are described, by names with slashes and those of personas too.
func TestMetadata(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Build = "1.2" })
	p, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "fake/model"})
	if err != nil {
		t.Fatal(err)
	}
	s.Server.SetPersonas([]catalog.Persona{{Persona: p, Base: "fake/model"}})
	if m := fake.Parse[metadata](t, s.Get("/v2")); m.Name != "quern" || m.Version != "1.2" || m.Extensions == nil {
		t.Errorf("%+v", m)
	}
	for _, name := range []string{"fake/model", "mario"} {
		if m := fake.Parse[metadata](t, s.Get("/v2/models/"+name)); m.Name != name || m.Platform == "" || m.Inputs == nil || m.Outputs == nil || m.Ready {
			t.Errorf("%+v", m)
		}
		if m := fake.Parse[metadata](t, s.Get("/v2/models/"+name+"/ready")); m.Name != name || !m.Ready {
			t.Errorf("%+v", m)
		}
	}
	// That one model answers to any name makes no model of that name.
	for _, path := range []string{"/v2/models/", "/v2/models/none", "/v2/models/none/ready", "/v2/models//ready", "/v2/models/fake/model/versions/1"} {
		if status, b, _ := s.Do(http.MethodGet, path, ""); status != http.StatusNotFound || !strings.Contains(string(b), "fake/model") {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}

// A model that is not loaded is ready where a request loads it.
func TestUnloaded(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Models.Manual = manual })
		fake.Post[struct{}](s, "/models/unload", `{"model":"fake/model"}`)
		status, b, _ := s.Do(http.MethodGet, "/v2/models/fake/model/ready", "")
		for status != http.StatusOK && strings.Contains(string(b), "being") { // unloaded
			status, b, _ = s.Do(http.MethodGet, "/v2/models/fake/model/ready", "")
		}
		if want := map[bool]int{false: 200, true: 400}[manual]; status != want {
			t.Errorf("manual %v: %d %s", manual, status, b)
		}
	}
}

// A key is told of the models that it may ask alone.
func TestOfKey(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: func(*gin.Context) answer.Caller {
		return answer.Caller{Owner: "ann", Models: []string{"other"}}
	}}})
	for _, path := range []string{"/v2/models/demo", "/v2/models/demo/ready"} {
		if status, b, _ := s.Do(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}
