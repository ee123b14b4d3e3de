package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/demo"
)

// withPID runs a program with LISTEN_PID, which only the process itself knows.
var withPID = []string{"sh", "-c", `export LISTEN_PID=$$; exec "$0" "$@"`}

// handOver returns the descriptor of a socket as a supervisor has it: it stays open, and no use of it makes it blocking
// while a server accepts, as net's own files are made.
func handOver(t *testing.T, l interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := os.NewFile(uintptr(fd), "handed")
	t.Cleanup(func() { own.Close() })
	return own
}

// A supervised is a server with sockets that were handed over, and what it tells.
type supervised struct {
	*service
	tells *net.UnixConn
}

func supervise(t *testing.T, sockets ...*os.File) *supervised {
	t.Helper()
	at := filepath.Join(t.TempDir(), "notify")
	tells, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tells.Close() })
	line := append(withPID, program, "serve", "-m", demo.Name, "--threads", "1")
	s := newService(t, "", exec.Command(line[0], line[1:]...))
	s.cmd.Env = append(cleanEnvironment(), fmt.Sprint("LISTEN_FDS=", len(sockets)), "LISTEN_FDNAMES=web:local", "NOTIFY_SOCKET="+at)
	s.cmd.ExtraFiles = sockets
	s.start()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("its log:\n%s", s.log)
		}
	})
	return &supervised{s, tells}
}

// told waits for what the server tells.
func (s *supervised) told(want string) {
	s.t.Helper()
	s.tells.SetReadDeadline(time.Now().Add(2 * time.Minute))
	b := make([]byte, 100)
	if n, err := s.tells.Read(b); err != nil || string(b[:n]) != want {
		s.t.Fatalf("told %q, %v; want %s; %s", b[:n], err, want, s.log)
	}
}

// While one server takes the place of another at the same sockets, no client of new connections notices.
func TestUpgradeLosesNoConnection(t *testing.T) {
	t.Parallel()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	path := filepath.Join(t.TempDir(), "q") // not as --host has it
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	sockets := []*os.File{handOver(t, web.(*net.TCPListener)), handOver(t, local.(*net.UnixListener))}

	first := supervise(t, sockets...)
	var answers atomic.Int64
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 { // from before it is ready: they wait
		client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			at := []net.Listener{web, local}[i%2].Addr()
			return new(net.Dialer).DialContext(ctx, at.Network(), at.String())
		}}}
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := client.Post("http://localhost/completion", "application/json", strings.NewReader(`{"prompt":"Once","n_predict":1}`))
				if err != nil {
					t.Errorf("after %d answers: %v", answers.Load(), err)
					return
				}
				body, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != http.StatusOK {
					t.Errorf("after %d answers: %d %s, %v", answers.Load(), r.StatusCode, body, err)
					return
				}
				answers.Add(1)
			}
		})
	}
	defer clients.Wait()
	defer close(stop)
	more := func(who string) {
		t.Helper()
		since := answers.Load()
		if !within(time.Minute, func() bool { return answers.Load() >= since+8 || t.Failed() }) {
			t.Errorf("%s answers nobody", who)
		}
	}
	first.told("READY=1")
	more("the first server")
	second := supervise(t, sockets...)
	second.told("READY=1")
	more("one of two servers")
	first.cmd.Process.Signal(syscall.SIGTERM)
	first.told("STOPPING=1")
	if code := first.wait(); code != 0 {
		t.Errorf("the first ended with %d", code)
	}
	more("the second server")
	for _, s := range []*supervised{first, second} {
		if log := s.log.String(); strings.Contains(log, "supervisor") {
			t.Errorf("its log: %s", log)
		}
	}
}

// What is handed over has to be a socket that can be served, to whom the server may be shown.
func TestHandedOverIsRefused(t *testing.T) {
	t.Parallel()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	datagrams, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	everywhere, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	deaf := os.NewFile(uintptr(fd), "deaf")
	defer deaf.Close()
	for _, tt := range []struct {
		count string
		file  *os.File
		want  string
	}{
		{"1", file, "descriptor 3 (web) was handed over to be served and is no socket"},
		{"1", handOver(t, datagrams), "is no stream socket"},
		{"1", deaf, "does not listen"},
		{"2", handOver(t, everywhere.(*net.TCPListener)), "descriptor 4 was handed over to be served and is "},
		{"1", handOver(t, everywhere.(*net.TCPListener)), "--require-key"},
		{"-1", file, `LISTEN_FDS is "-1"`},
		{"1000000000", file, `LISTEN_FDS is "1000000000"`},
		{"x", file, `LISTEN_FDS is "x"`},
	} {
		line := append(withPID, program, "serve", "-m", demo.Name, "--require-key")
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(cleanEnvironment(), "LISTEN_FDS="+tt.count, "LISTEN_FDNAMES=web")
		cmd.ExtraFiles = []*os.File{tt.file}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		cmd.Run()
		result{"", stderr.String(), cmd.ProcessState.ExitCode(), 0}.refused(t, 2, tt.want)
	}
}

// A connection that was accepted before SIGTERM may bring its request after it.
func TestServesWhatWasAccepted(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Name)
	c, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"prompt":"Once","n_predict":1}`
	fmt.Fprintf(c, "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	s.client.CloseIdleConnections()
	s.get("/readyz") // by a connection that is accepted after that
	s.cmd.Process.Signal(syscall.SIGTERM)
	if !s.eventually(func() bool {
		late, err := net.Dial("unix", s.socket)
		if err == nil {
			late.Close()
		}
		return err != nil
	}) {
		t.Fatal("it goes on to accept")
	}
	io.WriteString(c, body)
	answer, err := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || !strings.Contains(string(answer), "Connection: close") {
		t.Errorf("answered %.300q, %v", answer, err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
