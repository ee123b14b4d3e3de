package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// testWorld draws plans, and has no server.
func testWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return &world{
		config: &config{requests: 400, faults: faultNames()}, state: &state{Seed: seed}, faults: allFaults(),
		alone: &alone{known: map[string]map[string]string{}},
	}
}

// Plans are those of the seed and the epoch, on any machine; every kind, manner and fault is drawn sometime; faults begin
// and end within their epoch, one after the other.
func TestDraw(t *testing.T) {
	t.Parallel()
	w := testWorld(t, 7)
	seen := map[string]bool{}
	for n := range 60 {
		p := w.draw(n)
		if again := testWorld(t, 7).draw(n); !reflect.DeepEqual(again.pool, p.pool) || len(again.uses) != len(p.uses) || len(again.blows) != len(p.blows) {
			t.Fatalf("epoch %d is another one each time", n)
		}
		other := testWorld(t, 7)
		for _, f := range other.faults {
			f.impossible = "here"
		}
		if q := other.draw(n); len(q.blows) != 0 || !reflect.DeepEqual(q.uses, p.uses) {
			t.Fatalf("epoch %d asks something else where faults are not possible", n)
		}
		if n == 0 && len(p.blows) != 0 {
			t.Error("the first epoch has faults")
		}
		at := 0
		for _, b := range p.blows {
			if b.begin < at || b.end <= b.begin || b.end > w.config.requests {
				t.Errorf("epoch %d: a fault from %d to %d, after %d", n, b.begin, b.end, at)
			}
			at = b.end
			seen[b.fault.name] = true
		}
		for _, u := range p.uses {
			if u.op != nil {
				seen[u.op.name] = true
				continue
			}
			seen[u.request.kind] = true
			seen[strings.Fields(u.manner.String())[0]+strings.Repeat("s", u.manner.slow)] = true
			if u.manner.key == guestKey {
				seen["guest"] = true
			}
		}
	}
	want := append(faultNames(), "guest", "stays", "leaves", "is", "readss")
	for _, k := range kinds {
		want = append(want, k.name)
	}
	for _, o := range operations {
		want = append(want, o.name)
	}
	for _, name := range want {
		if !seen[name] {
			t.Errorf("%s was never drawn", name)
		}
	}
}

// What models say is found in the answers of all APIs, however it comes, and nothing else.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, kind, body, want string }{
		{"chat", "application/json", `{"id":"x1","choices":[{"index":1,"message":{"content":"b"}},{"index":0,"message":{"content":"a","role":"assistant"},"finish_reason":"stop"}]}`,
			".choices[0].finish_reason=stop\n.choices[0].message.content=a\n.choices[1].message.content=b\n"},
		{"its stream", "text/event-stream", "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n: ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"c\"}}]}\n\ndata: [DONE]\n\n",
			".choices[0].delta.content=a\n.choices[1].delta.content=bc\n"},
		{"messages", "text/event-stream", "event: x\ndata: {\"index\":0,\"delta\":{\"text\":\"a\"}}\n\ndata: {\"index\":0,\"delta\":{\"text\":\"b\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n", "0.delta.text=ab\n"},
		{"ollama", "application/x-ndjson", "{\"message\":{\"content\":\"a\"}}\n{\"message\":{\"content\":\"b\"},\"done\":true,\"done_reason\":\"stop\"}\n", ".done_reason=stop\n.message.content=ab\n"},
		{"vectors", "application/json", `{"data":[{"index":0,"embedding":[0.25,1e-7]}],"usage":{"prompt_tokens":3}}`, ".data[0].embedding[0]=0.25\n.data[0].embedding[1]=1e-7\n"},
	} {
		a := &answer{}
		err := a.read(c.kind, strings.NewReader(c.body), time.Now(), func(int) bool { return true })
		if got := text(a.fields); err != nil || got != c.want || !a.finished {
			t.Errorf("%s: %q, finished %v, %v; want %q", c.name, got, a.finished, err, c.want)
		}
	}
	a := &answer{}
	if err := a.read("text/event-stream", strings.NewReader("data: {\"content\":\"a\"}\n\ndata: {\"error\":{\"code\":503,\"message\":\"going\"}}\n\n"), time.Now(), func(int) bool { return true }); err != nil || a.finished || a.code != 503 || a.message != "going" {
		t.Errorf("an error in a stream: %+v, %v", a, err)
	}
}

