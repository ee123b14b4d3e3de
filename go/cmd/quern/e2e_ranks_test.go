package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
)

// asked are requests of many kinds, whose answers a seed determines.
func asked() (bodies []string) {
	for i := range 8 {
		bodies = append(bodies,
			fmt.Sprintf(`{"prompt":"Once upon a time there was a dog number %d","max_tokens":48,"seed":%d}`, i, i),
			fmt.Sprintf(`{"prompt":"Once upon a time","max_tokens":24,"n":3,"temperature":1.2,"seed":%d}`, i),
			fmt.Sprintf(`{"prompt":"Tom said","max_tokens":40,"temperature":0,"logprobs":2,"logit_bias":{"%d":3}}`, 100+i),
			fmt.Sprintf(`{"prompt":"A name: ","max_tokens":30,"seed":%d,"grammar":"root ::= [A-Z] [a-z]+ \" \" [0-9] [0-9]?"}`, i))
	}
	return bodies
}

// answers returns what a server answers to requests that all come at once.
func (s *service) answers(bodies []string) []string {
	s.t.Helper()
	all := make([]string, len(bodies))
	var wait sync.WaitGroup
	for i, body := range bodies {
		wait.Go(func() {
			status, answer := s.post("/v1/completions", body)
			all[i] = fmt.Sprint(status, answer["choices"])
		})
	}
	wait.Wait()
	return all
}

// A model that is divided among ranks answers as one process does: many requests at a time, with samples, grammars, drafts and
// prefixes in common, with a context that is shifted, keys and values that age, and a cache on disk; and again when it was
// unloaded.
func TestServeRanks(t *testing.T) {
	bodies := asked()
	for _, c := range []struct{ ranks, args []string }{
		{[]string{"--ranks", "2"}, []string{"--context-shift", "-c", "64", "--cache-disk", t.TempDir()}},
		{[]string{"--ranks", "3", "--rank-split", "1,2,1"}, []string{"--kv-tiers", "64:i16,*:q8_0", "--activations", "16"}},
		{[]string{"--ranks", "2", "--split", "layers"}, nil},
		{[]string{"--ranks", "3", "--split", "layers", "--rank-split", "1,2,1"}, []string{"--activations", "16"}},
		{[]string{"--ranks", "2", "--split", "auto"}, nil},
	} {
		want := serve(t, "demo", c.args...).answers(bodies)
		args := slices.Concat(c.ranks, c.args)
		s := serve(t, "demo", args...)
		for range 2 { // the second time it is loaded again
			for i, got := range s.answers(bodies) {
				if got != want[i] {
					t.Errorf("%v: %s: got %s, want %s", args, bodies[i], got, want[i])
				}
			}
			_, metrics := s.get("/metrics")
			for _, m := range []string{"compute_seconds", "wait_seconds", "sent_bytes"} {
				if !regexp.MustCompile(`quern_rank_` + m + `_total\{model="[^"]+",rank="1"\} .*[1-9]`).MatchString(metrics) {
					t.Errorf("%v: no %s of rank 1", args, m)
				}
			}
			if status, answer := s.post("/models/unload", `{"model":"demo"}`); status != 200 {
				t.Errorf("%v: %d %v", args, status, answer)
			}
			s.until("demo unloaded")
		}
	}
}

// A divided model sleeps when it is not used, and wakes.
func TestRanksSleep(t *testing.T) {
	t.Parallel()
	ask := func(s *service) string {
		t.Helper()
		status, answer := s.post("/v1/completions", `{"prompt":"Once upon a time","max_tokens":20,"temperature":0}`)
		return fmt.Sprint(status, answer["choices"])
	}
	want := ask(serve(t, "demo"))
	s := serve(t, "demo", "--ranks", "2", "--sleep-idle-seconds", "1")
	for range 2 {
		if got := ask(s); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.until("demo sleeping")
	}
}

