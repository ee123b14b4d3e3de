//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test's program is three: the test, a host that has a jail (the variable hosts says what it does), and a probe in the jail.
const (
	hosts = "QUERN_TEST_SANDBOX_HOST"
	probe = "sandbox probe"
)

func TestMain(m *testing.M) {
	Enter()
	var err error
	switch {
	case os.Args[0] == probe:
		err = tryOut(os.Args[1], os.Args[2:])
	case os.Getenv(hosts) != "":
		err = host(os.Getenv(hosts), os.Args[1:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// jail returns the jail of a new folder; the test is skipped where there is no sandbox.
func jail(t *testing.T) Jail {
	t.Helper()
	if err := supported(); err != nil {
		t.Skip(err)
	}
	j, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// enclosed runs a probe in a jail, and returns what it says.
func enclosed(ctx context.Context, j Jail, args ...string) (string, error) {
	cmd, err := j.Command(ctx, j.Dir(), probe, append([]string{Own}, args...)...)
	if err != nil {
		return "", err
	}
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// host has the jail of args[0].
func host(what string, args []string) error {
	j, err := New(args[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch what {
	case "dies":
		cmd, err := j.Command(ctx, j.Dir(), "sh", "/bin/sh", "-c", "sleep 1000 & echo ready; wait")
		if err != nil {
			return err
		}
		cmd.Stdout = os.Stdout
		return cmd.Run()
	case "replaced": // by args[1]
		program, err := os.Executable()
		if err == nil {
			err = os.Rename(args[1], program)
		}
		if err != nil {
			return err
		}
		fallthrough
	case "inherits":
		said, err := enclosed(ctx, j, "files")
		fmt.Print(said)
		return err
	}
	return errors.New("a host of nothing")
}

// tryOut tries what an enclosed program may not do.
func tryOut(what string, args []string) error {
	refused := func(name string, err error) error {
		if !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%s: %v, want EPERM", name, err)
		}
		return nil
	}
	number := func(i int) uintptr {
		n, _ := strconv.Atoi(args[i])
		return uintptr(n)
	}
	switch what {
	case "files":
		for fd := 3; fd < 100; fd++ {
			var is unix.Stat_t
			if unix.Fstat(fd, &is) == nil && is.Mode&unix.S_IFMT == unix.S_IFREG {
				return fmt.Errorf("file %d is inherited", fd)
			}
		}
		fmt.Print("only its own files")
		return nil
	case "times": // of a file that can be read
		file, err := os.Open(args[0])
		if err != nil {
			return err
		}
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, file.Fd(), 0, 0, 0, 0, 0)
		return refused("utimensat", errno)
	case "shared": // of the ids of memory, a queue, a semaphore
		_, err := unix.SysvShmAttach(int(number(0)), 0, 0)
		wrong := refused("shmat", err)
		for name, call := range map[string][]uintptr{
			"shmctl": {unix.SYS_SHMCTL, number(0), unix.IPC_RMID}, "shmdt": {unix.SYS_SHMDT, 0},
			"msgsnd": {unix.SYS_MSGSND, number(1), 0, 0, unix.IPC_NOWAIT}, "msgrcv": {unix.SYS_MSGRCV, number(1), 0, 0, 0, unix.IPC_NOWAIT},
			"msgctl": {unix.SYS_MSGCTL, number(1), unix.IPC_RMID}, "semctl": {unix.SYS_SEMCTL, number(2), 0, unix.IPC_RMID},
			"semop": {unix.SYS_SEMOP, number(2), 0, 0}, "semtimedop": {unix.SYS_SEMTIMEDOP, number(2), 0, 0},
			"mq_unlink": {unix.SYS_MQ_UNLINK, 0}, "mq_timedsend": {unix.SYS_MQ_TIMEDSEND, 0},
		} {
			call = append(call, make([]uintptr, 6)...)
			_, _, errno := unix.Syscall6(call[0], call[1], call[2], call[3], call[4], call[5], 0)
			wrong = errors.Join(wrong, refused(name, errno))
		}
		return wrong
	case "sockets": // the path of one of datagrams
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Sendto(pair[0], []byte("hello"), 0, &unix.SockaddrUnix{Name: args[0]})
			return fmt.Errorf("a pair of datagrams; it sends out: %v", err)
		}
		wrong := refused("a pair of datagrams", err)
		_, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
		wrong = errors.Join(wrong, refused("a pair of packets", err))
		_, err = unix.Socketpair(unix.AF_TIPC, unix.SOCK_STREAM, 0)
		wrong = errors.Join(wrong, refused("a pair of another network", err))
		pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			wrong = errors.Join(wrong, refused("connect", unix.Connect(pair[0], &unix.SockaddrUnix{Name: args[0]})))
			_, err = unix.Write(pair[0], []byte("hello"))
		}
		return errors.Join(wrong, err)
	}
	return errors.New("a probe of nothing")
}

// program copies the test's program to a folder, where others could write.
func program(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	// Another process writes it: one that this one starts meanwhile would hold it open, and it could not be run.
	if out, err := exec.CommandContext(t.Context(), "cp", from, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// asHost runs a program as a host, with a file that it inherits.
func asHost(t *testing.T, path, what string, args ...string) (string, error) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("treasure"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(secret)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), hosts+"="+what)
	cmd.ExtraFiles = []*os.File{open}
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// What is started is this program, whatever has its name by now.
func TestProgramReplaced(t *testing.T) {
	t.Parallel()
	j := jail(t)
	mark := filepath.Join(t.TempDir(), "mark")
	evil := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho free > "+mark+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := asHost(t, program(t, t.TempDir()), "replaced", j.Dir(), evil)
	if err != nil || said != "only its own files" {
		t.Errorf("%s, %v", said, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("another program was started, outside of the sandbox")
	}
}

func TestInheritedFiles(t *testing.T) {
	t.Parallel()
	j := jail(t)
	if said, err := asHost(t, program(t, t.TempDir()), "inherits", j.Dir()); err != nil || said != "only its own files" {
		t.Errorf("%s, %v", said, err)
	}
}

func TestFoldersRefused(t *testing.T) {
	t.Parallel()
	dir := jail(t).Dir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := program(t, filepath.Join(dir, "bin"))
	for _, d := range []string{dir, filepath.Dir(path)} {
		if said, err := asHost(t, path, "inherits", d); err == nil || !strings.Contains(said, "has this program in it") {
			t.Errorf("%s has the program: %s, %v", d, said, err)
		}
	}
	for _, d := range []string{"/", "/usr", "/usr/bin", "/etc", "/proc/self", "/dev", filepath.Join(dir, "none"), path} {
		if _, err := New(d); err == nil {
			t.Errorf("%s is taken", d)
		}
	}
}

// Memory, queues and semaphores of other processes cannot be reached by their numbers.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	j := jail(t)
	memory, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Skip("this system has no System V memory: ", err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(memory, unix.IPC_RMID, nil) })
	queue, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_MSGCTL, queue, unix.IPC_RMID, 0) })
	semaphore, _, errno := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_SEMCTL, semaphore, 0, unix.IPC_RMID) })
	if said, err := enclosed(t.Context(), j, "shared", fmt.Sprint(memory), fmt.Sprint(queue), fmt.Sprint(semaphore)); err != nil {
		t.Errorf("%s, %v", said, err)
	}
}

