package host

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	quiet   = log.New(io.Discard, "", 0)
	nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
)

// start serves on a socket of its own, and returns a client for it.
func start(t *testing.T, h *Host) (*http.Client, string, chan error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.sock")
	ls, err := Listen([]string{path}, 0, false, "", "")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ls) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	t.Cleanup(client.CloseIdleConnections)
	return client, path, done
}

func get(t *testing.T, c *http.Client, path string) (int, string) {
	t.Helper()
	r, err := c.Get("http://host" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, strings.TrimSpace(string(b))
}

func TestLife(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	h := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			close(begun)
			<-end
			io.WriteString(w, "last\n")
		}
	}), "/api", time.Minute, quiet)
	c, _, done := start(t, h)
	expect := func(when string, want map[string]int) {
		t.Helper()
		for path, status := range want {
			if got, body := get(t, c, path); got != status {
				t.Errorf("%s: %s gave %d %q, want %d", when, path, got, body, status)
			}
		}
	}
	for _, path := range Probes {
		for _, path := range []string{path, "/api" + path} {
			if status, _ := get(t, c, path); status != 200 && status != 503 {
				t.Errorf("%s gave %d", path, status)
			}
		}
	}
	expect("loading", map[string]int{"/livez": 200, "/api/livez": 200, "/readyz": 503, "/startupz": 503, "/api/startupz": 503, "/v1/models": 200,
		"/v2/health/live": 200, "/api/v2/health/live": 200, "/v2/health/ready": 503})
	if _, body := get(t, c, "/v2/health/ready"); body != `{"ready":false}` {
		t.Errorf("not ready is %s", body)
	}
	h.Ready()
	expect("ready", map[string]int{"/livez": 200, "/readyz": 200, "/api/readyz": 200, "/startupz": 200, "/v1/models": 200, "/v2/health/live": 200, "/v2/health/ready": 200})
	if _, body := get(t, c, "/v2/health/live"); body != `{"live":true}` {
		t.Errorf("live is %s", body)
	}

	// A stream that runs is let finish; nobody else gets in.
	text := make(chan string)
	go func() {
		_, body := get(t, c, "/stream")
		text <- body
	}()
	<-begun
	over := make(chan bool)
	go func() { h.Shutdown(context.Background()); close(over) }()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	select {
	case <-over:
		t.Error("the shutdown did not wait for a stream")
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	if got := <-text; got != "first\nlast" {
		t.Errorf("the stream was %q", got)
	}
	<-over
}

// A host that leaves accepts nobody, and goes on serving who is there; so does one that was told to before it began.
func TestLeave(t *testing.T) {
	h := New(nothing, "", time.Minute, quiet)
	defer h.Close()
	c, path, done := start(t, h)
	get(t, c, "/livez") // its connection stays open
	h.Leave()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	if late, err := net.Dial("unix", path); err == nil {
		late.Close()
		t.Error("it goes on to accept")
	}
	h.Drain()
	if r, err := c.Get("http://host/"); err != nil || r.StatusCode != 200 || !r.Close {
		t.Errorf("the connection that was open: %v, %v; want 200 and its end", r, err)
	}
	if _, err := c.Get("http://host/"); err == nil {
		t.Error("there is a second connection")
	}

	h = New(nothing, "", time.Minute, quiet)
	defer h.Close()
	h.Leave()
	if _, _, done := start(t, h); <-done != nil {
		t.Error("one that has left fails")
	}
}

// Where Unix sockets were handed over is of this machine, whatever their names are.
func TestHosts(t *testing.T) {
	tcp, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Skip("no IPv6: ", err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "q")
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if at := Hosts([]net.Listener{local, tcp}); at[0] != path || at[1] != "::" || !Local(at[:1]) || Local(at) {
		t.Errorf("they are at %q", at)
	}
}

// A shutdown that has waited long enough cuts what is left.
func TestShutdownInTime(t *testing.T) {
	begun, left := make(chan bool), make(chan bool)
	h := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(left)
	}), "", time.Minute, quiet)
	c, _, done := start(t, h)
	go c.Get("http://host/")
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	h.Shutdown(ctx)
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("a request goes on after the time of the shutdown")
	}
}

// A body has a time to arrive in, and what has none does not: the stream that answers may take longer.
func TestBodyTime(t *testing.T) {
	deadlines := map[string]bool{}
	h := New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {}), "", time.Minute, quiet)
	for name, body := range map[string]io.Reader{"none": nil, "known": strings.NewReader("x"), "chunked": struct{ io.Reader }{strings.NewReader("x")}} {
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", body))
		left := time.Until(w.read)
		deadlines[name] = left > 50*time.Second && left <= time.Minute
	}
	if want := map[string]bool{"none": false, "known": true, "chunked": true}; !maps.Equal(deadlines, want) {
		t.Errorf("deadlines %v, want %v", deadlines, want)
	}
}

// deadlined keeps the deadline of reading.
type deadlined struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlined) SetReadDeadline(at time.Time) error { d.read = at; return nil }

