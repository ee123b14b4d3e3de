//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastABI is the version of Landlock that has all that is used here, of Linux 6.12: before, an enclosed process could end
// others of its user.
const leastABI = 6

func supported() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return fmt.Errorf("this system has no Landlock, which Linux 6.12 and later have: %w", errno)
	case abi < leastABI:
		return fmt.Errorf("this system has version %d of Landlock, want %d, of Linux 6.12", abi, leastABI)
	}
	return nil
}

// Rights of Landlock. All are handled; a rule gives some.
const (
	allRights  = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1
	readRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// The folder may have files, folders and links, but no devices and no sockets.
	folderRights = allRights &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	// fileRights are those of them that a file can have.
	fileRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// The system's files that programs need. Of /etc it is what loading libraries and showing times and names takes: as root, all
// of it would be secrets too.
var (
	system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache",
		"/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"}
	devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
)

// Limits of an enclosed process. That of processes counts all of the user, and does not hold for root.
const (
	mostFile      = 1 << 30
	mostFiles     = 256
	mostProcesses = 512 // more than there are
)

// become encloses this thread and turns the process into the program of the order, which inherits the enclosure.
func (o order) become() error {
	runtime.LockOSThread() // what follows is of this thread, and of what it executes
	// What this process has inherited is not for the program: only its standard files are.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	// When memory is short, this ends before the server does.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err := os.Chdir(o.work); err != nil {
		return err
	}
	for what, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: mostFile, unix.RLIMIT_NOFILE: mostFiles,
		unix.RLIMIT_CPU: uint64(maxTime.Seconds()), unix.RLIMIT_NPROC: processes() + mostProcesses} {
		var now unix.Rlimit
		err := unix.Getrlimit(what, &now)
		if err == nil {
			most = min(most, now.Max) // it may only be lowered
			err = unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most})
		}
		if err != nil {
			return fmt.Errorf("limit %d: %w", what, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := o.restrictFiles(); err != nil {
		return err
	}
	if err := restrictCalls(ownsSystem()); err != nil {
		return err
	}
	path := o.args[0]
	if path == Own {
		path = self
	}
	return syscall.Exec(path, append([]string{o.name}, o.args[1:]...), os.Environ())
}

// ownsSystem reports whether this user may own files outside of the folder that can be read: then not even times of open files
// may be set, since the filter cannot see what a file is open for.
func ownsSystem() bool {
	var is unix.Stat_t
	return os.Geteuid() == 0 || unix.Stat(self, &is) != nil || int(is.Uid) == os.Geteuid()
}

// processes counts the threads of this user, which are what RLIMIT_NPROC counts. Those that /proc does not show are missing.
func processes() (n uint64) {
	all, _ := os.ReadDir("/proc")
	for _, p := range all {
		var is unix.Stat_t
		if p.Name()[0] <= '9' && unix.Stat("/proc/"+p.Name()+"/task", &is) == nil && is.Uid == uint32(os.Getuid()) {
			n += max(uint64(is.Nlink), 2) - 2 // a folder for each thread
		}
	}
	return n
}

// dropCapabilities gives up what root may do beyond its own files. Since there are no new privileges, nothing that is executed
// has them again.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none, now [2]unix.CapUserData
	if err := unix.Capget(&header, &now[0]); err == nil && now == none {
		return nil // a service that has none may not be allowed to ask
	}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// restrictFiles leaves this thread the folder, the system's files to read, no TCP, and no signals to processes outside.
func (o order) restrictFiles() error {
	attr := unix.LandlockRulesetAttr{
		Handled_access_fs:  allRights,
		Handled_access_net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP,
		Scoped:             unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
	}
	const size = unsafe.Offsetof(attr.Quiet_access_fs) // as of version 6
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	rules := int(r)
	defer unix.Close(rules)
	if err := allow(rules, o.dir, folderRights); err != nil {
		return err
	}
	for _, path := range append([]string{self}, system...) {
		if err := allow(rules, path, readRights); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, path := range devices {
		if err := allow(rules, path, deviceRights); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// allow adds a rule for what is at a path and under it.
func allow(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %s: %w", path, errno)
	}
	return nil
}

// lifeline is the ends of a pipe to which nothing is ever written: it ends with this process, however that ends.
var lifeline = sync.OnceValues(func() (ends [2]*os.File, err error) {
	ends[0], ends[1], err = os.Pipe()
	return ends, err
})

// lifelineAt is where a guard has it.
const lifelineAt = 3

// group has a command's processes be a group of their own, which ends when its context does or this process.
func group(cmd *exec.Cmd) error {
	ends, err := lifeline()
	if err != nil {
		return err
	}
	cmd.ExtraFiles = ends[:1]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		End(cmd)
		return nil
	}
	return nil
}

// guard has another process follow an order and exits as that does. It stays outside of the sandbox, out of its reach, and ends
// the group when the process that started it is gone: signals of a parent's death reach no grandchildren.
func guard(order []string) error {
	unix.CloseOnExec(lifelineAt)
	go func() {
		_, _ = os.NewFile(lifelineAt, "lifeline").Read(make([]byte, 1))
		_ = unix.Kill(0, unix.SIGKILL) // this process too
	}()
	cmd := exec.Command(self)
	cmd.Args = append([]string{follows}, order...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return err
	}
	is := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if is.Signaled() {
		os.Exit(128 + int(is.Signal()))
	}
	os.Exit(is.ExitStatus())
	return nil
}

// End ends what a command has left running. The filter lets no process leave the group.
func End(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
}
