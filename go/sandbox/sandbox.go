// Package sandbox runs programs that may touch one folder and nothing else of the machine: no other files but the
// system's programs and libraries, to read, no network, no other process. On Linux this is Landlock for files, signals and
// abstract sockets, and a seccomp filter for what Landlock does not know. Elsewhere there is no sandbox.
//
// What is left: the names of files outside can be asked for, the processor and the memory are bounded by what bounds this
// process, and the folder can be filled.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A Jail is the folder of programs that run in a sandbox.
type Jail struct{ dir string }

// New returns the jail of a folder. It fails where this machine has no sandbox, or the folder is none.
func New(dir string) (Jail, error) {
	if err := supported(); err != nil {
		return Jail{}, err
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return Jail{}, err
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return Jail{}, err
	case !info.IsDir():
		return Jail{}, fmt.Errorf("%s is no folder", dir)
	}
	return Jail{dir}, apart(dir)
}

// programs are folders of which the system's programs, their settings, and the system itself are: who writes there decides
// what others run.
var programs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/boot", "/dev", "/proc", "/sys",
	"/nix/store"}

// apart refuses a folder that has this program or programs of the system in it, or is theirs.
func apart(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil { // there is none where the program was replaced
		self = real
	}
	if Under(dir, self) {
		return fmt.Errorf("%s has this program in it, %s, which tools could replace: want a folder of its own", dir, self)
	}
	for _, path := range programs {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if Under(dir, real) || Under(real, dir) {
			return fmt.Errorf("%s has files of the system, as %s: want a folder of its own", dir, path)
		}
	}
	return nil
}

// Under reports whether an absolute path is a folder or in it, by its name.
func Under(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Dir returns the folder, as an absolute path without links.
func (j Jail) Dir() string { return j.dir }

// By these names this program is told to guard an order, and to follow it; maxTime is what a command may compute.
const (
	guards  = "quern: guard"
	follows = "quern: enclosed"
	maxTime = 10 * time.Minute
)

// An order is what a program that encloses itself becomes then. It is given as arguments.
type order struct {
	dir  string   // it may touch
	work string   // it begins in
	name string   // by which what it becomes is called
	args []string // what it becomes; the first is the path, or Own
}

// entered says that this program called Enter: one that does not would not enclose itself, but start again.
var entered bool

// Own stands for this program in the arguments of Command.
const Own = ""

// self is the file that this process runs, even if another has its name by now: a name could be given to another program.
const self = "/proc/self/exe"

// Command returns a command in the jail that begins in a folder of it: args are a path and arguments. With Own as the path it is
// this program, called name. When ctx ends, or this process, all its processes do; its exit code is 128 and the number of the
// signal that ended it, if one did. The environment has nothing of this process's own.
func (j Jail) Command(ctx context.Context, work, name string, args ...string) (*exec.Cmd, error) {
	if !entered {
		return nil, errors.New("this program never calls sandbox.Enter")
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = append([]string{guards, j.dir, work, name}, args...)
	cmd.Dir = j.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + j.dir, "TMPDIR=" + j.dir, "LANG=C.UTF-8"}
	cmd.WaitDelay = time.Second // for what holds its pipes
	return cmd, group(cmd)
}

// Enter makes this process what it was started for, if Command started it, and does not return then. A program that uses
// Command calls it before anything else.
func Enter() {
	entered = true
	if len(os.Args) < 5 {
		return
	}
	var err error
	switch os.Args[0] {
	case guards:
		err = guard(os.Args[1:])
	case follows:
		err = order{os.Args[1], os.Args[2], os.Args[3], os.Args[4:]}.become()
	default:
		return
	}
	fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
	os.Exit(125)
}
