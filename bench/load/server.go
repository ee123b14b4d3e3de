package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopWait is the time limit of a shutdown after SIGTERM.
const stopWait = 30 * time.Second

// A server is a server process started by this program.
type server struct {
	cmd  *exec.Cmd
	tail tail
	log  io.Closer
	done chan struct{} // closed when it has exited, with err
	err  error
}

// startServer runs a shell command line.
func startServer(command, logPath string) (*server, error) {
	s := &server{done: make(chan struct{})}
	// In its own process group: Ctrl-C goes to this program only, and the server gets
	// SIGTERM at the end.
	s.cmd = exec.Command("sh", "-c", "exec "+command)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = time.Second // child processes may keep the pipe open
	var out io.Writer = &s.tail
	if logPath != "" {
		f, err := os.Create(logPath)
		if err != nil {
			return nil, err
		}
		s.log, out = f, io.MultiWriter(f, &s.tail)
	}
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		if s.log != nil {
			s.err = errors.Join(s.err, s.log.Close())
		}
		close(s.done)
	}()
	return s, nil
}

// died is the error of a server that has exited unexpectedly.
func (s *server) died() error {
	how := "exit status 0"
	if s.err != nil {
		how = s.err.Error()
	}
	return fmt.Errorf("the server ended by itself: %s; its last lines:\n%s", how, s.tail.String())
}

// stop stops the server and returns how long that took.
func (s *server) stop() (took time.Duration, err error) {
	start := time.Now()
	pid := s.cmd.Process.Pid
	defer syscall.Kill(-pid, syscall.SIGKILL) // remaining child processes
	s.cmd.Process.Signal(syscall.SIGTERM)     // fails if it has exited, which done reports
	select {
	case <-s.done:
		return time.Since(start), nil
	case <-time.After(stopWait):
	}
	syscall.Kill(-pid, syscall.SIGKILL)
	<-s.done
	return time.Since(start), fmt.Errorf("the server did not end within %v of SIGTERM and was killed", stopWait)
}

// A tail keeps the last part of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > most {
		t.b = t.b[len(t.b)-most:]
	}
	return len(p), nil
}

// String returns the last lines.
func (t *tail) String() string {
	const most = 10
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
