package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// program are the checks of quern.exe.
func (w wine) program() []check {
	return []check{
		{"names with spaces and Cyrillic letters", w.names},
		{"a client, a kill and a restart with the disk cache", w.disk},
		{"bad input is one line", w.bad},
		{"files of a network share", w.share},
		{"a volume that is full", w.full},
		{"folders that are read-only", w.readOnly},
		{"a model that is renamed and removed in use", w.moved},
		{"processors with fewer instructions", w.sets},
		{"Ctrl-C and Ctrl-Break in an answer", w.interrupts},
		{"consoles of other code pages", w.consoles},
		{"a service", w.service},
	}
}

// folder makes a folder whose name has a space and letters that are in no code page of Western Europe.
func (w wine) folder() (string, error) {
	at := filepath.Join(w.dir, "мои модели", "ёжик 猫")
	return at, os.MkdirAll(at, 0o777)
}

// names writes and reads files whose paths have spaces and letters of several scripts, and paths of more than 260 characters.
func (w wine) names() error {
	at, err := w.folder()
	if err != nil {
		return err
	}
	prompt := filepath.Join(at, "подсказка.txt")
	if err := os.WriteFile(prompt, []byte("Once upon a time"), 0o666); err != nil {
		return err
	}
	far := at
	for len(far) < 300 {
		far = filepath.Join(far, "ещё одна папка")
	}
	if err := os.MkdirAll(far, 0o777); err != nil {
		return err
	}
	run := func(model string) (string, error) {
		return w.succeed("run", "-m", model, "-f", prompt, "-n", "12", "--temp", "0")
	}
	want, err := run("demo")
	if err != nil {
		return err
	}
	for _, model := range []string{filepath.Join(at, "маленькая модель.gguf"), filepath.Join(far, "m.gguf")} {
		if _, err := w.succeed("export-demo", model); err != nil {
			return err
		}
		if got, err := run(model); err != nil || got != want {
			return fmt.Errorf("%s: %q, %v; want %q", model, got, err, want)
		}
	}
	return nil
}

// A served quern.exe.
type served struct {
	cmd  *exec.Cmd
	url  string
	log  *os.File
	done chan struct{} // closed when it has ended
}

// said returns the end of its log.
func (s *served) said() string {
	b, _ := os.ReadFile(s.log.Name())
	return tail(string(b), 2000)
}

// port returns one that nobody listens at.
func port() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, p, err := net.SplitHostPort(l.Addr().String())
	return p, err
}

// serve starts a server and waits until it is ready.
func (w wine) serve(args ...string) (*served, error) {
	p, err := port()
	if err != nil {
		return nil, err
	}
	s := &served{url: "http://127.0.0.1:" + p, done: make(chan struct{})}
	if s.log, err = os.CreateTemp(w.dir, "log"); err != nil {
		return nil, err
	}
	s.cmd = w.command(context.Background(), "quern.exe", append([]string{"serve", "--port", p}, args...)...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.cmd.Wait(); close(s.done) }()
	if err := ready(s.url, s.done); err != nil {
		s.kill()
		return nil, fmt.Errorf("%v: %s", err, s.said())
	}
	return s, nil
}

// ready waits until a server is ready, which may end meanwhile.
func ready(url string, done <-chan struct{}) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-done:
			return errors.New("it has ended")
		default:
		}
		if r, err := http.Get(url + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return errors.New("it is not ready after 2 minutes")
}

// kill ends the server at once, and waits for that.
func (s *served) kill() {
	s.cmd.Process.Kill()
	<-s.done
	s.log.Close()
}

// post sends a body, wants a status, and reads the answer into v.
func (s *served) post(path, body string, status int, v any) error {
	r, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != status {
		return fmt.Errorf("%s: status %d, want %d: %s", path, r.StatusCode, status, b)
	}
	return json.Unmarshal(b, v)
}

