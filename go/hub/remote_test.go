package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// remotes resolves a model to be read from its server.
func remotes(t *testing.T, h *Hub, name string) ([]*Remote, error) {
	t.Helper()
	ref, err := ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := h.Resolve(t.Context(), ref)
	if err != nil {
		return nil, err
	}
	return h.Remotes(t.Context(), plan)
}

// fetchAll reads a file in parts, several at a time.
func fetchAll(t *testing.T, r *Remote) ([]byte, error) {
	const part = 37_000
	b := make([]byte, r.Size())
	var wait sync.WaitGroup
	errs := make([]error, (len(b)+part-1)/part)
	for i := range errs {
		wait.Go(func() { errs[i] = r.Fetch(t.Context(), b[i*part:min((i+1)*part, len(b))], int64(i*part)) })
	}
	wait.Wait()
	return b, errors.Join(errs...)
}

// other returns a server with the same files, that wants a signature in addresses and no token.
func (s *badServer) other(t *testing.T, signature func() string) *httptest.Server {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
			t.Error("the token went to another host")
		}
		if r.URL.RawQuery != signature() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.mu.Lock()
		file := s.files[r.URL.Path]
		s.mu.Unlock()
		w.Header().Set("ETag", `"other"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(other.Close)
	return other
}

// Parts come whole over connections that are cut, servers that are busy, send less than they are asked for, or say that the file
// is elsewhere.
func TestFetchThroughTrouble(t *testing.T) {
	t.Parallel()
	busy := func(code int) func(*testing.T, *badServer) {
		return func(_ *testing.T, s *badServer) {
			s.bad = func(n int64, w http.ResponseWriter, r *http.Request) bool {
				if n%3 != 0 {
					return false
				}
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(code)
				return true
			}
		}
	}
	for name, set := range map[string]func(*testing.T, *badServer){
		"well":         func(*testing.T, *badServer) {},
		"cuts":         func(_ *testing.T, s *badServer) { s.cut = 20_000; s.cuts.Store(5) },
		"429":          busy(429),
		"503":          busy(503),
		"short ranges": func(_ *testing.T, s *badServer) { s.short(17_000) },
		"redirects": func(t *testing.T, s *badServer) {
			other := s.other(t, func() string { return "signed" })
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, other.URL+r.URL.Path+"?signed", http.StatusFound)
				return true
			}
		},
		"signatures that expire": func(t *testing.T, s *badServer) {
			var asked atomic.Int64
			signature := func() string { return fmt.Sprint(asked.Add(1) / 4) }
			other := s.other(t, signature)
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, other.URL+r.URL.Path+fmt.Sprintf("?%d", (asked.Load()+1)/4), http.StatusFound)
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBadServer(t)
			b := model(300_000, 1)
			s.put("a-Q4_K_M.gguf", b)
			set(t, s)
			all, err := remotes(t, s.cache(t.TempDir()), "hf.co/org/repo")
			if err != nil {
				t.Fatal(err)
			}
			r := all[0]
			if name == "signatures that expire" { // one after the other: which is valid is a matter of order
				for at := 0; at < len(b); at += 10_000 {
					p := make([]byte, 10_000)
					if err := r.Fetch(t.Context(), p, int64(at)); err != nil {
						t.Fatal(err)
					} else if !bytes.Equal(p, b[at:at+10_000]) {
						t.Fatalf("bytes from %d are others", at)
					}
				}
				return
			}
			got, err := fetchAll(t, r)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, b) {
				t.Error("other bytes came")
			}
			if want := int64(len(b)) + 1; name == "well" { // one byte asks whether it sends parts
				for end := time.Now().Add(time.Minute); s.sent.Load() != want; time.Sleep(time.Millisecond) { // counted once it is sent
					if time.Now().After(end) {
						t.Fatalf("the server sent %d bytes of %d", s.sent.Load(), len(b))
					}
				}
			}
			if s.requests.Load() != s.tokens.Load() {
				t.Errorf("%d of %d requests had the token", s.tokens.Load(), s.requests.Load())
			}
			if n := s.requests.Load(); name == "redirects" && n > 10 {
				t.Errorf("%d requests of 10 went to where the file is not", n)
			}
		})
	}
}

// What a server gets wrong is an error in one line, after a bounded number of tries.
func TestFetchRefusals(t *testing.T) {
	t.Parallel()
	status := func(code int) func(*badServer) {
		return func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
		}
	}
	web := func(bad func(w http.ResponseWriter, r *http.Request) bool) func(*badServer) {
		return func(s *badServer) {
			s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool { return bad(w, r) }
		}
	}
	hold := func(w http.ResponseWriter, r *http.Request, from, n int) {
		if from < 0 {
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-299999/300000", from))
		w.Header().Set("Content-Length", fmt.Sprint(300_000-from))
		w.Header().Set("ETag", `"one"`)
		w.WriteHeader(206)
		w.Write(make([]byte, n))
		w.(http.Flusher).Flush()
	}
	for name, c := range map[string]struct {
		set  func(s *badServer)
		want string
	}{
		"401":          {status(401), "the server answers 401 Unauthorized: it may not be read without a login, or a signed address has expired"},
		"403":          {status(403), "the server answers 403 Forbidden: it may not"},
		"404":          {status(404), "the server answers 404 Not Found: the file is not there any more"},
		"416":          {status(416), "the file on the server changed while it was downloaded: it is shorter now; start the program again"},
		"429":          {status(429), "the server answers 429 Too Many Requests"},
		"500":          {status(500), "the server answers 500 Internal Server Error"},
		"changed":      {func(s *badServer) { s.etag = `"two"` }, "changed while it was downloaded; start the program again"},
		"another size": {func(s *badServer) { s.files["/a.gguf"] = model(200_000, 1) }, "changed while it was downloaded"},
		"no parts now": {func(s *badServer) { s.plain = true }, ErrWhole.Error()},
		"another range": {web(func(w http.ResponseWriter, r *http.Request) bool {
			hold(w, r, 7, 100)
			return true
		}), "the server sends bytes from 7, want 100000"},
		"a range of no form": {web(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Range", "multipart")
			w.WriteHeader(206)
			return true
		}), "Content-Range"},
		"compressed": {web(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			return false
		}), `in the form "gzip"`},
		"a length that is a lie": {web(func(w http.ResponseWriter, r *http.Request) bool {
			hold(w, r, -1, 10)
			panic(http.ErrAbortHandler)
		}), "EOF"},
		"nothing": {web(func(w http.ResponseWriter, r *http.Request) bool {
			hold(w, r, -1, 10)
			<-r.Context().Done()
			return true
		}), "the server sends nothing"},
		"a drip": {web(func(w http.ResponseWriter, r *http.Request) bool {
			hold(w, r, -1, 10)
			for r.Context().Err() == nil {
				w.Write([]byte{1})
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
			return true
		}), "the server sends nothing"},
		"huge headers": {web(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
			return false
		}), "exceeded"},
		"redirects in a circle": {web(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		}), "redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBadServer(t)
			s.files["/a.gguf"] = model(300_000, 1)
			h, err := New(Config{Dir: t.TempDir(), Agent: "test", Backoff: time.Millisecond, Stall: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			all, err := remotes(t, h, s.URL+"/a.gguf")
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			c.set(s)
			s.mu.Unlock()
			before := s.requests.Load()
			err = all[0].Fetch(t.Context(), make([]byte, 100_000), 100_000)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if n := s.requests.Load() - before; n > 2*tries {
				t.Errorf("%d tries", n)
			}
		})
	}
}

// Files of which parts cannot be read, or whose changes would not be noticed, are to be downloaded.
func TestRemotesRefusals(t *testing.T) {
	t.Parallel()
	s := newBadServer(t)
	b := model(300_000, 1)
	s.files["/a.gguf"] = b
	h := s.cache(t.TempDir())
	s.etag = ""
	if _, err := remotes(t, h, s.URL+"/a.gguf"); !errors.Is(err, ErrWhole) || !strings.Contains(err.Error(), "no ETag") {
		t.Errorf("without ETag: %v", err)
	}
	all, err := remotes(t, h, s.URL+"/a.gguf#sha256="+strings.Repeat("a", 64))
	if err != nil || all[0].SHA256() != strings.Repeat("a", 64) || all[0].Version() != all[0].SHA256() {
		t.Errorf("with a sum: %v", err)
	}
	s.etag, s.plain = `"one"`, true
	if _, err := remotes(t, h, s.URL+"/a.gguf"); !errors.Is(err, ErrWhole) || !strings.Contains(err.Error(), "no parts") {
		t.Errorf("without ranges: %v", err)
	}
	s.put("a-Q4_K_M.gguf", b)
	if _, err := remotes(t, h, "hf.co/org/repo"); !errors.Is(err, ErrWhole) || !strings.Contains(err.Error(), "no parts") {
		t.Errorf("a repository without ranges: %v", err)
	}
	s.plain = false
	all, err = remotes(t, h, s.URL+"/a.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if err := all[0].Fetch(t.Context(), make([]byte, 2), 299_999); err == nil {
		t.Error("bytes behind the end came")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := all[0].Fetch(ctx, make([]byte, 2), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("what nobody waits for: %v", err)
	}
}

// A host that a file was found on and that goes away is forgotten: the file's own address says where it is now.
func TestFetchFromGoneHost(t *testing.T) {
	t.Parallel()
	s := newBadServer(t)
	b := model(300_000, 1)
	s.put("a-Q4_K_M.gguf", b)
	signature := func() string { return "signed" }
	first, second := s.other(t, signature), s.other(t, signature)
	var to atomic.Pointer[httptest.Server]
	to.Store(first)
	s.bad = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, to.Load().URL+r.URL.Path+"?signed", http.StatusFound)
		return true
	}
	all, err := remotes(t, s.cache(t.TempDir()), "hf.co/org/repo")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100_000)
	if err := all[0].Fetch(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	to.Store(second)
	first.Close()
	if err := all[0].Fetch(t.Context(), p, 100_000); err != nil || !bytes.Equal(p, b[100_000:200_000]) {
		t.Errorf("after its host has gone: %v", err)
	}
}

// Errors do not show what is behind the ? of an address, and keys of two addresses differ.
func TestSignaturesAreNotShown(t *testing.T) {
	t.Parallel()
	s := newBadServer(t)
	s.files["/a.gguf"] = model(30_000, 1)
	h := s.cache(t.TempDir())
	address := s.URL + "/a.gguf?token=secret"
	s.etag = ""
	if _, err := remotes(t, h, address); err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), s.URL+"/a.gguf: ") {
		t.Errorf("without an ETag: %v", err)
	}
	s.bad = func(_ int64, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(403); return true }
	if _, err := remotes(t, h, address); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "403") {
		t.Errorf("403: %v", err)
	}
	if _, err := ParseRef(address + "#md5=1"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad sum: %v", err)
	}
	keys := map[string]string{}
	for _, name := range []string{s.URL + "/a.gguf", address, s.URL + "/a.gguf?id=2", s.URL + "/a.gguf#sha256=" + strings.Repeat("a", 64)} {
		ref, err := ParseRef(name)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := keys[ref.Key()]; ok || strings.Contains(ref.Key(), "secret") {
			t.Errorf("%s has the key %s, as %s", name, ref.Key(), other)
		}
		keys[ref.Key()] = name
	}
	long := "https://host/a.gguf?token=" + strings.Repeat("x", 6000)
	if ref, err := ParseRef(long); err != nil || ref.String() != long {
		t.Errorf("a long signature: %v", err)
	}
	for _, bad := range []string{long + strings.Repeat("x", 3000), "hf.co/org/" + strings.Repeat("x", 2000)} {
		if _, err := ParseRef(bad); err == nil || len(err.Error()) > 200 {
			t.Errorf("a name of %d bytes: %v", len(bad), err)
		}
	}
}

// A name of one shard means all of them.
func TestShardsOfAddress(t *testing.T) {
	t.Parallel()
	s := newBadServer(t)
	for i := range 3 {
		s.files[fmt.Sprintf("/m/a-%05d-of-00003.gguf", i+1)] = model(20_000+i, byte(i))
	}
	h := s.cache(t.TempDir())
	all, err := remotes(t, h, s.URL+"/m/a-00002-of-00003.gguf")
	if err != nil || len(all) != 3 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	for i, r := range all {
		if got, err := fetchAll(t, r); err != nil || !bytes.Equal(got, model(20_000+i, byte(i))) {
			t.Errorf("shard %d: %d bytes, %v", i, len(got), err)
		}
	}
	s.files["/refs/pr/1/a-00001-of-00002.gguf"], s.files["/refs/pr/1/a-00002-of-00002.gguf"] = model(20_000, 1), model(20_000, 2)
	var asked sync.Map
	s.bad = func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
		asked.Store(r.RequestURI, true)
		return false
	}
	if all, err = remotes(t, h, s.URL+"/refs%2Fpr%2F1/a-00002-of-00002.gguf"); err != nil || len(all) != 2 {
		t.Fatalf("with escapes: %d files, %v", len(all), err)
	}
	if _, ok := asked.Load("/refs%2Fpr%2F1/a-00001-of-00002.gguf"); !ok {
		t.Error("the escapes of the other shard's path are lost")
	}
	if all, err = remotes(t, h, s.URL+"/m/a-00002-of-00003.gguf?signature"); err != nil || len(all) != 1 {
		t.Errorf("with a signature: %d files, %v", len(all), err)
	}
	s.files["/m/b-00001-of-00002"] = model(20_000, 1)
	if all, err = remotes(t, h, s.URL+"/m/b-00001-of-00002"); err != nil || len(all) != 1 {
		t.Errorf("of another form: %d files, %v", len(all), err)
	}
	delete(s.files, "/m/a-00003-of-00003.gguf")
	if _, err := remotes(t, h, s.URL+"/m/a-00001-of-00003.gguf"); err == nil || !strings.Contains(err.Error(), "a-00003-of-00003.gguf: the server answers 404") {
		t.Errorf("without the last: %v", err)
	}
	if _, err := remotes(t, h, s.URL+"/m/a-00001-of-00003.gguf#sha256="+strings.Repeat("a", 64)); err == nil || !strings.Contains(err.Error(), "of one of 3 files") {
		t.Errorf("with a sum: %v", err)
	}
}
