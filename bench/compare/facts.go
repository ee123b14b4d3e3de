package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"github.com/quern-llm/quern/bench/internal/page"
)

// facts are the conditions of a measurement.
type facts struct {
	commit  string
	kernels string // instruction sets in use by ours
	machine page.Machine
}

func collectFacts(ctx context.Context, c config) (facts, error) {
	out, err := exec.CommandContext(ctx, c.ours.argv[0], "version", "--json").Output()
	if err != nil {
		return facts{}, fmt.Errorf("%s version: %w", c.ours.argv[0], err)
	}
	var build struct{ Commit, Kernels string }
	if err := json.Unmarshal(out, &build); err != nil {
		return facts{}, fmt.Errorf("%s version: %w", c.ours.argv[0], err)
	}
	m, err := page.ReadMachine()
	if err != nil {
		return facts{}, err
	}
	return facts{commit: cmp.Or(page.Commit(ctx), build.Commit), kernels: build.Kernels, machine: m}, nil
}
