package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
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
