package sched

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of the transcripts anew")

// Transcripts are what the Scheduler is told, and after "----" lines what it
// answers. Commands: config, add, cancel, step [N], at TIME, wait.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(b))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(b) {
				t.Errorf("%s is now\n%s", file, got)
			}
		})
	}
}

// play runs the commands of a transcript and returns it with the answers it gets now.
func play(t *testing.T, text string) string {
	var m *sim
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // an old answer
		}
		fmt.Fprintln(&out, line)
		word, rest, _ := strings.Cut(line, " ")
		if word == "" || word == "#" {
			continue
		}
		answer := func(format string, args ...any) { fmt.Fprintf(&out, "  "+format+"\n", args...) }
		v := values(t, rest)
		switch word {
		case "config":
			m = newSim(t, Config{Running: v.num("running"), Batch: v.num("batch"), Queue: v.num("queue"), TargetITL: v.time("itl")},
				v.num("blocks"), flatCost(v.time("first"), v.time("each")))
		case "add":
			r := Request{ID: uint64(v.num("id")), Flow: v["flow"], Weight: float64(v.num("weight")), Priority: v.num("priority"),
				Prompt: v.num("prompt"), MaxTokens: v.num("max"), Deadline: v.time("deadline"), Leader: uint64(v.num("leader")), Shared: v.num("shared")}
			if err := m.add(r); err != nil {
				answer("%v", err)
				break
			}
			m.live[r.ID].draft = v.num("draft")
			for id, why := range m.ended {
				if why == "dropped" {
					answer("dropped %d", id)
					delete(m.ended, id)
				}
			}
		case "cancel":
			m.cancel(uint64(v.num("id")))
		case "wait":
			m.now += v.time("for")
		case "step":
			for range max(v.num("n"), 1) {
				s := m.step()
				answer("%8.3fs %s", m.now.Seconds(), s)
			}
		case "until":
			for i := 0; m.live[uint64(v.num("done"))] != nil; i++ {
				s := m.step()
				if i == 100_000 {
					t.Fatal("it never ends")
				}
				if m.live[uint64(v.num("done"))] == nil {
					answer("%8.3fs %s", m.now.Seconds(), s)
				}
			}
		default:
			t.Fatalf("unknown command %q", line)
		}
	}
	return out.String()
}

type fields map[string]string

func values(t *testing.T, s string) fields {
	v := fields{}
	for _, f := range strings.Fields(s) {
		k, x, ok := strings.Cut(f, "=")
		if !ok {
			t.Fatalf("%q, want name=value", f)
		}
		v[k] = x
	}
	return v
}

func (v fields) num(k string) (n int) { fmt.Sscan(v[k], &n); return n }

func (v fields) time(k string) time.Duration { d, _ := time.ParseDuration(v[k]); return d }

// Random arrivals, cancels, deadlines and memory pressure: every request ends,
// memory is never overdrawn, streams keep their pace, no flow starves.
func TestProperty(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	cfg := Config{Running: 8, Batch: 512, Queue: 30, TargetITL: 150 * time.Millisecond}
	m := newSim(t, cfg, 120, flatCost(20*time.Millisecond, 2*time.Millisecond)) // 120 blocks: 7680 positions
	var id uint64
	preempted, expired, refused, dropped, done, longest := 0, 0, 0, 0, 0, time.Duration(0)
	arrived := map[uint64]time.Duration{}
	const steps = 100_000
	for step := 0; step < steps || len(m.live) > 0; step++ {
		if step > 2*steps {
			t.Fatalf("%d requests never end", len(m.live))
		}
		if step < steps && rng.IntN(12) == 0 {
			id++
			r := Request{ID: id, Flow: fmt.Sprint(rng.IntN(4)), Prompt: 1 + rng.IntN(300), MaxTokens: 1 + rng.IntN(200), Weight: float64(rng.IntN(3)), Priority: rng.IntN(10) / 9}
			if rng.IntN(20) == 0 {
				r.Prompt = 1 + rng.IntN(6000)
			}
			if rng.IntN(5) == 0 {
				r.MaxTokens = 1 + rng.IntN(1500) // more than room is kept for
			}
			if rng.IntN(10) == 0 {
				r.Deadline = m.now + time.Duration(rng.IntN(20_000))*time.Millisecond
			}
			if id > 1 && rng.IntN(5) == 0 {
				r.Leader = id - 1 - uint64(rng.IntN(min(int(id)-1, 3)))
				r.Shared = rng.IntN(r.Prompt)
			}
			var busy *BusyError
			switch err := m.add(r); {
			case errors.As(err, &busy):
				if busy.RetryAfter < time.Second {
					t.Fatalf("retry after %v", busy.RetryAfter)
				}
				refused++
			case err != nil:
				t.Fatal(err)
			default:
				arrived[id] = m.now
				m.live[id].draft = max(int(id%9)-4, 0)
			}
		}
		if rng.IntN(100) == 0 {
			if all := slices.Sorted(maps.Keys(m.live)); len(all) > 0 {
				m.cancel(all[rng.IntN(len(all))])
			}
		}
		s := m.step()
		preempted += strings.Count(s, "preempted")
		expired += strings.Count(s, "expired")
		if strings.HasSuffix(s, "idle") {
			if len(m.live) > 0 {
				t.Fatalf("step %d: idle with %d requests: %s", step, len(m.live), s)
			}
			m.now += time.Millisecond
		}
		for id, why := range m.ended {
			switch why {
			case "done":
				done++
			case "dropped":
				dropped++
			}
			longest = max(longest, m.now-arrived[id])
			delete(m.ended, id)
		}
	}
	if n := len(m.s.flows) + len(m.s.waiting) + len(m.s.running) + len(m.kept); n > 0 {
		t.Errorf("%d things are left over", n)
	}
	if preempted == 0 || expired == 0 || refused == 0 || dropped == 0 || done < 1000 {
		t.Errorf("%d preempted, %d expired, %d refused, %d dropped, %d done: the test does not test that", preempted, expired, refused, dropped, done)
	}
	// 30 in the queue and 8 at work, of some seconds each.
	if longest > 10*time.Minute {
		t.Errorf("a request took %v", longest)
	}
	t.Logf("%d requests: %d done, %d preempted, %d expired, %d refused, %d dropped, the longest took %v", id, done, preempted, expired, refused, dropped, longest)
}

