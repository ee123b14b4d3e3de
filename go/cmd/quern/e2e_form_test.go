package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
)

// The flags hold the texts of every command.
func TestForms(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer","maximum":9,"minimum":0},"b":{"enum":["x","y"]}},"required":["a","b"]}`
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	is := func(text string) {
		t.Helper()
		var v struct {
			A *int
			B string
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.A == nil || v.B != "x" && v.B != "y" {
			t.Errorf("%q: %v", text, err)
		}
	}
	is(succeed(t, "run", "-m", demo.Name, "-p", "Once", "-n", "100", "--temp", "3", "-j", schema))
	is(succeed(t, "chat", "-m", demo.Name, "-p", "Once", "-n", "100", "--temp", "3", "-jf", file))
	if got := succeed(t, "run", "-m", demo.Name, "-p", "Once", "-n", "50", "--temp", "3", "--grammar", `root ::= [ab]{4} "!"`); !regexp.MustCompile(`^[ab]{4}!\n?$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	s := serve(t, demo.Name, "--temp", "3", "-n", "100", "--json-schema-file", file)
	_, v := s.post("/completion", `{"prompt":"Once"}`)
	content, _ := v["content"].(string)
	is(content)
	// A request's form replaces the server's.
	if _, v := s.post("/completion", `{"prompt":"Once","guided_choice":["yes"]}`); v["content"] != "yes" {
		t.Errorf("%v, want yes", v["content"])
	}
}

// What clients of several servers send: the same form in several fields, and Lark with llguidance's attributes.
func TestFormsOfClients(t *testing.T) {
	s := serve(t, demo.Name)
	for body, want := range map[string]string{
		`"guided_grammar":"root ::= \"no\"","structured_outputs":{"grammar":"root ::= \"no\""}`:                                                              "no",
		`"guided_json":"{\"const\": 7}","structured_outputs":{"json":{"const":7}}`:                                                                           "7",
		`"json_schema":{"x-guidance":{"whitespace_flexible":false},"type":"object","properties":{"a":{"const":1},"b":{"const":[1,2]}},"required":["a","b"]}`: `{"a":1,"b":[1,2]}`,
		`"structured_outputs":{"json":{"const":{"a":[1,2]}},"disable_any_whitespace":true}`:                                                                  `{"a": [1, 2]}`,
		`"guided_choice":["a b"],"structured_outputs":{"choice":["a b"]}`:                                                                                    "a b",
		`"guided_grammar":"%llguidance {}\nstart: \"<\" g[0-9]"`:                                                                                             "",
		`"guided_grammar":"%llguidance {}\nstart: \"<\" g\ng[capture, suffix=\">\"]: /[ab]{2,3}/"`:                                                           "<",
		`"guided_grammar":"start: q\nq[capture=\"q\"]: \"'\" %regex {\"substring_words\": \"once upon a time\"} \"'\""`:                                      "'",
		`"guided_grammar":"start: g \"b\"\ng[temperature=3]: /a*/"`:                                                                                          "",
		`"guided_grammar":"root ::= \"no\"","structured_outputs":{"grammar":"root ::= \"yes\""}`:                                                             "",
	} {
		status, v := s.post("/completion", `{"prompt":"Once","n_predict":40,"temperature":2,"seed":3,`+body+`}`)
		content, _ := v["content"].(string)
		switch {
		case want == "" && status != 400, want != "" && (status != 200 || !strings.HasPrefix(content, want)):
			t.Errorf("%s: %d %v", body, status, v)
		case strings.Contains(body, "suffix") && !regexp.MustCompile(`^<[ab]{2,3}>$`).MatchString(content):
			t.Errorf("%s: %q", body, content)
		case strings.Contains(body, "substring") && !strings.Contains("'once upon a time'", strings.Trim(content, "'")):
			t.Errorf("%s: %q", body, content)
		}
	}
}

// A rule of a Lark grammar has a limit of tokens of its own, with drafts or without, whatever the API.
func TestLimitsOfRules(t *testing.T) {
	s := serve(t, demo.Name)
	const form = `"guided_grammar":"start: \"<\" g \">\" h\ng[stop=\">\", max_tokens=3]: /[a-z ]*/\nh[max_tokens=2]: (/[a-z]+/ \" \"?)+"`
	texts := map[string]bool{}
	for seed := range 12 {
		var alone string
		for _, drafts := range []string{"auto", "off"} {
			status, v := s.post("/completion", fmt.Sprintf(`{"prompt":"Once upon a time","n_predict":40,"temperature":1,"seed":%d,"n_probs":1,"speculative.types":"%s",%s}`, seed, drafts, form))
			content, _ := v["content"].(string)
			if status != 200 || v["stop_type"] != "eos" {
				t.Fatalf("%d %v", status, v)
			}
			at, counts := 0, [2]int{}
			list, _ := v["completion_probabilities"].([]any)
			for _, one := range list {
				piece, _ := one.(map[string]any)["token"].(string)
				first, last := strings.Index(content, "<"), strings.Index(content, ">")
				if from, to := at, at+len(piece); piece != "" {
					if from < last && to > first+1 {
						counts[0]++
					}
					if to > last+1 {
						counts[1]++
					}
				}
				at += len(piece)
			}
			if !regexp.MustCompile(`^<[a-z ]*>[a-z ]+$`).MatchString(content) || at != len(content) || counts[0] > 3 || counts[1] > 2 {
				t.Errorf("%q has %v tokens of its rules", content, counts)
			}
			if drafts == "off" && content != alone {
				t.Errorf("without drafts %q, with them %q", content, alone)
			}
			alone = content
			texts[content] = true
		}
		for path, prompt := range map[string]string{"/v1/completions": `"prompt":"Once upon a time"`, "/v1/chat/completions": `"messages":[{"role":"user","content":"Hi"}]`} {
			status, v := s.post(path, fmt.Sprintf(`{"max_tokens":40,"temperature":1,"seed":%d,%s,%s}`, seed, prompt, form))
			choices, _ := v["choices"].([]any)
			if status != 200 || len(choices) != 1 {
				t.Fatalf("%s: %d %v", path, status, v)
			}
			choice, _ := choices[0].(map[string]any)
			content, _ := choice["text"].(string)
			if m, ok := choice["message"].(map[string]any); ok {
				content, _ = m["content"].(string)
			}
			if !regexp.MustCompile(`^<[a-z ]*>[a-z ]+$`).MatchString(content) || path == "/v1/completions" && content != alone {
				t.Errorf("%s: %q, want %q", path, content, alone)
			}
		}
	}
	if len(texts) < 6 {
		t.Errorf("the texts are %v", texts)
	}
}

// A request that bans what its form allows is refused, and not a fault of the server.
func TestBannedForm(t *testing.T) {
	s := serve(t, demo.Name)
	_, v := s.post("/tokenize", `{"content":"!"}`)
	ids, _ := v["tokens"].([]any)
	if len(ids) == 0 {
		t.Fatal(v)
	}
	banned := fmt.Sprintf(`{"prompt":"Once","guided_choice":["!"],"logit_bias":[["!",false],[%v,false],["a",-1]]}`, ids[len(ids)-1])
	status, v := s.post("/completion", banned)
	e, _ := v["error"].(map[string]any)
	if message := fmt.Sprint(e["message"]); status != 400 || !strings.Contains(message, "logit_bias bans") || strings.Contains(message, "\n") {
		t.Errorf("%d %v", status, v)
	}
	if status, v := s.post("/completion", `{"prompt":"Once","guided_choice":["!"],"logit_bias":[["a",false]]}`); status != 200 || v["content"] != "!" {
		t.Errorf("%d %v", status, v)
	}
}

// layers returns a grammar of 40 rules, each of which may have a character before or after the next one.
func layers() string {
	text := "root ::= x0+\n"
	for i := range 40 {
		text += fmt.Sprintf("x%d ::= x%[2]d | [a-z ] x%[2]d | x%[2]d [a-z ] | \"(\" x%[2]d \")\"\n", i, i+1)
	}
	return text + "x40 ::= [a-z]\n"
}

// An ambiguous grammar takes its own time: others go on, and its request ends, by itself, by its deadline, or because
// its client leaves.
func TestAmbiguousGrammars(t *testing.T) {
	s := serve(t, demo.Name, "--parallel", "4", "--drain", "2s")
	const most = 20 * time.Second // without load, some 10 ms
	for name, grammar := range map[string]string{"layers": layers(), "pairs": `root ::= root root | [a-z] | " "`} {
		t.Run(name, func(t *testing.T) {
			body := func(more string) string {
				b, err := json.Marshal(grammar)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf(`{"prompt":"Once upon a time","n_predict":400,"grammar":%s%s}`, b, more)
			}
			r, lines := s.stream(`{"prompt":"Once","n_predict":400,"ignore_eos":true,"stream":true}`)
			defer r.Body.Close()
			longest, beside := time.Duration(0), make(chan struct{})
			go func() {
				defer close(beside)
				for last := time.Now(); lines.Scan(); last = time.Now() {
					longest = max(longest, time.Since(last))
				}
			}()
			begun := time.Now()
			status, v := s.post("/completion", body(""))
			message := fmt.Sprint(v["error"])
			if status != 200 && (status != 400 || !strings.Contains(message, "too ambiguous") || strings.Contains(message, "\n")) {
				t.Errorf("%d %v", status, v)
			}
			t.Logf("%d after %v", status, time.Since(begun))
			begun = time.Now()
			if status, v := s.post("/completion", body(`,"deadline_ms":300,"cache_prompt":false`)); time.Since(begun) > most || status == 500 {
				t.Errorf("with a deadline: %d %v after %v", status, v, time.Since(begun))
			}
			ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://quern/completion", strings.NewReader(body("")))
			if err != nil {
				t.Fatal(err)
			}
			if r, err := s.client.Do(req); err == nil {
				r.Body.Close()
			}
			<-beside
			if longest > most {
				t.Errorf("a stream beside it waited %v for a token", longest)
			}
			t.Logf("a stream beside it waited at most %v for a token", longest)
			if status, _ := s.get("/livez"); status != 200 {
				t.Errorf("/livez gave %d", status)
			}
			if !s.eventually(func() bool { return s.metric("llamacpp:requests_processing") == 0 }) {
				t.Error("a request runs without a client")
			}
		})
	}
	begun := time.Now()
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 || time.Since(begun) > most {
		t.Errorf("it ended with %d after %v", code, time.Since(begun))
	}
}

// A form that takes seconds to compile ends with its deadline and its client, and ordinary ones do not wait for it.
func TestSlowForms(t *testing.T) {
	s := serve(t, demo.Name, "--parallel", "4")
	body := func(i int, more string) string { // two long texts and a pattern that is ambiguous for them
		return fmt.Sprintf(`{"prompt":"a","n_predict":4,"json_schema":{"type":"string","pattern":"^(a|b|ab|ba|aab|%d)*$","enum":["%s","%[2]sa"]}%s}`, i, strings.Repeat("ab", 20_000), more)
	}
	begun := time.Now()
	status, v := s.post("/completion", body(0, ""))
	t.Logf("one takes %v: %d", time.Since(begun), status)
	if status != 400 || strings.Contains(fmt.Sprint(v), "\n") {
		t.Errorf("%d %v", status, v)
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			begun := time.Now()
			if i%2 == 0 {
				if status, v := s.post("/completion", body(i+1, `,"deadline_ms":300`)); status != 504 || time.Since(begun) > 20*time.Second {
					t.Errorf("with a deadline: %d %v after %v", status, v, time.Since(begun))
				}
				return
			}
			ctx, leave := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://quern/completion", strings.NewReader(body(i+1, "")))
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := s.client.Do(req); err == nil {
				r.Body.Close()
				t.Errorf("an answer of status %d in time", r.StatusCode)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	begun = time.Now()
	if status, v := s.post("/completion", `{"prompt":"a","n_predict":4,"json_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}`); status != 200 || time.Since(begun) > 20*time.Second {
		t.Errorf("an ordinary one beside them: %d %v after %v", status, v, time.Since(begun))
	}
	t.Logf("an ordinary one beside them took %v", time.Since(begun))
	all.Wait()
	for end := time.Now().Add(time.Minute); ; { // a slow machine takes a while to leave them
		before := cpuTimeOf(t, s.cmd.Process.Pid)
		time.Sleep(time.Second)
		took := cpuTimeOf(t, s.cmd.Process.Pid) - before
		if took <= 300*time.Millisecond {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("nobody waits, and it computed for %v of a second", took)
		}
	}
}

// cpuTimeOf returns the CPU time of a process, to 10 ms.
func cpuTimeOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields, ticks := strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):])), 0
	for _, f := range fields[12:14] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// The streams of a model do not wait for the grammars of others: each of its tokens comes after few passes of theirs, and