func TestListen(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "file.sock")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(dir, "live.sock")
	ls, err := Listen([]string{live, "127.0.0.1"}, 0, false, "", "")
	if err != nil || len(ls) != 2 {
		t.Fatal(err)
	}
	for _, l := range ls {
		defer l.Close()
	}
	if info, err := os.Stat(live); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	port := ls[1].Addr().(*net.TCPAddr).Port
	for _, tt := range []struct {
		name      string
		hosts     []string
		port      int
		cert, key string
		want      string
	}{
		{"port in use", []string{"127.0.0.1"}, port, "", "", fmt.Sprintf("port %d", port)},
		{"not ours", []string{"192.0.2.1"}, 0, "", "", "192.0.2.1 is no address"},
		{"socket in use", []string{live}, 0, "", "", "somebody listens"},
		{"not a socket", []string{plain}, 0, "", "", "is not a socket"},
		{"no folder", []string{filepath.Join(dir, "no", "x.sock")}, 0, "", "", "cannot listen"},
		{"long path", []string{filepath.Join(dir, strings.Repeat("x", 120)+".sock")}, 0, "", "", "at most 107"},
		{"a folder", []string{dir}, 0, "", "", "ends in .sock"},
		{"key missing", []string{"127.0.0.1"}, 0, "cert.pem", "", "both a certificate and its key"},
		{"no such certificate", []string{"127.0.0.1"}, 0, "cert.pem", "key.pem", "cert.pem"},
	} {
		if l, err := Listen(tt.hosts, tt.port, false, tt.cert, tt.key); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %q", tt.name, l, err, tt.want)
		}
	}
	// One that a process left behind which is gone.
	left := filepath.Join(dir, "left.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	again, err := Listen([]string{left}, 0, false, "", "")
	if err != nil {
		t.Fatal(err)
	}
	again[0].Close()
}

// Whether other machines can reach an address is that of its listener.
func TestReach(t *testing.T) {
	for address, want := range map[string][2]bool{"unix": {false, false}, "127.0.0.1:0": {true, false}, "0.0.0.0:0": {false, true}} {
		network, at := "tcp", address
		if address == "unix" {
			network, at = "unix", filepath.Join(t.TempDir(), "s.sock")
		}
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(baseContext(l), "GET", "/", nil)
		if got := [2]bool{Loopback(r), Network(r)}; got != want {
			t.Errorf("%s: loopback and network are %v, want %v", address, got, want)
		}
		l.Close()
	}
}

// A host that shuts down is not ready any more, one whose listener fails ends with its error, and the path of a socket has
// a length at most.
func TestEnds(t *testing.T) {
	h := New(nothing, "", time.Minute, quiet)
	h.Ready()
	h.Shutdown(t.Context())
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil)); w.Code != 503 {
		t.Errorf("it is ready after its end: %d", w.Code)
	}
	s := h.server
	if s.ReadHeaderTimeout != 10*time.Second || s.IdleTimeout != 2*time.Minute || s.MaxHeaderBytes != 64<<10 {
		t.Errorf("a head may take %v and have %d bytes, and a connection rest for %v", s.ReadHeaderTimeout, s.MaxHeaderBytes, s.IdleTimeout)
	}
	dir := t.TempDir()
	if len(dir) > 90 {
		dir = "/tmp"
	}
	name := func(n int) string { return filepath.Join(dir, strings.Repeat("s", n-len(dir)-len("/.sock"))+".sock") }
	most := len(unix.RawSockaddrUnix{}.Path) - 1
	if _, err := Listen([]string{name(most + 1)}, 0, false, "", ""); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has %d bytes, and the path of a socket at most %d", most+1, most)) {
		t.Errorf("a long path: %v", err)
	}
	ls, err := Listen([]string{name(most)}, 0, false, "", "")
	if err != nil {
		t.Fatalf("the longest path: %v", err)
	}
	ls[0].Close()
	if err := New(nothing, "", time.Minute, quiet).Serve(ls); err == nil {
		t.Error("it serves a listener that is closed")
	}
	if _, err := Listen([]string{filepath.Join(dir, "none", "s.sock")}, 0, false, "", ""); err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("in no folder: %v", err)
	}
}

// A certificate that is gone for a moment, while it is renewed, stays in use; one that was never there is an error.
func TestCertificateThatIsRenewed(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	c := &certificate{cert: cert, key: key}
	first, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if again, err := c.get(nil); err != nil || again != first {
		t.Errorf("without its file: %v", err)
	}
	if _, err := (&certificate{cert: cert, key: key}).get(nil); err == nil || !strings.Contains(err.Error(), cert) {
		t.Errorf("one that was never there: %v", err)
	}
}

