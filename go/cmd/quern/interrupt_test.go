package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/quant"
)

// A signal cancels the context of a command that writes files.
func TestInterruptible(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := &cobra.Command{RunE: interruptible(func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(os.Getpid(), sig); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return cmd.Context().Err()
		})}
		cmd.SetArgs([]string{})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: got %v", sig, err)
		}
	}
}

// Commands that write models leave nothing behind when they are interrupted.
func TestInterruptedWriters(t *testing.T) {
	dir, parts := t.TempDir(), t.TempDir()
	succeed(t, "split", demo.Name, filepath.Join(parts, "part"), "--split-max-tensors", "20")
	model := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	adapter := testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf")
	out := filepath.Join(dir, "out.gguf")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, args := range [][]string{
		{"split", demo.Name, out},
		{"join", filepath.Join(parts, names(t, parts)[0]), out},
		{"merge-lora", model, adapter, "-o", out},
		{"convert", testdata.Path(t, "models/src/TinyStories-656K"), "-o", out},
		{"quantize", model, out, "Q8_0", "1"},
		{"pack", model, out},
		{"imatrix", "-m", model, "-f", heldOut, "-o", out, "-c", "64", "--chunks", "1"},
		{"perplexity", "-m", model, "-f", heldOut, "--save-all-logits", out, "-c", "64", "--chunks", "1"},
	} {
		root := newRootCommand()
		root.SetArgs(args)
		if err := root.ExecuteContext(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", args[0], err)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Fatalf("%s: %v are left", args[0], left)
		}
	}
}

// An interrupt ends "quern imatrix" after a chunk, and the file has what was read: what --chunks would have given.
func TestInterruptedImatrix(t *testing.T) {
	dir := t.TempDir()
	text, out, same := testdata.Path(t, "corpus/tinystories_197k.txt"), filepath.Join(dir, "out.gguf"), filepath.Join(dir, "same.gguf")
	run := func(ctx context.Context, out string, args ...string) error {
		root := newRootCommand()
		root.SetArgs(append([]string{"imatrix", "-m", demo.Name, "-f", text, "-o", out, "-c", "16"}, args...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		return root.ExecuteContext(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // a file after the first chunk of some thousands
		for ctx.Err() == nil {
			if _, err := os.Stat(out); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := run(ctx, out, "--output-frequency", "1"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	m, err := quant.ReadMatrix(out)
	if err != nil {
		t.Fatal(err)
	}
	if m.Chunks < 1 {
		t.Fatalf("%d chunks", m.Chunks)
	}
	if err := run(t.Context(), same, "--chunks", strconv.Itoa(m.Chunks), "--output-frequency", "0"); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(same)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%d chunks and then an interrupt make another file than %d chunks", m.Chunks, m.Chunks)
	}
	if left := names(t, dir); len(left) != 2 {
		t.Errorf("%v are left", left)
	}
}
