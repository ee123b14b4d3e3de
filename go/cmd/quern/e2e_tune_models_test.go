package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// upload uploads examples.
func (c batchClient) upload(name string, lines ...string) string {
	c.t.Helper()
	f, err := c.Files.New(context.Background(), openai.FileNewParams{
		File: openai.File(strings.NewReader(strings.Join(lines, "\n")), name, "application/jsonl"), Purpose: openai.FilePurposeFineTune,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return f.ID
}

// jobOf begins a job.
func (c batchClient) jobOf(p openai.FineTuningJobNewParams) string {
	c.t.Helper()
	job, err := c.FineTuning.Jobs.New(context.Background(), p)
	if err != nil {
		c.t.Fatal(err)
	}
	return job.ID
}

// failedJob waits until a job has failed.
func (c batchClient) failedJob(id string) *openai.FineTuningJob {
	c.t.Helper()
	return c.job(id, func(j *openai.FineTuningJob) bool { return j.Status == "failed" })
}

// messageOf is what the server says in an error.
func messageOf(err error) string {
	if e := (*openai.Error)(nil); errors.As(err, &e) {
		return e.Message
	}
	return fmt.Sprint(err)
}

// Jobs and what they have made are of a file, not of whatever has its name.
func TestFineTuningOfAnotherFile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path, whole := filepath.Join(t.TempDir(), "base.gguf"), demo.GGUF()
	name := []byte("general.name")
	at := bytes.Index(whole, name) + len(name) + 12 // behind the value's type and length
	other := bytes.Clone(whole)
	other[at] ^= 1
	write := func(file []byte) {
		t.Helper()
		beside := path + ".new"
		if err := os.WriteFile(beside, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(beside, path); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	args := []string{"", "-m", path, "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning"}
	begin := func() (*service, batchClient) {
		s := serve(t, args[0], args[1:]...)
		return s, s.batches("x")
	}
	s, c := begin()
	params := openai.FineTuningJobNewParams{Model: "base", TrainingFile: c.examples()}
	params.Hyperparameters.NEpochs.OfInt = openai.Int(1)
	done := c.tuned(c.jobOf(params))
	if _, err := c.ask(done.FineTunedModel, "Hi"); err != nil {
		t.Error(err)
	}
	params.Hyperparameters.NEpochs.OfInt = openai.Int(5000)
	long := c.jobOf(params)
	params.Hyperparameters.NEpochs.OfInt = openai.Int(1)
	c.job(long, func(j *openai.FineTuningJob) bool { return j.Status == "running" })
	write(other)
	if _, err := c.ask(done.FineTunedModel, "Hi"); err != nil {
		t.Errorf("while the file is loaded that it was made of: %v", err)
	}
	if _, err := c.FineTuning.Jobs.New(ctx, params); status(err) != 400 || !strings.Contains(messageOf(err), "the file of base has changed since it was loaded") {
		t.Errorf("a job of another file than the loaded one: %v", err)
	}
	s.end()
	s, c = begin()
	if job := c.failedJob(long); job.Error.Code != "model_changed" || job.Error.Message != `the file of "base" has changed since the job was created` {
		t.Errorf("%s", job.RawJSON())
	}
	if _, err := c.ask(done.FineTunedModel, "Hi"); status(err) != 404 || !strings.Contains(messageOf(err), "the file of base has changed since") {
		t.Errorf("a model that was made of another file: %v", err)
	}
	if _, err := c.Models.Get(ctx, done.FineTunedModel); status(err) != 404 {
		t.Errorf("it is offered: %v", err)
	}
	if next := c.tuned(c.jobOf(params)); next.FineTunedModel == done.FineTunedModel {
		t.Error("the same model again")
	} else if _, err := c.ask(next.FineTunedModel, "Hi"); err != nil {
		t.Error(err)
	}
	s.end()
	write(whole)
	_, c = begin()
	if _, err := c.ask(done.FineTunedModel, "Hi"); err != nil {
		t.Errorf("the file is back, and: %v", err)
	}
}

// end ends the service, as a signal does.
func (s *service) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	if code := s.wait(); code != 0 {
		s.t.Errorf("the server ended with %d", code)
	}
}

// lossOf returns the losses in a table of a job's steps.
func (c batchClient) lossOf(file string) (all []float64) {
	c.t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(string(c.content(file))), "\n") {
		var step int
		var loss float64
		if n, _ := fmt.Sscanf(line, "%d,%f", &step, &loss); n == 2 {
			all = append(all, loss)
		} else if i > 1 { // the first has what was before any step
			c.t.Errorf("line %d: %q", i+1, line)
		}
	}
	return all
}

// By the method dpo a model learns to prefer answers; each method has its own kind of examples.
func TestFineTuningByPairs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := serve(t, "demo", "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning").batches("x")
	var lines []string
	for i, better := range learnt {
		line, err := json.Marshal(map[string]any{
			"input":                map[string]any{"messages": []any{map[string]any{"role": "user", "content": question(i)}}},
			"preferred_output":     []any{map[string]any{"role": "assistant", "content": better}},
			"non_preferred_output": []any{map[string]any{"role": "assistant", "content": "I do not know."}},
		})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	pairs, answers := c.upload("pairs.jsonl", lines...), c.examples()
	params := openai.FineTuningJobNewParams{Model: "demo", TrainingFile: pairs, Seed: openai.Int(1), Method: openai.FineTuningJobNewParamsMethod{Type: "dpo"}}
	params.Method.Dpo.Hyperparameters.Beta.OfFloat = openai.Float(0.2)
	params.Method.Dpo.Hyperparameters.NEpochs.OfInt = openai.Int(30)
	params.Method.Dpo.Hyperparameters.LearningRateMultiplier.OfFloat = openai.Float(50)
	job := c.tuned(c.jobOf(params))
	if h := job.Method.Dpo.Hyperparameters; job.Method.Type != "dpo" || h.Beta.OfFloat != 0.2 || h.NEpochs.OfInt != 30 || h.BatchSize.OfInt < 1 || job.JSON.Hyperparameters.Valid() {
		t.Errorf("%s", job.RawJSON())
	}
	loss := c.lossOf(job.ResultFiles[0])
	if n := len(loss); n < 5 || math.Abs(loss[0]-math.Ln2) > 0.01 || loss[n-1] > 0.1 {
		t.Errorf("losses: %v, want from ln 2 to nearly none", loss)
	}
	if _, err := c.ask(job.FineTunedModel, question(0)); err != nil {
		t.Error(err)
	}

	for _, wrong := range []struct {
		file, method, want string
	}{
		{pairs, "supervised", "pairs.jsonl: pairs of a better and a worse answer, want texts and answers; of pairs learns the method dpo"},
		{answers, "dpo", "examples.jsonl: texts and answers, want pairs of a better and a worse answer"},
	} {
		id := c.jobOf(openai.FineTuningJobNewParams{Model: "demo", TrainingFile: wrong.file, Method: openai.FineTuningJobNewParamsMethod{Type: wrong.method}})
		if job := c.failedJob(id); job.Error.Param != "training_file" || job.Error.Message != wrong.want {
			t.Errorf("%s", job.RawJSON())
		}
	}
	many := openai.FineTuningJobNewParams{Model: "demo", TrainingFile: pairs, Method: openai.FineTuningJobNewParamsMethod{Type: "dpo"}}
	many.Method.Dpo.Hyperparameters.NEpochs.OfInt = openai.Int(10_000)
	many.Method.Dpo.Hyperparameters.BatchSize.OfInt = openai.Int(1)
	many.TrainingFile = c.upload("many.jsonl", slices.Repeat(lines, 3)...)
	if job := c.failedJob(c.jobOf(many)); job.Error.Param != "hyperparameters" || !strings.Contains(job.Error.Message, "steps, want at most 100000; ") {
		t.Errorf("%s", job.RawJSON())
	}
	_, err := c.FineTuning.Jobs.New(ctx, openai.FineTuningJobNewParams{Model: "demo", TrainingFile: pairs, Method: openai.FineTuningJobNewParamsMethod{Type: "reinforcement"}})
	if status(err) != 400 || !strings.Contains(messageOf(err), "method: type: ") || !strings.HasSuffix(messageOf(err), "want one of supervised, dpo") {
		t.Errorf("the method reinforcement: %v", err)
	}
}

// An embedding model learns from questions with their answers, and its vectors are had by the name of what was made.
func TestFineTuningOfVectors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	bert := testdata.Path(t, "models/tiny-random-bert-mean-f16.gguf")
	c := serve(t, "", "-m", "bert="+bert, "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning").batches("x")
	var lines []string
	for _, x := range questions(40) {
		lines = append(lines, fmt.Sprintf(`{"anchor": %q, "positive": %q}`, x[0], x[1]))
	}
	params := openai.FineTuningJobNewParams{Model: "bert", TrainingFile: c.upload("questions.jsonl", lines...), Seed: openai.Int(1)}
	params.Hyperparameters.NEpochs.OfInt = openai.Int(20)
	params.Hyperparameters.BatchSize.OfInt = openai.Int(20)
	params.Hyperparameters.LearningRateMultiplier.OfFloat = openai.Float(25)
	job := c.tuned(c.jobOf(params))
	loss := c.lossOf(job.ResultFiles[0])
	if n := len(loss); n < 20 || loss[n-1] > loss[0]/2 || job.Hyperparameters.BatchSize.OfInt < 15 || job.Hyperparameters.BatchSize.OfInt > 25 {
		t.Errorf("losses: %v; %s", loss, job.RawJSON())
	}
	vector := func(model string) []float64 {
		r, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("big road")}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Data[0].Embedding
	}
	if fmt.Sprint(vector("bert")) == fmt.Sprint(vector(job.FineTunedModel)) {
		t.Error("the adapter changes no vectors")
	}
	id := c.jobOf(openai.FineTuningJobNewParams{Model: "bert", TrainingFile: c.upload("one.jsonl", `{"anchor": "a", "positive": "b"}`)})
	if job := c.failedJob(id); job.Error.Param != "training_file" || !strings.Contains(job.Error.Message, "a single query without negatives") {
		t.Errorf("%s", job.RawJSON())
	}
}

