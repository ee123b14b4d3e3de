package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// get returns the status and the body of an address of the service.
func (s *service) get(path string) (int, string) { return s.withKey("", "GET", path, "") }

// A command line of llama-server starts a server that does what it says.
func TestServeTakesALlamaServerCommandLine(t *testing.T) {
	dir := t.TempDir()
	logged := filepath.Join(dir, "log")
	site := filepath.Join(dir, "site")
	if err := os.MkdirAll(filepath.Join(site, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"site/index.html": "<p>ours</p>", "site/sub/a.txt": "a file", "secret": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(site, "link")); err != nil {
		t.Fatal(err)
	}
	s := serve(t, demo.Name, "-c", "512", "-np", "4", "-ngl", "99", "-fa", "on", "--jinja", "-b", "2048", "-ub", "64", "--no-mmap", "-cb", "-kvu",
		"-ctk", "q5_1", "--temperature", "0", "--n-predict", "8", "-a", "quick, fast,quick", "--tags", "small,ours", "--log-file", logged, "-lv", "4", "--offline", "--no-slots",
		"-r", "zzz", "-l", "5-inf", "--samplers", "top_k;top_p;temperature", "--ignore-eos", "--reasoning", "off", "--path", site,
		"--api-key", "second-secret", "--mirostat", "0", "--sse-ping-interval", "-1",
		"--dry-multiplier", "0.5", "--dry-sequence-breaker", "x", "--xtc-probability", "0.25", "--typical", "0.5", "--adaptive-decay", "0.5")
	status, text := s.withKey("second-secret", "GET", "/props", "")
	var props struct {
		Defaults struct {
			Params map[string]any
			Ctx    int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Alias string `json:"model_alias"`
		Slots int    `json:"total_slots"`
	}
	if err := json.Unmarshal([]byte(text), &props); err != nil || status != 200 {
		t.Fatalf("%d %v: %s", status, err, text)
	}
	if props.Alias != "fast" || props.Slots != 4 || props.Defaults.Ctx != 512 {
		t.Errorf("alias %q, %d slots, context %d", props.Alias, props.Slots, props.Defaults.Ctx)
	}
	if _, models := s.withKey("second-secret", "GET", "/v1/models", ""); !strings.Contains(models, `"id":"fast","aliases":["fast","quick"],"tags":["small","ours"]`) || !strings.Contains(models, `"n_ctx":512`) {
		t.Errorf("the models are %s", models)
	}
	if bias, err := json.Marshal(props.Defaults.Params["logit_bias"]); err != nil || !strings.Contains(string(bias), `{"bias":null,"token":5}`) {
		t.Errorf("logit_bias is %s, %v", bias, err)
	}
	for name, want := range map[string]any{"temperature": 0.0, "n_predict": 8.0, "ignore_eos": true, "n_probs": 0.0,
		"dry_multiplier": 0.5, "xtc_probability": 0.25, "typical_p": 0.5, "adaptive_decay": 0.5} {
		if got := props.Defaults.Params[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if stop, _ := props.Defaults.Params["stop"].([]any); len(stop) != 1 || stop[0] != "zzz" {
		t.Errorf("stop is %v", props.Defaults.Params["stop"])
	}
	for name, want := range map[string]string{"samplers": "[top_k top_p temperature]", "dry_sequence_breakers": "[x]"} {
		if got := fmt.Sprint(props.Defaults.Params[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if status, text := s.withKey("second-secret", "GET", "/v1/models/quick", ""); status != 200 || !strings.Contains(text, `"id":"fast"`) || !strings.Contains(text, `"tags":["small","ours"]`) {
		t.Errorf("the model by its other name: %d %s", status, text)
	}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/": {200, "<p>ours</p>"}, "/sub/a.txt": {200, "a file"}, "/sub": {401, ""}, "/link": {401, ""}, "/../secret": {401, ""}, "/none": {401, ""},
		"/health": {200, ""},
	} {
		if status, text := s.get(path); status != want.status || !strings.Contains(text, want.text) || strings.HasPrefix(text, "secret") {
			t.Errorf("%s: %d %q, want %d %q", path, status, text, want.status, want.text)
		}
	}
	file, err := os.ReadFile(logged)
	if err != nil {
		t.Fatal(err)
	}
	for name, log := range map[string]string{"standard error": s.log.String(), "the file": string(file)} {
		for text, want := range map[string]int{
			"-ngl 99 has no effect": 1, "--cache-type-k q5_1: q8_0 is used": 1,
			"--parallel does not divide it": 1, "\"full_prompt_ms\":": 1, "--flash-attn": 0, "--jinja": 0, "--offline": 0, "--mirostat": 0, "second-secret": 0,
		} {
			if got := strings.Count(log, text); got != want {
				t.Errorf("%s has %q %d times, want %d:\n%s", name, text, got, want, log)
			}
		}
	}
}

// The defaults that flags give are what requests have that do not say otherwise.
func TestServeDefaultsOfRequests(t *testing.T) {
	plain := serve(t, demo.Name, "--temp", "0", "-n", "40")
	_, v := plain.post("/completion", `{"prompt":"Once upon a time"}`)
	whole, _ := v["content"].(string)
	words := strings.Fields(whole)
	if len(words) < 8 {
		t.Fatalf("only %q came", whole)
	}
	s := serve(t, demo.Name, "--temp", "0", "-n", "40", "-r", " "+words[5], "--no-cache-prompt")
	status, v := s.post("/completion", `{"prompt":"Once upon a time"}`)
	if content, _ := v["content"].(string); status != 200 || v["stop_type"] != "word" || strings.Contains(content, words[5]) {
		t.Errorf("%d %v, want an answer that ends before %q", status, v, words[5])
	}
	status, v = s.post("/completion", `{"prompt":"Once upon a time","stop":[]}`)
	if status != 200 || v["content"] != whole {
		t.Errorf("%d %v, want %q: the request says that nothing ends the answer", status, v["content"], whole)
	}
	if cached, _ := v["timings"].(map[string]any); cached["cache_n"] != 0.0 {
		t.Errorf("%v tokens came from the cache, which is off", cached["cache_n"])
	}
}

func TestServeRefusesWhatItCannotDo(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"-hff", "a.gguf"}, []string{"--hf-file a.gguf", "--hf-repo"}},
		{[]string{"-hf", "a"}, []string{"hf.co/a", "want hf.co/ORG/REPO"}},
		{[]string{"-hfd", "a/b", "-md", "c.gguf"}, []string{"--model-draft c.gguf", "--hf-repo-draft a/b"}},
		{[]string{"--grammar", "root ::= ("}, []string{"--grammar"}},
		{[]string{"--grammar", "root ::= \"a\"", "-j", "{}"}, []string{"--grammar", "--json-schema"}},
		{[]string{"-j", "{"}, []string{"--json-schema", "in the middle of its JSON"}},
		{[]string{"-jf", "/nope.json"}, []string{"--json-schema-file", "/nope.json"}},
		{[]string{"--mmproj", "x.gguf", "--mmproj-url", "https://h/y.gguf"}, []string{"--mmproj x.gguf", "--mmproj-url"}},
		{[]string{"--rope-scaling", "longer"}, []string{"--rope-scaling", "none, linear or yarn"}},
		{[]string{"--reasoning-budget", "-2"}, []string{"--reasoning-budget", "from -1"}},
		{[]string{"-ngl99"}, []string{"-ngl 99"}},
		{[]string{"-ngl"}, []string{"n-gpu-layers"}},
		{[]string{"--threads-http", "many"}, []string{"--threads-http", "whole number"}},
		{[]string{"-l", "x"}, []string{"--logit-bias", "15043+1.5"}},
		{[]string{"-l", "99999999+1"}, []string{"--logit-bias 99999999+1", "0 to"}},
		{[]string{"--chat-template-kwargs", "[]"}, []string{"--chat-template-kwargs", "JSON object"}},
		{[]string{"--samplers", "temperature;luck"}, []string{"--samplers", "luck", "top_k"}},
		{[]string{"--dry-sequence-breaker", strings.Repeat("-", 41)}, []string{"--dry-sequence-breaker", "40 bytes"}},
		{[]string{"--mirostat", "3"}, []string{"--mirostat", "from 0 to 2"}},
		{[]string{"--sampler-seq", "q"}, []string{"--sampler-seq", "q"}},
		{[]string{"--reasoning-effort", "much"}, []string{"--reasoning-effort", "low"}},
		{[]string{"--log-file", "/nonexistent/log"}, []string{"--log-file", "/nonexistent/log"}},
		{[]string{"--path", "/nonexistent"}, []string{"--path", "/nonexistent"}},
		{[]string{"--cpu-range", "8000-8100"}, []string{"--cpu-range", "quern doctor"}},
		{[]string{"--cpu-range", "0-0", "-t", "2"}, []string{"--threads 2", "--cpu-range"}},
		{[]string{"--cpu-mask", "x"}, []string{"--cpu-mask", "0xf"}},
		{[]string{"--no-such-flag"}, []string{"--no-such-flag", "quern help serve"}},
	} {
		quern(t, append([]string{"serve", "-m", demo.Name, "--host", filepath.Join(t.TempDir(), "s.sock")}, tt.args...)...).refused(t, exitUsage, tt.want...)
	}
	invocation{args: []string{"serve", "-m", demo.Name}, env: []string{"LLAMA_ARG_AGENT=on"}}.run(t).refused(t, exitUsage, "LLAMA_ARG_AGENT", "--agent")
}

func TestBenchTakesLlamaFlags(t *testing.T) {
	args := []string{"bench", "-m", demo.Name, "-p", "8", "-n", "0", "-r", "1", "--no-roofline", "--no-warmup", "-o", "json"}
	r := quern(t, append(args, "-ngl", "99", "-mmp", "1", "-nkvo", "1", "-ncmoe", "2", "-v", "--prio", "0")...)
	if r.code != 0 || !strings.Contains(r.stdout, `"n_prompt": 8`) || !strings.Contains(r.stderr, "-ncmoe 2, -ngl 99 have no effect: there is no GPU") || strings.Count(r.stderr, "\n") != 2 {
		t.Errorf("exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	if r := quern(t, append(args, "-mmp", "0")...); r.code != 0 || r.stderr != "" {
		t.Errorf("exit code %d, %q", r.code, r.stderr)
	}
	quern(t, append(args, "-embd", "1")...).refused(t, exitUsage, "-embd", "leave the flag out")
}

// Scripts give these to all programs of llama.cpp.
func TestToolsTakeLlamaFlags(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("Once upon a time there was a dog. ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	usual := []string{"-ngl", "99", "-fa", "on", "--no-mmap", "--no-warmup", "-s", "1", "--log-disable"}
	for _, args := range [][]string{
		{"perplexity", "-f", text, "-c", "32"}, {"imatrix", "-f", text, "-c", "32", "-o", filepath.Join(t.TempDir(), "m.imatrix")}, {"embed", "-p", "a dog"},
	} {
		args = append(args, "-m", demo.Name)
		if r := quern(t, append(args, usual...)...); r.code != 0 || !strings.Contains(r.stderr, "-ngl 99 has no effect") {
			t.Errorf("%q: exit code %d, %q, %q", args, r.code, r.stdout, r.stderr)
		}
		quern(t, append(args, "--mmproj", "x")...).refused(t, exitUsage, "--mmproj", "does not do that")
	}
}

// The other commands take the flags of llama-cli that they share with the server.
func TestRunTakesLlamaFlags(t *testing.T) {
	want := succeed(t, "run", "-m", demo.Name, "-p", "Once", "--temp", "0", "-n", "8")
	r := quern(t, "run", "-m", demo.Name, "-p", "Once", "--temperature", "0", "--n-predict", "8", "-ngl", "99", "-fa", "on", "-t", "-1", "-Cr", "0-")
	if r.code != 0 || r.stdout != want || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "-ngl 99 has no effect") {
		t.Errorf("exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	if got := succeed(t, "run", "-m", demo.Name, "-p", "Once", "--temp", "0", "-n", "8", "-no-cnv", "--no-display-prompt", "--jinja"); got != want {
		t.Errorf("as llama-completion: %q, want %q", got, want)
	}
	once := succeed(t, "chat", "-m", demo.Name, "-p", "Hello", "--temp", "0", "-n", "8", "-st", "-cnv")
	system := filepath.Join(t.TempDir(), "system.txt")
	if err := os.WriteFile(system, []byte("Be brief.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	more := invocation{args: []string{"chat", "-m", demo.Name, "--temp", "0", "-n", "8", "-st", "-sysf", system}, stdin: "Hello\nAgain\n"}.run(t)
	if once == "" || strings.Count(once, "\n") != strings.Count(more.stdout, "\n") {
		t.Errorf("single turns: %q and %q", once, more.stdout)
	}
	quern(t, "run", "-m", demo.Name, "-p", "Once", "-cnv").refused(t, exitUsage, "-cnv", "quern chat")
	quern(t, "chat", "-m", demo.Name, "--no-conversation").refused(t, exitUsage, "--no-conversation", "quern run")
	quern(t, "perplexity", "-m", demo.Name, "--lora", "x").refused(t, exitUsage, "--lora")
	quern(t, "chat", "-m", demo.Name, "-p", "Once", "-lcd", "x").refused(t, exitUsage, "-lcd")
	for _, name := range []string{"serve", "run", "chat"} {
		if out := succeed(t, name, "--version"); !strings.HasPrefix(out, "quern ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s --version prints %q", name, out)
		}
		if out := succeed(t, name, "--usage"); !strings.Contains(out, "--model") {
			t.Errorf("%s --usage prints %q", name, out)
		}
	}
}
