package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A server is the server under test, through all its processes.
type server struct {
	program string
	args    []string
	env     []string
	logs    string // folder
	client  *client

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}  // closed when cmd has
	wanted bool           // its end is
	ready  chan struct{}  // closed while it is ready
	read   map[string]int // bytes of logs that were looked at
	starts int
	died   func(what string) // is told of an end that nobody wanted
}

func newServer(program, logs, socket string, args, env []string) *server {
	s := &server{program: program, args: append([]string{"serve", "--host", socket}, args...), env: env, logs: logs, client: newClient(socket), ready: make(chan struct{}), read: map[string]int{}}
	s.died = func(string) {}
	return s
}

// start starts a process and waits until it is ready.
func (s *server) start(ctx context.Context) error {
	s.mu.Lock()
	s.starts++
	path := s.logPath(s.starts)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	cmd := exec.Command(s.program, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	exited := make(chan struct{})
	go func() { // Pdeathsig is of the thread
		runtime.LockOSThread()
		started <- cmd.Start()
		if cmd.Process != nil {
			cmd.Wait()
		}
		f.Close()
		close(exited)
		s.mu.Lock()
		wanted := s.wanted
		died := s.died
		s.mu.Unlock()
		if !wanted {
			died(fmt.Sprintf("the server ended by itself, %v: %s", cmd.ProcessState, tail(path)))
		}
	}()
	if err := <-started; err != nil {
		s.mu.Unlock()
		return err
	}
	s.cmd, s.exited, s.wanted = cmd, exited, false
	s.mu.Unlock()
	for end := time.Now().Add(patience); ; {
		status, _, err := s.client.get(ctx, http.MethodGet, "/readyz", nil)
		if status == 200 {
			break
		}
		select {
		case <-exited:
			return fmt.Errorf("the server does not start: %s", tail(path))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("the server is not ready after %v: %d %v", patience, status, err)
		}
	}
	if err := s.loadLoose(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	close(s.ready)
	s.mu.Unlock()
	return nil
}

// loadLoose loads the adapter that comes and goes, which no server remembers.
func (s *server) loadLoose(ctx context.Context) error {
	status, got, err := s.client.get(ctx, http.MethodPost, "/v1/load_lora_adapter", marshal(object{"lora_name": loose, "lora_path": loose + ".gguf"}))
	if err == nil && status != 200 {
		err = fmt.Errorf("%s: %d %s", loose, status, got)
	}
	return err
}

// logPath is where the process writes that was started as the nth.
func (s *server) logPath(n int) string {
	return filepath.Join(s.logs, fmt.Sprintf("server-%d-%d.log", os.Getpid(), n))
}

// up waits until the server is ready.
func (s *server) up(ctx context.Context) {
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
	}
}

// end ends the process by a signal and returns how it ended. Requests wait from now on.
func (s *server) end(sig syscall.Signal) (*os.ProcessState, error) {
	s.mu.Lock()
	s.wanted = true
	cmd, exited := s.cmd, s.exited
	select {
	case <-s.ready:
		s.ready = make(chan struct{})
	default:
	}
	s.mu.Unlock()
	if cmd == nil {
		return nil, nil
	}
	cmd.Process.Signal(sig)
	cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-exited:
		return cmd.ProcessState, nil
	case <-time.After(patience):
	}
	cmd.Process.Kill()
	<-exited
	return cmd.ProcessState, fmt.Errorf("the server did not end within %v of %v", patience, sig)
}

func (s *server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// dump has the process write its goroutines into its log and end.
func (s *server) dump() string {
	s.mu.Lock()
	path := s.logPath(s.starts)
	s.mu.Unlock()
	s.end(syscall.SIGQUIT)
	return path
}

// close ends the process as an operator does.
func (s *server) close() error {
	state, err := s.end(syscall.SIGTERM)
	if err == nil && state != nil && state.ExitCode() != 0 {
		err = fmt.Errorf("the server ended with %v: %s", state, tail(s.logPath(s.starts)))
	}
	return err
}

// tail returns the last lines of a file.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// forgetLogs removes the logs of processes that have ended, and empties that of the one that runs.
func (s *server) forgetLogs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 1; n <= s.starts; n++ {
		path := s.logPath(n)
		if n == s.starts {
			os.Truncate(path, 0)
			s.read[path] = 0
		} else {
			os.Remove(path)
		}
	}
}

// faulty returns lines that came to the logs since it was last asked and should not be there.
func (s *server) faulty(excused func(line string) bool) (bad []string, err error) {
	paths, err := filepath.Glob(filepath.Join(s.logs, fmt.Sprintf("server-%d-*.log", os.Getpid())))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		b, readErr := os.ReadFile(path)
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		fresh := b[min(s.read[path], len(b)):]
		s.read[path] = len(b)
		for line := range strings.Lines(string(fresh)) {
			if (strings.Contains(line, `"level":"error"`) || strings.Contains(line, "panic") || strings.Contains(line, "fatal error")) && !excused(line) {
				bad = append(bad, filepath.Base(path)+": "+strings.TrimSpace(line))
			}
		}
	}
	return bad, err
}