// A job whose result has no room fails before it takes its time, and leaves nothing.
func TestFineTuningWithoutRoom(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := serve(t, "demo", "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning", "--batch-space", "1MiB").batches("x")
	file := c.examples()
	job := c.failedJob(c.tune(file, 5000).ID)
	if !strings.HasPrefix(job.Error.Message, "there is no room for an adapter of ") || !strings.Contains(job.Error.Message, "delete some files") {
		t.Errorf("%s", job.RawJSON())
	}
	all, err := c.Files.List(ctx, openai.FileListParams{})
	if err != nil || len(all.Data) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A reranker learns from queries with what answers them, and ranks by the name of what was made.
func TestFineTuningOfRankings(t *testing.T) {
	t.Parallel()
	base := reranker(t, "bert", nil, "cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias")
	s := serve(t, "", "-m", "ranks="+base, "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning")
	c := s.batches("x")
	all := questions(24)
	var lines, answers []string
	for _, x := range all {
		lines = append(lines, fmt.Sprintf(`{"query": %q, "positive": %q}`, x[0], x[1]))
		answers = append(answers, x[1])
	}
	file := c.upload("answers.jsonl", lines...)
	params := openai.FineTuningJobNewParams{Model: "ranks", TrainingFile: file, ValidationFile: openai.String(file), Seed: openai.Int(1)}
	params.Hyperparameters.NEpochs.OfInt = openai.Int(20)
	params.Hyperparameters.LearningRateMultiplier.OfFloat = openai.Float(15)
	job := c.tuned(c.jobOf(params))
	found := func(model string) (n int) {
		for i, x := range all[:8] {
			body, err := json.Marshal(map[string]any{"model": model, "query": x[0], "documents": answers, "top_n": 1})
			if err != nil {
				t.Fatal(err)
			}
			var ranked struct{ Results []struct{ Index int } }
			s.posted("/v1/rerank", string(body), &ranked)
			if len(ranked.Results) != 1 {
				t.Fatalf("%+v", ranked)
			}
			if ranked.Results[0].Index == i {
				n++
			}
		}
		return n
	}
	if before, after := found("ranks"), found(job.FineTunedModel); after <= before || after < 3 {
		t.Errorf("%d of 8 answers were first before, %d after", before, after)
	}
}

// With dora a job trains magnitudes as well, which its settings show, and what it makes is served.
func TestFineTuningOfMagnitudes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := serve(t, "demo", "--batch-dir", filepath.Join(t.TempDir(), "files"), "--fine-tuning").batches("x")
	params := openai.FineTuningJobNewParams{Model: "demo", TrainingFile: c.examples(), Seed: openai.Int(1)}
	begun, err := c.FineTuning.Jobs.New(ctx, params, option.WithJSONSet("hyperparameters.dora", true),
		option.WithJSONSet("hyperparameters.n_epochs", 60), option.WithJSONSet("hyperparameters.learning_rate_multiplier", 50))
	if err != nil {
		t.Fatal(err)
	}
	job := c.tuned(begun.ID)
	if !strings.Contains(job.Hyperparameters.RawJSON(), `"dora":true`) {
		t.Errorf("%s", job.RawJSON())
	}
	f, err := gguf.Parse(c.content(job.ResultFiles[1]))
	if err != nil {
		t.Fatal(err)
	}
	if kind, err := f.Str("adapter.type"); err != nil || kind != "dora" {
		t.Errorf("an adapter of type %q, %v", kind, err)
	}
	if got, err := c.ask(job.FineTunedModel, question(2)); err != nil || !strings.Contains(got, learnt[2]) {
		t.Errorf("%q, %v", got, err)
	}
}
