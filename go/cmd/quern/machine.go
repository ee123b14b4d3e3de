package main

import (
	"os"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
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