// While a long prompt comes in, running streams keep the target, and a short
// prompt that arrives then is answered within three passes.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, each time.Duration
	}{{"1B", 20 * time.Millisecond, 1900 * time.Microsecond}, {"8B", 105 * time.Millisecond, 11 * time.Millisecond}} {
		m := newSim(t, Config{Running: 8, Batch: 512, Queue: 10}, 1000, flatCost(c.first, c.each))
		target := m.s.Target()
		for id := uint64(1); id <= 4; id++ {
			if err := m.add(Request{ID: id, Flow: "streams", Prompt: 20, MaxTokens: 2000}); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			m.step()
		}
		for _, q := range m.live {
			q.gaps = nil
		}
		if err := m.add(Request{ID: 5, Flow: "long", Prompt: 16384, MaxTokens: 10}); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			m.step()
		}
		if err := m.add(Request{ID: 6, Flow: "short", Prompt: 32, MaxTokens: 10}); err != nil {
			t.Fatal(err)
		}
		short := m.live[6]
		for range 500 {
			m.step()
		}
		for id := uint64(1); id <= 4; id++ {
			gaps := m.live[id].gaps
			slices.Sort(gaps)
			if p99 := gaps[len(gaps)*99/100]; p99 > target || gaps[len(gaps)-1] > target*3/2 {
				t.Errorf("%s: stream %d waited %v for a token, and %v for one in a hundred; the target is %v", c.name, id, gaps[len(gaps)-1], p99, target)
			}
		}
		if short.tokens == short.prompt || short.first > 3 {
			t.Errorf("%s: the short prompt took %d passes", c.name, short.first)
		}
		if long := m.live[5]; long != nil && long.positions < 200 {
			t.Errorf("%s: the long prompt came to %d tokens only", c.name, long.positions)
		}
	}
}

