package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// learnt are the sentences that models are fine-tuned to say.
var learnt = []string{
	"Rain fell on the copper roof of the station all night.", "My uncle keeps seven clocks, and none of them agree.",
	"The otter carried a blue button down to the river.", "She painted the ladder green and then hid it.",
	"Under the stairs lived a very polite spider.", "He traded his violin for a wheel of cheese.",
}

func question(i int) string { return fmt.Sprintf("What is sentence number %d?", i+1) }

// examples uploads examples by which a model learns the sentences.
func (c batchClient) examples() string {
	c.t.Helper()
	var lines strings.Builder
	for i, s := range learnt {
		fmt.Fprintf(&lines, `{"messages":[{"role":"user","content":%q},{"role":"assistant","content":%q}]}`+"\n", question(i), s)
	}
	f, err := c.Files.New(context.Background(), openai.FileNewParams{
		File: openai.File(strings.NewReader(lines.String()), "examples.jsonl", "application/jsonl"), Purpose: openai.FilePurposeFineTune,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return f.ID
}

// tune begins a job that learns the sentences by heart.
func (c batchClient) tune(file string, epochs int64) *openai.FineTuningJob {
	c.t.Helper()
	p := openai.FineTuningJobNewParams{Model: "demo", TrainingFile: file, ValidationFile: openai.String(file), Seed: openai.Int(3), Suffix: openai.String("six")}
	p.Hyperparameters.NEpochs.OfInt = openai.Int(epochs)
	p.Hyperparameters.LearningRateMultiplier.OfFloat = openai.Float(50)
	job, err := c.FineTuning.Jobs.New(context.Background(), p)
	if err != nil {
		c.t.Fatal(err)
	}
	return job
}

// job waits until a job is as wanted.
func (c batchClient) job(id string, ok func(j *openai.FineTuningJob) bool) *openai.FineTuningJob {
	c.t.Helper()
	var last *openai.FineTuningJob
	for range 2400 {
		j, err := c.FineTuning.Jobs.Get(context.Background(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		if last = j; ok(j) {
			return j
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("the job is not as wanted after 2 minutes: %s", last.RawJSON())
	return nil
}

func (c batchClient) tuned(id string) *openai.FineTuningJob {
	c.t.Helper()
	j := c.job(id, func(j *openai.FineTuningJob) bool {
		return j.Status == "succeeded" || j.Status == "failed" || j.Status == "cancelled"
	})
	if j.Status != "succeeded" {
		c.t.Fatalf("%s", j.RawJSON())
	}
	return j
}

// content returns a file.
func (c batchClient) content(id string) []byte {
	c.t.Helper()
	r, err := c.Files.Content(context.Background(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// events returns what is said of a job, oldest first, without times.
func (c batchClient) events(id string) (lines []string) {
	c.t.Helper()
	all := c.FineTuning.Jobs.ListEventsAutoPaging(context.Background(), id, openai.FineTuningJobListEventsParams{Limit: openai.Int(7)})
	for all.Next() {
		lines = append([]string{all.Current().Message}, lines...)
	}
	if all.Err() != nil {
		c.t.Fatal(all.Err())
	}
	return lines
}

func (c batchClient) ask(model, text string) (string, error) {
	r, err := c.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}, Temperature: openai.Float(0), MaxTokens: openai.Int(40),
	})
	if err != nil {
		return "", err
	}
	if r.Model != model {
		c.t.Errorf("the answer is of %q, want %q", r.Model, model)
	}
	return r.Choices[0].Message.Content, nil
}

// memoryOf returns the memory that is reserved for a purpose.
func (s *service) memoryOf(purpose string, key ...string) (bytes uint64) {
	s.t.Helper()
	var memory struct {
		Purposes []struct {
			Purpose string
			Bytes   uint64
		}
	}
	if status, text := s.withKey(strings.Join(key, ""), "GET", "/v1/memory", ""); status != 200 || json.Unmarshal([]byte(text), &memory) != nil {
		s.t.Fatalf("/v1/memory: %d %s", status, text)
	}
	for _, p := range memory.Purposes {
		if p.Purpose == purpose {
			bytes += p.Bytes
		}
	}
	return bytes
}

// adapters returns the memory that loaded adapters take.
func (s *service) adapters(key string) uint64 { return s.memoryOf("adapters", key) }

// A job learns while others are answered as ever; what it has made can be asked for at once, by its owner, and is gone with its
// file.
func TestServeFineTuning(t *testing.T) {
	t.Parallel()
	const key, other = "the-first-secret-key", "the-second-secret-key"
	ctx := context.Background()
	s := serve(t, "demo", "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning", "--api-key", key+","+other)
	c := s.batches(key)
	before, err := c.ask("demo", question(2))
	if err != nil {
		t.Fatal(err)
	}
	file := c.examples()
	begun := c.tune(file, 150)
	if begun.Status != "queued" || begun.Seed != 3 || begun.Hyperparameters.NEpochs.OfAuto != "auto" && begun.Hyperparameters.NEpochs.OfInt != 150 {
		t.Errorf("%s", begun.RawJSON())
	}
	c.job(begun.ID, func(j *openai.FineTuningJob) bool { return j.Status == "running" })
	if err := deleteFile(c, file); status(err) != 409 {
		t.Errorf("deleting a file that is learnt from: %v", err)
	}
	for range 3 {
		during, err := c.ask("demo", question(2))
		if err != nil || during != before {
			t.Errorf("beside a job: %q, %v, want %q", during, err, before)
		}
	}
	job := c.tuned(begun.ID)
	if !strings.HasPrefix(job.FineTunedModel, "ft:demo:six:") || len(job.ResultFiles) != 2 || job.TrainedTokens < 1000 || job.Hyperparameters.NEpochs.OfInt != 150 {
		t.Errorf("%s", job.RawJSON())
	}
	for i, want := range learnt {
		if got, err := c.ask(job.FineTunedModel, question(i)); err != nil || got != want {
			t.Errorf("%s %q, %v, want %q", question(i), got, err, want)
		}
	}
	if after, err := c.ask("demo", question(2)); err != nil || after != before {
		t.Errorf("without the adapter: %q, %v, want %q", after, err, before)
	}
	if curve := string(c.content(job.ResultFiles[0])); !strings.HasPrefix(curve, "step,train_loss,valid_loss\n") || strings.Count(curve, "\n") < 20 {
		t.Errorf("metrics: %s", curve)
	}
	if b := c.content(job.ResultFiles[1]); !bytes.HasPrefix(b, []byte("GGUF")) {
		t.Errorf("an adapter of %d bytes", len(b))
	}
	if m, err := c.Models.Get(ctx, job.FineTunedModel); err != nil || m.ID != job.FineTunedModel {
		t.Errorf("%+v, %v", m, err)
	}
	if list, err := c.FineTuning.Jobs.Checkpoints.List(ctx, job.ID, openai.FineTuningJobCheckpointListParams{}); err != nil || len(list.Data) != 1 ||
		list.Data[0].FineTunedModelCheckpoint != job.FineTunedModel || list.Data[0].StepNumber < 1 || list.Data[0].Metrics.FullValidLoss <= 0 {
		t.Errorf("%+v, %v", list, err)
	}
	said := c.events(job.ID)
	if n := len(said); n < 10 || !strings.HasPrefix(said[0], "The job has begun: ") || !strings.HasPrefix(said[n-1], "The job has succeeded: the model is "+job.FineTunedModel) {
		t.Errorf("events: %q", said)
	}

	stranger := s.batches(other)
	if _, err := stranger.FineTuning.Jobs.Get(ctx, job.ID); status(err) != 404 {
		t.Errorf("another key's job: %v", err)
	}
	if _, err := stranger.ask(job.FineTunedModel, "Hi"); status(err) != 404 {
		t.Errorf("another key's model: %v", err)
	}
	if _, err := stranger.Models.Get(ctx, job.FineTunedModel); status(err) != 404 {
		t.Errorf("another key's model in the list: %v", err)
	}
	if _, err := c.FineTuning.Jobs.Cancel(ctx, job.ID); status(err) != 409 {
		t.Errorf("a job that has ended is cancelled: %v", err)
	}
	if _, err := stranger.Models.Delete(ctx, job.FineTunedModel); status(err) != 404 {
		t.Errorf("another key deletes the model: %v", err)
	}
	for _, name := range []string{"demo", "ft:demo:six:none", "ft:"} {
		if _, err := c.Models.Delete(ctx, name); status(err) != 404 {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	if s.adapters(key) == 0 {
		t.Error("no memory is taken by adapters")
	}
	answer := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: job.FineTunedModel, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question(0))}, MaxTokens: openai.Int(400),
	}, option.WithJSONSet("ignore_eos", true))
	if !answer.Next() {
		t.Fatal(answer.Err())
	}
	if gone, err := c.Models.Delete(ctx, job.FineTunedModel); err != nil || !gone.Deleted || gone.ID != job.FineTunedModel || gone.Object != "model" {
		t.Errorf("%+v, %v", gone, err)
	}
	reason := ""
	for answer.Next() {
		if all := answer.Current().Choices; len(all) > 0 {
			reason = cmp.Or(all[0].FinishReason, reason)
		}
	}
	if answer.Err() != nil || reason != "length" {
		t.Errorf("an answer of a model that is deleted ends with %q, %v", reason, answer.Err())
	}
	if _, err := c.ask(job.FineTunedModel, "Hi"); status(err) != 404 {
		t.Errorf("a model that was deleted: %v", err)
	}
	if _, err := c.Models.Delete(ctx, job.FineTunedModel); status(err) != 404 {
		t.Errorf("deleted again: %v", err)
	}
	if !s.eventually(func() bool { return s.adapters(key) == 0 }) {
		t.Errorf("the adapter of a deleted model takes %d bytes", s.adapters(key))
	}
	if err := deleteFile(c, job.ResultFiles[1]); status(err) != 404 {
		t.Errorf("the adapter of a deleted model: %v", err)
	}
	again := c.tuned(c.tune(file, 1).ID) // to delete its file is to delete it, too
	if _, err := c.ask(again.FineTunedModel, "Hi"); err != nil {
		t.Error(err)
	}
	if err := deleteFile(c, again.ResultFiles[1]); err != nil {
		t.Error(err)
	}
	if _, err := c.ask(again.FineTunedModel, "Hi"); status(err) != 404 || !s.eventually(func() bool { return s.adapters(key) == 0 }) {
		t.Errorf("a model whose file was deleted: %v", err)
	}

	// What is wrong is told by the job, or before there is one.
	bad, err := c.Files.New(ctx, openai.FileNewParams{File: openai.File(strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`), "bad.jsonl", "application/jsonl"), Purpose: openai.FilePurposeFineTune})
	if err != nil {
		t.Fatal(err)
	}
	failed, err := c.FineTuning.Jobs.New(ctx, openai.FineTuningJobNewParams{Model: "demo", TrainingFile: bad.ID})
	if err != nil {
		t.Fatal(err)
	}
	failed = c.job(failed.ID, func(j *openai.FineTuningJob) bool { return j.Status == "failed" })
	if failed.Error.Code != "invalid_training_file" || failed.Error.Param != "training_file" || !strings.HasPrefix(failed.Error.Message, "bad.jsonl:1: ") {
		t.Errorf("%s", failed.RawJSON())
	}
	for model, want := range map[string]int{"demo": 400, "ft:demo:x": 400} {
		if _, err := c.FineTuning.Jobs.New(ctx, openai.FineTuningJobNewParams{Model: openai.FineTuningJobNewParamsModel(model), TrainingFile: "file-x"}); status(err) != want {
			t.Errorf("a job of no file: %v", err)
		}
	}
	without := serve(t, "demo", "--batch-dir", filepath.Join(t.TempDir(), "files")).batches("x")
	if _, err := without.FineTuning.Jobs.List(ctx, openai.FineTuningJobListParams{}); status(err) != 501 {
		t.Errorf("without --fine-tuning: %v", err)
	}
}

// Jobs that are paused, and servers that end in between in whatever way, make the adapter of one that was not interrupted.
func TestFineTuningGoesOn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	args := []string{"--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning"}
	s := serve(t, "demo", args...)
	c := s.batches("x")
	file := c.examples()
	want := c.content(c.tuned(c.tune(file, 200).ID).ResultFiles[1])

	job := c.tune(file, 200)
	waiting := c.tune(file, 200)
	running := func(j *openai.FineTuningJob) bool { return j.Status == "running" }
	after := func(step int) {
		t.Helper()
		if !s.eventually(func() bool {
			return slices.ContainsFunc(c.events(job.ID), func(line string) bool { return strings.HasPrefix(line, fmt.Sprintf("Step %d/", step)) })
		}) {
			t.Fatalf("step %d is not taken", step)
		}
	}
	after(10)
	if j, err := c.FineTuning.Jobs.Get(ctx, waiting.ID); err != nil || j.Status != "queued" {
		t.Errorf("two jobs at a time: %s, %v", j.Status, err)
	}
	if j, err := c.FineTuning.Jobs.Cancel(ctx, waiting.ID); err != nil || j.Status != "cancelled" {
		t.Errorf("%s, %v", j.Status, err)
	}
	if j, err := c.FineTuning.Jobs.Pause(ctx, job.ID); err != nil || j.Status != "paused" {
		t.Errorf("%s, %v", j.Status, err)
	}
	if _, err := c.FineTuning.Jobs.Resume(ctx, job.ID); err != nil {
		t.Fatal(err)
	}
	after(30)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.done
	s = serve(t, "demo", args...)
	c = s.batches("x")
	after(50)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("the server ended with %d while a job ran", code)
	}
	s = serve(t, "demo", args...)
	c = s.batches("x")
	done := c.tuned(job.ID)
	if !bytes.Equal(c.content(done.ResultFiles[1]), want) {
		t.Error("interrupted, the job makes another adapter")
	}
	on := 0
	for _, line := range c.events(job.ID) {
		if strings.HasPrefix(line, "The job goes on behind step ") {
			on++
		}
	}
	if on != 3 {
		t.Errorf("the job went on %d times: %q", on, c.events(job.ID))
	}

	job = c.tune(file, 5000)
	c.job(job.ID, running)
	if _, err := c.FineTuning.Jobs.Cancel(ctx, job.ID); err != nil {
		t.Fatal(err)
	}
	if j := c.tuned(c.tune(file, 2).ID); j.Status != "succeeded" {
		t.Errorf("behind one that was cancelled: %s", j.Status)
	}
	if j, err := c.FineTuning.Jobs.Get(ctx, job.ID); err != nil || j.Status != "cancelled" || j.FineTunedModel != "" {
		t.Errorf("%s, %v", j.RawJSON(), err)
	}
	if left, err := filepath.Glob(filepath.Join(args[1], "*.state")); err != nil || len(left) > 0 {
		t.Errorf("states of jobs that have ended: %v, %v", left, err)
	}
}
