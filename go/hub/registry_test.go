package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/persona"
)

// A badServer has models, in the ways of all the servers that there are, and misbehaves as it is told.
type badServer struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	files map[string][]byte // by path
	repo  string            // what it says of ORG/REPO
	etag  string

	requests atomic.Int64 // for files
	sent     atomic.Int64 // bytes of files
	tokens   atomic.Int64 // requests for files with a token

	// bad is asked before each answer with a file: it may answer itself.
	bad   func(n int64, w http.ResponseWriter, r *http.Request) bool
	cut   int64 // bytes after which the first answers are cut; 0: none
	cuts  atomic.Int64
	plain bool // no ranges
}

func newBadServer(t *testing.T) *badServer {
	s := &badServer{t: t, files: map[string][]byte{}, etag: `"one"`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// short has it send less than it is asked for: no range is longer.
func (s *badServer) short(most int) {
	s.bad = func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
		var from, to int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && to-from > most {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+most))
		}
		return false
	}
}

func (s *badServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/models/"):
		s.mu.Lock()
		defer s.mu.Unlock()
		io.WriteString(w, s.repo)
		return
	case r.URL.Path == "/v2/":
		return
	}
	s.mu.Lock()
	file, ok := s.files[r.URL.Path]
	etag := s.etag
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Write(file)
		return
	}
	n := s.requests.Add(1)
	if r.Header.Get("Authorization") != "" {
		s.tokens.Add(1)
	}
	if s.bad != nil && s.bad(n, w, r) {
		return
	}
	if s.plain {
		r.Header.Del("Range")
	}
	w.Header().Set("ETag", etag)
	counted := &countingWriter{ResponseWriter: w, s: s}
	if s.cut > 0 && s.cuts.Add(-1) >= 0 {
		counted.left = s.cut
	}
	http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(file))
}

type countingWriter struct {
	http.ResponseWriter
	s    *badServer
	left int64 // 0: no end
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if w.left > 0 {
		if int64(len(b)) >= w.left {
			w.ResponseWriter.Write(b[:w.left])
			w.s.sent.Add(w.left)
			panic(http.ErrAbortHandler)
		}
		w.left -= int64(len(b))
	}
	n, err := w.ResponseWriter.Write(b)
	w.s.sent.Add(int64(n))
	return n, err
}

// put adds a file to the repository ORG/REPO, and returns its SHA-256.
func (s *badServer) put(path string, b []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(b)
	s.files["/org/repo/resolve/c0ffee/"+path] = b
	type lfs struct {
		SHA256 string `json:"sha256"`
		Size   int    `json:"size"`
	}
	type sibling struct {
		Path string `json:"rfilename"`
		Size int    `json:"size"`
		LFS  lfs    `json:"lfs"`
	}
	var all struct {
		Commit   string    `json:"sha"`
		Siblings []sibling `json:"siblings"`
	}
	if s.repo != "" {
		json.Unmarshal([]byte(s.repo), &all)
	}
	all.Commit = "c0ffee"
	all.Siblings = append(all.Siblings, sibling{path, len(b), lfs{hex.EncodeToString(sum[:]), len(b)}})
	text, _ := json.Marshal(all)
	s.repo = string(text)
	return hex.EncodeToString(sum[:])
}

