package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
)

// A service is "quern serve" as a process of its own, at a socket.
type service struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *http.Client
	log    *lockedBuffer
	socket string
	done   chan struct{} // closed when it has ended
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts the program with the demo or a model of the test data, without one
// where that is empty, and waits until it is ready.
func serve(t *testing.T, model string, args ...string) *service {
	t.Helper()
	return serveWith(t, nil, model, args...)
}

// serveWith is serve with variables in the environment.
func serveWith(t *testing.T, env []string, model string, args ...string) *service {
	t.Helper()
	return serveProgram(t, program, env, model, args...)
}

// serveProgram is serveWith for another program that runs this one.
func serveProgram(t *testing.T, program string, env []string, model string, args ...string) *service {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "q.sock")
	args = append([]string{"serve", "--host", socket}, args...)
	if model != "" {
		args = append(args, "-m", modelPath(t, model))
	}
	return begin(t, socket, append(cleanEnvironment(), env...), append([]string{program}, args...)).ready(2 * time.Minute)
}

// begin starts a process that serves at a socket, if it does, and kills it when the test ends.
func begin(t *testing.T, socket string, env, line []string) *service {
	t.Helper()
	s := newService(t, socket, exec.Command(line[0], line[1:]...))
	s.cmd.Env = env
	s.start()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			log := s.log.String()
			t.Logf("%q, the end of its log:\n%s", line, log[max(0, len(log)-4000):])
		}
	})
	return s
}

// newService returns a service that is not started.
func newService(t *testing.T, socket string, cmd *exec.Cmd) *service {
	s := &service{t: t, log: &lockedBuffer{}, socket: socket, done: make(chan struct{}), cmd: cmd}
	cmd.Stderr = s.log
	return s
}

// start starts the process. The test has to end it.
func (s *service) start() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { s.cmd.Wait(); close(s.done) }()
	s.dial()
}

// ready waits until the server serves.
func (s *service) ready(within time.Duration) *service {
	s.t.Helper()
	if s.serves(within) {
		return s
	}
	select {
	case <-s.done:
		s.t.Fatalf("it ended: %s", s.log)
	default:
		s.t.Fatalf("it is not ready after %v: %s", within, s.log)
	}
	return nil
}

// serves waits until the server serves, and reports whether it does: else it has ended, or the time is over.
func (s *service) serves(limit time.Duration) (ready bool) {
	within(limit, func() bool {
		select {
		case <-s.done:
			return true
		default:
		}
		r, err := s.client.Get("http://quern/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		ready = r.StatusCode == 200
		return ready
	})
	return ready
}

// dial makes the client, which connects to the socket.
func (s *service) dial() {
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}}
	s.t.Cleanup(s.client.CloseIdleConnections)
}

// logged waits until the log has a text: it comes through a pipe.
func (s *service) logged(text string) bool {
	return s.eventually(func() bool { return strings.Contains(s.log.String(), text) })
}

// eventually waits until ok holds, for a minute at most, and reports whether it does.
func (s *service) eventually(ok func() bool) bool { return within(time.Minute, ok) }

// within reports whether something becomes so in time.
func within(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// wait waits for the end of the process and returns its exit code.
func (s *service) wait() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("it does not end: %s", s.log)
	}
	return s.cmd.ProcessState.ExitCode()
}

// post sends a body and returns the status and the answer.
func (s *service) post(path, body string) (int, map[string]any) {
	s.t.Helper()
	r, err := s.client.Post("http://quern"+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	var v map[string]any
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	return r.StatusCode, v
}

// modelLabel is in the metrics of a model.
var modelLabel = regexp.MustCompile(`model="[^"]*",?`)

// metric returns the value of a metric of the first model, -1 when there is none.
func (s *service) metric(name string) float64 {
	s.t.Helper()
	return s.find(name, func(line string) string {
		return strings.Replace(modelLabel.ReplaceAllString(line, ""), "{}", "", 1)
	})
}

// value is metric, with all labels in the name.
func (s *service) value(name string) float64 {
	s.t.Helper()
	return s.find(name, func(line string) string { return line })
}

func (s *service) find(name string, edit func(line string) string) float64 {
	s.t.Helper()
	r, err := s.client.Get("http://quern/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(edit(lines.Text()), name+" "); ok {
			var v float64
			fmt.Sscan(value, &v)
			return v
		}
	}
	return -1
}