// while their masks are computed there are many.
func TestAmbiguousGrammarsOfOthers(t *testing.T) {
	files := copies(t, "a.gguf", "b.gguf", "c.gguf")
	s := serve(t, "", "-m", files[0], "-m", files[1], "-m", files[2], "--parallel", "4", "--context-shift")
	passes := func(names ...string) (n float64) {
		for _, name := range names {
			n += s.value(fmt.Sprintf("llamacpp:n_decode_total{model=%q}", name))
		}
		return n
	}
	grammar, err := json.Marshal(layers())
	if err != nil {
		t.Fatal(err)
	}
	r, lines := s.stream(`{"model":"c","prompt":"Once","n_predict":-1,"ignore_eos":true,"stream":true}`)
	defer r.Body.Close()
	var tokens atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") {
				tokens.Add(1)
			}
		}
	}()
	before, begun := passes("a", "b"), tokens.Load()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			status, v := s.post("/completion", fmt.Sprintf(`{"model":%q,"prompt":"Once upon a time","n_predict":40,"seed":%d,"grammar":%s}`, []string{"a", "b"}[i%2], i, grammar))
			if status != 200 && status != 400 {
				t.Errorf("%d %v", status, v)
			}
		})
	}
	all.Wait()
	others, mine := passes("a", "b")-before, float64(tokens.Load()-begun)
	t.Logf("%v tokens of the stream beside %v passes of the others", mine, others)
	// Passes of three models in turn, each of which waits for masks, would be one of the stream beside two of the others.
	if others < 4 || mine < 0.6*others {
		t.Errorf("the stream had %v tokens beside %v passes of others", mine, others)
	}
	r.Body.Close()
	<-ended
}