// model returns a GGUF file of n bytes: a key, and a tensor of random bytes.
func model(n int, seed byte) []byte {
	const head = 96
	u64 := func(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }
	u32 := func(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
	b := u64(u64(u32([]byte("GGUF"), 3), 1), 1)
	b = append(u32(append(u64(b, 1), 'k'), 0), 7)
	b = u64(u32(append(u64(b, 1), 't'), 1), uint64(n-head))
	b = u64(u32(b, uint32(gguf.I8)), 0)
	b = append(b, make([]byte, head-len(b))...)
	rest := make([]byte, n-head)
	rand.NewChaCha8([32]byte{seed}).Read(rest)
	return append(b, rest...)
}

// cache returns a Hub for the server with small pieces and short waits.
func (s *badServer) cache(dir string) *Hub {
	s.t.Helper()
	h, err := New(Config{Dir: dir, HuggingFace: s.URL, Ollama: s.URL, Agent: "test", Piece: 16 << 10, Backoff: time.Millisecond, Stall: 5 * time.Second, Token: "hf_secret"})
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

// get pulls a model.
func get(t *testing.T, h *Hub, name string) (*Model, error) {
	t.Helper()
	ref, err := ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := h.Resolve(t.Context(), ref)
	if err != nil {
		return nil, err
	}
	return h.Pull(t.Context(), plan, Options{Asked: name})
}

// must pulls a model that must come whole.
func must(t *testing.T, h *Hub, name string, want []byte) *Model {
	t.Helper()
	m, err := get(t, h, name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(h.Path(m))
	if err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%s has %d bytes, %v; want the %d of the server", name, len(b), err, len(want))
	}
	leftovers(t, h)
	return m
}

// leftovers checks that nothing but whole files is in the cache.
func leftovers(t *testing.T, h *Hub) {
	t.Helper()
	if entries, _ := os.ReadDir(h.partial()); len(entries) > 0 {
		t.Errorf("%d files are left in partial, the first %s", len(entries), entries[0].Name())
	}
	whole(t, h)
}

// whole checks that the files with final names are what their names say.
func whole(t *testing.T, h *Hub) {
	t.Helper()
	entries, _ := os.ReadDir(h.blobs())
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(h.blobs(), e.Name()))
		sum := sha256.Sum256(b)
		if err != nil || e.Name() != "sha256-"+hex.EncodeToString(sum[:]) {
			t.Errorf("%s is not what its name says: %v", e.Name(), err)
		}
	}
}

// Files come whole over connections that are cut, and servers that are busy or cannot send ranges.
func TestPullThroughTrouble(t *testing.T) {
	status := func(code int, times int64) func(*badServer) {
		return func(s *badServer) {
			s.bad = func(n int64, w http.ResponseWriter, r *http.Request) bool {
				if n%2 == 0 || n > 2*times {
					return false
				}
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(code)
				return true
			}
		}
	}
	for name, set := range map[string]func(*badServer){
		"well":            func(*badServer) {},
		"cuts":            func(s *badServer) { s.cut = 5000; s.cuts.Store(25) },
		"429":             status(429, 4),
		"500":             status(500, 4),
		"503":             status(503, 4),
		"no ranges":       func(s *badServer) { s.plain = true },
		"no ranges, cuts": func(s *badServer) { s.plain = true; s.cut = 100_000; s.cuts.Store(2) },
		"short ranges":    func(s *badServer) { s.short(4000) },
		"redirects": func(s *badServer) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("the token went to another host")
				}
				s.mu.Lock()
				file := s.files[r.URL.Path]
				s.mu.Unlock()
				w.Header().Set("ETag", `"other"`)
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
			}))
			t.Cleanup(other.Close)
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBadServer(t)
			b := model(300_000, 1)
			s.put("a-Q4_K_M.gguf", b)
			set(s)
			m := must(t, s.cache(t.TempDir()), "hf.co/org/repo", b)
			if m.Name != "hf.co/org/repo:Q4_K_M" {
				t.Errorf("it is called %s", m.Name)
			}
			if s.requests.Load() != s.tokens.Load() {
				t.Errorf("%d of %d requests had the token", s.tokens.Load(), s.requests.Load())
			}
		})
	}
}

