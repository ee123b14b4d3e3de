package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// statuses returns the models of a server and how far each is.
func (s *service) statuses() string {
	s.t.Helper()
	var list struct {
		Data []struct {
			ID     string
			Status struct {
				Value, Reason string
				Failed        bool
			}
		}
	}
	s.read("/models", &list)
	var all []string
	for _, m := range list.Data {
		one := m.ID + " " + m.Status.Value
		if m.Status.Failed {
			one += " failed"
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

// until waits until a model is as it should be.
func (s *service) until(want string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.statuses(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("models %s, want %s among them", s.statuses(), want)
		}
	}
}

// A folder of models and a file of presets are served by name: loaded on request, asleep unused, awake again with the text
// that the model says alone. What is broken is listed, and disturbs nothing.
func TestServeFolder(t *testing.T) {
	t.Parallel()
	files := copies(t, "a.gguf", "b.gguf")
	dir := filepath.Dir(files[0])
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, content []byte) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("cut.gguf", whole[:len(whole)/2])
	put("none.gguf", []byte("this is no model"))
	put("in a folder/model.gguf", whole)
	put("in a folder/mmproj-model.gguf", []byte("no model"))
	put("notes.txt", []byte("no model"))
	presets := filepath.Join(t.TempDir(), "models.ini")
	ini := fmt.Sprintf("version = 1\n\n; for all\n[*]\nc = 512\njinja = true\n\n[b]\nLLAMA_ARG_CTX_SIZE = 256\nno-mmap = true\n\n[own]\nmodel = %s\nalias = mine, my own\nload-on-startup = true\nport = 1\n", files[1])
	if err := os.WriteFile(presets, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "", "--models-dir", dir, "--models-preset", presets, "--sleep-idle-seconds", "1")
	s.until("own loaded")
	if got := s.statuses(); got != "a unloaded, b unloaded, cut unloaded failed, in a folder unloaded, none unloaded failed, own loaded" && !strings.Contains(got, "own sleeping") {
		t.Errorf("models %s", got)
	}
	if !s.logged("line 16: port is for the whole server") {
		t.Error("a preset's port is not in the log")
	}
	want := strings.TrimSuffix(succeed(t, "run", "-m", files[0], "-p", "The dog", "--temp", "0", "-n", "20", "--ignore-eos"), "\n")
	const ask = `{"model":%q,"prompt":"The dog","temperature":0,"n_predict":20,"ignore_eos":true}`
	says := func(model string) {
		t.Helper()
		if status, v := s.post("/completion", fmt.Sprintf(ask, model)); status != 200 || v["content"] != want {
			t.Errorf("%s: %d %v, want %q", model, status, v, want)
		}
	}
	var wg sync.WaitGroup
	for _, model := range []string{"a", "b", "in a folder", "mine", "my own"} {
		wg.Go(func() { says(model) })
	}
	wg.Wait()
	var memory struct {
		Purposes []struct {
			Purpose string
			Bytes   int
		}
	}
	s.read("/v1/memory", &memory)
	for _, p := range memory.Purposes {
		if p.Purpose == "packed weights" && p.Bytes > len(whole)*3/2 {
			t.Errorf("the same weights under four names take %d bytes, the file has %d", p.Bytes, len(whole))
		}
	}
	for model, ctx := range map[string]float64{"a": 512, "b": 256} {
		var p struct {
			Defaults struct {
				Ctx float64 `json:"n_ctx"`
			} `json:"default_generation_settings"`
		}
		if s.read("/props?model="+model, &p); p.Defaults.Ctx != ctx {
			t.Errorf("%s has a context of %g, want %g", model, p.Defaults.Ctx, ctx)
		}
	}
	for model, words := range map[string]string{"cut": "cut.gguf", "none": "none.gguf", "../a": "want one of", "a.gguf": "want one of", "": "want one of"} {
		if status, v := s.post("/completion", fmt.Sprintf(ask, model)); status < 400 || !strings.Contains(fmt.Sprint(v), words) {
			t.Errorf("%q: %d %v", model, status, v)
		}
	}
	s.until("a sleeping, b sleeping")
	says("a")
	if status, v := s.post("/models/unload", `{"model":"b"}`); status != 200 {
		t.Errorf("unloading b: %d %v", status, v)
	}
	s.until("b unloaded")
	if out := succeed(t, "ps", "--host", s.socket); !strings.Contains(out, "own") || !strings.Contains(out, "sleeping") || strings.Contains(out, "\nb ") {
		t.Errorf("ps: %s", out)
	}
	// The folder may change: a model that is new, one that is gone, one that is another.
	put("new.gguf", whole)
	put("none.gguf", whole)
	os.Remove(files[0])
	if status, text := s.get("/models?reload=1"); status != 200 {
		t.Errorf("reload: %d %s", status, text)
	}
	if got := s.statuses(); strings.HasPrefix(got, "a ") || !strings.Contains(got, "new unloaded") || !strings.Contains(got, "none unloaded") || strings.Contains(got, "none unloaded failed") {
		t.Errorf("after the folder changed: %s", got)
	}
	says("new")
	says("none")
}

// Files and flags that make no sense are refused with one line.
func TestServeFolderRefuses(t *testing.T) {
	t.Parallel()
	file := copies(t, "a.gguf")[0]
	dir := t.TempDir()
	ini := func(text string) string {
		f, err := os.CreateTemp(dir, "*.ini")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprint(f, text)
		return f.Name()
	}
	twice := t.TempDir()
	for _, name := range []string{"x.gguf", "x/y.gguf"} {
		_ = os.Mkdir(filepath.Join(twice, "x"), 0o755)
		if err := os.WriteFile(filepath.Join(twice, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--models-dir", "no-such-folder"}, []string{"--models-dir", "no-such-folder"}},
		{[]string{"--models-dir", file}, []string{"--models-dir", "not a folder"}},
		{[]string{"--models-dir", twice}, []string{`"x"`, "x.gguf", "rename"}},
		{[]string{"--models-preset", "no-such-file"}, []string{"--models-preset", "no-such-file"}},
		{[]string{"--models-preset", dir}, []string{"--models-preset"}},
		{[]string{"--models-preset", ini("[a\n")}, []string{"line 1", "[NAME]"}},
		{[]string{"--models-preset", ini("\n[a]\nmodel\n")}, []string{"line 3", "KEY = VALUE"}},
		{[]string{"--models-preset", ini("[a]\nmodel = x\n[b]\nmodel = y\n[a]\n")}, []string{"line 5", "[a]", "line 1"}},
		{[]string{"--models-preset", ini("[a]\nmodel = x\nctx-sice = 5\n")}, []string{"line 3", "ctx-sice", "no such flag"}},
		{[]string{"--models-preset", ini("[a]\nmodel = x\nctx-size = -5\n")}, []string{"line 3", "ctx-size", "0 to"}},
		{[]string{"--models-preset", ini("[a]\nctx-size = 5\n")}, []string{"line 1", "[a]", "model = FILE"}},
		{[]string{"--models-preset", ini("version = 2\n")}, []string{"line 1", "want 1"}},
		{[]string{"--models-preset", ini("[a]\nmodel = x\nload-on-startup = maybe\n")}, []string{"line 3", "on or off"}},
		{[]string{"--models-preset", ini(strings.Repeat("x", 2<<20))}, []string{"larger than"}},
		{[]string{"-m", file, "--models-dir", filepath.Dir(file)}, []string{`"a"`}},
		{[]string{"--models-max", "-1"}, []string{"--models-max", "0 to"}},
		{[]string{"--sleep-idle-seconds", "0"}, []string{"--sleep-idle-seconds", "-1"}},
		{[]string{"--keep-alive", "x"}, []string{"--keep-alive"}},
	} {
		r := quern(t, append([]string{"serve", "--host", filepath.Join(dir, "q.sock"), "--log-level", "off"}, tt.args...)...)
		r.refused(t, 2, tt.words...)
	}
}

// Models that do not fit together as they are have turns: requests, loads, unloads and clients that leave disturb no other,
// and memory returns to what it was. Keys and values are most of what a model takes, so that the program's own memory, which
// is measured and not reserved, may be several times as large as it is.
func TestModelsTakeTurns(t *testing.T) {
	files := copies(t, "a.gguf", "b.gguf", "c.gguf")
	s := serve(t, "", "--models-dir", filepath.Dir(files[0]), "--memory", "200M", "--kv-memory", "64M", "--parallel", "4", "-c", "512", "--keep-alive", "300ms")
	want := strings.TrimSuffix(succeed(t, "run", "-m", files[0], "-p", "Lily", "--temp", "0", "-n", "8", "--ignore-eos"), "\n")
	var memory struct {
		Purposes []struct{ Purpose string }
		Models   []struct{ ID string }
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			for range 6 {
				model := string(rune('a' + r.IntN(3)))
				body := fmt.Sprintf(`{"model":%q,"prompt":"Lily","temperature":0,"n_predict":8,"ignore_eos":true}`, model)
				switch r.IntN(6) {
				case 0:
					s.post("/models/unload", fmt.Sprintf(`{"model":%q}`, model))
				case 1: // a client that leaves
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(50))*time.Millisecond)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, "POST", "http://quern/completion", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					if resp, err := s.client.Do(req); err == nil {
						resp.Body.Close()
					}
				default:
					if status, v := s.post("/completion", body); status != 200 || v["content"] != want {
						t.Errorf("%s: %d %v, want %q", model, status, v, want)
					}
				}
			}
		})
	}
	wg.Wait()
	s.until("a unloaded, b unloaded, c unloaded")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.read("/v1/memory", &memory); fmt.Sprint(memory.Purposes) == "[{the program}]" && len(memory.Models) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("taken in the end: %+v", memory)
		}
	}
}