// metric returns one of the server's metrics.
func (s *served) metric(name string) (float64, error) {
	r, err := http.Get(s.url + "/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			return strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64) // labels say the model
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// story is the body of a request with a text of some 400 tokens, which is another one for each k.
func story(k int) string {
	words := strings.Fields("the quick brown fox jumps over a lazy dog while rain falls on green hills and small boats sail home")
	var b strings.Builder
	for i := range 300 {
		b.WriteString(words[(i*i*(k+1)+k)%len(words)] + " ")
	}
	body, _ := json.Marshal(map[string]any{"prompt": b.String(), "n_predict": 8, "temperature": 0})
	return string(body)
}

// disk asks a server that keeps what memory has no room for on the disk until it reads some of that, kills it, and asks another one
// beside what the first has left, which reads it: all say the same. Threads are one, or computing costs less than reading.
func (w wine) disk() error {
	at, err := w.folder()
	if err != nil {
		return err
	}
	model, cache := filepath.Join(at, "модель для сервера.gguf"), filepath.Join(at, "кэш")
	if _, err := w.succeed("export-demo", model); err != nil {
		return err
	}
	const texts = 5
	want := make([]string, texts)
	for try := range 2 {
		s, err := w.serve("-m", model, "-c", "1024", "--kv-memory", "6M", "--cache-disk", cache, "--cache-disk-size", "40M", "--threads", "1")
		if err != nil {
			return err
		}
		read := 0.0
		for round := 0; err == nil && read == 0 && round < 20; round++ {
			if err = s.answers(want); err == nil {
				read, err = s.metric("quern_prompt_restored_tokens_total")
			}
		}
		s.kill()
		if err != nil {
			return err
		}
		if read == 0 {
			return fmt.Errorf("server %d has read nothing from the disk: %s", try, s.said())
		}
		if pages, err := filepath.Glob(filepath.Join(cache, "*", "*.page")); err != nil || len(pages) == 0 {
			return fmt.Errorf("server %d has left no pages on the disk, %v: %s", try, err, s.said())
		}
	}
	return nil
}

// answers compares what the server answers with what another one did, or sets it.
func (s *served) answers(want []string) error {
	var bad struct{ Error struct{ Message string } }
	if err := s.post("/completion", `{"prompt": 1.5}`, http.StatusBadRequest, &bad); err != nil || bad.Error.Message == "" {
		return fmt.Errorf("a request that is none: %+v, %v", bad, err)
	}
	for k := range want {
		var v struct{ Content string }
		if err := s.post("/completion", story(k), http.StatusOK, &v); err != nil {
			return err
		}
		if v.Content == "" || want[k] != "" && v.Content != want[k] {
			return fmt.Errorf("text %d is %q, and was %q", k, v.Content, want[k])
		}
		want[k] = v.Content
	}
	return nil
}

// bad gives the program what it must refuse.
func (w wine) bad() error {
	long := filepath.Join(w.dir, strings.Repeat("длинное имя ", 30)) // more than a file may have
	prompt := filepath.Join(w.dir, "prompt.txt")
	if err := os.WriteFile(prompt, []byte("\xcf\xf0\xe8\xe2\xe5\xf2"), 0o666); err != nil { // in code page 1251
		return err
	}
	for _, b := range []struct {
		words []string
		args  []string
	}{
		{[]string{`\\nowhere\share\m.gguf`}, []string{"run", "-m", `\\nowhere\share\m.gguf`, "-p", "x"}},
		{[]string{"m.gguf"}, []string{"run", "-m", `X:\m.gguf`, "-p", "x"}},
		{[]string{"длинное имя"}, []string{"run", "-m", long, "-p", "x"}},
		{[]string{"длинное имя"}, []string{"export-demo", long}},
		{[]string{"con?.gguf"}, []string{"export-demo", "con?.gguf"}},
		{[]string{"prompt.txt is not UTF-8"}, []string{"run", "-m", "demo", "-f", prompt}},
		{[]string{"Windows has no port of several processes"}, []string{"serve", "-m", "demo", "--reuse-port"}},
	} {
		if err := w.refused(b.words, b.args...); err != nil {
			return err
		}
	}
	return nil
}

// events is where Windows' registry has those who write to the log of events.
const events = `HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\`

// registry runs the program that looks at the registry and changes it.
func (w wine) registry(args ...string) error {
	cmd := exec.Command(os.Getenv("WINE"), append([]string{"reg"}, args...)...)
	cmd.Env = append(os.Environ(), "WINEDEBUG=-all")
	if stdout, stderr, err := w.printed(cmd); err != nil {
		return fmt.Errorf("reg %q: %v: %s%s", args, err, stdout, stderr)
	}
	return nil
}

// service installs a server as a service, has Wine's service manager start and stop it, and removes it.
func (w wine) service() error {
	p, err := port()
	if err != nil {
		return err
	}
	// Wine ends its services with the last program that is none, and starts them anew with the next.
	shell := exec.Command(os.Getenv("WINE"), "cmd")
	shell.Env = append(os.Environ(), "WINEDEBUG=-all")
	stays, err := shell.StdinPipe()
	if err != nil {
		return err
	}
	if err := shell.Start(); err != nil {
		return err
	}
	defer func() { stays.Close(); shell.Wait() }()
	for _, name := range []string{"quern", "quern bad"} { // which a run that was killed has left
		if _, err := w.quern(nil, "service", "remove", "--name", name); err != nil {
			return err
		}
	}
	const other = "Spooler" // a service that Wine has
	for _, do := range []string{"stop", "start", "remove", "status"} {
		if err := w.refused([]string{other, "another program's"}, "service", do, "--name", other); err != nil {
			return err
		}
	}
	if err := w.refused([]string{"--api-key-file"}, "service", "install", "serve", "-m", "demo", "--api-key", "secret"); err != nil {
		return err
	}
	steps := func() error {
		if _, err := w.succeed("service", "install", "serve", "-m", "demo", "--port", p, "--log-file", filepath.Join(w.dir, "служба.jsonl")); err != nil {
			return err
		}
		if err := w.refused([]string{"already"}, "service", "install", "serve", "-m", "demo"); err != nil {
			return err
		}
		if _, err := w.succeed("service", "start"); err != nil {
			return err
		}
		if err := w.status("running"); err != nil {
			return err
		}
		s := &served{url: "http://127.0.0.1:" + p}
		if err := ready(s.url, nil); err != nil {
			return err
		}
		var v struct{ Content string }
		if err := s.post("/completion", story(0), http.StatusOK, &v); err != nil || v.Content == "" {
			return fmt.Errorf("%q, %v", v.Content, err)
		}
		if err := w.refused([]string{"already"}, "service", "start"); err != nil {
			return err
		}
		if _, err := w.succeed("service", "stop"); err != nil {
			return err
		}
		return w.status("stopped")
	}
	err = steps()
	_, removed := w.succeed("service", "remove")
	if err = errors.Join(err, removed); err != nil {
		return err
	}
	// One that cannot start ends with the exit code of the command. What others write to the log of events by its name stays.
	if err := w.registry("add", events+"quern bad", "/f"); err != nil {
		return err
	}
	if _, err := w.succeed("service", "install", "--name", "quern bad", "serve", "-m", "missing.gguf"); err != nil {
		return err
	}
	err = w.refused([]string{"code 1", "log of events"}, "service", "start", "--name", "quern bad")
	_, removed = w.succeed("service", "remove", "--name", "quern bad")
	return errors.Join(err, removed, w.registry("delete", events+"quern bad", "/f"), w.refused([]string{"no service"}, "service", "status"),
		w.refused([]string{"frobnicate"}, "service", "install", "serve", "--frobnicate"))
}

// status wants a word in what the service is said to be.
func (w wine) status(want string) error {
	if is, err := w.succeed("service", "status"); err != nil || !strings.Contains(is, want) {
		return fmt.Errorf("status is %q, %v; want %s", is, err, want)
	}
	return nil
}
