package batch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A batch that is cancelled ends what it has under way, keeps what was answered, and makes nothing more.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := open(t, quota, line("a", `{}`), line("b", `{"slow":1}`), line("c", `{}`))
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		made := 0
		r := Runner{Store: s, Width: 1, Log: func(_ string, err error) { t.Error(err) }, Do: func(ctx context.Context, _, _ string, body []byte) Answer {
			made++
			if strings.Contains(string(body), "slow") {
				<-ctx.Done()
			}
			return Answer{Status: http.StatusOK, Body: []byte(`{}`)}
		}}
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		synctest.Wait()
		if _, err := s.Cancel("you", b.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("another's: %v", err)
		}
		if b, err := s.Cancel("me", b.ID); err != nil || b.Status != "cancelling" || b.Cancelling == 0 {
			t.Errorf("%+v, %v", b, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		<-done
		b, err := s.Batch("me", b.ID)
		if err != nil || b.Status != "cancelled" || b.Cancelled == 0 || b.Finalizing != 0 || b.Counts != (Counts{3, 1, 0}) ||
			b.ErrorFile != "" || made != 2 {
			t.Errorf("%+v, %v after %d requests", b, err, made)
		}
		if out := content(t, s, b.Output); len(out) != 1 || !strings.Contains(out[0], `"custom_id":"a"`) {
			t.Errorf("%q", out)
		}
		if again, err := s.Cancel("me", b.ID); err != nil || again.Status != "cancelled" || again.Cancelling != b.Cancelling {
			t.Errorf("cancelled once more: %+v, %v", again, err)
		}
	})
}

// A request that there is no room for is made again after the time that the answer says, of a second to a minute.
func TestNoRoomNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := open(t, quota, line("a", `{}`), line("b", `{}`))
		defer s.Close()
		var at []time.Duration
		begun := time.Now()
		refusals := []Answer{
			{Status: http.StatusTooManyRequests}, {Status: http.StatusServiceUnavailable, Retry: 5 * time.Second},
			{Status: http.StatusTooManyRequests, Retry: time.Hour}, {Status: http.StatusBadRequest, Body: []byte(`{"error":{}}`)},
			{Status: http.StatusOK, Body: []byte(`{`)},
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := Runner{Store: s, Log: func(_ string, err error) { t.Error(err) }, Do: func(context.Context, string, string, []byte) Answer {
			at = append(at, time.Since(begun))
			return refusals[len(at)-1]
		}}
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		cancel()
		<-done
		if got := fmt.Sprint(at); got != "[0s 1s 6s 1m6s 1m6s]" {
			t.Errorf("made at %s", got)
		}
		b, err := s.Batch("me", b.ID)
		if err != nil || b.Status != "completed" || b.InProgress == 0 || b.Finalizing == 0 || b.Completed == 0 ||
			b.Counts != (Counts{2, 0, 2}) || b.Output != "" {
			t.Fatalf("%+v, %v", b, err)
		}
		wrong := content(t, s, b.ErrorFile)
		if len(wrong) != 2 || !strings.Contains(wrong[0], `"status_code":400`) || !strings.Contains(wrong[0], `"error":null`) ||
			!strings.Contains(wrong[1], "the answer is no JSON") || !strings.Contains(wrong[1], `"response":null`) {
			t.Errorf("%q", wrong)
		}
	})
}

