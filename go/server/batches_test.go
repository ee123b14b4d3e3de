package server_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/internal/fake"
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
