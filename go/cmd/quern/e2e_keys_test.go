package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// keyFile writes a file of API keys.
func keyFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, text)
	return path
}

// writeKeys writes a file of API keys at once, as others than it was.
func writeKeys(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// statusSoon waits until a request with a key has a status.
func statusSoon(t *testing.T, address, key string, want int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r, body := exchange(t, address, "GET", "/props", "", "X-Api-Key: "+key)
		if r.StatusCode == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %d %s, want %d", key, r.StatusCode, body, want)
		}
	}
}

// The file of keys is followed while the server runs; one that is malformed changes nothing.
func TestServeKeysFollowed(t *testing.T) {
	t.Parallel()
	path := keyFile(t, "key-of-ann\nkey-of-bob\n")
	s, address := loopback(t, "--api-key-file", path)
	statusSoon(t, address, "key-of-ann", 200)
	statusSoon(t, address, "key-of-eve", 401)
	writeKeys(t, path, "key-of-eve\nkey-of-bob\n")
	statusSoon(t, address, "key-of-eve", 200)
	statusSoon(t, address, "key-of-ann", 401)
	writeKeys(t, path, "key-of-ann\nkey-of-bob nonsense\n")
	if !s.logged("line 2: word 1 after the key") {
		t.Error("the log does not say what is wrong with the file")
	}
	statusSoon(t, address, "key-of-ann", 401)
	statusSoon(t, address, "key-of-bob", 200)
}
