package fetch

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, from, dir string) *Fetcher {
	t.Helper()
	f, err := New(from, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func fails(t *testing.T, f *Fetcher, url, want string) {
	t.Helper()
	data, err := f.Fetch(t.Context(), url, false)
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, %v, want %q", url, data, err, want)
	}
}

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1:248:1893:25c8:1946": true, "8.8.8.8": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.31.0.1": false, "192.168.0.1": false, "169.254.169.254": false, "100.64.0.1": false,
		"0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "198.18.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fc00::1": false, "fd12::1": false, "ff02::1": false, "64:ff9b::a00:1": false,
		"64:ff9b:1::1": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": false, "2002:7f00:1::": false, "2001:0:1::1": false,
		"2001:db8::1": false, "fe80::1%eth0": false, "2606::1%x": false, "::127.0.0.1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// png begins like a picture.
var png = []byte("\x89PNG\r\n\x1a\n and more")

func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	typed := func(kind string, data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(data)
		}
	}
	mux.HandleFunc("/a.png", typed("image/png", png))
	mux.HandleFunc("/bytes", typed("application/octet-stream", png))
	mux.HandleFunc("/page", typed("text/html", png))
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil })
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Content-Length", "999999999")
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for path, to := range map[string]string{"/r1": "/a.png", "/r2": "/r1", "/r3": "/r2", "/r4": "/r3", "/out": "http://other.test/x", "/gopher": "gopher://x/", "/file": "file:///etc/passwd"} {
		mux.Handle(path, http.RedirectHandler(to, http.StatusFound))
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestFetch(t *testing.T) {
	s := site(t)
	host := strings.TrimPrefix(s.URL, "http://")
	f := open(t, "images.test, "+host, "")
	for _, path := range []string{"/a.png", "/bytes", "/r1", "/r3"} {
		if data, err := f.Fetch(t.Context(), s.URL+path, false); err != nil || !bytes.Equal(data.Data, png) {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	for path, want := range map[string]string{
		"/page": `sends "text/html"; want a picture or a sound`, "/none": `sends ""`, "/gone": "status 404", "/long": "more than 20 MiB",
		"/endless": "more than 20 MiB", "/r4": "more than 3 redirects", "/out": "none of those that this server may ask",
		"/gopher": `a URL of "gopher"`, "/file": `a URL of "file"`,
	} {
		fails(t, f, s.URL+path, want)
	}
	f.client.Timeout = 50 * time.Millisecond
	fails(t, f, s.URL+"/slow", "not there within")
	fails(t, open(t, "off", ""), s.URL+"/a.png", "--media-url public")
	fails(t, open(t, "", ""), s.URL+"/a.png", "fetches none")
	fails(t, open(t, "other.test", ""), s.URL+"/a.png", "none of those")
	for _, url := range []string{"http://", "http:///x", "http://[::1", "http://" + strings.Repeat("x", 9000)} {
		fails(t, f, url, "URL")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ctx, s.URL+"/a.png", false); err == nil {
		t.Error("fetched for nobody")
	}
}

// Servers with other than public addresses are not asked, whatever they are called, whoever redirects there, and whatever a
// proxy would do.
func TestFetchOfPublicAddresses(t *testing.T) {
	s := site(t)
	t.Setenv("HTTP_PROXY", s.URL)
	t.Setenv("http_proxy", s.URL)
	f := open(t, "public", "")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1", "127.1"} {
		_, err := f.Fetch(t.Context(), "http://"+net.JoinHostPort(strings.Trim(host, "[]"), port)+"/a.png", false)
		if err == nil || !errors.Is(err, errPrivate) && !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("%s: %v", host, err)
		}
	}
	// A name whose address changes is checked when it is dialled: the control sees the address itself.
	if err := f.control("tcp", "127.0.0.1:80", nil); !errors.Is(err, errPrivate) {
		t.Errorf("a name that has become a private address: %v", err)
	}
	if err := f.control("tcp", "93.184.216.34:80", nil); err != nil {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for path, data := range map[string][]byte{filepath.Join(dir, "a b.png"): png, filepath.Join(out, "secret"): []byte("secret")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(out, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := open(t, "off", dir)
	for _, url := range []string{"file://a b.png", "file:///a%20b.png", "FILE://" + dir + "/a%20b.png", "file://localhost/a b.png", "file://folder/../a b.png"} {
		if data, err := f.Fetch(t.Context(), url, false); err != nil || !bytes.Equal(data.Data, png) {
			t.Errorf("%s: %q, %v", url, data, err)
		}
	}
	for _, url := range []string{"file://link", "file://../" + filepath.Base(out) + "/secret", "file://" + out + "/secret", "file:///etc/passwd", "file://folder", "file://",
		"file://%2e%2e/" + filepath.Base(out) + "/secret", "file://a b.png%00"} {
		fails(t, f, url, "no such file")
	}
	fails(t, f, "file://%zz", "URL that is none")
	fails(t, open(t, "public", ""), "file:///etc/passwd", "--media-path")
	if _, err := New("off", filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there")
	}
	for _, from := range []string{"a,,b", "http://x", "*.x", "public,x/y", "x:99999", "x:65536", "x:0", "x:", ":80", "x:-1", "x:http", "a:b:c", "[::1]:x", "[x", "[]"} {
		if _, err := New(from, ""); err == nil {
			t.Errorf("%q is taken", from)
		}
	}
	for _, from := range []string{"x", "X:65535", "10.0.0.7:1", "::1", "[::1]", "[fe80::1]:8080", " a , b:80"} {
		if _, err := New(from, ""); err != nil {
			t.Errorf("%q: %v", from, err)
		}
	}
}