// A socket that has a path cannot be sent to.
func TestSocketsOutside(t *testing.T) {
	t.Parallel()
	j := jail(t)
	path := filepath.Join(t.TempDir(), "s")
	outside, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	if said, err := enclosed(t.Context(), j, "sockets", path); err != nil {
		t.Errorf("%s, %v", said, err)
	}
}

// The times of a file outside cannot be set, where it is open to be read and this user's.
func TestTimesOutside(t *testing.T) {
	t.Parallel()
	j := jail(t)
	if !ownsSystem() {
		t.Skip("this user owns nothing that can be read outside")
	}
	if said, err := enclosed(t.Context(), j, "times", "/bin/sh"); err != nil {
		t.Errorf("%s, %v", said, err)
	}
}

// What a command started ends when the program that wanted it is killed.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	j := jail(t)
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	cmd := exec.CommandContext(t.Context(), self, j.Dir())
	cmd.Env = append(os.Environ(), hosts+"=dies")
	cmd.Stdout = writes
	err = cmd.Start()
	writes.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := reads.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := io.ReadFull(reads, line); err != nil {
		t.Errorf("%q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := io.ReadAll(reads); err != nil {
		t.Errorf("it runs on: %v", err)
	}
}

// An argument may be as long as the system takes, whatever characters it has, and exit codes are passed on.
func TestCommand(t *testing.T) {
	t.Parallel()
	j := jail(t)
	for command, want := range map[string]int{"exit 3": 3, "kill -9 $$": 137, "# " + strings.Repeat("<", 128<<10-3): 0} {
		cmd, err := j.Command(t.Context(), j.Dir(), "sh", "/bin/sh", "-c", command)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%.20s: %s, %v, want %d", command, said, cmd.ProcessState, want)
		}
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	if n := processes(); n < 2 {
		t.Errorf("%d threads of this user, want those of this process at least", n)
	}
}
