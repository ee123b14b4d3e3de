package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/server/host"
)

// loopback starts the program at a port of this machine too and returns that
// address.
func loopback(t *testing.T, args ...string) (*service, string) {
	t.Helper()
	s := serve(t, demo.Name, append([]string{"--host", "127.0.0.1", "--port", "0"}, args...)...)
	if !s.logged(`"ready"`) {
		t.Fatal("the log does not say where it listens")
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(s.log.String())
	if address == "" {
		t.Fatal("no address in the log")
	}
	return s, address
}

// exchange sends a request whose header lines are given as "Name: value"; one of
// Host replaces the address.
func exchange(t *testing.T, address, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(b)
}

const shortText = `{"prompt":"Once","n_predict":2}`

// A page of another site cannot act, though its browser sends what it asks for
// without a preflight.
func TestServeForeignPages(t *testing.T) {
	s, address := loopback(t)
	for _, path := range []string{"/completion", "/v1/completions", "/slots/0?action=erase"} {
		for _, page := range []string{"Origin: https://evil.example", "Origin: null", "Origin: http://localhost.evil.example", "Sec-Fetch-Site: cross-site"} {
			r, body := exchange(t, address, "POST", path, shortText, "Content-Type: text/plain", page)
			if r.StatusCode != 403 || !strings.Contains(body, `"permission_error"`) || !strings.Contains(body, "--cors-origins") {
				t.Errorf("%s, %s: %d %s", path, page, r.StatusCode, body)
			}
			if got := r.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("%s, %s may read the answer: %q", path, page, got)
			}
		}
	}
	if r, _ := exchange(t, address, "DELETE", "/v1/completions/x", "", "Origin: https://evil.example"); r.StatusCode != 403 {
		t.Errorf("DELETE: %d", r.StatusCode)
	}
	if n := s.metric("llamacpp:tokens_predicted_total"); n != 0 {
		t.Errorf("%g tokens were generated", n)
	}
	for _, page := range []string{
		"X-Nothing: programs say nothing", "Origin: http://" + address, "Sec-Fetch-Site: same-origin",
		"Origin: http://localhost:5173", "Origin: https://127.0.0.1:9", "Origin: http://[::1]:3000", "Origin: http://app.localhost",
	} {
		r, body := exchange(t, address, "POST", "/completion", shortText, page)
		if r.StatusCode != 200 {
			t.Errorf("%s: %d %s", page, r.StatusCode, body)
		}
		_, origin, _ := strings.Cut(page, "Origin: ")
		if got := r.Header.Get("Access-Control-Allow-Origin"); got != origin {
			t.Errorf("%s: allowed origin %q", page, got)
		}
	}
}

// No page of another site, and no name that was made to point here, reaches what changes something: of all documented
// routes. What names this machine does.
func TestServeForeignPagesEverywhere(t *testing.T) {
	t.Parallel()
	s, address := loopback(t, "--slot-save-path", t.TempDir(), "--lora-dir", t.TempDir(), "--batch-dir", t.TempDir())
	_, port, _ := net.SplitHostPort(address)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	_, document := exchange(t, address, "GET", "/openapi.json", "")
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range doc.Paths {
		if slices.Contains(host.Probes, path) {
			continue // probes, which say nothing else, have the host of a cluster's choice
		}
		path = strings.Replace(path, "{id}", "0", 1)
		for method := range methods {
			tried++
			var foreign []string
			if method != "get" {
				foreign = []string{
					"Origin: https://evil.example", "Origin: null", "Origin: http://evil.example:" + port, "Origin: http://localhost.evil.example",
					"Origin: http://[::2]:" + port, "Origin: http://127.0.0.1@evil.example", "Origin: file://",
					"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
				}
			}
			for _, host := range []string{"evil.example", "evil.example.", "evil.example:" + port, "[::2]:" + port, "[2001:db8::1]", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1.nip.io:" + port} {
				foreign = append(foreign, "Host: "+host)
			}
			for _, line := range foreign {
				r, body := exchange(t, address, strings.ToUpper(method), path, "{}", "Content-Type: text/plain", line)
				if r.StatusCode != 403 || !strings.Contains(body, "may not use") && !strings.Contains(body, "not known as") {
					t.Errorf("%s %s, %s: %d %.200s", method, path, line, r.StatusCode, body)
				}
			}
		}
	}
	if tried < 80 {
		t.Errorf("only %d routes", tried)
	}
	if n := s.metric("llamacpp:tokens_predicted_total"); n != 0 {
		t.Errorf("%g tokens were generated", n)
	}
	for _, line := range []string{"Host: [::1]:" + port, "Host: [::1]", "Host: localhost.", "Host: LOCALHOST:" + port, "Host: 127.0.0.1.", "Host: localhost.:" + port} {
		if r, body := exchange(t, address, "POST", "/completion", shortText, line); r.StatusCode != 200 {
			t.Errorf("%s: %d %.200s", line, r.StatusCode, body)
		}
	}
}

