package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// insideVariable says that this process may mount: it is in a namespace of its own, whose mounts nobody else sees and end
// with it.
const insideVariable = "QUERN_SOAK_INSIDE"

// enter runs this program again in such a namespace, by root's right or by that of a user namespace. It tells whether it
// did, and how that ended; where the system allows neither, the faults that need mounts are left out.
func enter() (code int, ok bool) {
	if os.Getenv(insideVariable) != "" {
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	runtime.LockOSThread() // whose end Pdeathsig waits for
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "soak: no namespace of its own, %v\n", err)
		return 0, false
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM { // Ctrl-C goes to both
				cmd.Process.Signal(s)
			}
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), true
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		return 1, true
	}
	return 0, true
}

// mayMount says why this process cannot mount; empty if it can try.
func mayMount() string {
	if os.Getenv(insideVariable) == "" {
		return "the system allows no mounts here"
	}
	return ""
}
