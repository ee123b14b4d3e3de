package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const mario = `FROM demo
SYSTEM """You are Mario.
Be brief."""
PARAMETER temperature 0
PARAMETER num_predict 8
PARAMETER num_ctx 4096
MESSAGE user Hi
MESSAGE assistant Hello!
`

// spoken returns what the program answers to a conversation, greedily and in eight tokens.
func spoken(t *testing.T, s *service, messages string) string {
	t.Helper()
	status, v := s.post("/v1/chat/completions", `{"model":"demo","temperature":0,"max_tokens":8,"messages":[`+messages+`]}`)
	if status != 200 {
		t.Fatalf("%d %v", status, v)
	}
	return pathOf(v, "choices", 0, "message", "content")
}

// pathOf returns a text within an answer.
func pathOf(v any, path ...any) string {
	for _, at := range path {
		switch at := at.(type) {
		case string:
			v, _ = v.(map[string]any)
			v = v.(map[string]any)[at]
		case int:
			list, _ := v.([]any)
			if at >= len(list) {
				return fmt.Sprintf("no element %d", at)
			}
			v = list[at]
		}
	}
	return fmt.Sprint(v)
}

// A persona that the command stores has its system prompt, its example turns and its parameters in every API, and all its
// requests run on the engine of its model.
func TestPersonaEverywhere(t *testing.T) {
	t.Parallel()
	env := []string{"QUERN_MODEL_CACHE=" + t.TempDir()}
	r := invocation{args: []string{"create", "mario", "-f", "-"}, stdin: mario, env: env}.run(t)
	if r.code != 0 || r.stdout != "mario: made from demo\n" || !strings.Contains(r.stderr, "num_ctx: stored, without effect") {
		t.Fatalf("%d %q %q", r.code, r.stdout, r.stderr)
	}
	s := serveWith(t, env, "")
	const system, examples = `{"role":"system","content":"You are Mario.\nBe brief."}`, `{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello!"}`
	const hello = `{"role":"user","content":"Hello there"}`
	want := spoken(t, s, system+","+examples+","+hello)
	plain, own := spoken(t, s, hello), spoken(t, s, `{"role":"system","content":"Be loud."},`+examples+","+hello)
	if want == plain || want == own || own == plain {
		t.Fatalf("the prompts make no difference: %q, %q, %q", want, plain, own)
	}
	for _, c := range []struct {
		path, body string
		at         []any
		want       string
	}{
		{"/v1/chat/completions", `{"messages":[` + hello + `]}`, []any{"choices", 0, "message", "content"}, want},
		{"/v1/chat/completions", `{"messages":[{"role":"system","content":"Be loud."},` + hello + `]}`, []any{"choices", 0, "message", "content"}, own},
		{"/chat/completions", `{"messages":[` + hello + `]}`, []any{"choices", 0, "message", "content"}, want},
		{"/v1/responses", `{"input":"Hello there"}`, []any{"output", 0, "content", 0, "text"}, want},
		{"/v1/responses", `{"input":"Hello there","instructions":"Be loud."}`, []any{"output", 0, "content", 0, "text"}, own},
		{"/v1/messages", `{"max_tokens":8,"messages":[` + hello + `]}`, []any{"content", 0, "text"}, want},
		{"/v1/messages", `{"max_tokens":8,"system":"Be loud.","messages":[` + hello + `]}`, []any{"content", 0, "text"}, own},
		{"/api/chat", `{"stream":false,"messages":[` + hello + `]}`, []any{"message", "content"}, want},
		{"/api/chat", `{"stream":false,"messages":[{"role":"system","content":"Be loud."},` + hello + `]}`, []any{"message", "content"}, own},
		{"/api/generate", `{"stream":false,"prompt":"Hello there"}`, []any{"response"}, want},
		{"/api/generate", `{"stream":false,"prompt":"Hello there","system":"Be loud."}`, []any{"response"}, own},
	} {
		status, v := s.post(c.path, `{"model":"mario",`+c.body[1:])
		if status != 200 || pathOf(v, c.at...) != c.want {
			t.Errorf("%s %s: %d %v, want %q", c.path, c.body, status, v, c.want)
		}
		if name := fmt.Sprint(v["model"]); name != "mario" {
			t.Errorf("%s: the answer is of %q", c.path, name)
		}
	}
	// The request's own settings go before the persona's.
	if status, v := s.post("/api/chat", `{"model":"mario:latest","stream":false,"options":{"num_predict":2},"messages":[`+hello+`]}`); status != 200 || v["eval_count"] != 2.0 {
		t.Errorf("two tokens: %d %v", status, v)
	}
	if status, v := s.post("/v1/completions", `{"model":"mario","prompt":"Once"}`); status != 200 || pathOf(v, "usage", "completion_tokens") != "8" {
		t.Errorf("a text: %d %v", status, v)
	}
	// The prefix cache is the model's: the conversation was there under the model's name.
	_, v := s.post("/v1/chat/completions", `{"model":"demo","max_tokens":1,"messages":[`+system+","+examples+","+hello+`]}`)
	if cached := pathOf(v, "usage", "prompt_tokens_details", "cached_tokens"); cached == "0" {
		t.Errorf("nothing of the prompt was cached: %v", v)
	}
	var use struct {
		Models []struct {
			ID       string
			Personas []string
		}
	}
	if s.read("/v1/memory", &use); fmt.Sprint(use.Models) != "[{demo [mario]}]" {
		t.Errorf("in memory: %v", use.Models)
	}
	var list struct {
		Data []struct{ ID, Parent string }
	}
	if s.read("/v1/models", &list); fmt.Sprint(list.Data) != "[{demo } {mario demo}]" {
		t.Errorf("models %v", list.Data)
	}
	var one struct{ ID, Parent string }
	if s.read("/v1/models/mario", &one); one.ID != "mario" || one.Parent != "demo" {
		t.Errorf("model %v", one)
	}
	var props struct {
		Alias    string `json:"model_alias"`
		Defaults struct {
			Params struct{ Temperature float64 }
		} `json:"default_generation_settings"`
	}
	if s.read("/props?model=mario", &props); props.Alias != "mario" || props.Defaults.Params.Temperature != 0 {
		t.Errorf("props %+v", props)
	}
	if status, v := s.post("/models/unload", `{"model":"mario"}`); status != 200 {
		t.Errorf("unload: %d %v", status, v)
	}
	for from := time.Now(); s.statuses() != "demo unloaded, mario unloaded"; time.Sleep(10 * time.Millisecond) {
		if time.Since(from) > 20*time.Second { // requests that have been answered may hold it for a moment
			t.Fatalf("unloaded: %s", s.statuses())
		}
	}
	if status, v := s.post("/v1/chat/completions", `{"model":"mario","messages":[`+hello+`]}`); status != 200 || pathOf(v, "choices", 0, "message", "content") != want {
		t.Errorf("loaded again: %d %v", status, v)
	}
}