// Closing ends what runs.
func TestClose(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	h := New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	}), "", time.Minute, quiet)
	c, _, done := start(t, h)
	go func() {
		if resp, err := c.Get("http://host/"); err == nil {
			resp.Body.Close()
		}
	}()
	<-begun
	h.Close()
	<-ended
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Probes are never cached, and say in a line what is missing.
func TestProbes(t *testing.T) {
	h := New(nothing, "", time.Minute, quiet)
	probe := func(path string) (int, string, http.Header) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String(), w.Header()
	}
	expect := func(path string, status int, text string) {
		t.Helper()
		code, body, head := probe(path)
		if code != status || body != text+"\n" || head.Get("Cache-Control") != "no-store" || head.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %q %v", path, code, body, head)
		}
	}
	expect("/livez", 200, "ok")
	expect("/readyz", 503, "loading")
	expect("/startupz", 503, "loading")
	h.Ready()
	expect("/readyz", 200, "ok")
	expect("/startupz", 200, "ok")
	h.Drain()
	expect("/readyz", 503, "shutting down")
	expect("/startupz", 200, "ok")
	h.Alive = func() error { return errors.New("it hangs") }
	expect("/livez", 503, "it hangs")
}

func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "localhost": true, "::1": true, "a.sock": true, "0.0.0.0": false, "": false, "10.0.0.1": false, "example": false} {
		if Local([]string{"127.0.0.1", host}) != want {
			t.Errorf("%q: local is not %v", host, want)
		}
	}
}

func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"host"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{key: {Type: "EC PRIVATE KEY", Bytes: secret}, cert: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TLS works, and takes a certificate that was renewed.
func TestTLS(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	ls, err := Listen([]string{"127.0.0.1"}, 0, false, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	h := New(nothing, "", time.Minute, quiet)
	go h.Serve(ls)
	defer h.Shutdown(context.Background())
	serial := func() int64 {
		c, err := tls.Dial("tcp", ls[0].Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /livez HTTP/1.0\r\n\r\n")
		if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "200") {
			t.Errorf("over TLS: %q", line)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("certificate %d", n)
	}
	writeCertificate(t, filepath.Dir(cert), 2)
	if err := os.Chtimes(cert, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Errorf("after a renewal certificate %d", n)
	}
}

// Thousands of connections that say nothing are held by nobody who works.
func TestIdleConnections(t *testing.T) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := min(10_000, int(files.Cur-200)/2) // each takes two of this process's files
	h := New(nothing, "", time.Minute, quiet)
	c, path, _ := start(t, h)
	defer h.Shutdown(context.Background())
	for i := range n {
		conn, err := net.Dial("unix", path)
		// Where the server does not get to accept them, its socket's queue is full.
		for deadline := time.Now().Add(time.Minute); errors.Is(err, unix.EAGAIN) && time.Now().Before(deadline); conn, err = net.Dial("unix", path) {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		if i%2 == 0 {
			io.WriteString(conn, "GET / HTTP/1.1\r\nHos") // or has begun to say something
		}
	}
	if status, _ := get(t, c, "/"); status != 200 {
		t.Errorf("among %d idle connections: %d", n, status)
	}
}

// A client has its time for each part of an answer, and the next answer on the
// connection has none of what that left.
func TestPace(t *testing.T) {
	const limit = time.Second
	failed := make(chan error, 1)
	h := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, err := w.Write(make([]byte, 8<<20))
			failed <- err
		case "/slow":
			for range 3 { // longer than the limit, in all
				time.Sleep(limit * 2 / 3)
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
			}
		}
	}), "", limit, quiet)
	c, path, _ := start(t, h)
	defer h.Close()
	for range 2 {
		if status, body := get(t, c, "/slow"); status != 200 || body != "xxx" {
			t.Errorf("got %d %q", status, body)
		}
	}
	stuck, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	begun := time.Now()
	io.WriteString(stuck, "GET /large HTTP/1.1\r\nHost: host\r\n\r\n")
	select {
	case err := <-failed:
		if took := time.Since(begun); err == nil || took > 30*limit {
			t.Errorf("after %v: %v", took, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("an answer that nobody reads is written without end")
	}
	// Who reads gets all of it, in as many parts as it takes.
	if status, body := get(t, c, "/large"); status != 200 || len(body) != 8<<20 {
		t.Errorf("got %d and %d bytes", status, len(body))
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// Liveness follows what the process says of itself, readiness does not.
func TestAlive(t *testing.T) {
	h := New(nothing, "/api", time.Minute, quiet)
	var state atomic.Pointer[error]
	h.Alive = func() error {
		if err := state.Load(); err != nil {
			return *err
		}
		return nil
	}
	h.Ready()
	c, _, _ := start(t, h)
	defer h.Close()
	if status, _ := get(t, c, "/livez"); status != 200 {
		t.Errorf("alive: %d", status)
	}
	err := errors.New("stalled")
	state.Store(&err)
	for _, path := range []string{"/livez", "/api/livez"} {
		if status, body := get(t, c, path); status != 503 || body != "stalled" {
			t.Errorf("stalled: %s gave %d %q", path, status, body)
		}
	}
	if status, _ := get(t, c, "/readyz"); status != 200 {
		t.Errorf("ready: %d", status)
	}
}
