package catalog_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A panic while a model is downloaded is that download's error, and the server goes on.
func TestDownloadPanics(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Library = &fake.Shelf{} })
	if status, b, _ := s.Do("POST", "/api/pull", `{"model":"hf.co/org/hostile","stream":false}`); status < 500 ||
		!strings.Contains(string(b), "internal error") {
		t.Errorf("%d %s", status, b)
	}
	if status, b, _ := s.Do("POST", "/models", `{"model":"org/hostile"}`); status != 200 {
		t.Errorf("%d %s", status, b)
	}
	if status, b, _ := s.Do("POST", "/api/pull", `{"model":"hf.co/org/other","stream":false}`); status != 200 {
		t.Errorf("%d %s", status, b)
	}
}

// Requests for one model share its download, which is listed, told about, and ended by those who began it or may end
// it.
func TestDownloads(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{Begun: make(chan struct{}), GoOn: make(chan struct{}), Ended: make(chan error, 10)}
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Library = lib })
	events := s.Lines("GET", "/models/sse", "")
	<-events // a comment
	const ask = `{"model":"org/repo:Q4_K_M"}`
	if status, b, _ := s.Do("POST", "/models", ask); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	<-lib.Begun
	if status, b, _ := s.Do("POST", "/models", ask); status != 200 { // joins it: another would be begun
		t.Fatalf("%d %s", status, b)
	}
	for path, want := range map[string]string{
		"/models":                 `"id":"org/repo:Q4_K_M"`,
		"/models/org/repo:Q4_K_M": `"status":{"value":"downloading","progress":{"https://x/a.gguf":{"done":5,"total":10}}}`,
	} {
		if _, b, _ := s.Do("GET", path, ""); !strings.Contains(string(b), want) {
			t.Errorf("%s: %s", path, b)
		}
	}
	if e := <-events; !strings.Contains(e, `"event":"model_status"`) || !strings.Contains(e, "downloading") {
		t.Error(e)
	}
	if e := <-events; !strings.Contains(e, `"event":"download_progress","data":{"https://x/a.gguf":{"done":5,"total":10}}`) {
		t.Error(e)
	}
	if status, b, _ := s.Do("POST", "/models/unload", ask); status != 200 {
		t.Errorf("%d %s", status, b)
	}
	if err := <-lib.Ended; err != context.Canceled {
		t.Error(err)
	}
	if e := <-events; !strings.Contains(e, `"event":"download_failed"`) {
		t.Error(e)
	}

	// A client that is gone needs no model any more.
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/pull", strings.NewReader(`{"model":"tiny"}`))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-lib.Begun
	cancel()
	if err := <-lib.Ended; err != context.Canceled {
		t.Error(err)
	}

	// One that waits gets all of it.
	done := make(chan string)
	go func() {
		_, b, _ := s.Do("POST", "/api/pull", `{"model":"hf.co/org/other:Q8_0"}`)
		done <- string(b)
	}()
	<-lib.Begun
	lib.GoOn <- struct{}{}
	want := `{"status":"pulling aaaaaaaaaaaa","digest":"sha256:` + strings.Repeat("a", 64) + `","total":10,"completed":5}`
	if got := <-done; !strings.HasPrefix(got, `{"status":"pulling manifest"}`) || !strings.Contains(got, want) ||
		!strings.HasSuffix(got, `{"status":"success"}`+"\n") {
		t.Error(got)
	}
	for body, status := range map[string]int{`{"model":"org/none"}`: 404, `{"model":"http://10.0.0.1/a.gguf"}`: 400,
		`{"model":"oci://10.0.0.1/a"}`: 400, `{"model":"a b"}`: 400} {
		if got, b, _ := s.Do("POST", "/models", body); got != status {
			t.Errorf("%s: %d %s", body, got, b)
		}
	}
	if got, b, _ := s.Do("DELETE", "/models?model=fake/model", ""); got != 400 {
		t.Errorf("a model that is not downloaded: %d %s", got, b)
	}
}

// A download goes on as long as one client waits for it, and is not listed any more once it has ended.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{Begun: make(chan struct{}), GoOn: make(chan struct{}), Ended: make(chan error, 1)}
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Library = lib })
	pull := func() (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/pull", strings.NewReader(`{"model":"hf.co/org/repo"}`))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return cancel
	}
	first := make(chan func(), 1)
	go func() { first <- pull() }()
	<-lib.Begun
	second := pull()
	(<-first)()
	if b := s.Get("/models"); !strings.Contains(string(b), `"value":"downloading"`) {
		t.Errorf("%s", b)
	}
	second()
	if err := <-lib.Ended; err != context.Canceled {
		t.Error(err)
	}
	fake.Eventually(t, "not listed", func() bool { return !strings.Contains(string(s.Get("/models")), "org/repo") })
}