// A text that differs is found at any place; of a part only the beginning counts.
func TestDiffers(t *testing.T) {
	t.Parallel()
	want := map[string]string{".text": "once upon", ".finish": "stop"}
	for _, c := range []struct {
		got  map[string]string
		part bool
		bad  string
	}{
		{map[string]string{".text": "once upon", ".finish": "stop"}, false, ""},
		{map[string]string{".text": "once upon"}, false, ".finish is missing"},
		{map[string]string{".text": "once upan", ".finish": "stop"}, false, "from byte 7 on"},
		{map[string]string{".text": "once"}, true, ""},
		{map[string]string{".text": "onze"}, true, "from byte 2 on"},
		{map[string]string{".text": "once upon a"}, true, "from byte 9 on"},
		{map[string]string{".other": "x"}, true, ".other differs"},
	} {
		if d := differs(c.got, want, c.part); (d == "") != (c.bad == "") || !strings.Contains(d, c.bad) {
			t.Errorf("%v: %q, want %q", c.got, d, c.bad)
		}
	}
}

// Faults explain what they can do, while they are there, and nothing else.
func TestExcuse(t *testing.T) {
	t.Parallel()
	named := map[string]*fault{}
	for _, f := range allFaults() {
		named[f.name] = f
	}
	for _, c := range []struct {
		fault string
		disk  bool
		a     answer
		want  bool
	}{
		{"kill", false, answer{err: io.ErrUnexpectedEOF}, true}, {"kill", false, answer{status: 500}, false},
		{"kill", false, answer{status: 404}, true}, {"full", false, answer{status: 404}, false},
		{"full", false, answer{status: 500}, false}, {"full", true, answer{status: 500}, true},
		{"full", false, answer{err: errors.New("reset")}, false}, {"memory", false, answer{status: 503}, true},
		{"memory", false, answer{status: 200, code: 503}, true}, {"memory", false, answer{status: 500}, false},
		{"slow", false, answer{status: 503}, false}, {"key", false, answer{status: 401}, true}, {"quota", false, answer{status: 401}, false},
		{"freeze", false, answer{err: io.EOF}, false},
	} {
		if got := excuse([]*fault{named[c.fault]}, c.disk, &c.a); got != c.want {
			t.Errorf("%s explains %+v: %v", c.fault, c.a, got)
		}
	}
	now := time.Now()
	s := &spans{all: []*span{
		{fault: named["kill"], begun: now, over: now.Add(time.Second)}, {fault: named["memory"], begun: now, over: now.Add(time.Second)},
	}}
	for from, want := range map[time.Duration]int{-time.Second: 0, 500 * time.Millisecond: 2, 3 * time.Second: 1, time.Minute: 0} {
		if got := s.during(now.Add(from), now.Add(from+time.Millisecond)); len(got) != want {
			t.Errorf("after %v: %d faults, want %d", from, len(got), want)
		}
	}
}