// Clients of Ollama's API make, list, show, copy and remove personas.
func TestCreateAPI(t *testing.T) {
	cache := t.TempDir()
	s := serveWith(t, []string{"QUERN_MODEL_CACHE=" + cache}, "")
	status, lines := s.lines("POST", "/api/create", `{"model":"mario","from":"demo","system":"You are Mario.","parameters":{"temperature":0,"stop":["!"]},`+
		`"messages":[{"role":"user","content":"Hi"}],"license":["MIT","or so"]}`)
	if status != 200 || len(lines) < 2 || lines[len(lines)-1]["status"] != "success" {
		t.Fatalf("%d %v", status, lines)
	}
	if status, lines := s.lines("POST", "/api/create", `{"model":"luigi:latest","from":"mario:latest","system":"You are Luigi.","stream":false}`); status != 200 || lines[0]["status"] != "success" {
		t.Errorf("one of another: %d %v", status, lines)
	}
	if status, lines := s.lines("POST", "/api/copy", `{"source":"mario","destination":"copy"}`); status != 200 {
		t.Errorf("copy: %d %v", status, lines)
	}
	var tags struct {
		Models []struct {
			Name    string
			Details struct {
				Parent string `json:"parent_model"`
			}
		}
	}
	if s.read("/api/tags", &tags); fmt.Sprint(tags.Models) != "[{demo:latest {}} {copy:latest {demo}} {luigi:latest {demo}} {mario:latest {demo}}]" {
		t.Errorf("tags %v", tags.Models)
	}
	if s.read("/api/ps", &tags); len(tags.Models) != 4 {
		t.Errorf("ps %v", tags.Models)
	}
	_, v := s.post("/api/show", `{"model":"luigi"}`)
	for name, want := range map[string]string{
		"system": "You are Luigi.", "license": "MIT\nor so", "messages": "[map[content:Hi role:user]]",
		"parameters": "stop                           \"!\"\ntemperature                    0",
		"modelfile":  "FROM demo\nSYSTEM You are Luigi.\nPARAMETER stop !\nPARAMETER temperature 0\nMESSAGE user Hi\nLICENSE \"\"\"MIT\nor so\"\"\"\n",
	} {
		if got := fmt.Sprint(v[name]); got != want {
			t.Errorf("show: %s is %q, want %q", name, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"model":"a"}`:                                                           "from: missing",
		`{"from":"demo"}`:                                                         "model: missing",
		`{"model":"a","from":"nope"}`:                                             "model 'nope' not found",
		`{"model":"../a","from":"demo"}`:                                          "model: the name",
		`{"model":"demo","from":"demo"}`:                                          "model: the name",
		`{"model":"a","from":"demo","template":"x"}`:                              `template: the string "x" is not supported yet, want none: templates are`,
		`{"model":"a","from":"demo","files":{"a.gguf":"sha256:0"}}`:               "files: ",
		`{"model":"a","from":"demo","adapters":{"a":"b"}}`:                        "quern merge-lora",
		`{"model":"a","from":"demo","quantize":"q4_K_M"}`:                         "quern quantize",
		`{"model":"a","modelfile":"FROM demo"}`:                                   "quern create -f",
		`{"model":"a","from":"demo","parameters":{"heat":1}}`:                     "no parameter",
		`{"model":"a","from":"demo","parameters":{"temperature":"hot"}}`:          "temperature: got",
		`{"model":"a","from":"demo","parameters":{"top_p":7}}`:                    "top_p: 7, want",
		`{"model":"a","from":"demo","parameters":{"num_predict":-5}}`:             "n_predict: -5, want",
		`{"model":"a","from":"demo","messages":[{"role":"robot","content":"x"}]}`: "the role",
	} {
		if status, lines := s.lines("POST", "/api/create", body); status < 400 || status > 404 || !strings.Contains(fmt.Sprint(lines[0]["error"]), want) {
			t.Errorf("%s: %d %v, want %q", body, status, lines, want)
		}
	}
	// A file of another program, or a damaged one, is left out, and its name is not the model's. Of one with a parameter
	// that no request could have, that is left out.
	for name, text := range map[string]string{
		"bad": "{", "orphan": `{"version":1,"name":"orphan","from":"gone"}`, "hot": `{"version":1,"name":"hot","from":"demo","parameters":{"top_p":7}}`,
	} {
		if err := os.WriteFile(filepath.Join(cache, "personas", name+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, text := s.get("/models?reload=1"); status != 200 || strings.Contains(text, "orphan") || !strings.Contains(text, `"hot"`) {
		t.Errorf("reload: %d %s", status, text)
	}
	for _, want := range []string{"bad.json", "there is no gone, which it is made from", "top_p: 7, want"} {
		s.logged(want)
	}
	for _, name := range []string{"mario", "copy", "luigi:latest", "bad"} {
		if status, lines := s.lines("DELETE", "/api/delete", `{"model":"`+name+`"}`); status != 200 {
			t.Errorf("delete %s: %d %v", name, status, lines)
		}
	}
	if status, lines := s.lines("POST", "/api/show", `{"model":"mario"}`); status != 404 {
		t.Errorf("show of a removed one: %d %v", status, lines)
	}
}

// The commands that show and change what is here know personas, and chat and run take their settings.
func TestPersonaCommands(t *testing.T) {
	env := []string{"QUERN_MODEL_CACHE=" + t.TempDir()}
	dir := t.TempDir()
	with := func(args ...string) result { return invocation{args: args, env: env}.run(t) }
	fine := func(args ...string) string {
		t.Helper()
		r := with(args...)
		if r.code != 0 || r.stderr != "" {
			t.Fatalf("quern %q: %d, %s", args, r.code, r.stderr)
		}
		return r.stdout
	}
	file := copies(t, "tale.gguf")[0]
	path := filepath.Join(dir, "Modelfile")
	if err := os.WriteFile(path, []byte("FROM "+file+"\nSYSTEM You are Mario. Be brief.\nPARAMETER temperature 0\nPARAMETER stop you\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fine("create", "mario", "-f", path, "-n", "8", "--parameter", "top_k=1")
	fine("cp", "mario", "wario")
	if got := fine("ls"); !strings.Contains(got, "persona of "+file) || !strings.Contains(got, "wario") {
		t.Errorf("list %q", got)
	}
	var shown struct {
		From    string
		Persona struct{ Parameters map[string]any }
	}
	if err := json.Unmarshal([]byte(fine("show", "wario:latest", "--json")), &shown); err != nil || shown.From != file ||
		fmt.Sprint(shown.Persona.Parameters) != "map[num_predict:8 stop:[you] temperature:0 top_k:1]" {
		t.Errorf("show %+v, %v", shown, err)
	}
	if got := fine("show", "mario"); !strings.Contains(got, "You are Mario. Be brief.") || !strings.Contains(got, "num_predict 8") {
		t.Errorf("show %q", got)
	}
	fine("create", "blanks", "--from", "demo", "--parameter", "stop=a  b\n")
	if got := fine("show", "blanks"); !strings.Contains(got, `stop "a  b\n"`) {
		t.Errorf("show %q", got)
	}
	fine("rm", "blanks")
	flags := []string{"--temp", "0", "-n", "8", "-r", "you"}
	want := fine(append([]string{"chat", file, "-st", "-sys", "You are Mario. Be brief.", "-p", "Hello there"}, flags...)...)
	if got := fine("chat", "mario", "-st", "-p", "Hello there"); got != want {
		t.Errorf("chat says %q, want %q", got, want)
	}
	if got := fine("chat", "-m", "mario", "-st", "-p", "Hello there", "-sys", "Be loud."); got == want {
		t.Errorf("chat with another system message says %q too", got)
	}
	if got, want := fine("run", "mario", "Once upon"), fine(append([]string{"run", file, "Once upon"}, flags...)...); got != want {
		t.Errorf("run says %q, want %q", got, want)
	}
	if got, want := fine("run", "mario", "Once upon", "-n", "2"), fine("run", file, "Once upon", "-n", "2", "--temp", "0"); got != want {
		t.Errorf("run -n 2 says %q, want %q", got, want)
	}
	with("create", "x", "--from", "nope").refused(t, 1, "nope is no file, and no model in the cache")
	with("create", "x", "--from", "ollama.com/nope").refused(t, 1, "is not in the cache", "quern pull ollama.com/nope")
	with("create", "x").refused(t, 2, "--from MODEL", "-f FILE")
	with("create", "x", "--from", "demo", "--parameter", "heat=1").refused(t, 2, `there is no parameter "heat"`)
	with("create", "x", "--from", "demo", "--parameter", "top_p=7").refused(t, 1, `x: parameter top_p: got "7", want a number from 0 to 1`)
	with("create", "../x", "--from", "demo").refused(t, 1, "the name")
	for text, want := range map[string]string{"FROM demo\nADAPTER a.gguf\n": "line 2: ADAPTER is not supported", "FROM demo\nSAY x\n": `"SAY" is no instruction`, "": "no FROM"} {
		invocation{args: []string{"create", "x", "-f", "-"}, stdin: text, env: env}.run(t).refused(t, 1, want)
	}
	// A server of the file that is named twice loads it once.
	s := serveWith(t, env, "", "-m", file, "-m", "mario")
	if _, v := s.post("/v1/chat/completions", `{"model":"mario","messages":[{"role":"user","content":"Hello there"}]}`); strings.TrimSpace(pathOf(v, "choices", 0, "message", "content")) != strings.TrimSpace(want) {
		t.Errorf("served: %v, want %q", v, want)
	}
	if got := s.statuses(); got != "tale loaded, mario loaded" {
		t.Errorf("served: %s", got)
	}
	var use struct{ Models []struct{ ID string } }
	if s.read("/v1/memory", &use); len(use.Models) != 1 {
		t.Errorf("in memory: %v", use.Models)
	}
	alone := serveWith(t, env, "", "-m", "mario")
	if _, v := alone.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hello there"}]}`); strings.TrimSpace(pathOf(v, "choices", 0, "message", "content")) != strings.TrimSpace(want) {
		t.Errorf("served alone: %v, want %q", v, want)
	}
	fine("rm", "mario", "wario")
	with("show", "mario").refused(t, 1, "mario: it is not in the cache")
}

// Ollama's client for Node stores personas.
func TestCreateNodeClient(t *testing.T) {
	runNode(t, serveWith(t, []string{"QUERN_MODEL_CACHE=" + t.TempDir()}, "", "--host", "127.0.0.1", "--port", "0"), "ollama-create.mjs")
}
