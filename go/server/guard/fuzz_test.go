package guard

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the headers are, a request without the key is refused, and no page of another origin is let in by them.
func FuzzHeaders(f *testing.F) {
	f.Add("Bearer "+secret, "", "", "http://localhost:3000", "id-1")
	f.Add("", secret, "localhost:8080", "https://example.com", "\n")
	f.Add("bearer  "+secret, "x", "[::1]:80", "null", strings.Repeat("a", 65))
	f.Add("Bearer", "", "127.0.0.1.", "http://[::1", "é")
	f.Fuzz(func(t *testing.T, authorization, key, host, from, id string) {
		r := httptest.NewRequest("POST", "/x", nil)
		r.Host = host
		for name, value := range map[string]string{"Authorization": authorization, "X-Api-Key": key, "Origin": from, "X-Request-Id": id} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		w, log := serve(t, []string{secret}, []string{"https://example.com", "localhost"}, ok, r)
		switch {
		case log != "":
			t.Fatalf("it panicked: %s", log)
		case w.Code == 200 && !strings.Contains(authorization+key, secret):
			t.Fatalf("no key, and %d %s", w.Code, w.Body)
		case w.Code != 200 && w.Code != 401 && w.Code != 403:
			t.Fatalf("status %d %s", w.Code, w.Body)
		}
		if got := w.Header().Get("X-Request-Id"); !plain(got) {
			t.Fatalf("the id is %q", got)
		}
		if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != "" && allowed != "https://example.com" && !strings.Contains(from, "localhost") && !strings.Contains(from, "127.") && !strings.Contains(from, "::") {
			t.Fatalf("pages of %q are let in", from)
		}
	})
}

// A file of keys is read or refused, by a line that tells no key.
func FuzzKeys(f *testing.F) {
	f.Add("# ours\n\n" + secret + " 2\nsha256:" + strings.Repeat("0", 64) + "\t0.5\n")
	f.Add(secret + " admin 2 priority=-3\n" + secret + "2 user\n")
	f.Add("sha256:12\n")
	f.Add(secret + " nan")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := NewKeys(nil)
		if err != nil {
			t.Fatal(err)
		}
		err = k.AddFile(path)
		switch {
		case err == nil && k.Len() == 0:
			t.Fatalf("%q: no keys and no error", text)
		case err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret)):
			t.Fatalf("%q: %v", text, err)
		}
	})
}