// What a server gets wrong is an error, and nothing of it has a final name.
func TestPullRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(s *badServer)
		want string
	}{
		"wrong hash": {func(s *badServer) { s.files["/org/repo/resolve/c0ffee/a-Q4_K_M.gguf"][250_000] ^= 1 }, "the sha256 of what came is "},
		"another size": {func(s *badServer) {
			s.files["/org/repo/resolve/c0ffee/a-Q4_K_M.gguf"] = model(299_000, 1)
		}, "the server has 299000 bytes, want 300000"},
		"gone": {func(s *badServer) { delete(s.files, "/org/repo/resolve/c0ffee/a-Q4_K_M.gguf") }, "the server answers 404 Not Found"},
		"always busy": {func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
		}, "the server answers 503"},
		"busy for long": {func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(429)
				return true
			}
		}, "it asks for a wait of 1h0m0s"},
		"a page":            {func(s *badServer) { s.bad = answer200("<html>") }, "want 300000"},
		"an absurd size":    {func(s *badServer) { s.repo = strings.ReplaceAll(s.repo, "300000", "999999999999999999") }, "want 0 to"},
		"too large":         {func(s *badServer) { s.repo = strings.ReplaceAll(s.repo, "300000", "8000000000000") }, "GB free, and 8000.00 GB are to be downloaded"},
		"a negative size":   {func(s *badServer) { s.repo = strings.ReplaceAll(s.repo, "300000", "-5") }, "-5 bytes"},
		"a path upwards":    {func(s *badServer) { s.repo = strings.ReplaceAll(s.repo, "a-Q4_K_M.gguf", "../../a-Q4_K_M.gguf") }, "the file name \"..\""},
		"a hash of no kind": {func(s *badServer) { s.repo = strings.ReplaceAll(s.repo, `"sha256":"`, `"sha256":"../`) }, "want 64 digits"},
		"no JSON":           {func(s *badServer) { s.repo = "<html>" }, "no JSON of the form"},
		"a wrong range": {func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Range", "bytes 9-18446744073709551615/300000")
				w.WriteHeader(206)
				return true
			}
		}, "Content-Range"},
		"another range": {func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Range", "bytes 7-299999/300000")
				w.WriteHeader(206)
				return true
			}
		}, "the server sends bytes from 7, want 0"},
		"compressed": {func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Encoding", "gzip")
				return false
			}
		}, `the server sends the file in the form "gzip"`},
		"no GGUF": {func(s *badServer) { s.files["/org/repo/resolve/c0ffee/a-Q4_K_M.gguf"][0] = 'P' }, `it is no GGUF file: it begins with "PGUF"`},
		"redirects in a circle": {func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
				return true
			}
		}, "redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBadServer(t)
			s.put("a-Q4_K_M.gguf", model(300_000, 1))
			c.set(s)
			h := s.cache(t.TempDir())
			_, err := get(t, h, "hf.co/org/repo")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%v, want %s", err, c.want)
			}
			if list, err := h.List(); len(list) > 0 || err != nil {
				t.Errorf("the cache has %v, %v", list, err)
			}
			whole(t, h)
		})
	}
}

func answer200(text string) func(int64, http.ResponseWriter, *http.Request) bool {
	return func(_ int64, w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, text); return true }
}

// A pull that was ended goes on where it was, also with another number of connections; what was damaged meanwhile is downloaded again.
func TestResume(t *testing.T) {
	for name, damage := range map[string]func(data, record string) error{
		"whole":               nil,
		"a record of nothing": func(_, record string) error { return os.WriteFile(record, []byte("{"), 0o600) },
		"an absurd record": func(_, record string) error {
			return os.WriteFile(record, []byte(`{"size":300000,"piece":1,"have":[9223372036854775807]}`), 0o600)
		},
		"cut data": func(data, _ string) error { return os.Truncate(data, 1000) },
		"other data": func(data, _ string) error {
			f, err := os.OpenFile(data, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("damage"), 100)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBadServer(t)
			b := model(300_000, 2)
			sum := s.put("a-Q8_0.gguf", b)
			h := s.cache(t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			s.bad = func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
				if n == 12 {
					cancel()
				}
				return false
			}
			ref, _ := ParseRef("hf.co/org/repo")
			plan, err := h.Resolve(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Pull(ctx, plan, Options{}); err != context.Canceled {
				t.Fatalf("%v, want that it was cancelled", err)
			}
			if list, _ := h.List(); len(list) > 0 {
				t.Error("a model that is not whole is listed")
			}
			data := filepath.Join(h.partial(), sum)
			if damage != nil {
				if err := damage(data, data+".json"); err != nil {
					t.Fatal(err)
				}
			}
			s.sent.Store(0)
			must(t, h, "hf.co/org/repo:q8_0", b)
			if n := s.sent.Load(); damage == nil && n >= 300_000 {
				t.Errorf("%d bytes came again, want only the rest", n)
			}
		})
	}
}

