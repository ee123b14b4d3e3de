package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// Adapters are used from the start, by their names, by requests, and come and go while the server runs; each text is that
// of "quern run" with the same adapters, in any company.
func TestServeAdapters(t *testing.T) {
	t.Parallel()
	servesAdapters(t)
}

// The same on several ranks, of which one alone has the files.
func TestServeAdaptersOfRanks(t *testing.T) {
	t.Parallel()
	servesAdapters(t, "--ranks", "3")
}

func servesAdapters(t *testing.T, flags ...string) {
	t.Helper()
	model := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	adapter := testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf")
	text := func(args ...string) string {
		t.Helper()
		args = append([]string{"run", "-m", model, "-p", "Once upon a time", "--temp", "0", "-n", "60", "--ignore-eos"}, args...)
		return strings.TrimSuffix(succeed(t, args...), "\n")
	}
	plain, whole, twice := text(), text("--lora", adapter), text("--lora-scaled", adapter+":2.5")
	if plain == twice || whole == twice {
		t.Fatalf("the adapter changes nothing: %q", plain)
	}
	dir := t.TempDir()
	data, err := os.ReadFile(adapter)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"poet.gguf": data, "bad.gguf": data[:1000]} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, "", append(flags, "-m", model, "--lora", "a="+adapter, "--lora-init-without-apply", "--lora-dir", dir, "--alias", "base", "--vllm-metrics")...)
	ask := func(fields, want string) {
		t.Helper()
		status, v := s.post("/completion", fmt.Sprintf(`{"prompt":"Once upon a time","temperature":0,"n_predict":60,"ignore_eos":true%s}`, fields))
		if got := v["content"]; status != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", fields, status, got, want)
		}
	}
	refuse := func(path, body string, status int, want string) {
		t.Helper()
		if got, v := s.post(path, body); got != status || !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("%s %s: %d %v, want %d and %s", path, body, got, v, status, want)
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		for fields, want := range map[string]string{
			"": plain, `,"model":"a"`: whole, `,"lora":[{"id":0,"scale":1}]`: whole, `,"lora":[{"id":0,"scale":2.5}]`: twice,
			`,"model":"a","lora":[]`: plain, `,"model":"base"`: plain,
		} {
			wg.Go(func() { ask(fields, want) })
		}
	}
	wg.Wait()
	// Gateways see who runs.
	told := false
	for range 50 {
		answer, _ := s.stream(`{"model":"a","prompt":"Once","n_predict":-1,"ignore_eos":true,"stream":true}`)
		_, page := s.get("/metrics")
		answer.Body.Close()
		if told = strings.Contains(page, `running_lora_adapters="a"`); told {
			break
		}
	}
	if !told {
		t.Error("the metrics do not tell that an adapter is used")
	}
	// For requests that do not say.
	if status, v := s.post("/lora-adapters", `[{"id":0,"scale":2.5}]`); status != 200 {
		t.Errorf("%d %v", status, v)
	}
	ask("", twice)
	if _, list := s.get("/lora-adapters"); !strings.Contains(list, `"scale":2.5`) || !strings.Contains(list, `"name":"a"`) {
		t.Errorf("adapters %s", list)
	}
	s.post("/lora-adapters", `[]`)
	ask("", plain)
	refuse("/lora-adapters", `[{"id":3,"scale":1}]`, 400, "no adapter 3, want one of 0")
	refuse("/lora-adapters", `[{"id":0,"scale":"x"}]`, 400, "scale")
	refuse("/completion", `{"prompt":"x","lora":[{"id":7}]}`, 400, "no adapter 7")
	refuse("/completion", `{"prompt":"x","lora":[{"id":0},{"id":0}]}`, 400, "twice")
	// While it runs.
	refuse("/v1/load_lora_adapter", `{"lora_name":"p","lora_path":"../x.gguf"}`, 400, "not in the folder")
	refuse("/v1/load_lora_adapter", `{"lora_name":"p","lora_path":"`+adapter+`"}`, 400, "not in the folder")
	refuse("/v1/load_lora_adapter", `{"lora_name":"p","lora_path":"none.gguf"}`, 400, "there is no file")
	refuse("/v1/load_lora_adapter", `{"lora_name":"p","lora_path":"bad.gguf"}`, 400, "bad.gguf")
	refuse("/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"poet.gguf"}`, 400, "is taken")
	refuse("/v1/load_lora_adapter", `{"lora_name":"base","lora_path":"poet.gguf"}`, 400, "is taken")
	refuse("/v1/unload_lora_adapter", `{"lora_name":"poet"}`, 404, "no adapter")
	for range 2 {
		if status, v := s.post("/v1/load_lora_adapter", `{"lora_name":"poet","lora_path":"poet.gguf"}`); status != 200 || v["id"] != 1.0 {
			t.Fatalf("%d %v", status, v)
		}
		ask(`,"model":"poet"`, whole)
		ask("", plain)
		var list struct {
			Data []struct{ ID, Parent string }
		}
		if s.read("/v1/models", &list); fmt.Sprint(list.Data) != "[{base } {a base} {poet base}]" {
			t.Errorf("models %v", list.Data)
		}
		status, v := s.post("/v1/chat/completions", `{"model":"poet","messages":[{"role":"user","content":"Hi"}],"max_tokens":2}`)
		if status != 200 || v["model"] != "poet" {
			t.Errorf("%d %v", status, v)
		}
		if status, v := s.post("/v1/unload_lora_adapter", `{"lora_name":"poet"}`); status != 200 {
			t.Fatalf("%d %v", status, v)
		}
		refuse("/completion", `{"prompt":"x","model":"poet"}`, 404, "want one of base, a")
	}
	// A request may have eight.
	nine := `[{"id":0}`
	for i := range 8 {
		if status, v := s.post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"p%d","lora_path":"poet.gguf"}`, i)); status != 200 {
			t.Fatalf("%d %v", status, v)
		}
		nine += fmt.Sprintf(`,{"id":%d}`, i+1)
	}
	nine += "]"
	refuse("/completion", `{"prompt":"x","lora":`+nine+`}`, 400, "lora: too many adapters: 9 at once, want at most 8")
	refuse("/lora-adapters", nine, 400, "9 adapters at once, want at most 8")
	many := "b=" + adapter
	for i := range 8 {
		many += fmt.Sprintf(",b%d=%s", i, adapter)
	}
	quern(t, "run", "-m", model, "-p", "x", "--lora", many).refused(t, exitUsage, "--lora: 9 adapters at once, want at most 8")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--lora", many}, "--lora: 9 adapters at once, want at most 8; a server may have more with --lora-init-without-apply"},
		{[]string{"--lora", model}, "not an adapter"},
		{[]string{"--lora", "none.gguf"}, "none.gguf"},
		{[]string{"--lora-scaled", adapter}, "want FILE:SCALE"},
		{[]string{"--lora-scaled", adapter + ":x"}, "no scale"},
		{[]string{"--lora", adapter + "," + adapter}, "two adapters are called"},
	} {
		r := quern(t, append([]string{"serve", "-m", model, "--host", filepath.Join(t.TempDir(), "s.sock")}, tt.args...)...)
		if r.code == 0 || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%v: %d %s, want %s", tt.args, r.code, r.stderr, tt.want)
		}
	}
}

// A request by an adapter's name loads the model again that was unloaded, with the adapter: without it, the answer would be
// another, or there would be no such name.
func TestAdapterOfUnloadedModel(t *testing.T) {
	t.Parallel()
	model := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	adapter := testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf")
	for _, flags := range [][]string{nil, {"--lora-dir", t.TempDir()}} {
		s := serve(t, "", append(flags, "-m", "base="+model, "--lora-scaled", "poet="+adapter+":2.5", "--lora-init-without-apply")...)
		ask := func(name string) any {
			t.Helper()
			status, v := s.post("/completion", fmt.Sprintf(`{"model":%q,"prompt":"Once upon a time","temperature":0,"n_predict":60,"ignore_eos":true}`, name))
			if status != 200 {
				t.Errorf("%v, %s: %d %v", flags, name, status, v)
			}
			return v["content"]
		}
		plain, poem := ask("base"), ask("poet")
		if plain == poem {
			t.Fatalf("the adapter changes nothing: %q", plain)
		}
		if status, v := s.post("/models/unload", `{"model":"base"}`); status != 200 {
			t.Errorf("%d %v", status, v)
		}
		if !s.eventually(func() bool {
			_, list := s.get("/v1/models")
			return strings.Contains(list, `"value":"unloaded"`)
		}) {
			t.Error("the model is not unloaded")
		}
		if again := ask("poet"); again != poem {
			t.Errorf("%v: %q, before the model was unloaded %q", flags, again, poem)
		}
	}
}