// What ranks cannot do is refused in one line, before anything is read.
func TestRanksRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--ranks", "1"}, []string{"--ranks", `"1"`, "mpi"}},
		{[]string{"--ranks", "host:1"}, []string{"--ranks", "host:1", "quern-cluster", "make cluster"}},
		{[]string{"--ranks", "2@:9100"}, []string{"--ranks", "2@:9100", "quern-cluster"}},
		{[]string{"--ranks", "1@:9100"}, []string{"--ranks", `"1@:9100"`}},
		{[]string{"--ranks", "host:1,host:1"}, []string{"--ranks", `"host:1,host:1"`}},
		{[]string{"--ranks", "host:70000"}, []string{"--ranks", `"host:70000"`}},
		{[]string{"--rank-token-file", "x"}, []string{"--rank-token-file", "--ranks"}},
		{[]string{"--ranks", "2", "--rank-token-file", "x"}, []string{"--rank-token-file", "--ranks"}},
		{[]string{"--ranks", "65"}, []string{"--ranks", "64"}},
		{[]string{"--rank-split", "1,2"}, []string{"--rank-split", "--ranks"}},
		{[]string{"--ranks", "2", "--rank-split", "1,x"}, []string{"--rank-split", `"1,x"`}},
		{[]string{"--ranks", "2", "--rank-split", "1,0"}, []string{"--rank-split", `"1,0"`}},
		{[]string{"--split", "layers"}, []string{"--split", "--ranks"}},
		{[]string{"--ranks", "2", "--split", "heads"}, []string{"--split", "rows, layers, auto"}},
		{[]string{"--ranks", "2", "-m", "other=demo"}, []string{"--ranks", "one model"}},
		{[]string{"--ranks", "2", "--quantize", "q8_0"}, []string{"--ranks", "--quantize"}},
	} {
		quern(t, append([]string{"serve", "-m", "demo", "--port", "0"}, c.args...)...).refused(t, 2, c.words...)
	}
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--ranks", "2", "--rank-split", "1,2,3"}, []string{"3 shares", "2 ranks"}},
		{[]string{"--ranks", "2", "--weights", "streamed"}, []string{"streamed", "divided"}},
		{[]string{"--ranks", "2", "--split", "layers", "--context-shift"}, []string{"shifted", "by layers", "--split rows"}},
	} {
		quern(t, append([]string{"serve", "-m", "demo", "--port", "0"}, c.args...)...).refused(t, 1, c.words...)
	}
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--listen", ":9100"}, []string{"-m"}},
		{[]string{"-m", "demo"}, []string{"--listen", "--join"}},
		{[]string{"-m", "demo", "--listen", ":9100", "--join", "a:9100"}, []string{"--listen", "--join"}},
		{[]string{"-m", "demo", "--listen", "9100"}, []string{"--listen", `"9100"`}},
		{[]string{"-m", "demo", "--join", "a"}, []string{"--join", `"a"`}},
		{[]string{"-m", "demo", "--listen", ":9100"}, []string{"quern-cluster", "make cluster"}},
	} {
		quern(t, append([]string{"rank"}, c.args...)...).refused(t, 2, c.words...)
	}
	if mpiProgram == "" {
		quern(t, "serve", "-m", "demo", "--ranks", "mpi").refused(t, 2, "quern-mpi", "make mpi")
	}
}

// Divided models compute the published bits.
func TestVerifyRanks(t *testing.T) {
	t.Parallel()
	args := []string{"verify", "-m", "demo", "-n", "8", "-p", "Once upon a time"}
	one := succeed(t, args...)
	for _, n := range []string{"2", "5"} {
		if got := succeed(t, append(args, "--ranks", n)...); got != one {
			t.Errorf("%s ranks: %s, want %s", n, got, one)
		}
	}
	if got := succeed(t, append(args, "--ranks", "3", "--split", "layers")...); got != one {
		t.Errorf("3 ranks with layers each: %s, want %s", got, one)
	}
	nodes := invocation{args: append(args, "--ranks", "2", "-t", "2"), env: []string{"QUERN_NODES=2"}}.run(t)
	if nodes.code != 0 || nodes.stdout != one {
		t.Errorf("on two NUMA nodes: code %d, %s and %s, want %s", nodes.code, nodes.stdout, nodes.stderr, one)
	}
	quern(t, append(args, "--ranks", "0")...).refused(t, 2, "--ranks")
}