// Two pulls of one model at the same time download it once, and a third later nothing.
func TestPullTwice(t *testing.T) {
	s := newBadServer(t)
	b := model(400_000, 3)
	s.put("a-Q6_K.gguf", b)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := get(t, s.cache(dir), "hf.co/org/repo"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, s.cache(dir), "hf.co/org/repo", b)
	if n := s.sent.Load(); n != 400_000 {
		t.Errorf("%d bytes came, want 400000", n)
	}
}

// A file at a URL has no hash: what changes while it is downloaded is not mixed.
func TestChanges(t *testing.T) {
	s := newBadServer(t)
	one, two := model(300_000, 4), model(300_000, 5)
	s.files["/x/model.gguf"] = one
	s.bad = func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 6 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.files["/x/model.gguf"], s.etag = two, `"two"`
		}
		return false
	}
	h := s.cache(t.TempDir())
	if _, err := get(t, h, s.URL+"/x/model.gguf"); err == nil || !strings.Contains(err.Error(), "changed while it was downloaded") {
		t.Errorf("%v, want that it changed", err)
	}
	must(t, h, s.URL+"/x/model.gguf", two)
	n := s.sent.Load()
	if must(t, h, s.URL+"/x/model.gguf", two); s.sent.Load() > n+1 {
		t.Errorf("%d bytes of a file came again that has not changed", s.sent.Load()-n)
	}
	if s.tokens.Load() > 0 {
		t.Error("a token went to a server that is not Hugging Face's")
	}
	sum := sha256.Sum256(one)
	if _, err := get(t, h, s.URL+"/x/model.gguf#sha256="+hex.EncodeToString(sum[:])); err == nil || !strings.Contains(err.Error(), "the sha256 of what came is") {
		t.Errorf("%v, want that the hash is another", err)
	}
}

