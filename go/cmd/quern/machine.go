package main

import (
	"os"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// isaVariable restricts the instruction sets, so that every path can be tested
// on one machine.
const isaVariable = "QUERN_ISA"

// chooseKernels selects the kernels and returns the instruction sets in use. It runs
// before every command and is idempotent.
func chooseKernels() (kernel.ISA, error) {
	allow := kernel.Best
	if name := os.Getenv(isaVariable); name != "" {
		var err error
		if allow, err = kernel.ParseISA(strings.ToLower(name)); err != nil {
			return 0, usagef("environment variable %s: %w", isaVariable, err)
		}
	}
	return kernel.Init(allow), nil
}

// newBudget returns the memory budget of this process: what m and its control groups
// allow, and at most limit unless that is 0.
func newBudget(m *machine.Machine, limit uint64) *mem.Budget {
	bytes, reason := m.MemoryLimit()
	if limit > 0 && limit < bytes {
		bytes, reason = limit, "--memory"
	}
	return mem.NewBudget(bytes, reason)
}
