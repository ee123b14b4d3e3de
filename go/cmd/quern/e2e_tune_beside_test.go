package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
)

// gaps streams an answer of n tokens, and returns the longest time between two of them, and that of all.
func (s *service) gaps(n int) (longest, whole time.Duration) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": "Once", "n_predict": n, "ignore_eos": true, "stream": true, "seed": 1, "cache_prompt": false})
	if err != nil {
		s.t.Fatal(err)
	}
	r, lines := s.stream(string(body))
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d", r.StatusCode)
	}
	var first, last time.Time
	tokens := 0
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "data: ") {
			continue
		}
		now := time.Now()
		if tokens++; tokens == 1 {
			first = now
		} else {
			longest = max(longest, now.Sub(last))
		}
		last = now
	}
	if err := lines.Err(); err != nil || tokens < n {
		s.t.Fatalf("%d of %d tokens, %v", tokens, n, err)
	}
	return longest, last.Sub(first)
}

// step returns the last step of a job that its events tell of.
func (c batchClient) step(id string) (last int64) {
	c.t.Helper()
	page, err := c.FineTuning.Jobs.ListEvents(context.Background(), id, openai.FineTuningJobListEventsParams{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range page.Data {
		if data, ok := e.Data.(map[string]any); ok {
			if n, ok := data["step"].(float64); ok {
				last = max(last, int64(n))
			}
		}
	}
	return last
}

// training returns the memory that a job takes.
func (s *service) training() uint64 { return s.memoryOf("activations of training") }

// Who is answered beside a job waits between two tokens for a layer of it at most, and takes a tenth longer in all, about. The job
// gets on meanwhile, and is paused and cancelled as ever.
func TestStreamsBesideFineTuning(t *testing.T) {
	ctx := context.Background()
	s := serve(t, "demo", "--batch-dir", t.TempDir(), "--fine-tuning")
	c := s.batches("x")
	file := c.examples()
	const tokens = 300
	gap, whole := s.gaps(tokens)
	for range 5 { // this machine may have other things to do
		g, w := s.gaps(tokens)
		gap, whole = min(gap, g), min(whole, w)
	}
	job := c.tune(file, 300).ID
	c.job(job, func(j *openai.FineTuningJob) bool { return j.Status == "running" })
	wait, all, tries := time.Hour, time.Hour, 0
	for ; tries < 40 && (wait > gap+20*time.Millisecond || all > 2*whole); tries++ {
		g, w := s.gaps(tokens)
		wait, all = min(wait, g), min(all, w)
	}
	t.Logf("alone: %v, at most %v between tokens; beside a job: %v, %v, after %d tries", whole, gap, all, wait, tries)
	if tries == 40 {
		t.Errorf("alone: %v, at most %v between tokens; beside a job: %v, %v", whole, gap, all, wait)
	}
	busy, end := context.WithCancel(ctx)
	var streams sync.WaitGroup
	for range 2 {
		streams.Go(func() {
			for busy.Err() == nil {
				s.gaps(tokens)
			}
		})
	}
	begun := c.step(job)
	if !s.eventually(func() bool { return c.step(job) > begun }) {
		t.Errorf("behind step %d the job does not get on", begun)
	}
	if j, err := c.FineTuning.Jobs.Pause(ctx, job); err != nil || j.Status != "paused" {
		t.Errorf("%+v, %v", j, err)
	}
	if !s.eventually(func() bool { return s.training() == 0 }) {
		t.Errorf("a paused job takes %d bytes", s.training())
	}
	if _, err := c.FineTuning.Jobs.Resume(ctx, job); err != nil {
		t.Error(err)
	}
	if !s.eventually(func() bool { return s.training() > 0 }) {
		t.Error("the job does not go on")
	}
	if j, err := c.FineTuning.Jobs.Cancel(ctx, job); err != nil || j.Status != "cancelled" {
		t.Errorf("%+v, %v", j, err)
	}
	if !s.eventually(func() bool { return s.training() == 0 }) {
		t.Errorf("a job that was cancelled takes %d bytes", s.training())
	}
	end()
	streams.Wait()
}
