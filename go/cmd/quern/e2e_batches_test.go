package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/sys/unix"
)

// files and batches of a service through OpenAI's client, with a key.
type batchClient struct {
	t *testing.T
	openai.Client
}

func (s *service) batches(key string) batchClient {
	return batchClient{s.t, openai.NewClient(option.WithBaseURL("http://quern/v1"), option.WithHTTPClient(s.client), option.WithAPIKey(key), option.WithMaxRetries(0))}
}

// begin uploads lines and begins a batch of them.
func (c batchClient) begin(lines ...string) *openai.Batch {
	c.t.Helper()
	f, err := c.Files.New(context.Background(), openai.FileNewParams{
		File: openai.File(strings.NewReader(strings.Join(lines, "\n")), "requests.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := c.Batches.New(context.Background(), openai.BatchNewParams{
		InputFileID: f.ID, Endpoint: openai.BatchNewParamsEndpointV1Completions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
		Metadata: map[string]string{"for": "a test"},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// until waits until a batch is as wanted.
func (c batchClient) until(id string, ok func(b *openai.Batch) bool) *openai.Batch {
	c.t.Helper()
	for range 1200 {
		b, err := c.Batches.Get(context.Background(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		if ok(b) {
			return b
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatal("the batch is not as wanted after a minute")
	return nil
}

func (c batchClient) ended(id string) *openai.Batch {
	c.t.Helper()
	return c.until(id, func(b *openai.Batch) bool {
		return b.Status == "completed" || b.Status == "failed" || b.Status == "cancelled" || b.Status == "expired"
	})
}

// A resultLine is a line of an output or error file.
type resultLine struct {
	ID       string
	CustomID string `json:"custom_id"`
	Response struct {
		Status int `json:"status_code"`
		Body   struct {
			Choices []struct{ Text string }
			Error   struct{ Message string }
		}
	}
}

// results reads a file by custom_id.
func (c batchClient) results(file string) map[string]resultLine {
	c.t.Helper()
	r, err := c.Files.Content(context.Background(), file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]resultLine{}
	for line := range bytes.Lines(raw) {
		var l resultLine
		if err := json.Unmarshal(line, &l); err != nil {
			c.t.Fatal(err)
		}
		all[l.CustomID] = l
	}
	return all
}

func batchLine(id, prompt string, tokens int) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/completions","body":{"prompt":%q,"max_tokens":%d,"temperature":0,"ignore_eos":true}}`, id, prompt, tokens)
}

func status(err error) int {
	var api *openai.Error
	if errors.As(err, &api) {
		return api.StatusCode
	}
	return 0
}

// A batch runs to its end through a crash of the server, gives way to those who wait, and each line's answer is that
// of the same request alone.
func TestServeBatches(t *testing.T) {
	t.Parallel()
	const key, other = "the-first-secret-key", "the-second-secret-key"
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "batches")
	args := []string{"--batch-dir", dir, "--api-key", key + "," + other, "-np", "1"}
	s := serve(t, "", args...)
	c := s.batches(key)

	var lines []string
	for i := range 24 {
		lines = append(lines, batchLine(fmt.Sprint("line ", i), fmt.Sprintf("Once upon a time there were %d cats", i), 250))
	}
	lines = append(lines, strings.Replace(batchLine("wrong", "x", 1), `"max_tokens":1`, `"max_tokens":"x"`, 1))
	b := c.begin(lines...)
	begun := c.until(b.ID, func(b *openai.Batch) bool { return b.RequestCounts.Completed >= 1 })
	if begun.RequestCounts.Total != 25 || begun.Status != "in_progress" || begun.Metadata["for"] != "a test" {
		t.Errorf("%+v", begun)
	}
	// Somebody who waits goes first: most lines end later, though one request runs at a time.
	if _, err := c.Completions.New(ctx, openai.CompletionNewParams{
		Model: "any", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("A dog")}, MaxTokens: openai.Int(200), Temperature: openai.Float(0),
	}); err != nil {
		t.Fatal(err)
	}
	during, err := c.Batches.Get(ctx, b.ID)
	if err != nil || during.RequestCounts.Completed > begun.RequestCounts.Completed+12 || during.RequestCounts.Completed >= 24 {
		t.Errorf("%d lines had ended before a request was answered that came after %d, %v", during.RequestCounts.Completed, begun.RequestCounts.Completed, err)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.done
	journal, err := os.ReadFile(filepath.Join(dir, b.ID+".journal"))
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	for line := range bytes.Lines(journal) {
		var e struct{ Line resultLine }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		before[e.Line.CustomID] = e.Line.ID
	}
	if n := len(before); n < 1 || n > 24 {
		t.Fatalf("%d lines had ended when the server was killed", n)
	}
	if err := os.WriteFile(filepath.Join(dir, b.ID+".journal"), append(journal, `{"n":24,"li`...), 0o600); err != nil { // cut short
		t.Fatal(err)
	}

	s = serve(t, "", args...)
	c = s.batches(key)
	b = c.ended(b.ID)
	if b.Status != "completed" || b.RequestCounts.Completed != 24 || b.RequestCounts.Failed != 1 || b.RequestCounts.Total != 25 {
		t.Fatalf("%+v", b)
	}
	if !b.JSON.CompletedAt.Valid() || b.JSON.FailedAt.Valid() || b.JSON.CancelledAt.Valid() {
		t.Errorf("times of what has not happened are shown: %s", b.RawJSON())
	}
	out, wrong := c.results(b.OutputFileID), c.results(b.ErrorFileID)
	if len(out) != 24 || len(wrong) != 1 {
		t.Errorf("%d answers, %d errors", len(out), len(wrong))
	}
	if e := wrong["wrong"].Response; e.Status != 400 || !strings.Contains(e.Body.Error.Message, "max_tokens") {
		t.Errorf("%+v", e)
	}
	for id, was := range before {
		if now := out[id]; now.ID != was && id != "wrong" {
			t.Errorf("%s was computed again after the crash", id)
		}
	}
	for _, i := range []int{0, 11, 23} {
		got := out[fmt.Sprint("line ", i)].Response
		alone, err := c.Completions.New(ctx, openai.CompletionNewParams{
			Model: "any", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(fmt.Sprintf("Once upon a time there were %d cats", i))},
			MaxTokens: openai.Int(250), Temperature: openai.Float(0),
		}, option.WithJSONSet("ignore_eos", true))
		if err != nil {
			t.Fatal(err)
		}
		if want := alone.Choices[0].Text; got.Status != 200 || got.Body.Choices[0].Text != want {
			t.Errorf("line %d: %+v, want %q", i, got, want)
		}
	}

	// What is wrong with an input is told by line.
	b = c.ended(c.begin(batchLine("a", "x", 1), batchLine("a", "x", 1), "{", strings.Replace(batchLine("b", "x", 1), "/v1/completions", "/v1/else", 1),
		strings.Replace(batchLine("c", "x", 1), `"max_tokens"`, `"stream":true,"max_tokens"`, 1), `{"custom_id":"d","method":"GET"}`).ID)
	var faults []string
	for _, f := range b.Errors.Data {
		faults = append(faults, fmt.Sprint(f.Line, " ", f.Code))
	}
	if got := strings.Join(faults, ", "); b.Status != "failed" || got != "2 duplicate_custom_id, 3 invalid_json_line, 4 invalid_request, 5 invalid_request, 6 invalid_request" {
		t.Errorf("%s: %s", b.Status, got)
	}

	// A cancelled batch keeps what was answered.
	var long []string
	for i := range 200 {
		long = append(long, batchLine(fmt.Sprint(i), "Once", 200))
	}
	b = c.begin(long...)
	c.until(b.ID, func(b *openai.Batch) bool { return b.RequestCounts.Completed > 0 })
	if err := deleteFile(c, b.InputFileID); status(err) != 409 {
		t.Errorf("deleting a file that is in use: %v", err)
	}
	if _, err := c.Batches.Cancel(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	b = c.ended(b.ID)
	if n := len(c.results(b.OutputFileID)); b.Status != "cancelled" || n < 1 || n >= 200 || int64(n) != b.RequestCounts.Completed {
		t.Errorf("%s with %d answers", b.Status, n)
	}

	// Files and batches are those of the key.
	stranger := s.batches(other)
	if _, err := stranger.Batches.Get(ctx, b.ID); status(err) != 404 {
		t.Errorf("another key's batch: %v", err)
	}
	if _, err := stranger.Files.Content(ctx, b.OutputFileID); status(err) != 404 {
		t.Errorf("another key's file: %v", err)
	}
	if list, err := stranger.Files.List(ctx, openai.FileListParams{}); err != nil || len(list.Data) != 0 {
		t.Errorf("another key's files: %v, %v", list, err)
	}
	mine, err := c.Batches.List(ctx, openai.BatchListParams{Limit: openai.Int(2)})
	if err != nil || len(mine.Data) != 2 || !mine.HasMore || mine.Data[0].ID != b.ID {
		t.Errorf("%+v, %v", mine, err)
	}
	if d, err := c.Files.Delete(ctx, b.OutputFileID); err != nil || !d.Deleted {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := c.Files.Get(ctx, b.OutputFileID); status(err) != 404 {
		t.Errorf("a deleted file: %v", err)
	}
	if _, err := c.Files.New(ctx, openai.FileNewParams{File: strings.NewReader("x"), Purpose: openai.FilePurposeAssistants}); status(err) != 400 {
		t.Errorf("a file for something else: %v", err)
	}
	// A full disk, or a limit of the file system, is told; what there is can still be read and deleted.
	limit := unix.Rlimit{Cur: 1000, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	_, err = c.Files.New(ctx, openai.FileNewParams{File: strings.NewReader(strings.Repeat("x", 5000)), Purpose: openai.FilePurposeBatch})
	if api := (*openai.Error)(nil); !errors.As(err, &api) || api.StatusCode != 413 || !strings.Contains(api.Message, "has no room") {
		t.Errorf("a file on a full disk: %v", err)
	}
	if files, err := c.Files.List(ctx, openai.FileListParams{}); err != nil || len(files.Data) == 0 {
		t.Errorf("%v, %v", files, err)
	} else if err := deleteFile(c, files.Data[0].ID); err != nil {
		t.Error(err)
	}
	without := serve(t, "").batches("x")
	if _, err := without.Files.List(ctx, openai.FileListParams{}); status(err) != 501 {
		t.Errorf("without --batch-dir: %v", err)
	}
}

func deleteFile(c batchClient, id string) error {
	_, err := c.Files.Delete(context.Background(), id)
	return err
}