// A batch whose input is wrong, gone or cannot be read fails, says why without paths, and has made nothing.
func TestInputsThatFail(t *testing.T) {
	for want, tt := range map[string]struct {
		lines   []string
		prepare func(*Store, Batch)
	}{
		"not a JSON object of a request": {[]string{`{"custom_id":`}, func(*Store, Batch) {}},
		"the input has no ":              {nil, func(*Store, Batch) {}},
		"cannot be run: no such file, batch or job: ": {[]string{line("a", `{}`)}, func(s *Store, b Batch) {
			delete(s.files, b.Input)
		}},
		"cannot be run: its files cannot be read or written": {[]string{line("a", `{}`)}, func(s *Store, b Batch) {
			if err := os.Remove(s.path(b.Input + ".data")); err != nil {
				t.Fatal(err)
			}
		}},
		"be run: its files cannot be read or written": {[]string{line("a", `{}`)}, func(s *Store, b Batch) {
			if err := errors.Join(os.Remove(s.path(b.Input+".data")), os.Mkdir(s.path(b.Input+".data"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		s, b := open(t, quota, tt.lines...)
		tt.prepare(s, b)
		run(t, s, func([]byte) Answer { t.Errorf("%s: a request was made", want); return Answer{} })
		b, err := s.Batch("me", b.ID)
		if err != nil || b.Status != "failed" || b.Failed == 0 || b.Finalizing != 0 || b.Completed != 0 || b.Errors == nil ||
			b.Errors.Object != "list" || len(b.Errors.Data) != 1 || !strings.Contains(b.Errors.Data[0].Message, want) ||
			strings.Contains(b.Errors.Data[0].Message, s.dir) {
			t.Errorf("%s: %+v, %+v, %v", want, b, b.Errors, err)
		}
	}
}

// An output that cannot be written or kept is not listed, not counted, and not left behind.
func TestOutputThatCannotBeKept(t *testing.T) {
	for _, what := range []string{".data", ".json"} {
		lines, do := answers(2)
		s, b := open(t, quota, lines...)
		used := s.used
		id := "file-" + strings.TrimPrefix(b.ID, "batch_") + "-output"
		if err := os.MkdirAll(s.path(id+what)+"/in the way", 0o700); err != nil {
			t.Fatal(err)
		}
		if logged := run(t, s, do); len(logged) != 2 { // of the batch, and of its end
			t.Errorf("%s: logged %v", what, logged)
		}
		b, err := s.Batch("me", b.ID)
		if err != nil || b.Status != "failed" || b.Output != "" || len(s.Files("me")) != 1 || s.used != used {
			t.Errorf("%s: %+v, %v, %d files of %d bytes", what, b, err, len(s.Files("me")), s.used)
		}
		if err := os.RemoveAll(s.path(id + what)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(s.path(id + ".data")); err == nil {
			t.Error("the output is still there")
		}
		consistent(t, s)
	}
}

// Of a batch whose errors cannot be kept, the answers are.
func TestAnswersWithoutErrors(t *testing.T) {
	lines, do := answers(2)
	s, b := open(t, quota, lines...)
	if err := os.MkdirAll(s.path(resultID(b.ID, "error")+".data")+"/in the way", 0o700); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int32
	run(t, s, func(body []byte) Answer {
		if made.Add(1) == 1 {
			return Answer{Status: 400, Body: []byte(`{"error":{}}`)}
		}
		return do(body)
	})
	b, err := s.Batch("me", b.ID)
	if err != nil || b.Status != "failed" || b.Output != resultID(b.ID, "output") || b.ErrorFile != "" || s.files[b.Output] == nil {
		t.Errorf("%+v, %v", b, err)
	}
	if err := errors.Join(s.RemoveFile("me", b.Output), os.RemoveAll(s.path(resultID(b.ID, "error")+".data"))); err != nil {
		t.Error(err)
	}
	consistent(t, s)
}

// A file is its owner's, is listed with the newest first, and is gone once it is removed; one that a batch needs stays.
func TestFiles(t *testing.T) {
	s, err := Open(t.TempDir(), quota, false)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, text := range []string{"", "bb"} {
		f, err := s.AddFile("me", "name", "batch", strings.NewReader(text))
		if err != nil || f.Object != "file" || f.Status != "processed" || f.Filename != "name" || f.Created == 0 || f.Bytes != int64(len(text)) {
			t.Fatalf("%+v, %v", f, err)
		}
		if len(f.ID) != len("file-")+24 { // 18 random bytes
			t.Errorf("the id %s", f.ID)
		}
		ids = append(ids, f.ID)
	}
	if list := s.Files("me"); len(list) != 2 || list[0].ID != ids[1] || len(s.Files("you")) != 0 {
		t.Errorf("%+v", list)
	}
	b, err := s.AddBatch("me", ids[1], endpoint, "24h", time.Hour, nil)
	if err != nil || b.Expires-b.Created < 3600 || b.Expires-b.Created > 3601 {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := s.RemoveFile("me", ids[1]); !errors.Is(err, ErrInUse) {
		t.Errorf("one in use: %v", err)
	}
	if _, err := s.change(b.ID, func(b *Batch) { b.Status = "expired" }); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveFile("you", ids[1]); !errors.Is(err, ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
	// A file that cannot be removed is still there.
	if err := os.Rename(s.path(ids[1]+".json"), s.path("aside")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.path(ids[1]+".json")+"/in the way", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveFile("me", ids[1]); err == nil || len(s.Files("me")) != 2 {
		t.Errorf("one that cannot be removed: %v, %d files", err, len(s.Files("me")))
	}
	if err := errors.Join(os.RemoveAll(s.path(ids[1]+".json")), os.Rename(s.path("aside"), s.path(ids[1]+".json"))); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveFile("me", ids[1]); err != nil {
		t.Error(err)
	}
	_, about := s.File("me", ids[1])
	_, content := s.Content("me", ids[1])
	if again := s.RemoveFile("me", ids[1]); !errors.Is(about, ErrNotFound) || !errors.Is(content, ErrNotFound) ||
		!errors.Is(again, ErrNotFound) || len(s.Files("me")) != 1 || s.used != 0 || len(s.owned) != 0 {
		t.Errorf("one that is removed: %v, %v, %v, %d bytes", about, content, again, s.used)
	}
	if names, err := os.ReadDir(s.dir); err != nil || strings.Contains(fmt.Sprint(names), ids[1]) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := s.AddBatch("me", ids[1], endpoint, "24h", time.Hour, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a batch of it: %v", err)
	}
	if _, err := s.Batch("me", strings.Repeat("é", 99)); err == nil || len(err.Error()) > 160 {
		t.Errorf("a long id: %v", err)
	}
}

// A file has a size at most, and exactly that much is taken.
func TestLargestFile(t *testing.T) {
	m := metered{s: &Store{quota: MaxFile, owned: map[string]int64{}}, owner: "me", to: discard{}, taken: MaxFile - 1}
	if _, err := m.Write([]byte("ab")); !errors.Is(err, ErrTooLarge) || err.Error() != "a file of more than 200 MiB" {
		t.Errorf("one byte more: %v", err)
	}
	if _, err := m.Write([]byte("a")); err != nil || m.taken != MaxFile {
		t.Errorf("the last byte: %v, %d", err, m.taken)
	}
	m = metered{s: &Store{quota: 3, owned: map[string]int64{}}, owner: "me", to: discard{}}
	if _, err := m.Write([]byte("abc")); err != nil {
		t.Errorf("all of the quota: %v", err)
	}
	if _, err := m.Write([]byte("d")); !errors.Is(err, ErrFull) {
		t.Errorf("and more: %v", err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// A batch whose end cannot even be kept is not run again by this process: others go on.
func TestEndThatCannotBeKept(t *testing.T) {
	s, b := open(t, quota, line("a", `{}`))
	other := begin(t, s, line("b", `{}`))
	if err := os.Remove(s.path(b.ID + ".json")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.path(b.ID+".json")+"/in the way", 0o700); err != nil {
		t.Fatal(err)
	}
	logged := run(t, s, func([]byte) Answer { return Answer{Status: http.StatusOK, Body: []byte(`{}`)} })
	b, err := s.Batch("me", b.ID)
	if err != nil || b.Status != "failed" || b.Failed == 0 || b.Errors == nil || len(logged) != 2 {
		t.Errorf("%+v, %v, logged %v", b, err, logged)
	}
	if other, err := s.Batch("me", other.ID); err != nil || other.Status != "completed" {
		t.Errorf("the other: %+v, %v", other, err)
	}
	if list := s.Files("me"); len(list) != 3 {
		t.Errorf("%d files, want two inputs and the output of the other: %+v", len(list), list)
	}
}

// What is in the way in a folder is an error at the start, and a journal that cannot be begun ends its batch.
func TestInTheWay(t *testing.T) {
	for _, name := range []string{".file-a.tmp", ".batch_a.tmp", ".ftjob-a.tmp", "file-a.data", "batch_a.journal", "ftjob-a.state", "ftjob-a.events",
		"file-a.json", "batch_a.json", "ftjob-a.json"} {
		dir := t.TempDir()
		if err := os.MkdirAll(dir+"/"+name+"/in the way", 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, quota, false); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lines, do := answers(2)
	s, b := open(t, quota, lines...)
	gone := &Store{dir: filepath.Join(s.dir, "gone")}
	for what, err := range map[string]error{"half-written": gone.tidy(), "journals": gone.loadJournals(),
		"files": load(gone, "file-*.json", gone.files, func(f *File) string { return f.ID }), "a folder": writable(gone.dir)} {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of a folder that has gone: %v", what, err)
		}
	}
	if _, err := lock(gone.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lock of a folder that has gone: %v", err)
	}
	if err := os.Symlink("/nowhere/at all", s.journal(b.ID)); err != nil {
		t.Fatal(err)
	}
	if logged := run(t, s, func(body []byte) Answer { t.Error("a request was made"); return do(body) }); len(logged) != 1 {
		t.Errorf("logged %v", logged)
	}
	if b, err := s.Batch("me", b.ID); err != nil || b.Status != "failed" || b.Output != "" {
		t.Errorf("%+v, %v", b, err)
	}
}

// A folder in which nobody can write is told by its name before anything is kept there.
func TestFolderThatCannotBeWritten(t *testing.T) {
	dir := fmt.Sprintf("/proc/%d/task", os.Getpid())
	if _, err := Open(dir, quota, false); err == nil || !strings.HasPrefix(err.Error(), dir+": cannot be written to: ") ||
		!strings.HasSuffix(err.Error(), "; the server's user has to own it") || strings.Count(err.Error(), "/proc") != 1 {
		t.Errorf("%v", err)
	}
	if list := opened(dir); len(list) != 0 {
		t.Errorf("%v are still open", list)
	}
}

// What comes after a restart is newer than what was there.
func TestNewestAfterARestart(t *testing.T) {
	s, b := open(t, quota, line("a", `{}`))
	begin(t, s, line("b", `{}`))
	for range 3 {
		s = reopen(t, s)
	}
	late := begin(t, s, line("c", `{}`))
	if list := s.Batches("me"); len(list) != 3 || list[0].ID != late.ID || list[2].ID != b.ID {
		t.Errorf("%+v", list)
	}
	if list := s.Files("me"); len(list) != 3 || list[0].ID != late.Input || list[2].ID != b.Input {
		t.Errorf("%+v", list)
	}
	if nextOf(s) != b.ID {
		t.Error("the oldest is not run first")
	}
}

// The newest of files is the first, whenever they came.
func TestNewestFileAfterARestart(t *testing.T) {
	s, err := Open(t.TempDir(), quota, false)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for range 3 {
		f, err := s.AddFile("me", "name", "batch", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		want = f.ID + " " + want
		s = reopen(t, s)
	}
	got := ""
	for _, f := range s.Files("me") {
		got += f.ID + " "
	}
	if got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

// A folder with what this program has not written is refused, and is free for whoever mends it.
func TestFoldersThatAreRefused(t *testing.T) {
	for name, text := range map[string]string{"file-a.json": "{", "batch_a.json": `{"value":{"id":"batch_b"}}`} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, quota, false); err == nil || !strings.Contains(err.Error(), name+": not written by this program") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, quota, false)
		if err != nil {
			t.Fatalf("%s, mended: %v", name, err)
		}
		s.Close()
	}
}
