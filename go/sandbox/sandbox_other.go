//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"errors"
	"os/exec"
)

var errNone = errors.New("there is no sandbox on this system, only on Linux on x86-64 and arm64")

func supported() error        { return errNone }
func (o order) become() error { return errNone }
func group(*exec.Cmd) error   { return errNone }
func guard([]string) error    { return errNone }

// End ends what a command has left running.
func End(*exec.Cmd) {}
