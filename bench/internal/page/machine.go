package page

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quern-llm/quern/go/machine"
)

// A Machine is the machine and its state during a measurement.
type Machine struct {
	CPU      string
	Cores    int
	Memory   uint64
	Governor string // empty when unknown, as in most virtual machines
	Load     float64
}

// ReadMachine returns the properties of this machine.
func ReadMachine() (Machine, error) {
	m, err := machine.Read()
	if err != nil {
		return Machine{}, err
	}
	f := Machine{CPU: cmp.Or(m.Model, "unknown CPU"), Cores: m.Cores(), Memory: m.MemTotal}
	if b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); err == nil {
		f.Governor = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(b), &f.Load) // the first number: the average of the last minute
	}
	return f, nil
}

// String describes the machine in a line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB", m.CPU, m.Cores, float64(m.Memory)/(1<<30))
}

// Busy reports whether the machine had other load. Engines wait for their threads in
// different ways, so contention does not slow all of them alike.
func (m Machine) Busy() bool { return m.Load > 0.5 }

// Commit returns the commit of the checkout, empty outside one.
func Commit(ctx context.Context) string {
	rev, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(rev))
}
