package main

import (
	"encoding/json"
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

// Threads and weights are spread over nodes, with the same text, unless --numa says otherwise. The packed file is
// copied then, and says the same.
func TestNodes(t *testing.T) {
	text := func(env string, args ...string) string {
		t.Helper()
		r := invocation{args: append([]string{"run", "--temp", "0", "-n", "24", "once"}, args...), env: []string{env}}.run(t)
		if r.code != 0 {
			t.Fatalf("%s, %v: %s", env, args, r.stderr)
		}
		return r.stdout
	}
	packed := filepath.Join(t.TempDir(), "packed.gguf")
	plain := filepath.Join(t.TempDir(), "demo.gguf")
	for _, args := range [][]string{{"export-demo", plain}, {"pack", plain, packed}} {
		if r := quern(t, args...); r.code != 0 {
			t.Fatal(r.stderr)
		}
	}
	want := text("QUERN_NODES=1", "-m", demo.Name)
	for _, nodes := range []string{"QUERN_NODES=2", "QUERN_NODES=3"} {
		for _, args := range [][]string{
			{"-m", demo.Name}, {"-m", demo.Name, "-t", "5"}, {"-m", packed, "-t", "3"}, {"-m", plain, "--weights", "mapped", "-t", "4"},
			{"-m", packed, "--weights", "streamed", "-t", "3"}, {"-m", demo.Name, "-t", "4", "--numa", "distribute"}, {"-m", demo.Name, "--numa", "off"},
		} {
			if got := text(nodes, args...); got != want {
				t.Errorf("%s, %v: %q, want %q", nodes, args, got, want)
			}
		}
	}
	quern(t, "run", "-m", demo.Name, "--numa", "mirror", "once").refused(t, 2, "--numa", "mirror", "distribute")
	r := invocation{args: []string{"run", "-m", demo.Name, "once"}, env: []string{"QUERN_NODES=65"}}.run(t)
	r.refused(t, 2, "QUERN_NODES", "64")

	for _, tt := range []struct {
		args []string
		want bool
	}{{[]string{"-t", "2"}, true}, {[]string{"-t", "6", "--numa", "numactl"}, true}, {[]string{"-t", "2", "--numa", "off"}, false}, {[]string{"-t", "2", "--numa", "isolate"}, false}} {
		s := serveWith(t, []string{"QUERN_NODES=2"}, demo.Name, tt.args...)
		if !s.logged(`"cpus":`) || strings.Contains(s.log.String(), "on 2 NUMA nodes") != tt.want {
			t.Errorf("%v: the log is %s", tt.args, s.log)
		}
	}
	var d diagnosis
	r = invocation{args: []string{"doctor", "--json"}, env: []string{"QUERN_NODES=2"}}.run(t)
	if err := json.Unmarshal([]byte(r.stdout), &d); err != nil {
		t.Fatal(err)
	}
	if d.WillDo.Threads > 1 && (len(d.WillDo.Nodes) != 2 || (d.WillDo.Refused == "") != (len(d.Measured.Across) == 2)) {
		t.Errorf("over two nodes doctor says %+v, and has measured %+v", d.WillDo, d.Measured)
	}
	if a := d.Measured.Across; a != nil && (len(a[1]) != 2 || !(a[1][0] > 1e6)) {
		t.Errorf("over two nodes doctor says %+v, and has measured %+v", d.WillDo, d.Measured)
	}
}
