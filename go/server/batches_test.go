package server_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/quota"
)

// The requests of a batch are answered as others are, by their endpoints and for their owner, and what is wrong with one
// is in its line.
func TestBatchesAreAnswered(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log fake.Log
	s := fake.Demo(t, fake.Setup{Server: server.Config{Batches: store, Log: zerolog.New(&log)}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Server.RunBatches(ctx) }()
	defer func() { cancel(); <-done }()
	run := func(endpoint string, bodies ...string) (batch.Batch, string, string) {
		var lines []string
		for _, body := range bodies {
			lines = append(lines, `{"custom_id":"`+body[1:3]+`","method":"POST","url":"`+endpoint+`","body":`+body[3:]+`}`)
		}
		in, err := store.AddFile("me", "in", "batch", strings.NewReader(strings.Join(lines, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.AddBatch("me", in.ID, endpoint, "24h", time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		fake.Eventually(t, "ended", func() bool {
			b, err = store.Batch("me", b.ID)
			return err != nil || b.Completed+b.Failed > 0
		})
		content := func(id string) string {
			f, err := store.Content("me", id)
			if err != nil {
				return ""
			}
			defer f.Close()
			text, err := io.ReadAll(f)
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		return b, content(b.Output), content(b.ErrorFile)
	}
	alone := fake.Post[struct{ Choices []struct{ Text string } }](s, "/v1/completions", `{"prompt":"Once","max_tokens":5,"temperature":0}`).Choices[0].Text
	b, out, wrong := run("/v1/completions", `"a1{"prompt":"Once","max_tokens":5,"temperature":0}`, `"b2{"prompt":"Once","max_tokens":-7}`)
	if b.Status != "completed" || b.Counts != (batch.Counts{Total: 2, Completed: 1, Failed: 1}) || !strings.Contains(out, `"custom_id":"a1"`) ||
		!strings.Contains(out, alone) || !strings.Contains(out, `"status_code":200`) {
		t.Errorf("%+v: %s", b, out)
	}
	if !strings.Contains(wrong, `"custom_id":"b2"`) || !strings.Contains(wrong, `"status_code":400`) || !strings.Contains(wrong, "max_tokens: -7, want an integer") {
		t.Errorf("%s", wrong)
	}
	if b, out, _ := run("/v1/chat/completions", `"c3{"messages":[{"role":"user","content":"hi"}],"max_tokens":2}`); b.Counts.Completed != 1 || !strings.Contains(out, `"chat.completion"`) {
		t.Errorf("%+v: %s", b, out)
	}
	if bytes.Contains([]byte(log.String()), []byte("failed")) {
		t.Errorf("%s", log.String())
	}
}

// Nothing is sent for an owner whose key was removed, also when it goes while the batch runs: the batch waits for the key.
func TestBatchOfRemovedKey(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"before", "meanwhile"} {
		store, err := batch.Open(t.TempDir(), 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var asked atomic.Int64
		var sent atomic.Bool
		s := fake.Demo(t, fake.Setup{Server: server.Config{Batches: store,
			Account: func(owner string) (*quota.Account, bool) {
				return nil, owner == "me" && asked.Add(1) == 1 && then == "meanwhile" // as it is taken up
			},
			Batched: func(*gin.Context, time.Time, string) { sent.Store(true) },
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Server.RunBatches(ctx) }()
		in, err := store.AddFile("me", "in", "batch", strings.NewReader(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Once","max_tokens":1}}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := store.AddBatch("me", in.ID, "/v1/completions", "24h", time.Hour, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if then == "meanwhile" {
			want = 2
		}
		fake.Eventually(t, "looked for the key", func() bool { return asked.Load() >= want })
		time.Sleep(50 * time.Millisecond)
		cancel()
		<-done
		if b, err = store.Batch("me", b.ID); err != nil || b.Completed+b.Failed > 0 || b.Output+b.ErrorFile != "" || sent.Load() {
			t.Errorf("%s: %+v %v", then, b, err)
		}
	}
}

// A batch that cannot be run is logged with its reason, and a panic of the runner with its stack.
func TestBatchesThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := batch.Open(dir, 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log fake.Log
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Batches, c.Log = store, zerolog.New(&log) })
	in, err := store.AddFile("me", "in", "batch", strings.NewReader(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.AddBatch("me", in.ID, "/v1/completions", "24h", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, in.ID+".data")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Server.RunBatches(ctx) }()
	fake.Eventually(t, "failed", func() bool { b, err = store.Batch("me", b.ID); return err != nil || b.Status == "failed" })
	cancel()
	<-done
	if text := log.String(); !strings.Contains(text, `"batch":"`+b.ID+`"`) || !strings.Contains(text, `"message":"a batch failed"`) || !strings.Contains(text, "no such file") {
		t.Errorf("the log has %s", text)
	}
	without := fake.New(t, "", nil)
	without.Server.RunBatches(t.Context()) // which returns at once
}

// Defaults are what a request could have, and apply to those that say nothing.
func TestReadDefaults(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"temperature":0.25,"n_predict":3}`: "", `{"temperature":101}`: "temperature: 101, want", `{"nonsense":1}`: "nonsense", `[]`: "an object"} {
		d, err := server.ReadDefaults([]byte(body))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		if err != nil {
			continue
		}
		s := fake.New(t, "Hello world", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Defaults = d })
		for path, body := range map[string]string{"/completion": `{"prompt":"x"}`, "/v1/chat/completions": "{" + fake.Hi + "}", "/v1/completions": `{"prompt":"x"}`} {
			fake.Post[struct{}](s, path, body)
			if r := s.Last(); r.Sampling.Temp != 0.25 || r.MaxTokens != 3 {
				t.Errorf("%s: the temperature %g, and %d tokens", path, r.Sampling.Temp, r.MaxTokens)
			}
		}
	}
}

// A server that is closed refuses requests, after each model was finished.
func TestClose(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	finished := 0
	if !s.Server.Close(t.Context(), func(models.Instance[ask.Model]) { finished++ }) || finished != 1 {
		t.Errorf("%d models were finished", finished)
	}
	if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"x"}`); status != 503 {
		t.Errorf("%d %s", status, b)
	}
}
