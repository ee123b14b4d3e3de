package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hangs makes this test binary run a program in whose place the disk hangs: the value is its path. The system calls that
// read the head of a cached page, and no others, never return.
const hangs = "TEST_HANGS"

// pageHead is the size of the head of a page in a file of the disk cache, which is read first.
const pageHead = 56

// runHung runs a program with a filter whose calls wait for a supervisor, which there is not.
func runHung(program string) error {
	runtime.LockOSThread() // the filter is the thread's, and then the program's
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
	}
	load := uint16(unix.BPF_LD | unix.BPF_W | unix.BPF_ABS)
	filter := []unix.SockFilter{
		statement(load, 0), unless(unix.SYS_PREAD64, 3), // the number of the call
		statement(load, 16+2*8), unless(pageHead, 1), // the lower half of its third argument
		statement(unix.BPF_RET, unix.SECCOMP_RET_USER_NOTIF),
		statement(unix.BPF_RET, unix.SECCOMP_RET_ALLOW),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if _, err := unix.FcntlInt(listener, unix.F_SETFD, 0); err != nil { // without a listener the calls would fail
		return fmt.Errorf("fcntl: %w", err)
	}
	return syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
}

// waiting returns how many threads of the process are in a system call.
func (s *service) waiting(call int) (n int) {
	s.t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", s.cmd.Process.Pid))
	if err != nil || len(paths) == 0 {
		s.t.Fatalf("no threads: %v", err)
	}
	for _, path := range paths {
		b, _ := os.ReadFile(path) // a thread may have ended
		if strings.HasPrefix(string(b), fmt.Sprint(call, " ")) {
			n++
		}
	}
	return n
}

// A disk that hangs keeps neither a request from its answer nor the process from ending: what reads from it is left
// behind, in calls of the system that never return.
func TestEndsBesideADiskThatHangs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	args := []string{"-c", "1024", "--cache-disk", dir, "--drain", "1s", "--threads", "1"} // with more it may be faster than a disk
	s := serve(t, "", args...)
	want, _ := s.tell(1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.wait()
	for _, answered := range []bool{true, false} {
		s = serveProgram(t, os.Args[0], []string{hangs + "=" + program}, "", args...)
		s.client.Timeout = time.Minute
		if answered {
			if text, cached := s.tell(1); text != want || cached != 0 {
				t.Errorf("%q with %d tokens of the disk, want %q with none", text, cached, want)
			}
			if !s.logged("the disk does not respond") {
				t.Errorf("the log has %s", s.log)
			}
		} else {
			go func() {
				if r, err := s.client.Post("http://quern/completion", "application/json", strings.NewReader(s.told(1))); err == nil {
					r.Body.Close()
				}
			}()
		}
		if !s.eventually(func() bool { return s.waiting(unix.SYS_PREAD64) > 0 }) {
			t.Fatal("no call waits for the disk: the test does not test that")
		}
		begun := time.Now()
		s.cmd.Process.Signal(syscall.SIGTERM)
		if code := s.wait(); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	}
}
