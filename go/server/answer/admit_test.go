package answer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// heapBytes returns the bytes of objects in the heap, those that wait for their collection included.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Many long prompts at once take no more memory than their share, whatever is done with them, and all are answered.
func TestRealPromptsShareMemory(t *testing.T) {
	s := fake.Demo(t, fake.Setup{})
	budget := s.Device.Budget()
	budget.SetLimit(256<<20, "test")
	text := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 20_000) // a token is a letter, or two
	for path, body := range map[string]string{
		"/tokenize":                         `{"content":"` + text + `"}`,
		"/v1/completions":                   `{"prompt":"` + text + `"}`,
		"/detokenize":                       `{"tokens":[1` + strings.Repeat(",300", 100_000) + `]}`,
		"/embeddings":                       `{"content":"` + text + `"}`,
		"/apply-template":                   `{"messages":[{"role":"user","content":"` + text + `"}]}`,
		"/v1/messages":                      `{"max_tokens":1,"messages":[{"role":"user","content":"` + text + `"}]}`,
		"/v1/chat/completions/input_tokens": `{"messages":[{"role":"user","content":"` + text + `"}]}`,
	} {
		runtime.GC()
		before, most, reserved := heapBytes(), uint64(0), uint64(0)
		// On a busy machine all may be answered between two looks at the budget: then it is done again.
		for round := 0; reserved == 0 && round < 20; round++ {
			var all sync.WaitGroup
			for range 24 {
				all.Go(func() {
					r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
					w := httptest.NewRecorder()
					s.Server.Handler().ServeHTTP(w, r)
					if w.Code != http.StatusOK && !strings.Contains(w.Body.String(), "at least") {
						t.Errorf("%s: status %d, %.300s", path, w.Code, w.Body)
					}
				})
			}
			done := make(chan bool)
			go func() { all.Wait(); close(done) }()
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				case <-time.After(time.Millisecond):
				}
				most = max(most, heapBytes())
				by := budget.ByPurpose()
				reserved = max(reserved, by[answer.PromptsPurpose]+by[answer.BodiesPurpose])
			}
		}
		t.Logf("%s: %d MB of heap, %d MB reserved", path, (most-before)>>20, reserved>>20)
		if grown := most - min(most, before); grown > 120<<20 {
			t.Errorf("%s: the heap grew by %d MB", path, grown>>20)
		}
		if reserved == 0 || reserved > 256<<20*(answer.PromptsPart+answer.BodiesPart)/(answer.PromptsPart*answer.BodiesPart) {
			t.Errorf("%s: %d MB were reserved", path, reserved>>20)
		}
		if by := budget.ByPurpose(); by[answer.PromptsPurpose]+by[answer.BodiesPurpose] > 0 {
			t.Errorf("%s: %v is left", path, by)
		}
	}
}

// What can never fit is refused, and so is what does not fit while other things have the memory.
func TestRealPromptsThatDoNotFit(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	budget := s.Device.Budget()
	body := `{"content":"` + strings.Repeat("ab", 3<<20) + `"}`
	budget.SetLimit(32<<20, "test")
	if status, b, _ := s.Do("POST", "/tokenize", body); status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, %.200s", status, b)
	}
	budget.SetLimit(256<<20, "test")
	other, err := budget.Reserve("other", budget.Free()-1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if status, b, head := s.Do("POST", "/tokenize", body); status != http.StatusServiceUnavailable ||
		head.Get("Retry-After") == "" {
		t.Errorf("status %d, %.200s", status, b)
	}
	if status, b, _ := s.Do("POST", "/tokenize", `{"content":"ab"}`); status != http.StatusOK {
		t.Errorf("a short one: status %d, %.200s", status, b)
	}
	other.Release()
	if status, b, _ := s.Do("POST", "/tokenize", body); status != http.StatusOK {
		t.Errorf("afterwards: status %d, %.200s", status, b)
	}
}

// A body of unknown length is charged at most what a body may have, and then what it has.
func TestRealChunkedBody(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	for _, n := range []int{10, answer.FirstBytes - 1, answer.FirstBytes, answer.FirstBytes + 1, 1 << 20} {
		text := strings.Repeat("a ", n/2)
		body := struct{ *strings.Reader }{strings.NewReader(fmt.Sprintf(`{"content":"%s"}`, text))}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/tokenize", &body)
		w := httptest.NewRecorder()
		if s.Server.Handler().ServeHTTP(w, r); r.ContentLength >= 0 || w.Code != 200 {
			t.Errorf("%d bytes: length %d, status %d, %.200s", n, r.ContentLength, w.Code, w.Body)
		}
	}
}

// What a request recalls from the store counts as what it brings.
func TestRealRecalledPrompts(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	text := strings.Repeat("Once upon a time ", 100)
	first := fake.Post[struct{ ID string }](s, "/v1/responses", `{"max_output_tokens":1,"input":"`+text+`"}`).ID
	var given struct{ Data []struct{ ID string } }
	_, b, _ := s.Do("GET", "/v1/responses/"+first+"/input_items", "")
	if err := json.Unmarshal(b, &given); err != nil || len(given.Data) == 0 {
		t.Fatalf("%v: %s", err, b)
	}
	const times = 5000 // of 1.7 kB
	one := `{"type":"item_reference","id":"` + given.Data[0].ID + `"}`
	body := `{"input":[` + one + strings.Repeat(","+one, times-1) + `]}`
	s.Device.Budget().SetLimit(64<<20, "test")
	for _, path := range []string{"/v1/responses", "/v1/responses/input_tokens"} {
		if status, b, _ := s.Do("POST", path, body); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d, %.200s", path, status, b)
		}
		if status, b, _ := s.Do("POST", path, `{"previous_response_id":"`+first+`","input":"Hi"}`); status != http.StatusOK {
			t.Errorf("%s: status %d, %.200s", path, status, b)
		}
	}
}