// A model says the same when it is served as when it is run, and many at a time
// get what each gets alone.
func TestServeText(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Name, "--vllm-metrics")
	labelled := func(name string) float64 { // whatever its labels are
		return s.find(name, func(line string) string {
			if before, labels, ok := strings.Cut(line, "{"); ok {
				return before + labels[strings.LastIndex(labels, "}")+1:]
			}
			return line
		})
	}
	var wg sync.WaitGroup
	for _, prompt := range []string{"Once upon a time", "Once upon a", "The dog", "Lily and her mom", "Once upon a time, there was", "A cat"} {
		want := succeed(t, "run", "-m", demo.Name, "-p", prompt, "--temp", "0", "-n", "60", "--ignore-eos")
		for range 3 {
			wg.Go(func() {
				status, v := s.post("/completion", fmt.Sprintf(`{"prompt":%q,"temperature":0,"n_predict":60,"ignore_eos":true}`, prompt))
				if got := v["content"]; status != 200 || got != strings.TrimSuffix(want, "\n") {
					t.Errorf("%q: %d %q, want %q", prompt, status, got, want)
				}
			})
		}
	}
	if running, waiting := labelled("vllm:num_requests_running"), labelled("vllm:num_requests_waiting"); running < 0 || waiting < 0 || running+waiting > 18 {
		t.Errorf("%g requests run and %g wait, of 18", running, waiting)
	}
	wg.Wait()
	s.post("/completion", `{"prompt":"Once upon a time","n_predict":60,"ignore_eos":true}`) // of those before it, which may all have run at once
	if got := s.metric("llamacpp:tokens_predicted_total"); got != (6*3+1)*60 {
		t.Errorf("%g tokens were counted", got)
	}
	if s.metric("quern_prompt_cached_tokens_total") <= 0 {
		t.Error("nothing of the prompts was found in the cache")
	}
	for name, want := range map[string]float64{
		"gen_ai_server_request_duration_seconds_count": 6*3 + 1, "gen_ai_server_time_to_first_token_seconds_count": 6*3 + 1,
		"gen_ai_server_time_per_output_token_seconds_count": 6*3 + 1, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0, "vllm:cache_config_info": 1,
	} {
		if !s.eventually(func() bool { return labelled(name) == want }) {
			t.Errorf("%s is %g, want %g", name, labelled(name), want)
		}
	}
	if used := labelled("vllm:kv_cache_usage_perc"); used < 0 || used > 1 {
		t.Errorf("%g of the KV memory is used", used)
	}
	if !s.eventually(func() bool { return s.metric("llamacpp:requests_processing") == 0 }) {
		t.Errorf("%g requests are left", s.metric("llamacpp:requests_processing"))
	}
}

// A model without a chat template, or with one that is wrong, is given ChatML, and
// that is said.
func TestServeWithoutTemplate(t *testing.T) {
	for template, warning := range map[any]string{
		nil:        "the model has no chat template: chatml is used; --chat-template gives another",
		"{% if %}": "the model's chat template: template line 1: ",
	} {
		s := serve(t, "", "-m", changedDemo(t, map[string]any{"tokenizer.chat_template": template}))
		status, v := s.post("/apply-template", `{"messages":[{"role":"user","content":"hi"}]}`)
		if want := "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"; status != 200 || v["prompt"] != want {
			t.Errorf("got %d %v, want %q", status, v, want)
		}
		if status, v := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":4}`); status != 200 {
			t.Errorf("got %d %v", status, v)
		}
		r, err := s.client.Get("http://quern/props")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var props struct {
			Warning  string `json:"chat_template_warning"`
			Template string `json:"chat_template"`
		}
		if err := json.NewDecoder(r.Body).Decode(&props); err != nil || !strings.HasPrefix(props.Warning, warning) || !strings.Contains(props.Template, "<|im_start|>") {
			t.Errorf("props are %+v, %v", props, err)
		}
		if !s.logged(strings.Split(warning, "'")[0]) {
			t.Error("the log does not say so")
		}
	}
}

