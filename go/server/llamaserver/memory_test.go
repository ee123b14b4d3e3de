package llamaserver_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func memoryOf(t *testing.T, s *fake.Site) (u memoryUse) {
	t.Helper()
	status, body, _ := s.Do("GET", "/v1/memory", "")
	if err := json.Unmarshal(body, &u); status != 200 || err != nil {
		t.Fatalf("status %d, %s: %v", status, body, err)
	}
	return u
}

// What memory is used for is said by purpose, and adds up.
func TestRealMemory(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Names: []string{"one", "two"}})
	fake.Post[map[string]any](s, "/completion",
		`{"prompt":"Once upon a time there was a little girl who had a big red ball and a small dog","n_predict":4,"model":"two"}`)
	fake.Post[map[string]any](s, "/completion",
		`{"prompt":"Once","n_predict":4,"grammar":"root ::= [a-z ]+","model":"two"}`)
	fake.Post[map[string]any](s, "/v1/responses", `{"input":"Once","max_output_tokens":4,"model":"two"}`)
	d := s.Device
	limit, reason := d.Budget().Limit()
	d.Adjust(engine.Reading{Limit: limit, Reason: reason})
	u := memoryOf(t, s)
	sum := uint64(0)
	for _, p := range u.Purposes {
		sum += p.Bytes
	}
	if u.Limit != 1<<30 || u.LimitedBy != "test" || sum != u.Used || u.Used+u.Free != u.Limit || u.Peak < u.Used ||
		u.Pressure != "none" {
		t.Errorf("%+v: the purposes have %d bytes", u, sum)
	}
	if !slices.IsSortedFunc(u.Purposes, func(a, b purposeUse) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Purpose, b.Purpose))
	}) {
		t.Errorf("the largest is not first: %+v", u.Purposes)
	}
	for _, want := range []string{"packed weights", "keys and values", "activations", "requests", "grammars",
		"stored responses"} {
		if !slices.ContainsFunc(u.Purposes, func(p purposeUse) bool { return p.Purpose == want && p.Bytes > 0 }) {
			t.Errorf("%+v: want %q", u.Purposes, want)
		}
	}
	if len(u.Models) != 2 || u.Models[0].KV.Cached != 0 || u.Models[1].ID != "two" || u.Models[1].KV.Cached == 0 ||
		u.Models[1].KV.Bytes != u.Models[1].KV.Most {
		t.Errorf("models %+v", u.Models)
	}
	if u.Resident == 0 || u.Anonymous > u.Resident || u.Most < u.Resident || u.CPU.Threads != 2 {
		t.Errorf("%+v", u)
	}
}

// While memory is short, requests get 503 and are told when to come again; when it is there
// again, they are answered.
func TestRealPressure(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	d := s.Device
	d.Adjust(engine.Reading{Limit: 1 << 20, Reason: "cgroup memory.max"})
	for path, body := range map[string]string{
		"/completion":          `{"prompt":"Once","n_predict":2}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"stream":true}`,
	} {
		status, b, head := s.Do("POST", path, body)
		if status != 503 || head.Get("Retry-After") != "5" || !strings.Contains(string(b), "memory is short") ||
			!strings.Contains(string(b), "cgroup memory.max") {
			t.Errorf("%s: status %d, Retry-After %q, %s", path, status, head.Get("Retry-After"), b)
		}
	}
	if u := memoryOf(t, s); u.Pressure != "critical" || u.Free != 0 || u.Models[0].KV.Bytes != 0 {
		t.Errorf("%+v", u)
	}
	for range 4 {
		d.Adjust(engine.Reading{Limit: 1 << 30, Reason: "cgroup memory.max"})
	}
	if status, b, _ := s.Do("POST", "/completion", `{"prompt":"Once","n_predict":2}`); status != 200 {
		t.Errorf("afterwards: status %d, %s", status, b)
	}
}