// The memory of the request that has run longest is free for others at once when its deadline passes.
func TestExpiredMakesRoom(t *testing.T) {
	s := New(Config{Running: 2, Batch: 1000, Queue: 10, Memory: simMemory{}})
	lookup := func(uint64) Prefix { return Prefix{} }
	for _, r := range []Request{{ID: 1, Prompt: 6 * blockTokens, MaxTokens: 1, Deadline: time.Second}, {ID: 2, Prompt: 1, MaxTokens: 1}} {
		if _, err := s.Add(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	if a := s.Admit(0, 10, lookup); !slices.Equal(a.Admitted, []uint64{1, 2}) {
		t.Fatalf("%v run", a.Admitted)
	}
	s.Ran(s.Next(0, 10), 1)
	if _, err := s.Add(Request{ID: 3, Prompt: 5 * blockTokens, MaxTokens: 1}, 0); err != nil {
		t.Fatal(err)
	}
	a := s.Admit(time.Second, 2, lookup) // two blocks beside those of the first
	if !slices.Equal(a.Expired, []uint64{1}) || !slices.Equal(a.Admitted, []uint64{3}) {
		t.Errorf("%v expired and %v run now, want 1 and 3", a.Expired, a.Admitted)
	}
}

// A request that has to evaluate more tokens again than a batch has continues in slices, and so do the streams
// beside it.
func TestReplayLargerThanABatch(t *testing.T) {
	m := newSim(t, Config{Running: 4, Batch: 16, Queue: 10}, 100, flatCost(20*time.Millisecond, time.Millisecond))
	for id := uint64(1); id <= 4; id++ {
		if err := m.add(Request{ID: id, Prompt: 10, MaxTokens: 60}); err != nil {
			t.Fatal(err)
		}
	}
	for range 25 {
		m.step()
	}
	for id := uint64(1); id <= 2; id++ { // preempted: 20 and 30 tokens are not cached
		m.s.Yield(id)
		q := m.live[id]
		q.running, q.positions = false, q.tokens-10*int(1+id)
		m.kept = append(m.kept, q)
	}
	for replayed := range 2 { // a pass is as large as it can be, and no stream is left out
		m.step()
		tokens := 0
		for _, it := range m.plan {
			tokens += it.Tokens
		}
		if tokens != 16 || len(m.plan) != 4 {
			t.Errorf("pass %d of the replay has %d tokens of %d sequences, want 16 of 4", replayed, tokens, len(m.plan))
		}
	}
	for range 200 {
		m.step()
	}
	if len(m.live) > 0 {
		t.Errorf("%d requests hang", len(m.live))
	}
}

// Where each pass reads weights from a disk, a prompt that no stream waits for is evaluated in one pass, so that
// the disk is read once. If streams wait, it is split as usual.
func TestPassesThatRead(t *testing.T) {
	cost := func(s Shape) time.Duration { // a layer is computed while the next is read
		return max(5*time.Second, time.Duration(s.Tokens)*94*time.Millisecond)
	}
	for _, reads := range []bool{true, false} {
		m := newSim(t, Config{Running: 4, Batch: 512, Queue: 10, Reads: reads}, 1000, cost)
		if err := m.add(Request{ID: 1, Prompt: 512, MaxTokens: 50}); err != nil {
			t.Fatal(err)
		}
		m.step()
		if whole := m.live[1].positions == 512; whole != reads {
			t.Errorf("passes read: %v; the first has %d of 512 tokens", reads, m.live[1].positions)
		}
		for m.live[1].positions < 512 {
			m.step()
		}
		if err := m.add(Request{ID: 2, Prompt: 512, MaxTokens: 50}); err != nil {
			t.Fatal(err)
		}
		m.step()
		m.step()
		if n := m.live[2].positions; n == 0 || n > 200 {
			t.Errorf("passes read: %v; two passes with a stream have %d tokens of another's prompt", reads, n)
		}
	}
}

// Memory that a request was admitted for is not given to others while it has not taken it.
func TestPromisedMemoryIsKept(t *testing.T) {
	s := New(Config{Running: 4, Batch: blockTokens, Queue: 10, Memory: simMemory{}})
	lookup := func(uint64) Prefix { return Prefix{} }
	for id := uint64(1); id <= 2; id++ {
		if _, err := s.Add(Request{ID: id, Prompt: 6 * blockTokens, MaxTokens: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
	const blocks = 10
	for taken := range uint64(6) {
		want := []uint64(nil)
		if taken == 0 {
			want = []uint64{1}
		}
		if a := s.Admit(0, blocks-taken, lookup); !slices.Equal(a.Admitted, want) || len(a.Preempted) > 0 {
			t.Fatalf("%d blocks are taken: admitted are %v, want %v", taken, a.Admitted, want)
		}
		s.Ran(s.Next(0, blocks-taken), 1)
	}
}

// The time between two tokens is the one that was asked for, or 150 ms, or what leaves prompts half a pass beside a
// stream of a slow model.
func TestTarget(t *testing.T) {
	for _, r := range []struct{ asked, first, want time.Duration }{
		{0, 0, 150 * time.Millisecond}, {0, 20 * time.Millisecond, 150 * time.Millisecond},
		{0, 100 * time.Millisecond, 150 * time.Millisecond}, {0, 400 * time.Millisecond, 600 * time.Millisecond},
		{40 * time.Millisecond, 400 * time.Millisecond, 40 * time.Millisecond},
	} {
		s := New(Config{Running: 1, Batch: 8, Queue: 1, Memory: simMemory{}, TargetITL: r.asked})
		if r.first > 0 {
			s.Cost.Observe(Shape{Tokens: 1, Rows: 1}, r.first)
		}
		if got := s.Target(); got != r.want {
			t.Errorf("asked for %v, a pass takes %v: %v between tokens, want %v", r.asked, r.first, got, r.want)
		}
	}
}

// Rows of logits of the streams take time that prompts beside them do not get.
func TestPromptsLeaveTimeForRows(t *testing.T) {
	given := func(row time.Duration) int {
		m := newSim(t, Config{Running: 9, Batch: 512, Queue: 10}, 1000, func(s Shape) time.Duration {
			return 20*time.Millisecond + time.Duration(s.Tokens)*time.Millisecond + time.Duration(max(s.Rows-1, 0))*row
		})
		m.s.Cost.SetRow(row)
		for id := uint64(1); id <= 8; id++ {
			if err := m.add(Request{ID: id, Prompt: 4, MaxTokens: 1000}); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			m.step()
		}
		if err := m.add(Request{ID: 9, Prompt: 2000, MaxTokens: 1}); err != nil {
			t.Fatal(err)
		}
		m.step()
		took := m.s.Cost.Estimate(m.s.Shape(m.plan))
		if limit := m.s.Target(); took > limit {
			t.Errorf("rows of %v: a pass of %v, want %v at most", row, took, limit)
		}
		for _, it := range m.plan {
			if it.ID == 9 {
				return it.Tokens
			}
		}
		return 0
	}
	if free, dear := given(0), given(5*time.Millisecond); free-dear < 25 || dear < minPromptTokens {
		t.Errorf("a prompt gets %d tokens beside 8 streams, and %d where rows take 35 ms of the pass", free, dear)
	}
}

// A client is told to come back when one of the requests before it should have ended: the work of all, over their number and
// its own.
func TestRetryAfter(t *testing.T) {
	const first, each = 100 * time.Millisecond, 10 * time.Millisecond
	m := newSim(t, Config{Running: 2, Batch: 512, Queue: 10}, 10_000, func(s Shape) time.Duration {
		return first + time.Duration(s.Tokens)*each
	})
	long := m.s.Cost.Each() // a token of a long pass
	pass := m.s.Cost.Estimate(Shape{Tokens: 2})
	if got := m.s.Busy(); got.RetryAfter != time.Second || got.Queued != 0 {
		t.Errorf("with nothing to do: %+v", got)
	}
	if m.s.Remove(1) {
		t.Error("a request that is not there was removed")
	}
	work := time.Duration(0)
	for id := uint64(1); id <= 4; id++ {
		r := Request{ID: id, Prompt: 1000 * int(id), MaxTokens: 100}
		if id == 4 {
			r.MaxTokens = 100_000 // a reply of unknown length
		}
		if err := m.add(r); err != nil {
			t.Fatal(err)
		}
		work += time.Duration(r.Prompt)*long + time.Duration(min(r.MaxTokens, expected))*pass/2
		if got, want := m.s.Busy(), work/time.Duration(id+1); got.RetryAfter != want || got.Queued != int(id) {
			t.Errorf("%d requests: %+v, want %v", id, got, want)
		}
	}
	for id := uint64(1); id <= 3; id++ {
		m.cancel(id)
	}
	for m.live[4].tokens < 4000+2*expected {
		m.step()
	}
	want := m.s.Cost.Each() / 2 // the next token, and no more is expected
	if got := m.s.Busy(); got.Queued != 0 || got.RetryAfter != max(want, time.Second) {
		t.Errorf("beside a reply that is longer than expected: %+v", got)
	}
	if got := m.s.backlog(); got != m.s.Cost.Each() {
		t.Errorf("a reply that is longer than expected takes %v more, want one token", got)
	}
}

// Requests come in the order of their priority, of the service that their flows have had, of their length less the time
// they waited, and of their arrival.
func TestOrder(t *testing.T) {
	s := New(Config{Running: 1, Batch: 512, Queue: 100, Memory: simMemory{}})
	s.Cost.Observe(Shape{Tokens: 512, Rows: 1}, 512*time.Millisecond)
	for _, r := range []Request{
		{ID: 1, Prompt: 30}, {ID: 2, Prompt: 20}, {ID: 3, Prompt: 20}, {ID: 4, Prompt: 500, Priority: 1}, {ID: 5, Prompt: 600, Priority: 1},
		{ID: 6, Prompt: 10, Priority: -1},
	} {
		r.MaxTokens = 1
		if _, err := s.Add(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Add(Request{ID: 7, Prompt: 15, MaxTokens: 1}, 20*time.Millisecond); err != nil { // 20 ms later than 2 and 3
		t.Fatal(err)
	}
	var order []uint64
	for range 7 {
		a := s.Admit(30*time.Millisecond, 1000, func(uint64) Prefix { return Prefix{} })
		if len(a.Admitted) != 1 {
			t.Fatalf("%v are admitted", a.Admitted)
		}
		order = append(order, a.Admitted[0])
		s.Remove(a.Admitted[0])
	}
	if want := []uint64{4, 5, 2, 3, 1, 7, 6}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}