// Where the prompt opens the reasoning, all that a model writes is that until it
// closes it, which the demo never does.
func TestReasoningOpenedByThePrompt(t *testing.T) {
	const opens = "{% for m in messages %}{{ m.content }}{% endfor %}{# <think> #}{% if add_generation_prompt %}{{ '<think>' }}{% endif %}"
	s := serve(t, demo.Name, "--chat-template", opens)
	message := func(format string) (content, reasoning string) {
		status, v := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"Once upon a time"}],"temperature":0,"max_tokens":24,"reasoning_format":"`+format+`"}`)
		if status != 200 {
			t.Fatalf("got %d %v", status, v)
		}
		m := v["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
		reasoning, _ = m["reasoning_content"].(string)
		return m["content"].(string), reasoning
	}
	whole, none := message("none")
	content, reasoning := message("auto")
	if strings.TrimSpace(whole) == "" || none != "" || content != "" || reasoning != strings.TrimSpace(whole) {
		t.Errorf("got %q and %q, want nothing and %q", content, reasoning, whole)
	}
	r := quern(t, "chat", "--chat-template", opens, "--temp", "0", "-n", "24", "-p", "Once upon a time")
	if r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, reasoning) {
		t.Errorf("chat: got code %d, %q and %q, want %q among the notes", r.code, r.stdout, r.stderr, reasoning)
	}
}

// stream begins a stream of tokens that has no end of its own, and returns its
// lines after the first token.
func (s *service) stream(body string) (*http.Response, *bufio.Scanner) {
	s.t.Helper()
	r, err := s.client.Post("http://quern/completion", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(r.Body)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "data: ") {
		s.t.Fatalf("a stream begins with %q", lines.Text())
	}
	return r, lines
}

// slow makes an answer that takes seconds: it has long prompts and many tokens.
const slow = `{"prompt":"Once upon a time","n_predict":-1,"ignore_eos":true,"stream":true,"n":%d}`

// What the document says can be had is there.
func TestServeDocument(t *testing.T) {
	s := serve(t, demo.Name, "--api-prefix", "/llm", "--batch-dir", t.TempDir())
	get := func(path string) (int, string) {
		r, err := s.client.Get("http://quern/llm" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.Header.Get("Content-Type") == "text/event-stream" { // of changes that may never come
			return r.StatusCode, ""
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	_, text := get("/openapi.json")
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/metrics", "/livez", "/readyz", "/startupz", "/v2/health/live", "/v2/health/ready", "/v2", "/health", "/v1/models", "/v1/chat/completions"} {
		if doc.Paths[path] == nil {
			t.Errorf("%s is not in the document", path)
		}
	}
	for path, methods := range doc.Paths {
		if methods["get"] == nil || strings.Contains(path, "{") {
			continue
		}
		want := 200
		if strings.HasPrefix(path, "/v1/mcp/") || strings.HasPrefix(path, "/v1/fine_tuning/") { // without --mcp and --fine-tuning
			want = 501
		}
		switch path {
		case "/tools": // without --tools
			want = 501
		case "/v1/stream": // without the name of one
			want = 400
		case "/cors-proxy": // without --ui-mcp-proxy
			want = 403
		}
		if status, body := get(path); status != want {
			t.Errorf("%s gave %d %.200s, want %d", path, status, body, want)
		}
	}
}

// A folder with one model stands for it, as KServe mounts it; one with more does not.
func TestServeSoleModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), demo.File(demo.Name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("story.gguf")
	write("mmproj-story.gguf") // none, by its name
	s := serve(t, "", "-m", dir, "--no-mmproj", "--alias", "teller")
	for path, want := range map[string]string{"/v2/health/ready": `{"ready":true}`, "/v2/models/teller/ready": `"ready":true`} {
		if status, body := s.get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, v := s.post("/completion", `{"prompt":"Once","n_predict":1}`); status != 200 {
		t.Errorf("%d %v", status, v)
	}
	write("other.gguf")
	quern(t, "serve", "-m", dir).refused(t, 1, "is a folder", "other.gguf")
}

// Who does not want the page has the rest.
func TestServeNoPage(t *testing.T) {
	s := serve(t, demo.Name, "--no-webui")
	for path, want := range map[string]int{"/": 404, "/health": 200} {
		r, err := s.client.Get("http://quern" + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
}

// A client that goes away takes its requests with it.
func TestServeClientGone(t *testing.T) {
	s := serve(t, demo.Name, "--parallel", "4")
	r, _ := s.stream(fmt.Sprintf(slow, 4))
	r.Body.Close()
	if !s.eventually(func() bool {
		return s.metric("quern_cancellations_total")+s.metric(`quern_requests_total{outcome="length"}`) > 0 && s.metric("llamacpp:requests_processing") == 0
	}) {
		t.Errorf("%g requests still run", s.metric("llamacpp:requests_processing"))
	}
}

// SIGTERM lets what runs finish; after --drain it is told that it cannot.
func TestServeStops(t *testing.T) {
	t.Parallel()
	t.Run("idle", func(t *testing.T) {
		s := serve(t, demo.Name)
		s.cmd.Process.Signal(syscall.SIGTERM)
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("while it loads", func(t *testing.T) {
		for range 5 {
			socket := filepath.Join(t.TempDir(), "q.sock")
			cmd := exec.Command(program, "serve", "--host", socket, "-m", modelPath(t, demo.Name))
			cmd.Env = cleanEnvironment()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if _, err := os.Stat(socket); err == nil { // it listens before it loads
					break
				}
			}
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		}
	})
	t.Run("finishes", func(t *testing.T) {
		s := serve(t, demo.Name)
		r, lines := s.stream(`{"prompt":"Once","n_predict":200,"ignore_eos":true,"stream":true}`)
		defer r.Body.Close()
		s.cmd.Process.Signal(syscall.SIGTERM)
		last := ""
		for lines.Scan() {
			if lines.Text() != "" {
				last = lines.Text()
			}
		}
		if !strings.Contains(last, `"stop_type":"limit"`) {
			t.Errorf("the stream ended with %q", last)
		}
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("is ended", func(t *testing.T) {
		s := serve(t, demo.Name, "--drain", "1ms")
		r, lines := s.stream(`{"prompt":"Once","n_predict":-1,"ignore_eos":true,"stream":true}`)
		defer r.Body.Close()
		s.cmd.Process.Signal(syscall.SIGTERM)
		text := ""
		for lines.Scan() {
			text += lines.Text() + "\n"
		}
		if !strings.Contains(text, "shutting down") && !strings.Contains(text, `"stop_type":"limit"`) {
			t.Errorf("the stream ended with %.300q", text)
		}
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("is reachable for a while", func(t *testing.T) {
		s := serve(t, demo.Name, "--drain-delay", "1h")
		s.cmd.Process.Signal(syscall.SIGTERM)
		if !s.eventually(func() bool { status, _ := s.get("/readyz"); return status == http.StatusServiceUnavailable }) {
			t.Error("still ready")
		}
		if status, body := s.get("/livez"); status != http.StatusOK {
			t.Errorf("/livez: %d %s", status, body)
		}
		if status, answer := s.post("/completion", `{"prompt":"Once","n_predict":1}`); status != http.StatusOK {
			t.Errorf("a request in the delay: %d %v", status, answer)
		}
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.wait()
	})
	t.Run("at once", func(t *testing.T) {
		s := serve(t, demo.Name, "--drain", "1h")
		r, _ := s.stream(`{"prompt":"Once","n_predict":-1,"ignore_eos":true,"stream":true,"n":8}`)
		defer r.Body.Close()
		if !s.eventually(func() bool { // the first begins the drain, and gives the signal back to the system
			s.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-s.done:
				return true
			default:
				return false
			}
		}) {
			t.Error("a second signal does not end it")
		}
	})
}

// serveKeys starts the program with a key of a flag and a file of keys.
func serveKeys(t *testing.T, flag, file string) *service {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return serve(t, demo.Name, "--api-key", flag, "--api-key-file", keys)
}

// withKey sends a request of somebody who has a key, or none, and returns the status and the answer.
func (s *service) withKey(key, method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://quern"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	r, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestServeKeys(t *testing.T) {
	s := serveKeys(t, "second-secret", "# ours\nfirst-secret\n")
	for _, tt := range []struct {
		key, path string
		want      int
	}{
		{"first-secret", "/props", 200}, {"second-secret", "/props", 200}, {"third-secret", "/props", 401},
		{"", "/props", 401}, {"", "/metrics", 401}, {"", "/health", 200}, {"", "/v1/models", 200}, {"", "/livez", 200}, {"", "/readyz", 200},
	} {
		if got, _ := s.withKey(tt.key, "GET", tt.path, ""); got != tt.want {
			t.Errorf("key %q, %s: %d, want %d", tt.key, tt.path, got, tt.want)
		}
	}
	if log := s.log.String(); strings.Contains(log, "secret") {
		t.Errorf("the log has a key: %s", log)
	}
}

// A key whose line in the file says user cannot change the server, and neither can one without a role beside it.
func TestServeRoles(t *testing.T) {
	s := serveKeys(t, "key-by-flag", "key-of-root admin\nkey-of-ann user\nkey-of-bob 2 priority=3\n")
	for _, tt := range []struct {
		key, path, body string
		want            int
	}{
		{"key-of-ann", "/models/unload", `{"model":"demo"}`, 403}, {"key-by-flag", "/models/unload", `{"model":"demo"}`, 403},
		{"key-of-ann", "/api/create", `{"model":"a","from":"demo"}`, 403}, {"key-of-bob", "/lora-adapters", `[]`, 403}, {"key-of-root", "/lora-adapters", `[]`, 200},
		{"key-of-ann", "/completion", shortText, 200}, {"key-of-ann", "/completion", `{"prompt":"a","n_predict":1,"priority":1}`, 403},
		{"key-of-bob", "/completion", `{"prompt":"a","n_predict":1,"priority":3}`, 200}, {"key-of-bob", "/completion", `{"prompt":"a","n_predict":1,"priority":4}`, 403},
		{"key-of-root", "/completion", `{"prompt":"a","n_predict":1,"priority":1000}`, 200}, {"key-of-root", "/models/unload", `{"model":"demo"}`, 200},
	} {
		if got, _ := s.withKey(tt.key, "POST", tt.path, tt.body); got != tt.want {
			t.Errorf("%s, %s %s: %d, want %d", tt.key, tt.path, tt.body, got, tt.want)
		}
	}
}

// Each mistake is one line that names it, before the model is loaded.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	for _, tt := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"--port", "70000"}, 2, []string{"--port", "0 to 65535"}},
		{[]string{"--port", port}, 1, []string{"port " + port, "--port"}},
		{[]string{"--host", "0.0.0.0", "--require-key"}, 2, []string{"--require-key", "--api-key"}},
		{[]string{"--host", "0.0.0.0", "--api-key", "short"}, 2, []string{"--api-key", "at least 8"}},
		{[]string{"--api-key-file", filepath.Join(dir, "none")}, 1, []string{"none"}},
		{[]string{"--api-key-file", empty}, 1, []string{"no keys"}},
		{[]string{"--ssl-cert-file", empty}, 1, []string{"--ssl-key-file"}},
		{[]string{"--ssl-cert-file", empty, "--ssl-key-file", empty}, 1, []string{"empty"}},
		{[]string{"--api-prefix", "llm"}, 2, []string{"--api-prefix", "/llm"}},
		{[]string{"--cors-origins", "x"}, 2, []string{"--cors-origins", "x"}},
		{[]string{"--slot-save-path", empty}, 2, []string{"--slot-save-path", "not a folder"}},
		{[]string{"--drain", "soon"}, 2, []string{"--drain", "seconds such as 30"}},
		{[]string{"--batch-dir", "/proc"}, 2, []string{"--batch-dir", "/proc: cannot be written to"}},
		{[]string{"--parallel", "0"}, 2, []string{"--parallel", "1 to 1024"}},
		{[]string{"--trace-endpoint", "localhost"}, 1, []string{"http://localhost:4318"}},
		{[]string{"--chat-template", "a", "--chat-template-file", "b"}, 2, []string{"--chat-template-file"}},
		{[]string{"-c", "100000", "--kv-memory", "1M"}, 1, []string{"100000 tokens"}},
		{[]string{"--host", "127.0.0.1", "extra"}, 2, []string{"extra"}},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			socket := []string{"serve", "-m", demo.Name, "--host", filepath.Join(t.TempDir(), "s.sock")}
			for _, a := range tt.args {
				if a == "--port" || a == "--host" {
					socket = []string{"serve", "-m", demo.Name}
				}
			}
			quern(t, append(socket, tt.args...)...).refused(t, tt.code, tt.want...)
		})
	}
	quern(t, "serve", "-m", "").refused(t, 2, "--model", "demo")
	quern(t, "serve", "-m", filepath.Join(dir, "none.gguf")).refused(t, 1, "none.gguf")
	quern(t, "serve", "-m", empty).refused(t, 1, "empty")
}
