package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quern-llm/quern/go/machine"
)

// facts are what a result must be read with.
type facts struct {
	commit   string
	kernels  string // instruction sets in use by ours
	cpu      string
	cores    int
	memory   uint64
	governor string // empty when unknown, as in most virtual machines
	load     float64
}

// busy reports whether others used the machine. Engines wait for their threads
// in different ways, so sharing cores does not slow all of them alike.
func (f facts) busy() bool { return f.load > 0.5 }

func collectFacts(ctx context.Context, c config) (facts, error) {
	out, err := exec.CommandContext(ctx, c.ours.argv[0], "version", "--json").Output()
	if err != nil {
		return facts{}, fmt.Errorf("%s version: %w", c.ours.argv[0], err)
	}
	var build struct{ Commit, Kernels string }
	if err := json.Unmarshal(out, &build); err != nil {
		return facts{}, fmt.Errorf("%s version: %w", c.ours.argv[0], err)
	}
	m, err := machine.Read()
	if err != nil {
		return facts{}, err
	}
	f := facts{commit: build.Commit, kernels: build.Kernels, cpu: m.Model, cores: m.Cores(), memory: m.MemTotal}
	if rev, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		f.commit = strings.TrimSpace(string(rev))
	}
	if b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); err == nil {
		f.governor = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(b), &f.load) // the first number: of the last minute
	}
	return f, nil
}