// The doctor measures exchanges, and says how a model would be divided.
func TestDoctorRanks(t *testing.T) {
	t.Parallel()
	var d diagnosis
	if err := json.Unmarshal([]byte(succeed(t, "doctor", "--ranks", "2", "-m", "demo", "--json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Ranks == nil || len(d.Ranks.Exchanges) != 3 || d.Ranks.Division == nil || d.Ranks.Division.Layers == nil ||
		d.Ranks.Division.Rows <= 0 || *d.Ranks.Division.Layers <= 0 || d.Ranks.Division.One <= 0 {
		t.Fatalf("%+v", d.Ranks)
	}
	for i, e := range d.Ranks.Exchanges {
		if e.Bytes != []int{64, 16 << 10, 1 << 20}[i] || e.Seconds <= 0 {
			t.Errorf("exchange %+v", e)
		}
	}
	text := succeed(t, "doctor", "--ranks", "3", "--no-measure")
	if !strings.Contains(text, "measured between 3 ranks") || !strings.Contains(text, "exchange 16.4 kB") {
		t.Errorf("%s", text)
	}
	quern(t, "doctor", "--ranks", "one").refused(t, 2, "--ranks")
}

// mpiProgram is a quern-mpi to test, with mpirun in the path: "make test-mpi" names it.
var mpiProgram = os.Getenv("QUERN_MPI")

// mpiEnvironment returns the environment of mpirun: Open MPI refuses root, and more processes than cores, without it.
func mpiEnvironment() []string {
	return append(cleanEnvironment(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe")
}

// serveMPI starts an MPI job with a model for each process, and reports whether it is ready: else it has ended.
func serveMPI(t *testing.T, models ...string) (s *service, ready bool) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "q.sock")
	var args []string
	mpirun := cmp.Or(os.Getenv("QUERN_MPIRUN"), "mpirun")
	for i, m := range models {
		if i > 0 {
			args = append(args, ":")
		}
		args = append(args, "-np", "1", mpiProgram, "serve", "-m", m, "--ranks", "mpi", "--host", socket, "-t", "1")
	}
	s = newService(t, socket, exec.Command(mpirun, args...))
	s.cmd.Env = mpiEnvironment()
	s.cmd.Stdout = s.log
	s.start()
	t.Cleanup(func() {
		s.cmd.Process.Signal(syscall.SIGTERM) // which mpirun passes on
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
			s.cmd.Process.Kill()
			<-s.done
		}
	})
	return s, s.serves(time.Minute)
}

// rankOne returns the process id of rank 1 of a job.
func (s *service) rankOne() string {
	s.t.Helper()
	out, err := exec.Command("pgrep", "-f", "^"+mpiProgram+" serve .*"+s.socket).Output()
	for _, id := range strings.Fields(string(out)) {
		env, _ := os.ReadFile("/proc/" + id + "/environ")
		for _, name := range []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK"} {
			if strings.Contains("\x00"+string(env), "\x00"+name+"=1\x00") {
				return id
			}
		}
	}
	s.t.Fatalf("processes %q of the job, and none is rank 1: %v", out, err)
	return ""
}

// Processes of an MPI job answer as one process does. Where one ends or stops, the job ends in bounded time; where one
// has another file, it does not begin.
func TestMPI(t *testing.T) {
	if mpiProgram == "" {
		t.Skip("QUERN_MPI names no program: see make test-mpi")
	}
	t.Run("bits", func(t *testing.T) {
		bodies := asked()
		want := serve(t, "demo").answers(bodies)
		for _, n := range []int{2, 3} {
			s, ready := serveMPI(t, slices.Repeat([]string{"demo"}, n)...)
			if !ready {
				t.Fatal(s.log)
			}
			for i, got := range s.answers(bodies) {
				if got != want[i] {
					t.Errorf("%d processes: %s: got %s, want %s", n, bodies[i], got, want[i])
				}
			}
			s.cmd.Process.Signal(syscall.SIGTERM)
			if s.wait(); !strings.Contains(s.log.String(), "stopped") {
				t.Errorf("no end in order: %s", s.log)
			}
		}
	})
	for signal, within := range map[string]time.Duration{"KILL": 30 * time.Second, "STOP": 40 * time.Second} {
		t.Run(signal, func(t *testing.T) {
			s, ready := serveMPI(t, "demo", "demo")
			if !ready {
				t.Fatal(s.log)
			}
			out, err := exec.Command("kill", "-"+signal, s.rankOne()).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			start := time.Now()
			if code := s.wait(); code == 0 || time.Since(start) > within {
				t.Errorf("the job ends with %d after %v, want an error within %v: %s", code, time.Since(start), within, s.log)
			}
		})
	}
	for name, models := range map[string][]string{"rank 0": {"no-such.gguf", "demo"}, "rank 1": {"demo", "no-such.gguf"}} {
		t.Run("no file of "+name, func(t *testing.T) {
			start := time.Now()
			s, ready := serveMPI(t, models...)
			if ready {
				t.Fatal("a rank without a file serves")
			}
			code, took := s.wait(), time.Since(start)
			if code == 0 || took > time.Minute || !strings.Contains(s.log.String(), "no-such.gguf") {
				t.Errorf("code %d after %v: %s", code, took, s.log)
			}
		})
	}
	t.Run("another file", func(t *testing.T) {
		changed := bytes.Clone(demo.GGUF())
		changed[bytes.Index(changed, []byte("general.name"))+len("general.name")+4+8] ^= 1 // behind the type and the length
		other := filepath.Join(t.TempDir(), "other.gguf")
		if err := os.WriteFile(other, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		s, ready := serveMPI(t, "demo", other)
		if ready {
			t.Fatal("ranks of two files serve")
		}
		if code := s.wait(); code == 0 || !strings.Contains(s.log.String(), "another file than rank 0's") {
			t.Errorf("code %d: %s", code, s.log)
		}
	})
}