// A model is unloaded when the streams that use it have ended, and one that does not fit even alone is refused.
func TestUnloadWaits(t *testing.T) {
	files := copies(t, "a.gguf", "b.gguf")
	presets := filepath.Join(t.TempDir(), "models.ini")
	if err := os.WriteFile(presets, fmt.Appendf(nil, "[big]\nmodel = %s\nkv-memory = 900G\n", files[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "", "--models-dir", filepath.Dir(files[0]), "--models-preset", presets, "-c", "1024")
	resp, err := s.client.Post("http://quern/completion", "application/json", strings.NewReader(`{"model":"a","prompt":"Once","stream":true,"n_predict":900,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Scan()
	if status, v := s.post("/models/unload", `{"model":"a"}`); status != 200 {
		t.Fatal(status, v)
	}
	n := 1
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data: ") {
			n++
		}
	}
	if n < 100 {
		t.Errorf("the stream had %d events", n)
	}
	s.until("a unloaded")
	if status, v := s.post("/completion", `{"model":"big","prompt":"x"}`); status != 500 || !strings.Contains(fmt.Sprint(v), "keys and values") || !strings.Contains(fmt.Sprint(v), "are free") {
		t.Errorf("one that does not fit: %d %v", status, v)
	}
	if got := s.statuses(); !strings.Contains(got, "big unloaded failed") {
		t.Errorf("models %s", got)
	}
}
