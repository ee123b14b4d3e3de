package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/web"
)

// small is how the tests open the demo model.
var small = Settings{Launch: launch.Settings{Ctx: 128, Sequences: 2}}

// serving serves until the test ends, and returns the URL.
func serving(t *testing.T, c Config) string {
	t.Helper()
	ready, ended := make(chan string, 1), make(chan error, 1)
	c.Device.Threads = 1
	c.Ready = func(at []net.Addr) { ready <- "http://" + at[0].String() }
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- Serve(ctx, c) }()
	select {
	case url := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := http.Get(url + "/livez"); err == nil {
				t.Error("it still listens")
			}
		})
		return url
	case err := <-ended:
		stop()
		t.Fatal(err)
	}
	return ""
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s, %v", url, body, r.Status, answer, err)
	}
	return string(answer)
}

// Settings that are left out are those of the command's flags that are: vectors have length 1.
func TestVectors(t *testing.T) {
	url := serving(t, Config{Models: []Model{{Path: demo.Name, Settings: small}}})
	var got struct {
		Data []struct{ Embedding []float64 }
	}
	if err := json.Unmarshal([]byte(post(t, url+"/v1/embeddings", `{"input": "a cat"}`)), &got); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, x := range got.Data[0].Embedding {
		sum += x * x
	}
	if math.Abs(sum-1) > 1e-3 {
		t.Errorf("a vector of length %v", math.Sqrt(sum))
	}
}

// Models of a catalog are loaded on request, with the settings of their sections.
func TestCatalog(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name+".gguf"), demo.GGUF(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	presets := filepath.Join(dir, "presets.ini")
	if err := os.WriteFile(presets, []byte("[*]\nx = 1\n[a]\ny = 2\n[b]\nbroken = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serving(t, Config{Catalog: Catalog{Dir: dir, Presets: presets, Configure: func(s Section, _ func(string)) (Configured, error) {
		c := Configured{Model: Model{Settings: small}, Given: []string{s.Name}}
		for _, one := range s.Settings {
			if one.Key == "broken" {
				c.Broken = errors.New("these settings are broken")
			}
			c.Names = append(c.Names, s.Name+"-"+one.Key+one.Value)
		}
		return c, nil
	}}})
	for _, name := range []string{"a", "a-x1", "a-y2"} { // the last ones are aliases, of [*] and of [a]
		if answer := post(t, url+"/v1/completions", `{"model": "`+name+`", "prompt": "Once", "max_tokens": 2}`); !strings.Contains(answer, `"model":"a"`) {
			t.Errorf("%s: %s", name, answer)
		}
	}
	r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model": "b", "prompt": "Once"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if answer, _ := io.ReadAll(r.Body); r.StatusCode < 400 || !strings.Contains(string(answer), "these settings are broken") {
		t.Errorf("%s %s", r.Status, answer)
	}
}

var searching = agent.Web{Search: func(context.Context, string, int) ([]web.Result, error) { return nil, nil }}

func reading(context.Context, web.Page) (string, error) { return "", nil }

// What cannot be served is refused before a model is loaded, as a mistake in the settings.
func TestNewRefuses(t *testing.T) {
	model := Model{Path: demo.Name, Settings: small}
	for _, test := range []struct {
		c    Config
		want string
	}{
		{Config{Models: []Model{model, model}}, "NAME=FILE"},
		{Config{Models: []Model{model}, Address: Address{Hosts: []string{"0.0.0.0"}}, Access: Access{RequireKey: true}}, "--require-key"},
		{Config{Models: []Model{model}, Address: Address{Hosts: []string{"0.0.0.0"}}, MCP: "{}"}, "--mcp"},
		{Config{Models: []Model{model}, Address: Address{Hosts: []string{"0.0.0.0"}}, Server: server.Config{Web: searching}}, "--web-search: whoever reaches 0.0.0.0"},
		{Config{Models: []Model{model}, Access: Access{AllowedHosts: []string{"*"}}, Server: server.Config{Web: searching}}, "--web-search: with --allowed-hosts"},
		{Config{Models: []Model{model}, Address: Address{Hosts: []string{"0.0.0.0"}}, Server: server.Config{Web: agent.Web{Read: reading}}}, "--web-fetch"},
		{Config{Models: []Model{model}, Access: Access{Origins: []string{"a b"}}}, "--cors-origins"},
		{Config{Models: []Model{model}, FineTuning: true}, "--batch-dir"},
		{Config{Models: []Model{model}, PageDir: "/nonexistent"}, "--path"},
		{Config{Catalog: Catalog{Dir: "/nonexistent"}}, "--models-dir"},
	} {
		test.c.Device.Threads = 1
		f, err := New(t.Context(), test.c)
		if err == nil {
			f.Close()
		}
		if wrong := (usage.Error{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
