package hub

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A tokenServer is a registry that wants a token, which it gives out itself and takes back after some requests.
type tokenServer struct {
	*httptest.Server
	t       *testing.T
	inner   *badServer
	login   string // what the token is for; empty: anybody
	lasts   int64  // requests that a token is good for
	answer  int    // to requests for a token; 0: a token
	fetched atomic.Int64
	used    atomic.Int64 // requests with the last token
	refused atomic.Int64
	blobs   string // host that has files; empty: this one
}

func (s *tokenServer) token() string { return "t" + strconv.FormatInt(s.fetched.Load(), 10) }

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		if got := r.URL.Query(); got.Get("service") != "models" || got.Get("scope") != "repository:org/small:pull" {
			s.t.Errorf("a token is asked for %v", got)
		}
		user, password, _ := r.BasicAuth()
		if s.answer != 0 || s.login != "" && user+":"+password != s.login {
			w.WriteHeader(max(s.answer, http.StatusUnauthorized))
			return
		}
		s.fetched.Add(1)
		s.used.Store(0)
		json.NewEncoder(w).Encode(map[string]any{"token": s.token(), "expires_in": 60})
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+s.token() || s.used.Add(1) > s.lasts {
		s.refused.Add(1)
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="models",scope="repository:org/small:pull"`, s.URL))
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		return
	}
	if s.blobs != "" && strings.Contains(r.URL.Path, "/blobs/") {
		http.Redirect(w, r, s.blobs+r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	s.inner.ServeHTTP(w, r)
}

// TestRegistryTokens pulls from a registry that wants a token: without a login or with the one that docker keeps, over tokens that
// end meanwhile, and with files on another host, which gets none. One token is for all requests while it is good.
func TestRegistryTokens(t *testing.T) {
	b := model(100_000, 7)
	sum := sha256.Sum256(b)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	for name, c := range map[string]struct {
		set     func(s *tokenServer)
		login   string
		fetched int64 // at least, and twice as many at most
		want    string
	}{
		"anybody":          {func(*tokenServer) {}, "", 1, ""},
		"a login":          {func(s *tokenServer) { s.login = "me:secret" }, "me:secret", 1, ""},
		"no login":         {func(s *tokenServer) { s.login = "me:secret" }, "", 0, "401 Unauthorized (when asked for a token)"},
		"tokens that end":  {func(s *tokenServer) { s.lasts = 3 }, "", 3, ""},
		"a busy server":    {func(s *tokenServer) { s.answer = 503 }, "", 0, "503 Service Unavailable (when asked for a token)"},
		"files elsewhere":  {func(s *tokenServer) { s.blobs = s.inner.URL }, "", 1, ""},
		"a token too many": {func(s *tokenServer) { s.lasts = 0 }, "", 1, "401 Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &tokenServer{t: t, inner: newBadServer(t), lasts: 1 << 30}
			s.inner.files["/v2/org/small/blobs/"+digest] = b
			s.inner.files["/v2/org/small/manifests/v1"] = fmt.Appendf(nil,
				`{"layers":[{"mediaType":"application/octet-stream","digest":%q,"size":%d,"annotations":{"org.opencontainers.image.title":"small.gguf"}}]}`, digest, len(b))
			s.Server = httptest.NewServer(s)
			t.Cleanup(s.Close)
			c.set(s)
			host := strings.TrimPrefix(s.URL, "http://")
			docker := t.TempDir()
			t.Setenv("DOCKER_CONFIG", docker)
			if c.login != "" {
				text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(c.login)))
				if err := os.WriteFile(filepath.Join(docker, "config.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h := s.inner.cache(t.TempDir())
			h.c.Connections = 1
			_, err := get(t, h, "oci://"+host+"/org/small:v1")
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			leftovers(t, h)
			if n := s.fetched.Load(); n < c.fetched || n > 2*c.fetched+1 || s.refused.Load() > n {
				t.Errorf("%d tokens were fetched and %d requests refused, want some %d", n, s.refused.Load(), c.fetched)
			}
			if n := s.inner.tokens.Load(); s.blobs != "" && n > 0 {
				t.Errorf("%d requests to another host had the token", n)
			}
		})
	}
}

// TestFullDisk fills the disk while a model comes: nothing has a final name, and what came is there when there is space again.
func TestFullDisk(t *testing.T) {
	s := newBadServer(t)
	b := model(300_000, 2)
	s.put("a-Q8_0.gguf", b)
	h := s.cache(t.TempDir())
	h.c.Connections = 1
	room := int64(150_000)
	h.writeAt = func(f *os.File, b []byte, at int64) (int, error) {
		if at+int64(len(b)) > room {
			n, _ := f.WriteAt(b[:max(room-at, 0)], at)
			return n, &os.PathError{Op: "write", Path: f.Name(), Err: unix.ENOSPC}
		}
		return f.WriteAt(b, at)
	}
	_, err := get(t, h, "hf.co/org/repo")
	if err == nil || !strings.Contains(err.Error(), "no space left on device; what is downloaded so far is kept: free some space and pull again") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want that the disk is full", err)
	}
	if list, err := h.List(); len(list) > 0 || err != nil {
		t.Errorf("the cache has %v, %v", list, err)
	}
	whole(t, h)
	room = 1 << 40
	s.sent.Store(0)
	must(t, h, "hf.co/org/repo", b)
	if n := s.sent.Load(); n > 200_000 {
		t.Errorf("%d bytes came again of 300000, half of which were there", n)
	}
	// Of a file of unknown size nothing is kept.
	s.files["/model.gguf"] = b
	s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(200)
		w.(http.Flusher).Flush() // chunks, without a length
		w.Write(b)
		return true
	}
	room = 150_000
	if _, err := get(t, h, s.URL+"/model.gguf"); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("%v, want that the disk is full", err)
	}
	leftovers(t, h)
}
