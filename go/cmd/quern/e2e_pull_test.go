package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/quern-llm/quern/go/demo"
)

// A hubSite is Hugging Face and Ollama's registry with a few models.
type hubSite struct {
	*httptest.Server
	files map[string][]byte
	sent  atomic.Int64
	hold  func(sent int64) // called while a file is sent; nil: not
	plain bool             // no ranges
}

// newHubSite serves models by the paths of their files in the repository org/repo, and as Ollama's "tiny".
func newHubSite(t *testing.T, models map[string][]byte) *hubSite {
	t.Helper()
	s := &hubSite{files: map[string][]byte{}}
	type lfs struct {
		SHA256 string `json:"sha256"`
		Size   int    `json:"size"`
	}
	type sibling struct {
		Path string `json:"rfilename"`
		LFS  lfs    `json:"lfs"`
	}
	var siblings []sibling
	for path, b := range models {
		sum := sha256.Sum256(b)
		siblings = append(siblings, sibling{path, lfs{hex.EncodeToString(sum[:]), len(b)}})
		s.files["/org/repo/resolve/c0ffee/"+path] = b
		digest := "sha256:" + hex.EncodeToString(sum[:])
		s.files["/v2/library/tiny/blobs/"+digest] = b
		s.files["/v2/library/tiny/manifests/latest"] = fmt.Appendf(nil, `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":%q,"size":%d}]}`, digest, len(b))
	}
	about, err := json.Marshal(map[string]any{"sha": "c0ffee", "siblings": siblings})
	if err != nil {
		t.Fatal(err)
	}
	s.files["/api/models/org/repo/revision/main"] = about
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *hubSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"one"`)
	if s.plain {
		r.Header.Del("Range")
	}
	http.ServeContent(&heldWriter{w, s}, r, "", time.Time{}, bytes.NewReader(b))
}

type heldWriter struct {
	http.ResponseWriter
	s *hubSite
}

func (w *heldWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	if sent := w.s.sent.Add(int64(n)); w.s.hold != nil {
		w.ResponseWriter.(http.Flusher).Flush()
		w.s.hold(sent)
	}
	return n, err
}

// environment points the program at the site, and at a cache of its own.
func (s *hubSite) environment(t *testing.T) []string {
	return []string{"HF_ENDPOINT=" + s.URL, "QUERN_OLLAMA_ENDPOINT=" + s.URL, "QUERN_MODEL_CACHE=" + t.TempDir()}
}

// A model is pulled, listed, copied, run by all of its names and removed, and what is not there is asked for or refused.
func TestPull(t *testing.T) {
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": demo.GGUF()})
	env := s.environment(t)
	with := func(args ...string) result { return invocation{args: args, env: env}.run(t) }
	fine := func(args ...string) string {
		t.Helper()
		r := with(args...)
		if r.code != 0 {
			t.Fatalf("quern %q: exit code %d, %s", args, r.code, r.stderr)
		}
		return r.stdout
	}
	want := succeed(t, "run", "-m", "demo", "-p", "The dog", "--temp", "0", "-n", "8")
	says := func(args ...string) {
		t.Helper()
		if got := fine(append([]string{"run", "-p", "The dog", "--temp", "0", "-n", "8"}, args...)...); got != want {
			t.Errorf("%q says %q, want %q", args, got, want)
		}
	}
	with("run", "-m", "hf.co/org/repo", "x").refused(t, 1, "hf.co/org/repo:Q4_K_M is not in the cache (2.9 MB)", "quern pull", "--yes")
	with("run", "-m", "hf.co/org/repo", "--yes", "--offline", "x").refused(t, 1, "hf.co/org/repo", "--offline")
	with("run", "-m", "hf.co/org/repo:Q8_0", "x").refused(t, 1, "no model is Q8_0, want one of :Q4_K_M")
	with("run", "-m", "tiny", "x").refused(t, 1, "tiny is no file, and no model in the cache", "hf.co/")
	with("run", "-m", "hf.co/../repo", "x").refused(t, 2, "want hf.co/ORG/REPO")
	with("run", "-m", "demo", "-hf", "org/repo", "x").refused(t, 2, "both name a model")
	with("run", "-hff", "a.gguf", "x").refused(t, 2, "--hf-repo")
	with("run", "-m", "demo", "-md", "hf.co/org/repo", "x").refused(t, 1, "hf.co/org/repo:Q4_K_M is not in the cache", "--yes")
	with("run", "-m", "demo", "-hfd", "org/repo", "--offline", "x").refused(t, 1, "hf.co/org/repo", "--offline")
	with("serve", "--fim-qwen-7b-spec", "--offline").refused(t, 1, "hf.co/ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF", "--offline")
	with("pull", "--memory", "5M", "hf.co/org/repo").refused(t, 1, "hf.co/org/repo:Q4_K_M", "--force")
	if n := s.sent.Load(); n >= int64(len(demo.GGUF())) {
		t.Errorf("%d bytes came of a model that does not fit", n)
	}
	for answer, want := range map[string]string{"n": "was not downloaded", "": strings.ReplaceAll(strings.TrimSpace(want), "\n", "\r\n")} {
		cmd := exec.Command(program, "run", "-m", "hf.co/org/repo", "-p", "The dog", "--temp", "0", "-n", "8")
		cmd.Env = append(cleanEnvironment(), append(env, "TERM=xterm")...)
		file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 300})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(file, answer+"\n")
		shown, _ := io.ReadAll(file) // ends with an error, as terminals do
		cmd.Wait()
		file.Close()
		if s := string(shown); !strings.Contains(s, "hf.co/org/repo:Q4_K_M is not here: download it, 2.9 MB, to ") || !strings.Contains(s, want) {
			t.Errorf("answered %q: %q, want %q", answer, s, want)
		}
		with("rm", "hf.co/org/repo")
	}
	if got := fine("pull", "hf.co/org/repo"); got != "hf.co/org/repo:Q4_K_M: 2.9 MB\n" {
		t.Errorf("pull: %q", got)
	}
	says("-m", "hf.co/org/repo")
	says("-m", "org/repo:q4_k_m", "--offline")
	says("-hf", "org/repo")
	says("-m", "demo", "-md", "hf.co/org/repo")
	says("-m", "demo", "-hfd", "org/repo", "--offline")
	fine("cp", "hf.co/org/repo", "mine")
	says("-m", "mine")
	for args, want := range map[string]string{"rm o": "org/repo:Q4_K_M\n:0\n", "run -m mi": "mine\n:0\n", "cp m": "mine\n:0\n", "cp mine o": ":0\n"} {
		if got := fine(append([]string{"__complete"}, strings.Fields(args)...)...); got != want {
			t.Errorf("%s is completed by %q, want %q", args, got, want)
		}
	}
	var list []struct{ Name, Source, Architecture string }
	if err := json.Unmarshal([]byte(fine("list", "--json")), &list); err != nil || fmt.Sprint(list) != "[{hf.co/org/repo:Q4_K_M hf.co/org/repo:Q4_K_M llama} {mine hf.co/org/repo:Q4_K_M llama}]" {
		t.Errorf("list: %v, %v", list, err)
	}
	if got := fine("show", "mine"); !strings.Contains(got, "hf.co/org/repo:Q4_K_M") || !strings.Contains(got, "sha256") {
		t.Errorf("show: %s", got)
	}
	if got := fine("rm", "hf.co/org/repo"); got != "hf.co/org/repo:Q4_K_M: removed, 0 B freed\n" {
		t.Errorf("rm of one of two: %q", got)
	}
	says("-m", "mine")
	fine("rm", "mine")
	with("rm", "mine").refused(t, 1, "mine", "not in the cache")
	if got := fine("list", "--json"); got != "[]\n" {
		t.Errorf("after rm: %s", got)
	}
	s.sent.Store(0)
	says("-m", "ollama.com/tiny", "--yes")
	says("-hf", "org/repo") // whose file is there
	if n := s.sent.Load(); n > int64(len(demo.GGUF()))+10_000 {
		t.Errorf("%d bytes came of a file of %d", n, len(demo.GGUF()))
	}
	says("-mu", s.URL+"/org/repo/resolve/c0ffee/tiny-Q4_K_M.gguf")
}

// An architecture that is not known is found out before the model is downloaded.
func TestPullUnknown(t *testing.T) {
	b := bytes.Clone(demo.GGUF())
	key := []byte("general.architecture")
	at := bytes.Index(b, key) + len(key) + 4 + 8
	copy(b[at:], "xlama")
	s := newHubSite(t, map[string][]byte{"tiny.gguf": b})
	env := s.environment(t)
	invocation{args: []string{"pull", "hf.co/org/repo"}, env: env}.run(t).refused(t, 1, "hf.co/org/repo/tiny.gguf", "xlama", "--force")
	if n := s.sent.Load(); n >= int64(len(b)) {
		t.Errorf("%d bytes of %d came", n, len(b))
	}
	if r := (invocation{args: []string{"pull", "--force", "hf.co/org/repo"}, env: env}).run(t); r.code != 0 {
		t.Errorf("--force: %s", r.stderr)
	}
}

// After kill -9 nothing has its final name, and the next pull goes on.
func TestPullKilled(t *testing.T) {
	b := demo.GGUF()
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": b})
	env := s.environment(t)
	half, killed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.hold = func(sent int64) {
		if sent > 2_000_000 {
			once.Do(func() { close(half) })
			<-killed
		}
	}
	cmd := exec.Command(program, "pull", "hf.co/org/repo")
	cmd.Env = append(cleanEnvironment(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	// What came is recorded within a few seconds.
	records := filepath.Join(strings.TrimPrefix(env[2], "QUERN_MODEL_CACHE="), "partial", "*.json")
	recorded := func() bool {
		files, _ := filepath.Glob(records)
		if len(files) == 0 {
			return false
		}
		text, _ := os.ReadFile(files[0])
		var r struct{ Have []int64 }
		return json.Unmarshal(text, &r) == nil && len(r.Have) > 0 && r.Have[0] > 1_000_000
	}
	for deadline := time.Now().Add(time.Minute); !recorded(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what came is not recorded")
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	close(killed)
	s.sent.Store(0)
	list := func() string { return invocation{args: []string{"list", "--json"}, env: env}.run(t).stdout }
	if got := list(); got != "[]\n" {
		t.Errorf("listed: %s", got)
	}
	if r := (invocation{args: []string{"pull", "hf.co/org/repo"}, env: env}).run(t); r.code != 0 || !strings.Contains(list(), "tiny-Q4_K_M.gguf") {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	if n := s.sent.Load(); n > int64(len(b))-1_000_000 {
		t.Errorf("%d bytes of %d came again", n, len(b))
	}
}

// lines are those of JSON that answer a request.
func (s *service) lines(method, path, body string) (status int, all []map[string]any) {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://quern"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var v map[string]any
		if line != "" && json.Unmarshal([]byte(line), &v) != nil {
			s.t.Fatalf("%s %s: %s", method, path, line)
		}
		all = append(all, v)
	}
	return res.StatusCode, all
}

// Settings of a registry that this program cannot use are left out, which is said in a line, and the model is used with
// the others.
func TestPullOddSettings(t *testing.T) {
	s := newHubSite(t, map[string][]byte{"tiny.gguf": demo.GGUF()})
	const params = `{"of_the_future":1,"top_p":7,"num_predict":4,"temperature":0}`
	sum := sha256.Sum256([]byte(params))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	s.files["/v2/library/tiny/blobs/"+digest] = []byte(params)
	manifest := s.files["/v2/library/tiny/manifests/latest"]
	s.files["/v2/library/tiny/manifests/latest"] = fmt.Appendf(bytes.TrimSuffix(manifest, []byte("]}")),
		`,{"mediaType":"application/vnd.ollama.image.params","digest":%q,"size":%d}]}`, digest, len(params))
	env := s.environment(t)
	with := func(args ...string) result { return invocation{args: args, env: env}.run(t) }
	const unknown = "quern: ollama.com/tiny: settings that came with it are left out: there is no parameter \"of_the_future\"\n"
	if r := with("pull", "ollama.com/tiny"); r.code != 0 || !strings.HasSuffix(r.stderr, unknown) {
		t.Fatalf("pull: %d %q", r.code, r.stderr)
	}
	want := with("run", "Once upon", "--temp", "0", "-n", "4").stdout
	const wide = "quern: the model's parameter top_p: got \"7\", want a number from 0 to 1; it is left out\n"
	if r := with("create", "mine", "--from", "tiny"); r.code != 0 {
		t.Fatalf("create: %d %q", r.code, r.stderr)
	}
	for _, name := range []string{"tiny", "mine"} {
		if r := with("run", "-m", name, "Once upon"); r.code != 0 || r.stderr != wide || r.stdout != want {
			t.Errorf("run %s: %d %q %q, want %q", name, r.code, r.stderr, r.stdout, want)
		}
	}
	q := serveWith(t, env, "")
	for _, name := range []string{"tiny", "mine"} {
		status, v := q.post("/v1/completions", `{"model":"`+name+`","prompt":"Once upon"}`)
		if status != 200 || pathOf(v, "usage", "completion_tokens") != "4" {
			t.Errorf("served %s: %d %v", name, status, v)
		}
	}
	q.logged("a setting is left out: parameters: top_p: 7, want")
}

// Clients of a server download models as llama-server's and Ollama's do, use them and remove them.
func TestServePulls(t *testing.T) {
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": demo.GGUF()})
	env := s.environment(t)
	q := serveWith(t, env, "")
	if got := q.statuses(); got != "demo loaded" {
		t.Errorf("before: %s", got)
	}
	res, err := q.client.Get("http://quern/models/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	events := make(chan string, 1000)
	go func() {
		defer close(events)
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if line, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				events <- line
			}
		}
	}()
	until := func(want string) {
		t.Helper()
		for e := range events {
			if strings.Contains(e, `"event":"`+want+`"`) {
				return
			}
			if strings.Contains(e, "failed") {
				t.Fatal(e)
			}
		}
		t.Fatalf("no event %s", want)
	}
	const ask = `{"model":%q,"prompt":"The dog","temperature":0,"n_predict":8}`
	_, first := q.post("/completion", fmt.Sprintf(ask, "demo"))
	says := func(model string) {
		t.Helper()
		if status, v := q.post("/completion", fmt.Sprintf(ask, model)); status != 200 || v["content"] != first["content"] {
			t.Errorf("%s: %d %v", model, status, v)
		}
	}
	for body, want := range map[string]int{`{"model":"org/none"}`: 404, `{"model":"https://example.com/a.gguf"}`: 400, `{"model":"oci://example.com/a"}`: 400, `{"model":"../x"}`: 400, `{}`: 400} {
		if status, v := q.post("/models", body); status != want {
			t.Errorf("%s: %d %v", body, status, v)
		}
	}
	if status, v := q.post("/models", `{"model":"org/repo"}`); status != 200 || v["success"] != true {
		t.Fatal(status, v)
	}
	until("download_progress")
	until("download_finished")
	says("org/repo:Q4_K_M")
	says("hf.co/org/repo:Q4_K_M")
	status, lines := q.lines("POST", "/api/pull", `{"model":"tiny"}`)
	if n := len(lines); status != 200 || lines[0]["status"] != "pulling manifest" || lines[n-1]["status"] != "success" {
		t.Errorf("/api/pull: %d %v", status, lines)
	}
	if status, lines = q.lines("POST", "/api/pull", `{"model":"none","stream":false}`); status != 404 || lines[0]["error"] == nil {
		t.Errorf("/api/pull of none: %d %v", status, lines)
	}
	if status, lines = q.lines("POST", "/api/copy", `{"source":"tiny:latest","destination":"mine"}`); status != 200 {
		t.Errorf("/api/copy: %d %v", status, lines)
	}
	says("mine")
	if status, lines = q.lines("POST", "/api/copy", `{"source":"none","destination":"other"}`); status != 404 || !strings.HasPrefix(fmt.Sprint(lines[0]["error"]), "model 'none' not found, want one of ") {
		t.Errorf("/api/copy of none: %d %v", status, lines)
	}
	if status, lines = q.lines("POST", "/api/copy", `{"source":"tiny","destination":"../x"}`); status != 400 {
		t.Errorf("/api/copy to a path: %d %v", status, lines)
	}
	for _, del := range [][3]string{{"DELETE", "/api/delete", `{"model":"mine:latest"}`}, {"DELETE", "/models?model=org/repo:Q4_K_M", ""}} {
		if status, lines := q.lines(del[0], del[1], del[2]); status != 200 {
			t.Errorf("%v: %d %v", del, status, lines)
		}
		if status, lines := q.lines(del[0], del[1], del[2]); status != 404 {
			t.Errorf("%v again: %d %v", del, status, lines)
		}
	}
	if status, lines := q.lines("DELETE", "/models?model=demo", ""); status != 400 {
		t.Errorf("what is not in the cache: %d %v", status, lines)
	}
	presets := filepath.Join(t.TempDir(), "models.ini")
	if err := os.WriteFile(presets, []byte("[short]\nmodel = ollama.com/tiny\nc = 256\n[tiny]\nc = 512\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := serveWith(t, env, "", "--models-preset", presets, "--no-models-pull").statuses(); got != "short unloaded, tiny unloaded" {
		t.Errorf("with presets: %s", got)
	}
	// A preset may have the downloaded model that it is of left out of the list, not of what may be asked.
	if err := os.WriteFile(presets, []byte("[*]\ndedup-cache-models = on\n[short]\nmodel = ollama.com/tiny\nc = 256\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	covered := serveWith(t, env, "", "--models-preset", presets, "--no-models-pull")
	if got := covered.statuses(); got != "short unloaded" {
		t.Errorf("with dedup-cache-models: %s", got)
	}
	if status, v := covered.post("/tokenize", `{"model":"tiny","content":"hello"}`); status != 200 {
		t.Errorf("what is not listed: %d %v", status, v)
	}
	if got := q.statuses(); !strings.HasPrefix(got, "demo loaded, tiny ") || strings.Contains(got, "repo") || strings.Contains(got, "mine") {
		t.Errorf("after: %s", got)
	}
}

// A repository may have presets of models in place of a model: they are served, with the models that they name, and offline too. They
// name nothing of this machine.
func TestServePresetsOfARepository(t *testing.T) {
	const preset = "[*]\ntemp = 0\n[short]\nhf-repo = org/repo:Q4_K_M\nctx-size = 256\nngl = 99\n"
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": demo.GGUF(), "preset.ini": []byte(preset)})
	env := s.environment(t)
	for _, offline := range []string{"", "--offline"} {
		args := []string{"-hf", "org/repo"}
		if offline != "" {
			args = append(args, offline)
		}
		q := serveWith(t, env, "", args...)
		if got := q.statuses(); got != "short unloaded, org/repo:Q4_K_M unloaded" {
			t.Errorf("%q: %s", args, got)
		}
		if status, v := q.post("/models/load", `{"model":"short"}`); status != 200 {
			t.Errorf("%d %v", status, v)
		}
		var props struct {
			Defaults struct {
				Ctx    int `json:"n_ctx"`
				Params struct {
					Temp float64 `json:"temperature"`
				} `json:"params"`
			} `json:"default_generation_settings"`
		}
		if q.read("/props?model=short", &props); props.Defaults.Ctx != 256 || props.Defaults.Params.Temp != 0 {
			t.Errorf("%+v", props)
		}
	}
	// A model of the repository that is named by its file is one.
	if got := serveWith(t, env, "", "-hf", "org/repo", "-hff", "tiny-Q4_K_M.gguf").statuses(); !strings.HasSuffix(got, " loaded") || strings.Contains(got, "short") {
		t.Errorf("by its file: %s", got)
	}
	for line, want := range map[string]string{ // the exit code, and words
		"model = /etc/passwd":              "2 line 2: model: presets of a server name no files",
		"chat-template-file = /etc/passwd": "2 line 2: chat-template-file: presets of a server name no files",
		"lora-scaled = /etc/passwd:1":      "2 line 2: lora-scaled: presets of a server name no files",
		"nothing = 1":                      "2 line 2: nothing: no such flag",
		"hf-repo = org/none":               "1 line 1: [a]: hf.co/org/none",
		"no key":                           "2 line 2",
	} {
		s := newHubSite(t, map[string][]byte{"preset.ini": []byte("[a]\n" + line + "\n")})
		invocation{args: []string{"serve", "-hf", "org/repo", "--port", "0"}, env: s.environment(t)}.run(t).refused(t, int(want[0]-'0'), want[2:])
	}
}

// Names are arguments of commands that read models, as they are of -m: of what is downloaded then, and of what is there.
func TestNamesAsArguments(t *testing.T) {
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": demo.GGUF()})
	env, dir := s.environment(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	with := func(args ...string) result { return invocation{args: args, env: env}.run(t) }
	fine := func(args ...string) {
		t.Helper()
		if r := with(args...); r.code != 0 {
			t.Fatalf("quern %q: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	for _, args := range [][]string{
		{"quantize", "--yes", "hf.co/org/repo", "Q4_K_M"}, {"quantize", "--yes", "--target-bpw", "5", "hf.co/org/repo"}, {"quantize", "--yes", "hf.co/org/repo", at("x"), "Q9"},
		{"quantize", "--yes", "--tensor-type", "a=Q9", "hf.co/org/repo", at("x"), "Q8_0"},
		{"pack", "--yes", "hf.co/org/repo"}, {"split", "--yes", "hf.co/org/repo", at("x"), "--split", "--merge"},
		{"merge-lora", "--yes", "hf.co/org/repo", "hf.co/org/repo"}, {"merge-lora", "--yes", "hf.co/org/repo", "hf.co/org/repo:nan", "-o", at("x")},
	} {
		with(args...).refused(t, 2)
	}
	if n := s.sent.Load(); n > 0 {
		t.Errorf("%d bytes came for arguments that are wrong", n)
	}
	with("split", "hf.co/org/repo", at("part")).refused(t, 1, "hf.co/org/repo:Q4_K_M is not in the cache", "--yes")
	with("pack", "nothing", at("x")).refused(t, 1, "nothing is no file, and no model in the cache")
	fine("split", "--yes", "hf.co/org/repo", at("part"), "--split-max-tensors", "20")
	fine("join", globbed(t, at("part-00001-of-*")), at("whole.gguf"))
	if b, err := os.ReadFile(at("whole.gguf")); err != nil || !bytes.Equal(b, demo.GGUF()) {
		t.Errorf("in parts and joined it is %d bytes, %v", len(b), err)
	}
	fine("cp", "hf.co/org/repo", "mine")
	fine("pack", "mine", at("packed.gguf"), "--offline")
	fine("quantize", "mine", at("small.gguf"), "Q8_0", "--allow-requantize", "--dry-run")
	with("quantize", "mine", "Q8_0").refused(t, 2, "mine is in the cache", "quern quantize mine OUT")
	with("merge-lora", "mine", "hf.co/org/repo:0.5", "-o", at("merged.gguf")).refused(t, 1, "not an adapter")
	want := succeed(t, "run", "-m", "demo", "-p", "The dog", "--temp", "0", "-n", "8")
	if got := succeed(t, "run", "-m", at("packed.gguf"), "-p", "The dog", "--temp", "0", "-n", "8"); got != want {
		t.Errorf("packed it says %q, want %q", got, want)
	}
}

// A proxyServer passes requests on to a site, whatever host they name.
type proxyServer struct {
	*httptest.Server
	to       string
	requests atomic.Int64
}

func (p *proxyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	if r.Method != http.MethodConnect {
		site := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: p.to})
		site.ServeHTTP(w, r)
		return
	}
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		io.Copy(out, in)
		out.Close()
	}()
	io.Copy(in, out)
}

// Proxies are used as the environment has them, also for servers behind TLS, and not for hosts that NO_PROXY names.
func TestPullThroughProxy(t *testing.T) {
	s := newHubSite(t, map[string][]byte{"tiny-Q4_K_M.gguf": demo.GGUF()})
	secure := httptest.NewTLSServer(s)
	t.Cleanup(secure.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, endpoint, to string
		env                func(proxy string) []string
		through            bool
	}{
		{"http", "http://hub.invalid", s.Listener.Addr().String(), func(p string) []string { return []string{"HTTP_PROXY=" + p} }, true},
		{"https", "https://example.com", secure.Listener.Addr().String(), func(p string) []string { return []string{"HTTPS_PROXY=" + p, "SSL_CERT_FILE=" + roots} }, true},
		{"no proxy", "http://hub.invalid", s.Listener.Addr().String(), func(p string) []string { return []string{"HTTP_PROXY=" + p, "NO_PROXY=.invalid"} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &proxyServer{to: c.to}
			p.Server = httptest.NewServer(p)
			t.Cleanup(p.Close)
			env := append(c.env(p.URL), "HF_ENDPOINT="+c.endpoint, "QUERN_MODEL_CACHE="+t.TempDir())
			r := invocation{args: []string{"pull", "hf.co/org/repo"}, env: env}.run(t)
			if (r.code == 0) != c.through || (p.requests.Load() > 0) != c.through {
				t.Errorf("exit code %d, %s; %d requests came to the proxy", r.code, r.stderr, p.requests.Load())
			}
		})
	}
}
