package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Processes of an MPI job make the adapter of one process.
func TestMPIFinetune(t *testing.T) {
	program := os.Getenv("QUERN_MPI")
	if program == "" {
		t.Skip("QUERN_MPI is not set; \"make test-mpi\" sets it")
	}
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 12 {
		fmt.Fprintf(&lines, `{"messages":[{"role":"user","content":"Sentence %d?"},{"role":"assistant","content":"The otter carried %d blue buttons down to the river."}]}`+"\n", i, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "chats.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	made := func(name string, line ...string) []byte {
		t.Helper()
		args := []string{"finetune", "-m", "demo", "--data", "chats.jsonl", "--steps", "4", "-b", "512", "-c", "64", "--threads", "1", "-o", name}
		cmd := exec.Command(line[0], slices.Concat(line[1:], args)...)
		if len(line) > 1 {
			cmd.Args = append(cmd.Args, "--ranks", "mpi")
		}
		cmd.Dir, cmd.Env = dir, mpiEnvironment()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := made("one.gguf", program)
	if !bytes.Equal(made("two.gguf", cmp.Or(os.Getenv("QUERN_MPIRUN"), "mpirun"), "-np", "2", program), want) {
		t.Error("two ranks make another adapter")
	}
}
