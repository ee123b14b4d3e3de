package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// copies returns the paths of files with the model inside the program.
func copies(t *testing.T, names ...string) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		if r := quern(t, "export-demo", path); r.code != 0 {
			t.Fatal(r.stderr)
		}
		paths = append(paths, path)
	}
	return paths
}

// read decodes what a GET endpoint answers into v.
func (s *service) read(path string, v any) {
	s.t.Helper()
	if status, text := s.get(path); status != 200 || json.Unmarshal([]byte(text), v) != nil {
		s.t.Fatalf("%s: %d %s", path, status, text)
	}
}

// Two models are served at a time, each by its name, and say what they say alone.
func TestServeSeveralModels(t *testing.T) {
	t.Parallel()
	files := copies(t, "a.gguf", "some.gguf")
	s := serve(t, "", "-m", files[0], "-m", "b="+files[1], "--alias", "main,first", "--slot-save-path", t.TempDir())
	var wg sync.WaitGroup
	for _, prompt := range []string{"Once upon a time", "The dog", "Lily and her mom"} {
		want := succeed(t, "run", "-m", files[0], "-p", prompt, "--temp", "0", "-n", "40", "--ignore-eos")
		for _, name := range []string{"first", "main", "b"} {
			wg.Go(func() {
				status, v := s.post("/completion", fmt.Sprintf(`{"model":%q,"prompt":%q,"temperature":0,"n_predict":40,"ignore_eos":true}`, name, prompt))
				if got := v["content"]; status != 200 || got != strings.TrimSuffix(want, "\n") {
					t.Errorf("%s, %q: %d %q, want %q", name, prompt, status, got, want)
				}
			})
		}
	}
	wg.Wait()
	if status, v := s.post("/v1/completions", `{"prompt":"x","model":"gpt-4"}`); status != 404 || !strings.Contains(fmt.Sprint(v), "want one of first, b") {
		t.Errorf("an unknown model: %d %v", status, v)
	}
	var list struct {
		Data []struct {
			ID      string
			Aliases []string
		}
	}
	s.read("/v1/models", &list)
	if got := fmt.Sprint(list.Data); got != "[{first [first main]} {b []}]" {
		t.Errorf("models %s", got)
	}
	var props struct {
		Alias string `json:"model_alias"`
		Path  string `json:"model_path"`
	}
	if s.read("/props?model=b", &props); props.Alias != "b" || props.Path != files[1] {
		t.Errorf("props of b: %+v", props)
	}
	// What one keeps is its own: the text of a slot goes from a to b by a file.
	if status, v := s.post("/slots/0?action=save&model=b", `{"filename":"x"}`); status != 200 {
		t.Errorf("saving a slot of b: %d %v", status, v)
	}
	if status, v := s.post("/slots/0?action=restore&model=first", `{"filename":"x"}`); status != 200 {
		t.Errorf("restoring it in a: %d %v", status, v)
	}
	for name, least := range map[string]float64{"first": 6 * 40, "b": 3 * 40} {
		if got := s.value(fmt.Sprintf("llamacpp:tokens_predicted_total{model=%q}", name)); got != least {
			t.Errorf("%s generated %g tokens, want %g", name, got, least)
		}
		if !s.logged(fmt.Sprintf(`"model":%q`, name)) {
			t.Errorf("the log does not name %s", name)
		}
	}
	if s.cmd.Process.Signal(os.Interrupt); s.wait() != 0 {
		t.Errorf("it ended with %d", s.wait())
	}
}

// What does not go together is refused with one line.
func TestSeveralModelsRefused(t *testing.T) {
	t.Parallel()
	files := copies(t, "a.gguf", "b.gguf")
	socket := filepath.Join(t.TempDir(), "q.sock")
	for _, tt := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"-m", files[0], "-m", files[0]}, 2, []string{`"a"`, "NAME=FILE"}},
		{[]string{"-m", files[0], "-m", "a=" + files[1]}, 2, []string{`"a"`, "NAME=FILE"}},
		{[]string{"-m", files[0], "-m", files[1], "--alias", "b"}, 2, []string{`"b"`}},
		{[]string{"-m", "=" + files[0]}, 2, []string{"--model", "NAME=FILE"}},
		{[]string{"-m", "x="}, 2, []string{"--model", "GGUF"}},
		{[]string{"-m", files[0], "-m", "x=no-such.gguf"}, 1, []string{"no-such.gguf"}},
		// Each fits alone.
		{[]string{"-m", files[0], "-m", files[1], "--kv-memory", "200M", "--memory", "350M"}, 1, []string{files[1], "need", "350", "limit"}},
	} {
		r := quern(t, append([]string{"serve", "--host", socket, "--log-level", "off"}, tt.args...)...)
		r.refused(t, tt.code, tt.words...)
	}
}

// Where memory was not divided by flags, the first model leaves room for the second.
func TestModelsShareMemory(t *testing.T) {
	files := copies(t, "a.gguf", "b.gguf")
	s := serve(t, "", "-m", files[0], "-m", files[1], "--memory", "300M", "--parallel", "4")
	for _, name := range []string{"a", "b"} {
		if kv := s.value(fmt.Sprintf(`quern_kv_bytes{model=%q,state="free"}`, name)); kv < 1<<20 {
			t.Errorf("%s has %g bytes for keys and values", name, kv)
		}
	}
}

// An embedding model beside a chat model costs what it costs alone, purpose by purpose, and a second file with the same matrices
// has none of its own.
func TestModelsCostTheirBytes(t *testing.T) {
	t.Parallel()
	files := copies(t, "chat.gguf", "again.gguf")
	embedding := modelPath(t, "tiny-random-bert-cls-f16.gguf")
	used := func(files ...string) (memoryUse, map[string]uint64) {
		t.Helper()
		args := []string{"--memory", "500M", "--kv-memory", "8M"}
		for _, f := range files {
			args = append(args, "-m", f)
		}
		s := serve(t, "", args...)
		for _, f := range files {
			name, text := strings.TrimSuffix(filepath.Base(f), ".gguf"), "Once upon a time there was a cat"
			path, body := "/completion", fmt.Sprintf(`{"model":%q,"prompt":%q,"n_predict":8}`, name, text)
			if f == embedding {
				path, body = "/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":%q}`, name, text)
			}
			if status, v := s.post(path, body); status != 200 {
				t.Fatalf("%s: %d %v", f, status, v)
			}
		}
		var u memoryUse
		s.read("/v1/memory", &u)
		by := map[string]uint64{}
		for _, p := range u.Purposes {
			if p.Purpose != "the program" {
				by[p.Purpose] = p.Bytes
			}
		}
		return u, by
	}
	chat, alone := used(files[0])
	_, own := used(embedding)
	both, together := used(files[0], embedding)
	for purpose, n := range together {
		if want := alone[purpose] + own[purpose]; n != want {
			t.Errorf("%s: %d bytes together, want %d", purpose, n, want)
		}
	}
	const slack = 24 << 20 // for two heaps of Go, which are as large as they happen to be
	if costs := both.Models[1].Bytes; both.Anonymous > chat.Anonymous+costs+slack {
		t.Errorf("%d bytes are in memory, %d without the embedding model, which takes %d", both.Anonymous, chat.Anonymous, costs)
	}
	_, twice := used(files...)
	if one, two := alone["packed weights"], twice["packed weights"]; one == 0 || two*4 > one*5 {
		t.Errorf("packed weights are %d bytes in one file, %d in two that are the same", one, two)
	}
}
