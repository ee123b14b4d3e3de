package page

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
)

func get(t *testing.T, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestFiles(t *testing.T) {
	total := 0
	fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, _ := files.ReadFile(name)
		total += len(want)
		target := "/" + name
		if name == "index.html" {
			target = "/"
		}
		if !slices.Contains(Paths(), target) {
			t.Errorf("%s is not among the paths %v", target, Paths())
		}
		resp := get(t, target)
		got, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || !bytes.Equal(got, want) {
			t.Errorf("%s: status %d and %d bytes, want 200 and %d", target, resp.StatusCode, len(got), len(want))
		}
		if kind := resp.Header.Get("Content-Type"); kind == "" || kind != contentTypes[path.Ext(name)] {
			t.Errorf("%s: content type %q", target, kind)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); csp != policy {
			t.Errorf("%s: policy %q", target, csp)
		}
		return nil
	})
	if total < 20_000 || total > 140_000 {
		t.Errorf("the page has %d bytes; it shall be small", total)
	}
}

// Every module is preloaded, so that the browser need not read one to learn of the next.
func TestPreloads(t *testing.T) {
	index, _ := files.ReadFile("index.html")
	modules, _ := fs.Glob(files, "assets/*.js")
	for _, name := range modules {
		if !strings.Contains(string(index), `"`+name+`"`) {
			t.Errorf("index.html does not name %s", name)
		}
	}
}

func TestEncodings(t *testing.T) {
	for _, tt := range []struct {
		accept string
		gzip   bool
	}{
		{"", false},
		{"gzip", true},
		{"br, gzip;q=0.8", true},
		{"*", true},
		{"deflate, br", false},
		{"gzip;q=0", false},
		{"*, gzip; q=0", false},
		{"*;q=0", false},
		{"gzip;q=x", false},
	} {
		resp := get(t, "/assets/app.js", "Accept-Encoding", tt.accept)
		if packed := resp.Header.Get("Content-Encoding") == "gzip"; packed != tt.gzip {
			t.Errorf("Accept-Encoding %q: packed is %v", tt.accept, packed)
		}
		if resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Vary is %q", tt.accept, resp.Header.Get("Vary"))
		}
		if !tt.gzip {
			continue
		}
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if want, _ := files.ReadFile("assets/app.js"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("unpacked: %d bytes, want %d: %v", len(got), len(want), err)
		}
	}
}

func TestRevalidates(t *testing.T) {
	tags := map[string]string{}
	for _, accept := range []string{"", "gzip"} {
		first := get(t, "/", "Accept-Encoding", accept)
		tag := first.Header.Get("ETag")
		tags[tag] = accept
		second := get(t, "/", "Accept-Encoding", accept, "If-None-Match", tag)
		if tag == "" || second.StatusCode != http.StatusNotModified {
			t.Errorf("Accept-Encoding %q, ETag %q: status %d, want 304", accept, tag, second.StatusCode)
		}
		if cache := first.Header.Get("Cache-Control"); cache != "no-cache" {
			t.Errorf("Cache-Control is %q", cache)
		}
	}
	if len(tags) != 2 {
		t.Error("both encodings have the same tag")
	}
	if resp := get(t, "/assets/app.js", "If-None-Match", `"of another program"`); resp.StatusCode != 200 {
		t.Errorf("with another tag: status %d, want 200", resp.StatusCode)
	}
}

func TestRefuses(t *testing.T) {
	for _, target := range []string{"/nothing", "/index.html", "/assets", "/assets/", "/assets/../page.go", "/assets//app.js"} {
		if resp := get(t, target); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", target, resp.StatusCode)
		}
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("x")))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}
