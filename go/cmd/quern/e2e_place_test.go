package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/machine"
)

// confined returns the CPUs of each thread of a process that is not allowed on all of those that this test may use.
func confined(t *testing.T, pid int) []string {
	t.Helper()
	mask := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			return "" // the thread has ended
		}
		_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(list)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	own := mask("/proc/self/status")
	var found []string
	for _, task := range tasks {
		if m := mask(task); m != own && m != "" {
			found = append(found, m)
		}
	}
	slices.Sort(found)
	return found
}

// A server with a thread on each core pins them. One with fewer leaves them to the kernel: if each of several
// chose its CPUs by itself, all would choose the same.
func TestServePinsThreadsOfWholeMachine(t *testing.T) {
	m, err := machine.Read()
	if err != nil {
		t.Fatal(err)
	}
	cores := m.Cores()
	if cores < 2 {
		t.Skip("all threads of a machine with one core have the same CPU")
	}
	cpus := m.WorkerCPUs(cores)
	var all []string
	for _, id := range cpus {
		all = append(all, strconv.Itoa(id))
	}
	slices.Sort(all)
	first := strconv.Itoa(cpus[0])
	for _, tt := range []struct {
		args []string
		want []string // the CPUs of threads that are confined
		log  string
	}{
		{[]string{"-t", strconv.Itoa(cores)}, all, "one on each core"},
		{[]string{"-t", "1"}, nil, "fewer threads than the"},
		{[]string{"-t", strconv.Itoa(cores), "--cpu-strict", "0"}, nil, "any: as requested"},
		{[]string{"-t", "1", "--cpu-strict", "1"}, []string{first}, "pinned to " + first + ": as requested"},
		{[]string{"-t", "1", "--cpu-range", first + "-" + first}, []string{first}, "requested CPUs"},
		{[]string{"-t", "1", "--cpu-range", first + "-" + first, "--cpu-strict", "0"}, []string{first}, "any of " + first + ": as requested"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			s := serve(t, demo.Name, tt.args...)
			s.post("/v1/completions", `{"model": "demo", "prompt": "once", "max_tokens": 2}`)
			if got := confined(t, s.cmd.Process.Pid); !slices.Equal(got, tt.want) {
				t.Errorf("threads are confined to CPUs %v, want %v", got, tt.want)
			}
			if !s.logged(tt.log) {
				t.Errorf("the log does not say %q: %s", tt.log, s.log)
			}
		})
	}
}
