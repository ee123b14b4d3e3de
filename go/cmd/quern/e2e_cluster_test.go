package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
)

// clusterProgram is a quern-cluster to test: "make test-cluster" names it.
var clusterProgram = os.Getenv("QUERN_CLUSTER")

// A place is where a process of a cluster runs: what its command begins with, and its host. The zero value is here.
type place struct {
	in   []string
	host string
}

// start starts a process of a cluster. It serves HTTP at a socket of its own if it does.
func (p place) start(t *testing.T, env []string, args ...string) *service {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "q.sock")
	if args[0] == "serve" {
		args = append(args, "--host", socket)
	}
	line := append(append(append([]string{}, p.in...), clusterProgram), append(args, "-t", "1")...)
	return begin(t, socket, append(cleanEnvironment(), env...), line)
}

// again starts a process that has ended as a supervisor does.
func (s *service) again() *service {
	s.t.Helper()
	return begin(s.t, s.socket, s.cmd.Env, s.cmd.Args)
}

// free returns an address of a host that nothing listens at.
func (p place) free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host := p.host
	if host == "" {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("%s:%d", host, l.Addr().(*net.TCPAddr).Port)
}

// pair starts a server with these flags at one place, and a rank that it finds at another.
func pair(t *testing.T, a, b place, env []string, args ...string) (lead, follow *service) {
	t.Helper()
	at := b.free(t)
	follow = b.start(t, env, "rank", "-m", "demo", "--listen", at)
	lead = a.start(t, env, append([]string{"serve", "-m", "demo", "--ranks", at}, args...)...)
	return lead.ready(time.Minute), follow
}

// ends checks that processes end, with these codes, within a time.
func ends(t *testing.T, within time.Duration, want map[*service]int) {
	t.Helper()
	start := time.Now()
	for s, code := range want {
		if got := s.wait(); got != code {
			t.Errorf("%q ends with %d, want %d", s.cmd.Args, got, code)
		}
	}
	if took := time.Since(start); took > within {
		t.Errorf("they end after %v, want %v at most", took, within)
	}
}

// A failure is the first answer that is not 200.
type failure struct {
	status int
	text   string
	at     time.Time
}

// asking has clients ask on and on, until each has a failure. Call the result to wait for them.
func (s *service) asking(clients int) func() []failure {
	all := make([]failure, clients)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			for {
				r, err := s.client.Post("http://quern/v1/completions", "application/json",
					strings.NewReader(fmt.Sprintf(`{"prompt":"Once upon a time","max_tokens":64,"seed":%d}`, i)))
				if err != nil {
					all[i] = failure{0, err.Error(), time.Now()}
					return
				}
				var text bytes.Buffer
				_, _ = text.ReadFrom(r.Body)
				r.Body.Close()
				if r.StatusCode != 200 {
					all[i] = failure{r.StatusCode, text.String(), time.Now()}
					return
				}
			}
		})
	}
	return func() []failure { wait.Wait(); return all }
}

// tells checks that all clients of a server that has lost a rank got 503 with one line within a time, and that it ends.
func (s *service) tells(t *testing.T, since time.Time, within time.Duration, all []failure) {
	t.Helper()
	last := time.Duration(0)
	for _, f := range all {
		last = max(last, f.at.Sub(since))
		if f.status != 503 || !strings.Contains(f.text, "rank") || strings.Contains(f.text, `\n`) {
			t.Errorf("status %d, %q, want 503 and a line", f.status, f.text)
		}
	}
	t.Logf("503 after %v", last)
	if last > within {
		t.Errorf("503 after %v, want %v at most", last, within)
	}
	if code := s.wait(); code != 70 || !strings.Contains(s.log.String(), "a rank of the model is lost") {
		t.Errorf("it ends with %d, want 70", code)
	}
	t.Logf("it ends after %v", time.Since(since))
}

// slack is what a busy machine adds to the times that are promised.
const slack = 8 * time.Second

// equalAnswers checks that a server answers as one process does.
func equalAnswers(t *testing.T, s *service, bodies, want []string) {
	t.Helper()
	for i, got := range s.answers(bodies) {
		if got != want[i] {
			t.Errorf("%s: got %s, want %s", bodies[i], got, want[i])
		}
	}
}

