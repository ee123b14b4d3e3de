package batch

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// answers is an input of n requests, and what answers them with some 1,000 bytes.
func answers(n int) (lines []string, do func([]byte) Answer) {
	for i := range n {
		lines = append(lines, line(fmt.Sprint(i), `{}`))
	}
	return lines, func([]byte) Answer {
		return Answer{Status: http.StatusOK, Body: []byte(`"` + strings.Repeat("x", 1000) + `"`)}
	}
}

// consistent checks that the files of a store, and nothing else, are counted, now and after a restart.
func consistent(t *testing.T, s *Store) {
	t.Helper()
	for again := range 2 {
		if again > 0 {
			s = reopen(t, s)
		}
		sum := int64(0)
		for _, f := range s.Files("me") {
			sum += f.Bytes
		}
		owned := int64(0)
		for _, n := range s.owned {
			owned += n
		}
		if s.used != sum || owned != sum || len(s.journals) != 0 {
			t.Errorf("%d bytes are counted, %d of owners, want %d; journals %v", s.used, owned, sum, s.journals)
		}
		if names, err := os.ReadDir(s.dir); err != nil || strings.Contains(fmt.Sprint(names), ".journal") {
			t.Errorf("%v, %v", names, err)
		}
	}
}

// The journal has had its room: its output needs no more.
func TestOutputTakesTheJournalsRoom(t *testing.T) {
	lines, do := answers(10)
	s, b := open(t, 18_000, lines...)
	logged := run(t, s, do)
	b, err := s.Batch("me", b.ID)
	if err != nil || b.Status != "completed" || b.Counts != (Counts{10, 10, 0}) || len(logged) != 0 {
		t.Fatalf("%+v, %v, %v", b, err, logged)
	}
	out := content(t, s, b.Output)
	for i := range lines {
		if len(out) != 10 || !strings.Contains(out[i], fmt.Sprintf(`"custom_id":"%d"`, i)) {
			t.Fatalf("line %d of %d: %s", i, len(out), out[i])
		}
	}
	consistent(t, s)
}

// A batch for which there is no room fails with what was answered before, however many requests are made at once.
func TestNoRoomForAnswers(t *testing.T) {
	for _, width := range []int{1, 4} {
		lines, do := answers(10)
		s, b := open(t, 6_000, lines...)
		logged := runWide(t, s, width, do)
		b, err := s.Batch("me", b.ID)
		if err != nil || b.Status != "failed" || b.Errors == nil || !strings.Contains(b.Errors.Data[0].Message, "used up") ||
			len(logged) != 1 || !errors.Is(logged[0], ErrFull) {
			t.Fatalf("%d at once: %+v, %v, %v", width, b, err, logged)
		}
		if n := len(content(t, s, b.Output)); n < 1 || n != b.Counts.Completed {
			t.Errorf("%d at once: %d answers of %+v", width, n, b.Counts)
		}
		consistent(t, s)
	}
}

// An answer counts once it is on the disk: what takes it but cannot promise that is an error, as a pipe is.
func TestAnswersOnTheDisk(t *testing.T) {
	s, b := open(t, quota, line("a", `{}`))
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	if err := s.note(to, b.ID, entry{N: 0, Line: []byte(`{}`)}); err == nil || s.batches[b.ID].Value.Counts.Completed != 0 {
		t.Errorf("%v, %+v", err, s.batches[b.ID].Value.Counts)
	}
}

// A journal that cannot be read is given up.
func TestBrokenJournal(t *testing.T) {
	lines, do := answers(2)
	s, b := open(t, quota, lines...)
	if err := os.WriteFile(s.journal(b.ID), []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	run(t, s, func(body []byte) Answer { t.Error("a request was made"); return do(body) })
	b, err := s.Batch("me", b.ID)
	if err != nil || b.Status != "failed" || b.Output != "" {
		t.Errorf("%+v, %v", b, err)
	}
	consistent(t, s)
}

// A batch goes on behind a line that was cut off, after whichever of its bytes.
func TestLineThatWasCutOff(t *testing.T) {
	first, second := `{"n":0,"failed":false,"line":{"custom_id":"0"}}`+"\n", `{"n":1,"failed":false,"line":{"custom_id":"1"}}`
	for _, n := range []int{0, 1, 2, len(second)} {
		lines, do := answers(2)
		s, b := open(t, quota, lines...)
		if err := os.WriteFile(s.journal(b.ID), []byte(first+second[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		s = reopen(t, s)
		run(t, s, do)
		b, err := s.Batch("me", b.ID)
		if err != nil || b.Status != "completed" || b.Counts != (Counts{2, 2, 0}) || len(content(t, s, b.Output)) != 2 {
			t.Errorf("after %d bytes: %+v, %v", n, b, err)
		}
		consistent(t, s)
	}
}

// A batch whose end was interrupted has one output, and a journal that outlived its batch goes.
func TestFinishAgain(t *testing.T) {
	lines, do := answers(3)
	s, b := open(t, quota, lines...)
	journal := ""
	for i := range lines {
		journal += fmt.Sprintf(`{"n":%d,"failed":%v,"line":{"custom_id":"%d"}}`+"\n", i, i == 1, i)
	}
	write := func() {
		if err := os.WriteFile(s.journal(b.ID), []byte(journal+`{"n":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	run(t, s, do)
	if _, err := s.change(b.ID, func(b *Batch) { b.Status = "finalizing" }); err != nil {
		t.Fatal(err)
	}
	write()
	s = reopen(t, s)
	run(t, s, do)
	b, err := s.Batch("me", b.ID)
	if err != nil || b.Status != "completed" || b.Counts != (Counts{3, 2, 1}) || len(s.Files("me")) != 3 {
		t.Fatalf("%+v, %v, files %+v", b, err, s.Files("me"))
	}
	if out, wrong := content(t, s, b.Output), content(t, s, b.ErrorFile); len(out) != 2 || len(wrong) != 1 || wrong[0] != `{"custom_id":"1"}`+"\n" {
		t.Errorf("%q, %q", out, wrong)
	}
	write()
	consistent(t, reopen(t, s))
}

// reopen opens a store again.
func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	s.Close()
	s, err := Open(s.dir, s.quota, s.shared)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
