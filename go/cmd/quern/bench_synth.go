package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/synth"
)

// writeSynth implements "quern bench --synth SHAPE:MIX -o FILE".
func (f *benchFlags) writeSynth(ctx context.Context, stderr io.Writer) error {
	m, err := synth.ParseShape(f.synth)
	if err != nil {
		return usagef("--synth %q: %w", f.synth, err)
	}
	switch {
	case !f.changed("output") || f.output == "":
		return usagef("--synth %s: no file to write; give one with -o FILE", f.synth)
	case len(f.models) > 0:
		return usagef("--synth writes a model and --model measures one; give one of them")
	case f.seed < 0:
		return usagef("--seed %d: want 0 or more", f.seed)
	}
	m.Seed = uint64(f.seed)
	start := time.Now()
	n, err := m.WriteFile(ctx, f.output, f.force)
	if err != nil {
		return orForce(f.output, err)
	}
	took := time.Since(start)
	fmt.Fprintf(stderr, "%s: %s of random weights in %.1f s\n", f.output, mem.FormatBytes(uint64(n)), took.Seconds())
	return nil
}

// orForce adds the remedy to the error that an output file exists.
func orForce(name string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; give another name, or --force to replace it", name)
	}
	return err
}