// Each thing that can be wrong with an answer, and with a server at rest, is noticed.
func TestJudge(t *testing.T) {
	t.Parallel()
	w := testWorld(t, 1)
	r := drawRequest(rand.New(rand.NewPCG(1, 1)))
	r.want, r.also = 200, nil
	w.alone.known[r.hash()] = map[string]string{".content": "once upon"}
	whole := map[string]string{".content": "once upon"}
	for _, c := range []struct {
		a     answer
		class string
		wrong string
	}{
		{answer{status: 200, finished: true, fields: whole}, "same", ""},
		{answer{status: 200, finished: true, fields: map[string]string{".content": "once a"}}, "differs", "differs"},
		{answer{status: 200, left: true, fields: map[string]string{".content": "onc"}}, "part", ""},
		{answer{status: 200, left: true, fields: map[string]string{".content": "x"}}, "differs", "differs"},
		{answer{status: 200, fields: whole}, "", "no end"},
		{answer{status: 200, fields: whole, message: "out"}, "", "error in the stream"},
		{answer{status: 500, message: "internal"}, "", "status 500"},
		{answer{status: 429}, "refused", ""},
		{answer{err: io.EOF}, "", "EOF"},
	} {
		if class, wrong := w.judge(r, manner{}, &c.a); class != c.class || !strings.Contains(wrong, c.wrong) || (wrong == "") != (c.wrong == "") {
			t.Errorf("%+v: %q %q", c.a, class, wrong)
		}
	}
	base := floor{RSS: 80 << 20, Goroutines: 20, FDs: 10}
	for _, c := range []struct {
		f    floor
		want string
	}{
		{base, ""}, {floor{Running: 1}, "run or wait"}, {floor{Used: 64}, "keys and values"}, {floor{Leases: 1}, "leases"},
		{floor{Goroutines: 31}, "goroutines"}, {floor{FDs: 17}, "descriptors"}, {floor{RSS: 145 << 20}, "resident"},
	} {
		if got := c.f.above(base, true); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
}

// A soak goes on with the seed and the epoch that it had; another seed, another soak in the same folder, and lines that
// were cut short are told apart.
func TestState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &config{state: dir, seed: 9, log: filepath.Join(dir, "log"), only: -1}
	s, err := openState(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openState(c); err == nil || !strings.Contains(err.Error(), "another soak runs there") {
		t.Errorf("two at once: %v", err)
	}
	if err := s.add(&outcome{Epoch: 0, Problems: []problem{{What: "x"}}}); err != nil {
		t.Fatal(err)
	}
	s.close()
	c.seed = 10
	if _, err := openState(c); err == nil || !strings.Contains(err.Error(), "has 9") {
		t.Errorf("another seed: %v", err)
	}
	c.seed = 0
	if s, err = openState(c); err != nil || s.Seed != 9 || s.Next != 1 || s.Parts != 2 || s.problems() != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	s.close()
}

// Metrics are added up over labels.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "# HELP x\nquern_kv_bytes{model=\"a\",state=\"used\"} 3\nquern_kv_bytes{model=\"b\",state=\"used\"} 4\nquern_kv_bytes{model=\"a\",state=\"free\"} 8\ngo_goroutines 20\n")
	}))
	defer s.Close()
	c := &client{http: &http.Client{Transport: redirect{s.URL}}}
	m, err := readMetrics(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if f := m.floor(); f.Used != 7 || f.Goroutines != 20 {
		t.Errorf("%+v", f)
	}
}

// redirect sends requests to another server.
type redirect struct{ url string }

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	next, err := http.NewRequestWithContext(req.Context(), req.Method, r.url+req.URL.Path, req.Body)
	if err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(next)
}

// Flags that make no sense are refused in one line, and a page of what was found is written.
func TestFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--state is missing": {"--quern", "/bin/sh"}, "--hours 0": {"--state", "x", "--hours", "0"}, "--requests 0": {"--state", "x", "--requests", "0"},
		"want some of kill": {"--state", "x", "--faults", "flood"}, "make builds it": {"--state", "x", "--quern", "/none"}, "want flags only": {"x"},
	} {
		if _, err := parseFlags(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	var b strings.Builder
	r := report{state: &state{Seed: 3, Epochs: []outcome{{Epoch: 0, Requests: 5, Same: 4, Faults: []string{"kill"}, Kinds: map[string]int{"chat": 5}, Problems: []problem{{Kind: "chat", What: "bad"}}}}}, config: &config{}}
	r.write(&b)
	for _, want := range []string{"5 requests, of which 4 finished", "**1 problems**", "| kill | 1 | 5 | 4 |", "| chat | 5 |", "bad"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &b)
		}
	}
	if _, err := json.Marshal(r.state); err != nil {
		t.Error(err)
	}
}