// The flood of one key does not keep another's requests out.
func TestServeFlood(t *testing.T) {
	t.Parallel()
	_, address := loopback(t, "--api-key", "key-of-flood,key-of-light", "--parallel", "1", "--queue", "4")
	ask := func(ctx context.Context, key string) int {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/completion", strings.NewReader(`{"prompt":"Once","n_predict":30,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var refused atomic.Int32
	for range 12 {
		flood.Go(func() {
			for ctx.Err() == nil {
				if ask(ctx, "key-of-flood") == 429 {
					refused.Add(1)
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for refused.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for i := range 10 {
		if status := ask(ctx, "key-of-light"); status != 200 {
			t.Errorf("request %d beside the flood: %d", i, status)
		}
	}
	stop()
	flood.Wait()
}

// What listens at the loopback address knows its names, so that a name of others
// that points there leads nowhere.
func TestServeRebinding(t *testing.T) {
	t.Parallel()
	_, address := loopback(t, "--allowed-hosts", "llm.example,Other.Example")
	_, port, _ := net.SplitHostPort(address)
	for name, want := range map[string]int{
		address: 200, "localhost": 200, "localhost:" + port: 200, "LOCALHOST.": 200, "a.b.localhost:1": 200,
		"127.1.2.3": 200, "[::1]:" + port: 200, "[::1]": 200, "llm.example": 200, "llm.example:80": 200, "other.example": 200,
		"evil.example": 403, "evil.example:" + port: 403, "localhost.evil.example": 403, "10.0.0.1": 403, "127.0.0.1.evil.example": 403, "[::2]": 403,
	} {
		r, body := exchange(t, address, "GET", "/props", "", "Host: "+name)
		if r.StatusCode != want {
			t.Errorf("%s: %d %.200s", name, r.StatusCode, body)
		}
		if want == 403 && !strings.Contains(body, "--allowed-hosts") {
			t.Errorf("%s: %s", name, body)
		}
	}
	_, address = loopback(t, "--allowed-hosts", "*")
	if r, body := exchange(t, address, "GET", "/props", "", "Host: any.example"); r.StatusCode != 200 {
		t.Errorf("*: %d %s", r.StatusCode, body)
	}
}

// Without a key, a server that a network reaches is known by addresses, private names and those that it is given: any other name
// may be a page's own that was made to point here. With a key, pages have to know it.
func TestServeRebindingOfNetworks(t *testing.T) {
	t.Parallel()
	open := func(args ...string) string {
		s := serve(t, demo.Name, append([]string{"--host", "0.0.0.0", "--port", "0"}, args...)...)
		if !s.logged(`"ready"`) {
			t.Fatal("it is not ready")
		}
		return "127.0.0.1:" + regexp.MustCompile(`(?:0\.0\.0\.0|\[::\]):(\d+)`).FindStringSubmatch(s.log.String())[1]
	}
	address := open("--allowed-hosts", "llm.example")
	for name, want := range map[string]int{address: 200, "10.1.2.3": 200, "quern:8080": 200, "box.local": 200, "llm.example": 200, "evil.example": 403} {
		if r, body := exchange(t, address, "GET", "/props", "", "Host: "+name); r.StatusCode != want {
			t.Errorf("%s: %d %.200s", name, r.StatusCode, body)
		}
	}
	address = open("--api-key", "a-secret-key")
	if r, body := exchange(t, address, "GET", "/props", "", "Host: evil.example", "X-Api-Key: a-secret-key"); r.StatusCode != 200 {
		t.Errorf("with a key: %d %.200s", r.StatusCode, body)
	}
}

// Answers are what they say, and are not kept; no client says where the router redirects to.
func TestServeHeaders(t *testing.T) {
	t.Parallel()
	_, address := loopback(t)
	for _, path := range []string{"/props", "/v1/models", "/nowhere", "/metrics", "/health"} {
		r, _ := exchange(t, address, "GET", path, "")
		if r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
	if r, body := exchange(t, address, "POST", "/completion", `{"prompt":"a","n_predict":1,"stream":true}`); r.Header.Get("Cache-Control") != "no-store" || r.StatusCode != 200 {
		t.Errorf("a stream: %v %s", r.Header, body)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequest("GET", "http://"+address+"/props/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-Prefix", "/evil.example")
	r, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if to := r.Header.Get("Location"); r.StatusCode != 301 || to != "/props" {
		t.Errorf("redirected by %d to %q", r.StatusCode, to)
	}
}

// What a browser asks before it sends a page's request is answered for every
// path, without a key; the request itself needs one.
func TestServePreflight(t *testing.T) {
	t.Parallel()
	const origin = "http://localhost:5173"
	_, address := loopback(t, "--api-key", "a-secret-key")
	const headers = "authorization,content-type,x-stainless-os,x-stainless-retry-count,x-stainless-timeout,openai-organization"
	for path, method := range map[string]string{
		"/v1/chat/completions": "POST", "/completion": "POST", "/v1/models": "GET", "/v1/models/x": "GET",
		"/slots/0": "POST", "/v1/completions/x": "DELETE", "/metrics": "GET", "/props": "POST", "/nowhere": "GET", "/": "GET",
	} {
		ask := []string{"Access-Control-Request-Method: " + method, "Access-Control-Request-Headers: " + headers}
		r, body := exchange(t, address, "OPTIONS", path, "", append(ask, "Origin: "+origin)...)
		if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(r.Header.Get("Access-Control-Allow-Methods"), method) {
			t.Errorf("%s: %d %s %v", path, r.StatusCode, body, r.Header)
		}
		for name := range strings.SplitSeq(headers, ",") {
			if !strings.Contains(strings.ToLower(r.Header.Get("Access-Control-Allow-Headers")), name) {
				t.Errorf("%s: %s is not among %q", path, name, r.Header.Get("Access-Control-Allow-Headers"))
			}
		}
		r, _ = exchange(t, address, "OPTIONS", path, "", append(ask, "Origin: https://evil.example")...)
		if r.StatusCode == 401 || r.StatusCode == 405 || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s from elsewhere: %d %v", path, r.StatusCode, r.Header)
		}
	}
	if r, _ := exchange(t, address, "OPTIONS", "/completion", ""); r.StatusCode != 200 {
		t.Errorf("OPTIONS of a program: %d", r.StatusCode)
	}
	if r, _ := exchange(t, address, "POST", "/completion", shortText, "Origin: "+origin); r.StatusCode != 401 || r.Header.Get("Access-Control-Allow-Origin") != origin {
		t.Errorf("without a key: %d, readable by %q", r.StatusCode, r.Header.Get("Access-Control-Allow-Origin"))
	}
	r, body := exchange(t, address, "POST", "/completion", shortText, "Origin: "+origin, "Authorization: Bearer a-secret-key")
	if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
		t.Errorf("with a key: %d %s %v", r.StatusCode, body, r.Header)
	}
}

func TestServeOrigins(t *testing.T) {
	t.Parallel()
	for origins, allowed := range map[string]map[string]bool{
		"*":                 {"https://a.example": true, "http://localhost:1": true},
		"https://a.example": {"https://a.example": true, "https://b.example": false, "http://a.example": false, "http://localhost:1": false},
		"localhost,https://a.example:8443,app://obsidian.md": {
			"https://a.example:8443": true, "https://a.example": false, "app://obsidian.md": true, "tauri://localhost": true, "http://localhost:1": true,
		},
		"": {"http://localhost:1": false},
	} {
		_, address := loopback(t, "--cors-origins", origins)
		for origin, want := range allowed {
			r, _ := exchange(t, address, "POST", "/completion", shortText, "Origin: "+origin)
			readable := r.Header.Get("Access-Control-Allow-Origin") != ""
			if (r.StatusCode == 200) != want || readable != want {
				t.Errorf("--cors-origins %q, %s: %d, readable: %v", origins, origin, r.StatusCode, readable)
			}
		}
	}
	for _, bad := range []string{"a.example", "https://", "https://a.example/path", "https://a.example,*x"} {
		quern(t, "serve", "-m", demo.Name, "--cors-origins", bad).refused(t, exitUsage, "--cors-origins", "https://example.com")
	}
}

// raw sends bytes and returns the status of the answer.
func raw(t *testing.T, address, request string) int {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	line, err := textproto.NewReader(bufio.NewReader(c)).ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	status := 0
	fmt.Sscanf(line, "HTTP/1.1 %d", &status)
	return status
}

// A body that cannot be read is the client's fault.
func TestServeMalformedBody(t *testing.T) {
	t.Parallel()
	_, address := loopback(t)
	const head = "POST /completion HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, body := range []string{"zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}xx\r\n0\r\n\r\n", "fffffffffffffffffff\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n0\r\n\r\n"} {
		if status := raw(t, address, head+body); status != 400 {
			t.Errorf("%q: %d", body, status)
		}
	}
}

// The words that strangers send do not become labels.
func TestServeMethodLabel(t *testing.T) {
	s, address := loopback(t, "--api-key", "a-secret-key")
	for _, method := range []string{"BREW", "get", "PROPFIND"} {
		if status := raw(t, address, method+" /completion HTTP/1.1\r\nHost: localhost\r\n\r\n"); status != 401 {
			t.Errorf("%s: %d", method, status)
		}
	}
	r, err := http.NewRequest("GET", "http://quern/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "a-secret-key")
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if strings.Contains(text, "BREW") || strings.Contains(text, `"get"`) || !strings.Contains(text, `quern_http_requests_total{method="other",route="none",status="401"} 3`) {
		t.Error(text[max(0, strings.Index(text, "quern_http")):])
	}
}

// Who does not read a whole answer loses it after --timeout.
func TestServeSlowReader(t *testing.T) {
	t.Parallel()
	s, address := loopback(t, "--timeout", "1")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	const body = `{"prompt":"Once","n_predict":300,"ignore_eos":true,"n_probs":1000}`
	fmt.Fprintf(c, "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if !s.logged(`"path":"/completion"`) { // when the handler has ended
		t.Error("the answer is kept for a client that does not read it")
	}
}

// Streams end with an event that says why, in good time before --drain is over.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	const drain = 3 * time.Second // the last two are for the end
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":"Once","max_tokens":-1,"ignore_eos":true,"stream":true,"n":128}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":-1,"ignore_eos":true,"stream":true,"n":128}`,
		"/completion":          `{"prompt":"Once","n_predict":-1,"ignore_eos":true,"stream":true,"n":128}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := serve(t, demo.Name, "--drain", drain.String(), "--parallel", "1", "--chat-template", "chatml")
			r, err := s.client.Post("http://quern"+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			s.cmd.Process.Signal(syscall.SIGTERM)
			var events []string
			for lines := bufio.NewScanner(r.Body); lines.Scan(); {
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					events = append(events, data)
				}
			}
			if path != "/completion" {
				if n := len(events) - 1; n < 0 || events[n] != "[DONE]" {
					t.Errorf("%s: the stream ends without [DONE]", path)
				} else {
					events = events[:n]
				}
			}
			if last := events[len(events)-1]; !strings.Contains(last, `"error"`) || !strings.Contains(last, "shutting down") || !strings.Contains(last, `"unavailable_error"`) {
				t.Errorf("%s: the stream ends with %.300s", path, last)
			}
			if code := s.wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// A short key is for the loopback address only.
func TestServeShortKeys(t *testing.T) {
	t.Parallel()
	s, address := loopback(t, "--api-key", "short")
	if !s.logged("API key 1: it has 5 characters") {
		t.Error("no warning")
	}
	if r, _ := exchange(t, address, "GET", "/props", "", "Authorization: Bearer short"); r.StatusCode != 200 {
		t.Errorf("the key gave %d", r.StatusCode)
	}
	if r, _ := exchange(t, address, "GET", "/props", "", "Authorization: Bearer shor"); r.StatusCode != 401 {
		t.Errorf("another key gave %d", r.StatusCode)
	}
	quern(t, "serve", "-m", demo.Name, "--host", "0.0.0.0", "--port", "0", "--api-key", "short").refused(t, exitUsage, "API key 1", "5 characters", "8")
}

func TestServeEndpointFlags(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Name, "--metrics", "--slots")
	r, err := s.client.Get("http://quern/metrics")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	begun := 0
	if fmt.Sscan(r.Header.Get("Process-Start-Time-Unix"), &begun); time.Since(time.Unix(int64(begun), 0)).Abs() > time.Minute {
		t.Errorf("it began at %q", r.Header.Get("Process-Start-Time-Unix"))
	}
	if strings.Contains(s.log.String(), "has no effect") {
		t.Error("a flag has no effect")
	}
	s = serve(t, demo.Name, "--no-metrics", "--no-slots")
	for path, flag := range map[string]string{"/metrics": "--metrics", "/slots": "--slots"} {
		r, err := s.client.Get("http://quern" + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != 501 || !strings.Contains(string(b), `"not_supported_error"`) || !strings.Contains(string(b), flag) {
			t.Errorf("%s: %d %s", path, r.StatusCode, b)
		}
		if r, err = s.client.Head("http://quern" + path); err != nil || r.StatusCode != 501 {
			t.Errorf("HEAD %s: %v, %v", path, r, err)
		}
	}
}

// What a body may have follows the context that was chosen, not the one that the model was trained with, and the help
// says the number.
func TestServeBodyLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		most int
	}{{nil, 1<<20 + 64*1024}, {[]string{"-c", "256"}, 1<<20 + 64*256}, {[]string{"-c", "256", "--max-body", "2000"}, 2000}} {
		_, address := loopback(t, c.args...)
		for _, n := range []int{c.most, c.most + 1} {
			r, body := exchange(t, address, "POST", "/tokenize", `{"content":"`+strings.Repeat("a", n-len(`{"content":""}`))+`"}`)
			if want := map[bool]int{true: 200, false: 413}[n == c.most]; r.StatusCode != want || want == 413 && !strings.Contains(body, fmt.Sprintf("want at most %d", c.most)) {
				t.Errorf("%v: %d bytes: %d %.200s", c.args, n, r.StatusCode, body)
			}
		}
	}
	if help := newServeCommand().Flags().Lookup("max-body").Usage; !strings.Contains(help, "64 per token") {
		t.Errorf("the help says %q", help)
	}
}