// Processes that find each other by addresses answer as one does. Where one is lost, the others say so and end in bounded
// time; who does not belong to them is turned away.
func TestCluster(t *testing.T) {
	if clusterProgram == "" {
		t.Skip("QUERN_CLUSTER names no program: see make test-cluster")
	}
	here := place{}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bodies := asked()
	want := serve(t, "demo").answers(bodies)

	for _, split := range []string{"rows", "layers"} {
		t.Run("bits by shared memory of "+split, func(t *testing.T) {
			lead, follow := pair(t, here, here, nil, "--split", split)
			equalAnswers(t, lead, bodies, want)
			lead.cmd.Process.Signal(syscall.SIGTERM)
			ends(t, 20*time.Second, map[*service]int{lead: 0, follow: 0})
		})
	}
	t.Run("bits by TCP of three that join", func(t *testing.T) {
		at := here.free(t)
		env := []string{"UCX_TLS=tcp"}
		var ranks []*service
		for range 2 {
			ranks = append(ranks, here.start(t, env, "rank", "-m", "demo", "--join", at, "--rank-token-file", token))
		}
		lead := here.start(t, env, "serve", "-m", "demo", "--ranks", "3@"+at, "--rank-split", "1,2,1", "--rank-token-file", token).ready(time.Minute)
		equalAnswers(t, lead, bodies, want)
		ranks[1].cmd.Process.Signal(syscall.SIGTERM) // which rank 0 follows
		ends(t, 20*time.Second, map[*service]int{lead: 0, ranks[0]: 0, ranks[1]: 0})
	})
	t.Run("doctor", func(t *testing.T) {
		at := here.free(t)
		follow := here.start(t, nil, "rank", "-m", "demo", "--listen", at)
		out, err := exec.Command(clusterProgram, "doctor", "--ranks", at, "--no-measure").Output()
		if err != nil || !strings.Contains(string(out), "exchange") {
			t.Errorf("%v: %s", err, out)
		}
		ends(t, 20*time.Second, map[*service]int{follow: 0})
	})
	for _, c := range []struct {
		name   string
		env    []string
		signal syscall.Signal
		within time.Duration
	}{
		{"kill by shared memory", nil, syscall.SIGKILL, time.Second},
		{"kill by TCP", []string{"UCX_TLS=tcp"}, syscall.SIGKILL, time.Second},
		{"stop", nil, syscall.SIGSTOP, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			lead, follow := pair(t, here, here, c.env)
			failures := lead.asking(4)
			time.Sleep(300 * time.Millisecond)
			start := time.Now()
			follow.cmd.Process.Signal(c.signal)
			lead.tells(t, start, c.within+slack, failures())
			if c.signal == syscall.SIGKILL {
				lead, _ = lead.again(), follow.again()
				equalAnswers(t, lead.ready(time.Minute), bodies[:4], want[:4])
			}
		})
	}
	for by, env := range map[string][]string{"shared memory": nil, "TCP": {"UCX_TLS=tcp"}} {
		t.Run("ended while it loads by "+by, func(t *testing.T) {
			for _, after := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond} {
				at := here.free(t)
				follow := here.start(t, env, "rank", "-m", "demo", "--listen", at)
				lead := here.start(t, env, "serve", "-m", "demo", "--ranks", at)
				if !lead.eventually(func() bool { _, err := os.Stat(lead.socket); return err == nil }) {
					t.Fatal("it does not listen")
				}
				time.Sleep(after)
				lead.cmd.Process.Signal(syscall.SIGTERM)
				ends(t, 20*time.Second, map[*service]int{lead: 0, follow: 0})
			}
		})
	}
	t.Run("idle", func(t *testing.T) {
		lead, follow := pair(t, here, here, nil)
		before := cpuOf(t, follow)
		time.Sleep(4 * time.Second)
		if used := cpuOf(t, follow) - before; used > 40*time.Millisecond {
			t.Errorf("a rank with nothing to do takes %v of CPU in 4 s", used)
		}
		lead.cmd.Process.Kill()
		ends(t, time.Second+slack, map[*service]int{follow: 70})
		if !strings.Contains(follow.log.String(), "rank 0: the line to it is lost") {
			t.Errorf("no line: %s", follow.log)
		}
	})
	t.Run("strangers", func(t *testing.T) {
		at := here.free(t)
		follow := here.start(t, nil, "rank", "-m", "demo", "--listen", at, "--rank-token-file", token)
		if !follow.logged("waiting at") {
			t.Fatal("it does not wait")
		}
		hostile(t, at)
		other := filepath.Join(t.TempDir(), "other")
		if err := os.WriteFile(other, []byte("another secret of 30 characters"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--rank-token-file", other}, nil} {
			s := here.start(t, nil, append([]string{"serve", "-m", "demo", "--ranks", at}, args...)...)
			if code := s.wait(); code != 1 || !strings.Contains(s.log.String(), "does not have the token") {
				t.Errorf("%q ends with %d: %s", args, code, s.log)
			}
		}
		lead := here.start(t, nil, "serve", "-m", "demo", "--ranks", at, "--rank-token-file", token).ready(time.Minute)
		// What listens now is UCX's.
		for _, s := range []*service{lead, follow} {
			for _, port := range listening(t, s.cmd.Process.Pid) {
				hostile(t, fmt.Sprintf("127.0.0.1:%d", port))
			}
		}
		equalAnswers(t, lead, bodies[:4], want[:4])
		lead.cmd.Process.Signal(syscall.SIGTERM)
		ends(t, 20*time.Second, map[*service]int{lead: 0, follow: 0})
	})
	t.Run("another file", func(t *testing.T) {
		changed := bytes.Clone(demo.GGUF())
		changed[bytes.Index(changed, []byte("general.name"))+len("general.name")+4+8] ^= 1 // behind the type and the length
		path := filepath.Join(t.TempDir(), "other.gguf")
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		at := here.free(t)
		follow := here.start(t, nil, "rank", "-m", path, "--listen", at)
		lead := here.start(t, nil, "serve", "-m", "demo", "--ranks", at)
		ends(t, time.Minute, map[*service]int{lead: 1, follow: 1})
		if log := lead.log.String(); !strings.Contains(log, "another file than rank 0's") || strings.Contains(log, "is lost") {
			t.Errorf("no line, or another: %s", log)
		}
	})
}

