package answer_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// remember gives a site a memory budget for answers.
func remember(s *fake.Site, bytes uint64) *mem.Budget {
	b := mem.NewBudget(bytes, "a test")
	s.Model().Memory = b
	return b
}

// Where caches have taken all memory, they give back what a small request needs; what cannot is waited for, not refused
// for good.
func TestAnswersHaveRoom(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	budget := remember(s, 4<<20)
	caches, err := budget.Reserve("caches", 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"prompt":"Once","n_predict":3}`
	r, err := http.Post(s.URL+"/completion", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("with nothing to give back: %s, %v", r.Status, r.Header)
	}
	s.Model().Spare = func(n uint64) uint64 {
		n = min(n, caches.Bytes())
		if err := caches.Resize(caches.Bytes() - n); err != nil {
			t.Error(err)
		}
		return n
	}
	post200(t, s, body)
}

// A hundred of the largest requests at once, whose clients do not read, stay inside
// the budget, and others are served meanwhile.
func TestLargestRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const limit = 64 << 20
	s := fake.Demo(t, fake.Setup{})
	post200(t, s, `{"prompt":"Once","n_predict":1}`)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	budget := remember(s, limit)

	statuses := map[int]int{}
	var left []<-chan int
	for i := range 100 {
		body := `{"prompt":"Once upon a time","ignore_eos":true,"n":128,"n_probs":1000,"n_predict":-1,"stream":true}`
		switch i % 4 {
		case 1:
			body = `{"prompt":"Once upon a time","ignore_eos":true,"n":128,"n_probs":1000,"n_predict":-1}`
		case 2:
			body = `{"prompt":"Once upon a time","ignore_eos":true,"n":128,"n_probs":1000,"n_predict":4}`
		}
		path := "/completion"
		if i%8 > 3 {
			path = "/v1/completions"
			body = strings.Replace(body, "n_predict", "max_tokens", 1)
		}
		c, status := s.Ignore(path, body)
		defer c.Close()
		left = append(left, status)
	}
	most := uint64(0)
	// Until most is taken, and some time after that.
	for end, full := time.Now().Add(time.Minute),
		0; time.Now().Before(end) && full < 50; time.Sleep(20 * time.Millisecond) {
		if budget.Peak() > limit*3/4 {
			full++
		}
		var now runtime.MemStats
		runtime.GC() // what is garbage is not taken
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapAlloc)
		if budget.Used() > limit {
			t.Fatalf("%d bytes are taken", budget.Used())
		}
	}
	if took := int64(most) - int64(before.HeapAlloc); took > limit+(16<<20) {
		t.Errorf("the heap grew by %d MB, the budget is %d MB", took>>20, limit>>20)
	}
	post200(t, s, `{"prompt":"Once","n_predict":3}`)
	for _, status := range left {
		select {
		case n := <-status:
			statuses[n]++
		default:
			statuses[-1]++ // still at work
		}
	}
	t.Logf("the heap grew by %d MB of %d MB; by status: %v", (int64(most)-int64(before.HeapAlloc))>>20, limit>>20,
		statuses)
	if statuses[429] < 20 || statuses[400] < 25 || statuses[0] > 0 || statuses[500] > 0 {
		t.Errorf("by status: %v", statuses)
	}
}

// post200 asks for a completion that has to succeed.
func post200(t *testing.T, s *fake.Site, body string) {
	t.Helper()
	r, err := http.Post(s.URL+"/completion", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Errorf("%s: %d %.200s, %v", body, r.StatusCode, b, err)
	}
}

// What answers took is given back, however they end.
func TestMemoryComesBack(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	budget := remember(s, 64<<20)
	var wg sync.WaitGroup
	for i := range 12 {
		body := fmt.Sprintf(`{"prompt":"Once upon a time","n":3,"n_probs":5,"n_predict":40,"stream":%v}`, i%2 == 0)
		wg.Go(func() { post200(t, s, body) })
	}
	wg.Wait()
	fake.Eventually(t, "given back", func() bool { return budget.Used() == 0 })
	if budget.Peak() == 0 {
		t.Error("nothing was taken")
	}
	c, _ := s.Ignore("/completion", `{"prompt":"Once","n_predict":-1,"ignore_eos":true,"n":50,"stream":true}`)
	fake.Eventually(t, "taken", func() bool { return budget.Used() > 0 })
	c.Close()
	fake.Eventually(t, "given back", func() bool { return budget.Used() == 0 })
}

// Refusals say what there is and what would do.
func TestMemoryRefusals(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	budget := remember(s, 8<<20)
	const large = `{"prompt":"x","n":9,"n_probs":1000,"n_predict":500}`
	status, b, _ := s.Do("POST", "/completion", large)
	if e := fake.ErrorOf(t, b); status != 400 || !strings.Contains(e.Message, "n_probs 1000") ||
		!strings.Contains(e.Message, "up to 500 tokens") || !strings.Contains(e.Message, "stream") {
		t.Errorf("got %d %s", status, b)
	}
	other, err := budget.Reserve(answer.AnswersPurpose, 7<<20)
	if err != nil {
		t.Fatal(err)
	}
	const small = `{"prompt":"x","n_probs":100,"n_predict":600}`
	status, b, h := s.Do("POST", "/completion", small)
	if e := fake.ErrorOf(t, b); status != 429 || h.Get("Retry-After") == "" ||
		!strings.Contains(e.Message, "are free now") {
		t.Errorf("got %d %s", status, b)
	}
	other.Release()
	if status, b, _ = s.Do("POST", "/completion", small); status != 200 {
		t.Errorf("got %d %.200s", status, b)
	}
}

// A stream whose client does not keep up ends with an event that says so, and
// takes nobody with it.
func TestMemoryOfSlowReader(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	const limit = 3 << 20
	budget := remember(s, limit)
	h := httptest.NewUnstartedServer(s.Server.Handler())
	h.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.(*net.TCPConn).SetWriteBuffer(4096) // the system's buffers are no part of this
		}
	}
	h.Start()
	defer h.Close()
	s.URL = h.URL
	c, status := s.Ignore("/v1/completions", `{"prompt":"Once","max_tokens":-1,"ignore_eos":true,"n":32,"stream":true}`)
	defer c.Close()
	if n := <-status; n != 200 {
		t.Fatalf("status %d", n)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		busy := 0
		for _, slot := range s.Model().Engine.Status().Slots {
			if slot.Busy {
				busy++
			}
		}
		if busy == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it goes on for a client that does not read")
		}
	}
	if most := budget.Peak(); most > limit {
		t.Errorf("%d bytes were taken", most)
	}
	post200(t, s, `{"prompt":"Once","n_predict":3}`)
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if end := string(text[max(0, len(text)-600):]); !strings.Contains(end, "the memory for answers is used up") ||
		!strings.Contains(end, `"code":503`) || !strings.Contains(end, "data: [DONE]\n\n") {
		t.Errorf("the stream of %d bytes ends with %s", len(text), end)
	}
}
