package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/usage"
)

// The flags say what responses have of the web, and where the key is, which no error has.
func TestWebFlags(t *testing.T) {
	const key = "a-key-of-the-operator"
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", key+"\n")
	for _, c := range []struct {
		args, env, want string // what is refused; empty: nothing
		search, read    bool
	}{
		{"", key, "", false, false},
		{"--web-fetch off", "", "", false, false},
		{"--web-search http://localhost:8888", "", "", true, false},
		{"--web-search http://10.0.0.7/searx --web-fetch public", "", "", true, true},
		{"--web-fetch docs.example.com,10.0.0.7:8080", "", "", false, true},
		{"--web-search https://api.search.brave.com", key, "", true, false},
		{"--web-search https://api.search.brave.com --web-search-key-file " + good, "", "", true, false},
		{"--web-search https://search.example.com/brave --web-search-api brave --web-search-key-file " + good, "", "", true, false},
		{"--web-search https://api.search.brave.com", "", "--web-search: the API of Brave needs a key", false, false},
		{"--web-search http://x?key=" + key, "", "--web-search: a URL with ? or #", false, false},
		{"--web-search http://me:" + key + "@x", "", "--web-search: a URL with a user or a password", false, false},
		{"--web-search localhost:8888", "", "--web-search: want a URL", false, false},
		{"--web-search http://x", key + "\n" + key, "--web-search: the key has control characters", false, false},
		{"--web-search-key-file " + good, "", "--web-search-key-file: want --web-search URL", false, false},
		{"--web-search http://x --web-search-key-file " + filepath.Join(dir, "none"), "", "no such file", false, false},
		{"--web-search http://x --web-search-key-file " + file("two", key+"\n"+key), "", "several lines", false, false},
		{"--web-search http://x --web-search-key-file " + file("empty", "\n"), "", "empty", false, false},
		{"--web-search http://x --web-search-key-file " + file("long", strings.Repeat("x", 5000)), "", "more than 4 KiB", false, false},
		{"--web-search http://x --web-search-key-file " + dir, "", "directory", false, false},
		{"--web-fetch http://x/", "", "--web-fetch: ", false, false},
	} {
		t.Setenv(webKey, c.env)
		var f serveFlags
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		f.defineAll(fs)
		if err := fs.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		w, err := f.web.open()
		if c.want != "" {
			if wrong := (usage.Error{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v, want %s", c.args, err, c.want)
			}
			continue
		}
		if err != nil || (w.Search != nil) != c.search || (w.Read != nil) != c.read {
			t.Errorf("%s: searches %v, reads %v, %v", c.args, w.Search != nil, w.Read != nil, err)
		}
	}
}