// cpuOf returns the CPU time of a process.
func cpuOf(t *testing.T, s *service) time.Duration {
	t.Helper()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("the kernel keeps no times of tasks")
	}
	all := time.Duration(0)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	for _, task := range tasks {
		if text, err := os.ReadFile(task); err == nil {
			ns, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
			all += time.Duration(ns)
		}
	}
	return all
}

// listening returns the ports of IPv4 at which a process listens.
func listening(t *testing.T, pid int) (ports []uint16) {
	t.Helper()
	sockets := map[string]bool{}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			sockets[to] = true
		}
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(table), "\n") {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !sockets["socket:["+f[9]+"]"] {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			ports = append(ports, uint16(port))
		}
	}
	return ports
}

// hostile sends what strangers send to a port, and leaves connections open that say nothing.
func hostile(t *testing.T, at string) {
	t.Helper()
	noise := make([]byte, 1<<16)
	_, _ = rand.Read(noise)
	for _, text := range []string{
		"", "\x00", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "quern-ranks-1\r\n\x00", "quern-ranks-1\r\n\x000" + strings.Repeat("n", 32),
		"quern-ranks-1\r\n\x000" + strings.Repeat("n", 64), "quern-ranks-1\r\n\x00\xff" + string(noise), string(noise),
		strings.Repeat("\xff", 1<<16), strings.Repeat("\x00", 1<<16),
	} {
		for _, leave := range []bool{true, false} {
			c, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Write([]byte(text)) // the other side may have had enough
			if leave {
				c.Close()
			} else {
				t.Cleanup(func() { c.Close() })
			}
		}
	}
}

// Between two network namespaces, whose link is slow or goes down.
func TestClusterNetworks(t *testing.T) {
	if clusterProgram == "" {
		t.Skip("QUERN_CLUSTER names no program: see make test-cluster")
	}
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %q: %v: %s", args, err, out)
		}
		return nil
	}
	name := fmt.Sprintf("qn%d", os.Getpid())
	var places []place
	for i, side := range []string{"a", "b"} {
		ns := name + side
		if err := ip("netns", "add", ns); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = ip("netns", "del", ns) })
		places = append(places, place{[]string{"ip", "netns", "exec", ns}, fmt.Sprintf("10.77.0.%d", i+1)})
	}
	a, b := name+"a", name+"b"
	for _, args := range [][]string{
		{"link", "add", "va", "netns", a, "type", "veth", "peer", "name", "vb", "netns", b},
		{"-n", a, "addr", "add", places[0].host + "/24", "dev", "va"}, {"-n", b, "addr", "add", places[1].host + "/24", "dev", "vb"},
		{"-n", a, "link", "set", "lo", "up"}, {"-n", b, "link", "set", "lo", "up"},
		{"-n", a, "link", "set", "va", "up"}, {"-n", b, "link", "set", "vb", "up"},
	} {
		if err := ip(args...); err != nil {
			t.Skip(err)
		}
	}
	for ns, link := range map[string]string{a: "va", b: "vb"} {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if out, _ := exec.Command("ip", "-n", ns, "link", "show", link).Output(); strings.Contains(string(out), "state UP") {
				break
			}
		}
	}
	env := []string{"UCX_TLS=tcp"} // and no shared memory, which namespaces have in common
	bodies := asked()
	want := serve(t, "demo").answers(bodies)
	for _, rate := range []string{"10gbit", "1gbit"} {
		t.Run(rate, func(t *testing.T) {
			for ns, link := range map[string]string{a: "va", b: "vb"} {
				out, err := exec.Command("ip", "netns", "exec", ns, "tc", "qdisc", "replace", "dev", link, "root", "tbf",
					"rate", rate, "burst", "256kb", "latency", "50ms").CombinedOutput()
				if err != nil {
					t.Skipf("tc: %v: %s", err, out)
				}
			}
			lead, follow := pair(t, places[0], places[1], env)
			equalAnswers(t, lead, bodies, want)
			lead.cmd.Process.Signal(syscall.SIGTERM)
			ends(t, 20*time.Second, map[*service]int{lead: 0, follow: 0})
		})
	}
	t.Run("link down", func(t *testing.T) {
		lead, follow := pair(t, places[0], places[1], env)
		failures := lead.asking(4)
		time.Sleep(300 * time.Millisecond)
		start := time.Now()
		if err := ip("-n", b, "link", "set", "vb", "down"); err != nil {
			t.Fatal(err)
		}
		lead.tells(t, start, 5*time.Second+slack, failures())
		ends(t, 5*time.Second+slack, map[*service]int{follow: 70})
	})
}
