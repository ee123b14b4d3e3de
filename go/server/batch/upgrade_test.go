package batch

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the folder of a store anew: what is there is what upgrades find, so only where the format has changed on purpose")

// stored is a folder as a server left it that was killed after the first of three answers.
const stored = "testdata/stored"

// A server finds the folder of the release before: its files, and the batch, which goes on without asking again what was
// answered.
func TestStoredByTheReleaseBefore(t *testing.T) {
	if *update {
		writeStored(t)
	}
	dir := filepath.Join(t.TempDir(), "batches")
	if err := os.CopyFS(dir, os.DirFS(stored)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, quota, false)
	if err != nil {
		t.Fatal(err)
	}
	id := nextOf(s)
	if len(s.Files("me")) != 1 || id == "" {
		t.Fatalf("%d files, and the batch %q, want one of each", len(s.Files("me")), id)
	}
	asked := 0
	if logged := run(t, s, func([]byte) Answer {
		asked++
		return Answer{Status: http.StatusOK, Body: []byte(`"new"`)}
	}); len(logged) > 0 {
		t.Errorf("logged %v", logged)
	}
	b, err := s.Batch("me", id)
	if err != nil || b.Status != "completed" || b.Counts != (Counts{3, 3, 0}) || asked != 2 || b.Metadata["for"] != "upgrades" {
		t.Fatalf("%d were asked, %+v, %v", asked, b, err)
	}
	if out := content(t, s, b.Output); len(out) != 3 || !strings.Contains(out[0], `"old"`) || !strings.Contains(out[2], `"new"`) {
		t.Errorf("answers %q", out)
	}
	consistent(t, s)
}

// writeStored makes the folder, by what this version does. The batch expires in the year 2100.
func writeStored(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "batches"), quota, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.AddFile("me", "in.jsonl", "batch", strings.NewReader(strings.Join([]string{line("a", `{}`), line("b", `{}`), line("c", `{}`)}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.AddBatch("me", f.ID, endpoint, "24h", 0, map[string]string{"for": "upgrades"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.change(b.ID, func(b *Batch) { b.Expires = 4102444800 }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := true
	(&Runner{Store: s, Width: 1, Log: func(string, error) {}, Do: func(ctx context.Context, _, _ string, _ []byte) Answer {
		if !first {
			cancel()
			<-ctx.Done()
		}
		first = false
		return Answer{Status: http.StatusOK, Body: []byte(`"old"`)}
	}}).Run(ctx)
	s.Close()
	if err := os.RemoveAll(stored); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(stored, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
}
