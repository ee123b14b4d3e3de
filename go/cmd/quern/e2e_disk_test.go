package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tell returns the answer to a text of some 400 tokens, which is different for each k, and how many of them
// were known. The key is for servers that want one.
func (s *service) tell(k int, key ...string) (text string, cached int) {
	s.t.Helper()
	status, b := s.withKey(strings.Join(key, ""), http.MethodPost, "/completion", s.told(k))
	var v struct {
		Content string
		Timings struct {
			Cached *int `json:"cache_n"`
		}
	}
	if err := json.Unmarshal([]byte(b), &v); err != nil || v.Timings.Cached == nil {
		s.t.Fatalf("%d: %v", status, err)
	}
	return v.Content, *v.Timings.Cached
}

// told is the body of a request of tell.
func (s *service) told(k int) string {
	s.t.Helper()
	words := strings.Fields("the quick brown fox jumps over a lazy dog while rain falls on green hills and small boats sail home")
	var b strings.Builder
	for i := range 300 {
		b.WriteString(words[(i*i*(k+1)+k)%len(words)] + " ")
	}
	body, err := json.Marshal(map[string]any{"prompt": b.String(), "n_predict": 16, "temperature": 0})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// What memory had no room for is on disk, for a server that was killed and started again, and for one beside it; what is
// damaged there is not used; and what is only in memory is written at the end.
func TestDiskCache(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	args := []string{"-c", "1024", "--kv-memory", "6M", "--cache-disk", dir, "--cache-disk-size", "40M", "--threads", "1"} // with more it may be faster than a disk
	const texts = 5
	plain := serve(t, "", "-c", "1024")
	var want []string
	for k := range texts + 1 {
		text, _ := plain.tell(k)
		want = append(want, text)
	}
	first := serve(t, "", args...)
	check := func(s *service, k int) (cached int) {
		t.Helper()
		text, cached := s.tell(k)
		if text != want[k] {
			t.Errorf("text %d: %q, want %q", k, text, want[k])
		}
		return cached
	}
	for round := 0; first.metric("quern_prompt_restored_tokens_total") <= 0; round++ {
		if round == 20 {
			t.Fatal("nothing was restored")
		}
		for k := range texts {
			check(first, k)
		}
	}
	first.cmd.Process.Signal(syscall.SIGKILL)
	first.wait()

	// A server that starts while the machine is busy may find that computing costs less than reading: then another one is
	// started.
	restoring := func() *service {
		for range 20 {
			s := serve(t, "", args...)
			known := 0
			for k := range texts {
				known += check(s, k)
			}
			if restored := s.metric("quern_prompt_restored_tokens_total"); known >= 64 && restored >= 64 {
				return s
			}
			s.cmd.Process.Signal(syscall.SIGKILL)
			s.wait()
		}
		t.Fatal("no server restored what another had written before it was killed")
		return nil
	}
	second, beside := restoring(), restoring()
	check(second, texts)
	second.cmd.Process.Signal(syscall.SIGTERM)
	if code := second.wait(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if n := check(beside, texts); n < 256 {
		t.Errorf("%d tokens are known of a text that another server wrote when it ended", n)
	}
	var u memoryUse
	if err := json.Unmarshal([]byte(succeed(t, "ps", "--json", "--host", beside.socket)), &u); err != nil || u.Disk == nil || u.Disk.Read == 0 || u.Disk.Bytes == 0 || u.Disk.Bytes > 40e6 || u.Disk.Limit != 40e6 {
		t.Errorf("%+v, %v", u.Disk, err)
	}
	if text := succeed(t, "ps", "--host", beside.socket); !strings.Contains(text, "on disk") {
		t.Error(text)
	}
	beside.cmd.Process.Signal(syscall.SIGTERM)
	beside.wait()

	pages, err := filepath.Glob(filepath.Join(dir, "*", "*.page"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%v, %v", pages, err)
	}
	for i, path := range pages {
		b, err := os.ReadFile(path)
		if err == nil {
			if i%2 == 0 {
				b[len(b)/3] ^= 4
			}
			err = os.WriteFile(path, b[:len(b)-i%2], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	last := serve(t, "", args...)
	for k := range texts {
		if n := check(last, k); n > 1 { // the first token of all
			t.Errorf("text %d: %d tokens were known, of damaged pages", k, n)
		}
	}
	if n := last.metric("quern_disk_cache_bytes"); n < 0 {
		t.Error("no metrics of the disk cache")
	}
}

// With --cache-per-key a text is found by the key that sent it, in memory and on disk, and by no other.
func TestCachePerKey(t *testing.T) {
	t.Parallel()
	const alice, bob = "the-key-of-alice", "the-key-of-bob"
	args := []string{"-c", "1024", "--api-key", alice + "," + bob, "--cache-per-key", "--threads", "1",
		"--cache-disk", filepath.Join(t.TempDir(), "cache")}
	s := serve(t, "", args...)
	find := func(where, key string, k int, want bool) {
		t.Helper()
		if _, n := s.tell(k, key); n >= 64 != want {
			t.Errorf("%s: %s finds %d tokens of text %d", where, key, n, k)
		}
	}
	find("at first", alice, 1, false)
	find("at first", alice, 2, false)
	find("in memory", alice, 1, true)
	find("in memory", bob, 1, false)
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.wait()
	s = serve(t, "", args...)
	find("on disk", bob, 2, false)
	find("on disk", alice, 2, true)
	find("on disk", bob, 1, true)
}

// A folder that cannot be used, or goes away, costs a line of the log.
func TestDiskCacheThatFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "", "--cache-disk", file)
	if _, n := s.tell(1); n != 0 || !s.logged("--cache-disk cannot be used") {
		t.Errorf("%d tokens were known; %s", n, s.log)
	}
	dir := filepath.Join(t.TempDir(), "cache")
	s = serve(t, "", "-c", "1024", "--kv-memory", "4M", "--cache-disk", dir, "--threads", "1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(s.log.String(), "cannot be written") && time.Now().Before(end); {
		for k := range 4 {
			s.tell(k)
		}
	}
	if n := strings.Count(s.log.String(), "disk cache"); n != 1 {
		t.Errorf("%d lines of the log are about it: %s", n, s.log)
	}
	quern(t, "serve", "--cache-disk-size", fmt.Sprint(-1)).refused(t, 2, "--cache-disk-size")
}
