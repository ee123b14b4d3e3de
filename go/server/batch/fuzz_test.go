package batch

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// FuzzInput reads inputs that are anything: requests that can be sent, each with a name of its own, or faults of lines that there are.
func FuzzInput(f *testing.F) {
	f.Add([]byte(line("a", `{"input":"x"}`) + "\r\n\n" + line("b", `{"stream":false}`)))
	f.Add([]byte(line("a", `{}`) + "\n" + line("a", `{}`)))
	f.Add([]byte(line("a", `{"stream":true}`) + "\n{\n[]\nnull\n\"x\"\n{\"body\":{}}"))
	f.Add([]byte(strings.Repeat("x\n", maxFaults+2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, faults, err := readInput(bytes.NewReader(b), endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if len(list)+len(faults) == 0 || len(faults) > maxFaults {
			t.Fatalf("%d requests, %d faults", len(list), len(faults))
		}
		seen := map[string]bool{}
		for _, r := range list {
			if r.ID == "" || seen[r.ID] || r.URL != endpoint || len(r.Body) == 0 {
				t.Errorf("%+v", r)
			}
			seen[r.ID] = true
		}
		lines := bytes.Count(b, []byte("\n")) + 1
		for _, fault := range faults {
			if fault.Line < 0 || fault.Line > lines || fault.Message == "" {
				t.Errorf("%+v of %d lines", fault, lines)
			}
		}
	})
}

// FuzzJournal reads journals that are anything: where their lines are, or that they are none. The last line may be cut, and is then removed.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"n":1,"failed":false,"line":{}}` + "\n" + `{"n":0,"failed":true,"line":{"a":1}}` + "\n{\"n\""))
	f.Add([]byte("\n"))
	f.Add([]byte(`{"n":"x"}` + "\n"))
	s, err := Open(f.TempDir(), 1<<20, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	id := fmt.Sprintf("batch_%d", os.Getpid())
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(s.journal(id), b, 0o600); err != nil {
			t.Fatal(err)
		}
		done, err := s.readJournal(id)
		if err != nil {
			return
		}
		left, err := os.ReadFile(s.journal(id))
		if err != nil || !bytes.HasPrefix(b, left) || len(left) > 0 && left[len(left)-1] != '\n' || bytes.Contains(b[len(left):], []byte("\n")) {
			t.Fatalf("%q of %q is left, %v", left, b, err)
		}
		for n, m := range done {
			if m.from < 0 || m.size <= 0 || m.from+m.size > int64(len(left)) {
				t.Errorf("%d: %+v", n, m)
			}
		}
		for _, failed := range []bool{false, true} {
			var out bytes.Buffer
			if err := s.copyJournal(&out, id, done, failed); err != nil {
				t.Errorf("%q was read, and is not copied: %v", left, err)
			}
		}
	})
}