// A model at a URL with a hash is that file only: not what the cache has of the URL without one, or with another.
func TestSumIsPartOfName(t *testing.T) {
	s := newBadServer(t)
	one, two := model(100_000, 4), model(100_000, 5)
	at := s.URL + "/x/model.gguf"
	with := func(b []byte) string {
		sum := sha256.Sum256(b)
		return at + "#sha256=" + hex.EncodeToString(sum[:])
	}
	h := s.cache(t.TempDir())
	finds := func(name string, want []byte) {
		t.Helper()
		m, err := h.Find(name)
		if (err == nil) != (want != nil) || want != nil && with(want) != at+"#sha256="+m.Files[0].SHA256 {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	s.files["/x/model.gguf"] = one
	must(t, h, with(one), one)
	finds(at, one)
	finds(with(one), one)
	finds(with(two), nil)
	s.files["/x/model.gguf"], s.etag = two, `"two"`
	m := must(t, h, with(two), two)
	finds(with(two), two)
	finds(with(one), nil)
	if len(m.Asked) != 1 || m.Asked[0] != with(two) {
		t.Errorf("it is also called %v", m.Asked)
	}
}

// A name in the same letters comes first; in other letters it means a model only where its server does not tell them apart.
func TestLetters(t *testing.T) {
	model := func(name string) *Model {
		return &Model{Name: name, Files: []ModelFile{{Name: "a.gguf", SHA256: sum64}}}
	}
	var all []*Model
	for _, name := range []string{"Foo", "foo", "hf.co/Org/Repo:Q4_K_M", "hf.co/Org/Repo@v1:Q8_0", "hf.co/org/repo:Q4_K_M", "https://h/M.gguf", "https://h/m.gguf", "https://h/N.gguf", "oci://h/a:V1", "ollama.com/Qwen:1B"} {
		all = append(all, model(name))
	}
	for name, want := range map[string]string{
		"foo": "foo", "Foo": "Foo", "FOO": "",
		"hf.co/org/repo:q4_k_m": "hf.co/Org/Repo:Q4_K_M", "org/repo:Q4_K_M": "hf.co/org/repo:Q4_K_M", "hf.co/org/repo@v1:q8_0": "hf.co/Org/Repo@v1:Q8_0", "hf.co/Org/Repo@V1:Q8_0": "",
		"https://h/m.gguf": "https://h/m.gguf", "https://h/n.gguf": "", "n": "", "N": "https://h/N.gguf",
		"oci://h/a:V1": "oci://h/a:V1", "oci://h/a:v1": "", "a:V1": "oci://h/a:V1", "qwen:1b": "ollama.com/Qwen:1B",
	} {
		m := find(all, name)
		if m == nil {
			m = &Model{}
		}
		if m.Name != want {
			t.Errorf("%s is %q, want %q", name, m.Name, want)
		}
	}
}

// A model that cannot be read hinders no other: pulls and copies succeed, its files stay until it is removed, by the name that
// the error has or its own.
func TestUnreadable(t *testing.T) {
	for _, name := range []string{"bad.json", "bad", "hf.co/a/b:Q8_0"} {
		s := newBadServer(t)
		b := model(100_000, 9)
		s.put("a-Q4_K_M.gguf", b)
		h := s.cache(t.TempDir())
		bad := h.manifestPath(strings.TrimSuffix(name, ".json"))
		orphan := filepath.Join(h.blobs(), "sha256-"+sum64)
		for path, text := range map[string]string{bad: `{"name":`, orphan: "its file"} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := get(t, h, "hf.co/org/repo"); err != nil {
			t.Fatal(err)
		}
		if err := h.Copy(t.Context(), "org/repo", "mine"); err != nil {
			t.Error(err)
		}
		if all, err := h.List(); len(all) != 2 || err == nil || !strings.Contains(err.Error(), `"quern rm `+filepath.Base(bad)+`" removes it`) {
			t.Errorf("%v, %v", all, err)
		}
		if _, err := os.Stat(orphan); err != nil {
			t.Error("a file that it may have was removed")
		}
		if _, freed, err := h.Remove(t.Context(), name); err != nil || freed != 8 {
			t.Errorf("%s: %d freed, %v", name, freed, err)
		}
		if all, err := h.List(); len(all) != 2 || err != nil {
			t.Errorf("after that %v, %v", all, err)
		}
		if _, _, err := h.Remove(t.Context(), filepath.Base(h.manifestPath("mine"))); err == nil {
			t.Error("a model that can be read was removed by its file's name")
		}
		whole(t, h)
	}
}

// A server that does not say how much there is.
func TestUnknownSize(t *testing.T) {
	s := newBadServer(t)
	b := model(100_000, 6)
	s.files["/model.gguf"] = b
	s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(200)
		w.(http.Flusher).Flush() // chunks, without a length
		w.Write(b)
		return true
	}
	must(t, s.cache(t.TempDir()), s.URL+"/model.gguf", b)
	page := bytes.Repeat([]byte("<html>"), 4<<20)
	for _, c := range []struct {
		form, want string
		body       []byte
	}{
		{"", `it is no GGUF file: it begins with "<htm"`, page},
		{"", `it is no GGUF file: it begins with "GG"`, []byte("GG")},
		{"", `malformed GGUF: truncated`, b[:50]},
		{"gzip", `the server sends the file in the form "gzip", want it as it is`, b},
	} {
		sent := make(chan int64, 1)
		s.bad = func(n int64, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 { // for the size
				w.(http.Flusher).Flush()
				return true
			}
			w.Header().Set("Content-Encoding", c.form)
			w.(http.Flusher).Flush()
			took, _ := io.Copy(w, bytes.NewReader(c.body))
			sent <- took
			return true
		}
		s.requests.Store(0)
		h := s.cache(t.TempDir())
		_, err := get(t, h, s.URL+"/model.gguf")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		if took := <-sent; took == int64(len(page)) {
			t.Error("all of a page was taken")
		}
		leftovers(t, h)
	}
}

// Registries of Ollama's and the OCI kind have manifests, and may want a token first.
func TestRegistries(t *testing.T) {
	s := newBadServer(t)
	b := model(100_000, 7)
	sum := sha256.Sum256(b)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	s.files["/v2/library/small/blobs/"+digest] = b
	s.files["/v2/org/deep/small/blobs/"+digest] = b
	layer := func(kind, more string) string {
		return `{"layers":[{"mediaType":"text/plain","digest":"sha256:00","size":4},{"mediaType":"` + kind + `","digest":"` + digest + `","size":` + strconv.Itoa(len(b)) + more + `}]}`
	}
	s.files["/v2/library/small/manifests/latest"] = []byte(layer("application/vnd.ollama.image.model", ""))
	oci := layer("application/octet-stream", `,"annotations":{"org.opencontainers.image.title":"small.gguf"}`)
	inner := sha256.Sum256([]byte(oci))
	s.files["/v2/org/deep/small/manifests/sha256:"+hex.EncodeToString(inner[:])] = []byte(oci)
	s.files["/v2/org/deep/small/manifests/v1"] = []byte(`{"manifests":[{"digest":"sha256:` + hex.EncodeToString(inner[:]) + `"}]}`)
	h := s.cache(t.TempDir())
	m := must(t, h, "ollama.com/small", b)
	if m.Name != "ollama.com/small" || m.Files[0].Name != "small-latest.gguf" || s.tokens.Load() > 0 {
		t.Errorf("%+v, %d tokens sent", m, s.tokens.Load())
	}
	host := strings.TrimPrefix(s.URL, "http://")
	before := s.sent.Load()
	m = must(t, h, "oci://"+host+"/org/deep/small:v1", b)
	if m.Files[0].Name != "small.gguf" || s.sent.Load() != before {
		t.Errorf("%+v, and %d bytes of a file came that is there", m, s.sent.Load()-before)
	}
	s.files["/v2/org/deep/small/manifests/v1"] = []byte(`{"manifests":[{"digest":"sha256:` + strings.Repeat("0", 64) + `"}]}`)
	if _, err := get(t, h, "oci://"+host+"/org/deep/small:v1"); err == nil {
		t.Error("a manifest that is not there was found")
	}
	s.files["/v2/org/deep/small/manifests/sha256:"+strings.Repeat("0", 64)] = []byte(oci)
	if _, err := get(t, h, "oci://"+host+"/org/deep/small:v1"); err == nil || !strings.Contains(err.Error(), "the manifest's sha256 is") {
		t.Errorf("a manifest of another hash: %v", err)
	}
}

// The system prompt, the parameters and the example turns of a model of Ollama's come with it; its template does not, and
// what is not of their form is left out, which is said.
func TestRegistrySettings(t *testing.T) {
	s := newBadServer(t)
	b := model(100_000, 7)
	put := func(b []byte) string {
		sum := sha256.Sum256(b)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		s.files["/v2/library/small/blobs/"+digest] = b
		return digest
	}
	publish := func(layers ...string) {
		list := fmt.Sprintf(`{"mediaType":"application/vnd.ollama.image.model","digest":%q,"size":%d}`, put(b), len(b))
		for i := 0; i < len(layers); i += 2 {
			list += fmt.Sprintf(`,{"mediaType":"application/vnd.ollama.image.%s","digest":%q,"size":%d}`, layers[i], put([]byte(layers[i+1])), len(layers[i+1]))
		}
		s.files["/v2/library/small/manifests/latest"] = []byte(`{"layers":[` + list + `]}`)
	}
	h := s.cache(t.TempDir())
	publish("template", "{{ .Prompt }}", "system", "Be brief.", "params", `{"temperature":0.6,"stop":["<|end|>"],"of_the_future":{}}`,
		"messages", `[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]`)
	m := must(t, h, "ollama.com/small", b)
	m, err := h.Find(m.Name) // as it was stored
	if err != nil {
		t.Fatal(err)
	}
	const want = "SYSTEM Be brief.\nPARAMETER stop <|end|>\nPARAMETER temperature 0.6\nMESSAGE user Hi\nMESSAGE assistant Hello\n"
	if got := m.Persona.Modelfile(); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p, err := h.Create(t.Context(), &persona.Persona{Name: "mine", From: "small", System: "Be rude."})
	if err != nil || !strings.Contains(p.Modelfile(), "SYSTEM Be rude.\nPARAMETER stop <|end|>") {
		t.Errorf("one that is made from it: %v, %v", p, err)
	}
	for _, odd := range [][3]string{
		{"params", "{", "its layer params is no JSON"},
		{"params", `[0.5]`, "its layer params is no JSON"},
		{"params", `{"temperature":"hot"}`, `temperature: got "hot", want a number`},
		{"params", `{"of_the_future":7}`, `there is no parameter "of_the_future"`},
		{"params", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`, `there is no parameter "d"; and 2 more`},
		{"params", strings.Repeat(" ", persona.MaxBytes+1), "its layer params has 1048577 bytes"},
		{"system", "\xff", "system: it is not UTF-8"},
		{"messages", `[{"role":"robot","content":"Hi"}]`, `the role "robot"`},
		{"messages", `{}`, "its layer messages is no JSON"},
	} {
		publish(odd[0], odd[1], "params", `{"seed":7}`)
		m, err := get(t, h, "ollama.com/small")
		if err != nil || m.Persona == nil || m.Persona.Parameters["seed"] != int64(7) && m.Persona.Parameters["seed"] != 7.0 {
			t.Errorf("%.40q: got %+v, %v", odd, m, err)
			continue
		}
		if !strings.Contains(m.Skipped, odd[2]) || strings.Contains(m.Skipped, "\n") || len(m.Skipped) > 400 {
			t.Errorf("%.40q: got %q, want %q in one short line", odd, m.Skipped, odd[2])
		}
		if m, err := h.Find(m.Name); err != nil || m.Skipped != "" || m.Persona.Parameters["seed"] != int64(7) {
			t.Errorf("%.40q: stored as %+v, %v", odd, m, err)
		}
	}
	publish("system", "Be brief.")
	for path, file := range s.files {
		if string(file) == "Be brief." {
			s.files[path] = []byte("Be evil!!")
		}
	}
	if _, err := get(t, h, "ollama.com/small"); err == nil || !strings.Contains(err.Error(), "its layer system: the sha256 is") {
		t.Errorf("a layer of another hash: %v", err)
	}
}

// Whoever may not want a model is asked before more than its head came.
func TestCheck(t *testing.T) {
	s := newBadServer(t)
	b := model(8<<20, 8)
	s.put("a-Q4_0.gguf", b)
	h := s.cache(t.TempDir())
	ref, _ := ParseRef("hf.co/org/repo")
	plan, err := h.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	saw := int64(0)
	_, err = h.Pull(t.Context(), plan, Options{Check: func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		saw = info.Size()
		return fmt.Errorf("%s: no", path)
	}})
	if err == nil || err.Error() != "hf.co/org/repo:Q4_0: a-Q4_0.gguf: no" || saw != 8<<20 || s.sent.Load() > 1<<20 {
		t.Errorf("%v; a file of %d bytes, %d sent", err, saw, s.sent.Load())
	}
	if _, err := h.Find("hf.co/org/repo"); err == nil {
		t.Error("it is in the cache all the same")
	}
	if freed, err := h.Clean(); err != nil || freed == 0 {
		t.Errorf("%d bytes freed, %v", freed, err)
	}
	leftovers(t, h)
}
