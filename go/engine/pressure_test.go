package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// A resizable is a machine with one control group, whose limits a test changes.
type resizable struct{ root fstest.MapFS }

func newResizable(bytes uint64, quota string) *resizable {
	r := &resizable{fstest.MapFS{}}
	r.set("proc/cpuinfo", "processor: 0\ncore id: 0\n\nprocessor: 1\ncore id: 1\n\nprocessor: 2\ncore id: 2\n")
	r.set("proc/self/cgroup", "0::/app\n")
	r.set("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	r.limit(bytes)
	r.set("sys/fs/cgroup/app/cpu.max", quota)
	return r
}

func (r *resizable) set(file, text string) { r.root[file] = &fstest.MapFile{Data: []byte(text)} }

func (r *resizable) limit(bytes uint64) { r.set("sys/fs/cgroup/app/memory.max", fmt.Sprintln(bytes)) }

func (r *resizable) machine(t *testing.T) *machine.Machine {
	t.Helper()
	m, err := machine.ReadFS(r.root, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A followed is a loop on a device that follows a resizable machine, reading by reading.
type followed struct {
	*Loop
	*resizable
	watcher
	lines []string
	clock time.Time
}

// follow makes a loop with a KV pool of some blocks, on a device with as much memory as it takes.
func follow(t *testing.T, blocks int, c Config) *followed {
	t.Helper()
	probe := open(t, tiny, Config{})
	f := &followed{resizable: newResizable(1<<30, "200000 100000"), clock: time.Now()}
	m := f.machine(t)
	d := deviceOf(t, DeviceConfig{Threads: m.Threads(), Budget: mem.NewBudget(Limit(m, 0))})
	c.Device, c.KVBytes = d, uint64(blocks)*uint64(probe.kv.Layout()[0].Bytes)
	f.Loop = openLoop(t, tiny, c, LoopConfig{Queue: 20})
	f.watcher = watcher{
		WatchConfig: WatchConfig{Machine: m, Threads: true, Log: func(line string) { f.lines = append(f.lines, line) }},
		device:      d, at: f.clock,
	}
	return f
}

// after takes a reading one second after the last, and returns the lines that it logged.
func (f *followed) after() []string {
	f.lines = nil
	f.clock = f.clock.Add(time.Second)
	f.watcher.read(f.clock)
	return f.lines
}

// quiet reports whether nothing waits to be run between two passes.
func (f *followed) quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls) == 0
}

// short makes the limit what is taken, less so many bytes.
func (f *followed) short(bytes uint64) { f.limit(f.device.budget.Used() - bytes) }

// stays checks that the budget is kept, and the pool's reservation is its limit.
func (f *followed) stays(t *testing.T, want Pressure) {
	t.Helper()
	if over := f.device.budget.Over(); over > 0 || f.device.Pressure() != want {
		t.Errorf("%d bytes over the limit, pressure %v, want %v; %q", over, f.device.Pressure(), want, f.lines)
	}
	if kv := f.e.kv; f.device.budget.ByPurpose()["keys and values"] != kv.Limit() {
		t.Errorf("the pool has %d bytes, and %v are reserved", kv.Limit(), f.device.budget.ByPurpose())
	}
}

// What the neighbours of a process take comes and goes: as long as there is enough, it is no news.
func TestWhatNeighboursTakeIsNotLogged(t *testing.T) {
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(8<<30, machine.Available)})
	for _, limit := range []uint64{4 << 30, 9 << 30} {
		if lines := d.Adjust(Reading{Limit: limit, Reason: machine.Available}); len(lines) > 0 {
			t.Errorf("logged %q", lines)
		}
	}
	for _, limit := range []uint64{4 << 30, 9 << 30} {
		if lines := d.Adjust(Reading{Limit: limit, Reason: "cgroup memory.max"}); len(lines) != 1 {
			t.Errorf("logged %q of a limit that somebody set", lines)
		}
	}
}

// A shrunk limit takes unused memory and cached prefixes first, and what runs goes on.
func TestShrinkGivesPrefixesBack(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 128})
	for i := range 5 {
		_, c := submit(t, f.Loop, greedyRequest(randomIDs(f.e, uint64(i), 100), 2))
		c.wait(t)
	}
	most := f.e.kv.Limit()
	if f.Status().KV.Cached == 0 {
		t.Fatal("nothing is cached")
	}
	f.short(most / 2)
	if lines := f.after(); len(lines) != 2 || !strings.Contains(lines[0], "the memory limit is") || !strings.Contains(lines[1], "of cached prefixes") {
		t.Errorf("logged %q", lines)
	}
	f.stays(t, Tight)
	if f.e.kv.Limit() > most/2 || f.e.kv.Limit() < least(f.e.kv.Layout(), f.e.ctx) {
		t.Errorf("the pool has %d bytes of %d", f.e.kv.Limit(), most)
	}
	want := greedy(t, open(t, tiny, Config{}), randomIDs(f.e, 77, 60), 40)
	_, c := submit(t, f.Loop, greedyRequest(randomIDs(f.e, 77, 60), 40))
	if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, want) {
		t.Errorf("a request under pressure: %v, %v, want %v", r.Err, c.ids, want)
	}
	f.limit(1 << 30)
	for range calmReadings {
		f.after()
	}
	f.stays(t, Calm)
	if f.e.kv.Limit() != most {
		t.Errorf("the pool has %d bytes again, want %d", f.e.kv.Limit(), most)
	}
	checkBlocks(t, f.Loop)
}

// An idle model gives back all; a request gets what it needs again, or is refused with 503's error.
func TestShrinkEmptiesIdleModels(t *testing.T) {
	f := follow(t, 6, Config{Sequences: 2, Ctx: 128})
	f.short(f.e.kv.Limit() - 10) // all but some bytes
	f.after()
	if f.e.kv.Limit() != 0 {
		t.Errorf("the pool has %d bytes", f.e.kv.Limit())
	}
	f.stays(t, Tight)
	refused := func(what string) {
		t.Helper()
		var short *MemoryError
		if _, err := f.Submit(greedyRequest([]int32{1, 2, 3}, 5)); !errors.As(err, &short) || short.RetryAfter <= 0 || !strings.Contains(err.Error(), "cgroup memory.max") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no memory for a prompt")
	f.short(100) // nothing is left to give
	if lines := f.after(); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "new requests are refused") {
		t.Errorf("logged %q", lines)
	}
	if f.device.Pressure() != Critical {
		t.Errorf("pressure %v", f.device.Pressure())
	}
	refused("under critical pressure")
	if lines := f.after(); len(lines) != 0 {
		t.Errorf("said again: %q", lines)
	}
	f.limit(1 << 30)
	f.after()
	refused("a reading later")
	for range calmReadings {
		f.after()
	}
	_, c := submit(t, f.Loop, greedyRequest([]int32{1, 2, 3}, 5))
	if r := c.wait(t); r.Err != nil {
		t.Errorf("when memory is there again: %v", r.Err)
	}
	f.stays(t, Calm)
	checkBlocks(t, f.Loop)
}

// Background requests lose their memory to the limit, others do not; both end with the text that they have alone.
func TestShrinkParksBackground(t *testing.T) {
	f := follow(t, 10, Config{Sequences: 2, Ctx: 192})
	alone := open(t, tiny, Config{Ctx: 192})
	texts := [2][]int32{randomIDs(f.e, 1, 100), randomIDs(f.e, 2, 100)}
	var catchers [2]*catcher
	submitted, running := make(chan struct{}), make(chan struct{})
	var started atomic.Int32
	var adjusted atomic.Bool
	for i, ids := range texts {
		r := greedyRequest(ids, 60)
		r.Priority = -i
		r.Sink.(*catcher).on = func(n int) {
			if n == 1 {
				<-submitted // the loop waits here, so that neither ends before the other begins
				if started.Add(1) == 2 {
					close(running)
				}
			}
			for started.Load() == 2 && !adjusted.Load() && f.quiet() { // so that both run until then
				time.Sleep(100 * time.Microsecond)
			}
		}
		_, catchers[i] = submit(t, f.Loop, r)
	}
	close(submitted)
	<-running
	f.short(f.e.kv.Limit() - least(f.e.kv.Layout(), f.e.ctx))
	f.after()
	adjusted.Store(true)
	f.stays(t, Tight)
	for i, c := range catchers {
		if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, greedy(t, alone, texts[i], 60)) {
			t.Errorf("request %d: %v, %d tokens", i, r.Err, len(c.ids))
		}
	}
	if n := f.Status().Counts.Preemptions; n == 0 {
		t.Error("nothing was preempted")
	}
	checkBlocks(t, f.Loop)
}

// What no longer fits when memory is calm again is ended, and does not wait for ever.
func TestShrinkEndsWhatCannotRun(t *testing.T) {
	f := follow(t, 10, Config{Sequences: 2, Ctx: 256})
	r := greedyRequest(randomIDs(f.e, 1, 60), 190)
	r.Priority = -1
	var adjusted atomic.Bool
	running := make(chan struct{})
	r.Sink.(*catcher).on = func(n int) {
		if n == 2 {
			close(running)
		}
		for n > 2 && !adjusted.Load() && f.quiet() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	_, c := submit(t, f.Loop, r)
	<-running
	f.short(f.e.kv.Limit() * 19 / 20)
	f.after()
	adjusted.Store(true)
	for range 2 * calmReadings {
		f.after()
	}
	var short *MemoryError
	if r := c.wait(t); !errors.As(r.Err, &short) {
		t.Errorf("it ended with %v", r.Err)
	}
	f.stays(t, Calm)
}

// The number of threads follows the quota while requests run, and changes no bit.
func TestThreadsFollowTheQuota(t *testing.T) {
	f := follow(t, 8, Config{Sequences: 1, Ctx: 256})
	prompt := randomIDs(f.e, 5, 90)
	want := greedy(t, open(t, tiny, Config{}), prompt, 120)
	_, c := submit(t, f.Loop, greedyRequest(prompt, 120))
	for i, quota := range []string{"350000 100000", "99000 100000", "max 100000", "100000 100000", "200000 100000"} {
		f.set("sys/fs/cgroup/app/cpu.max", quota)
		lines := f.after()
		if n := []int{3, 1, 3, 1, 2}[i]; f.device.Threads() != n || len(lines) != 1 || !strings.Contains(lines[0], fmt.Sprintf("threads: %d,", n)) {
			t.Errorf("with a quota of %s: %d threads, want %d; %q", quota, f.device.Threads(), n, lines)
		}
		why := []string{"the CPU quota is 3.50 CPUs now, by /", "0.99 CPUs now, by /", "3 cores may be used now", "1.00 CPUs", "2.00 CPUs"}[i]
		if !strings.Contains(lines[0], why) {
			t.Errorf("with a quota of %s: %q, want %q in it", quota, lines, why)
		}
	}
	if r := c.wait(t); r.Err != nil || !slices.Equal(c.ids, want) {
		t.Errorf("%v, %v, want %v", r.Err, c.ids, want)
	}
}

// Stalls, throttling and steal are logged once, and not again before they were gone.
func TestWatchPressure(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 128})
	stat := func(n int) {
		f.set("sys/fs/cgroup/app/cpu.stat", fmt.Sprintf("nr_periods %d\nnr_throttled %d\nthrottled_usec 5\n", 10*n, 5*n))
		f.set("proc/stat", fmt.Sprintf("cpu 1 2 3 4 5 6 7 %d 9 10\n", 100*n))
		f.set("sys/fs/cgroup/app/memory.pressure", fmt.Sprintf("some total=%d\nfull total=%d\n", 400000*n, 300000*n))
	}
	most := f.e.kv.Limit()
	stat(1)
	lines := strings.Join(f.after(), "\n")
	for _, want := range []string{"the CPU quota ran out in 50 %", "the host gave 33 %", "tasks waited for memory 40 %"} {
		if !strings.Contains(lines, want) {
			t.Errorf("logged %q, want %q in it", lines, want)
		}
	}
	if f.device.Pressure() != Critical || f.e.kv.Limit() >= most {
		t.Errorf("pressure %v, a pool of %d bytes", f.device.Pressure(), f.e.kv.Limit())
	}
	for n := range 6 {
		stat(n + 2)
		if lines := f.after(); n > 2 && len(lines) > 0 {
			t.Errorf("reading %d: logged again: %q", n, lines)
		}
	}
	for range calmReadings {
		f.after()
	}
	if f.device.Pressure() != Calm || f.e.kv.Limit() != most {
		t.Errorf("afterwards: pressure %v, a pool of %d bytes", f.device.Pressure(), f.e.kv.Limit())
	}
}

// A system that says itself that memory is short is heeded, with all of the limit free, and as soon as it says no more it is
// calm after some readings.
func TestSystemSaysShort(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 128})
	most := f.e.kv.Limit()
	reading := Reading{Limit: 1 << 30, Reason: "a test"}
	f.device.Adjust(reading)
	for short, want := range map[platform.Short]Pressure{platform.ShortWarning: Tight, platform.ShortCritical: Critical} {
		reading.Short = short
		lines := strings.Join(f.device.Adjust(reading), "\n")
		if f.device.Pressure() != want || !strings.Contains(lines, "memory is short, as "+platform.Name+" says so") ||
			strings.Contains(lines, "refused") != (want == Critical) {
			t.Errorf("%d: pressure %v, want %v: %q", short, f.device.Pressure(), want, lines)
		}
		if f.e.kv.Limit() >= most {
			t.Errorf("%d: the pool keeps %d bytes", short, most)
		}
		reading.Short = platform.ShortNot
		for range calmReadings {
			if f.device.Pressure() != want {
				t.Errorf("%d: pressure %v before it is over", short, f.device.Pressure())
			}
			f.device.Adjust(reading)
		}
		if f.device.Pressure() != Calm || f.e.kv.Limit() != most {
			t.Errorf("%d: afterwards pressure %v, a pool of %d bytes, want %d", short, f.device.Pressure(), f.e.kv.Limit(), most)
		}
	}
}

// Watch follows by itself, until it is told to end.
func TestWatch(t *testing.T) {
	r := newResizable(1<<30, "max 100000")
	d := deviceOf(t, DeviceConfig{Threads: 3, Budget: mem.NewBudget(1<<30, "a test")})
	ctx, cancel := context.WithCancel(t.Context())
	said, done := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(done)
		d.Watch(ctx, WatchConfig{Machine: r.machine(t), Memory: 1 << 29, Every: time.Millisecond, Log: func(line string) { said <- line }})
	}()
	if line := <-said; !strings.Contains(line, "536.9 MB (--memory)") {
		t.Errorf("said %q", line)
	}
	cancel()
	<-done
}

// Room for a request is made only if there is too little, for a full context where memory is free, or else for the
// request; a refusal tells what is needed and what there is.
func TestMakeRoom(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 256})
	kv, budget := f.e.kv, f.device.budget
	need, one, block := least(kv.Layout(), 160), least(kv.Layout(), 256), uint64(kv.Layout()[0].Bytes)
	for name, c := range map[string]struct {
		has, free uint64 // before
		prompt    int
		most      int
		critical  bool
		want      uint64 // 0: refused
	}{
		"exactly enough":            {has: need, free: one, prompt: 100, most: 60, want: need},
		"more than enough":          {has: need + block, free: one, prompt: 100, most: 60, want: need + block},
		"all that there may be":     {has: kv.Most(), prompt: 100, most: 60, want: kv.Most()},
		"a block too few":           {has: need - block, free: one, prompt: 100, most: 60, want: one},
		"nothing":                   {free: one, prompt: 100, most: 60, want: one},
		"no memory for a context":   {free: one - 1, prompt: 100, most: 60, want: need},
		"just enough memory":        {has: need - block, free: block, prompt: 100, most: 60, want: need},
		"not enough memory":         {has: need - block, free: block - 1, prompt: 100, most: 60},
		"no more than the context":  {has: one, prompt: 100, most: 1 << 30, want: one},
		"under pressure":            {has: one, prompt: 100, most: 60, critical: true},
		"a text of a whole context": {has: need, free: one, prompt: 255, most: 1, want: one},
	} {
		f.mu.Lock()
		if err := kv.Resize(c.has); err != nil {
			t.Fatal(err)
		}
		limit := budget.Used() + c.free
		budget.SetLimit(limit, "a test")
		if c.critical {
			f.device.level.Store(int32(Critical))
		}
		err := f.makeRoom(sched.Request{Prompt: c.prompt, MaxTokens: c.most})
		got := kv.Limit()
		f.device.level.Store(int32(Calm))
		budget.SetLimit(1<<30, "a test")
		f.mu.Unlock()
		var short *MemoryError
		switch {
		case c.want > 0 && (err != nil || got != c.want):
			t.Errorf("%s: %v, the pool has %d bytes, want %d", name, err, got, c.want)
		case c.want == 0 && (!errors.As(err, &short) || got != c.has || short.Limit != limit || short.Reason != "a test" ||
			short.RetryAfter != RetryPressure):
			t.Errorf("%s: %v, the pool has %d bytes of %d", name, err, got, c.has)
		case c.want == 0 && !c.critical && (short.Need != need || short.Have != c.has+c.free):
			t.Errorf("%s: %v: need %d, have %d, want %d, %d", name, err, short.Need, short.Have, need, c.has+c.free)
		}
	}
}

// What a refusal says is needed is for no more than the context.
func TestMakeRoomForAContext(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 256})
	one, block := least(f.e.kv.Layout(), 256), uint64(f.e.kv.Layout()[0].Bytes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.e.kv.Resize(one - block); err != nil {
		t.Fatal(err)
	}
	f.device.budget.SetLimit(f.device.budget.Used()+block-1, "a test")
	defer f.device.budget.SetLimit(1<<30, "a test")
	var short *MemoryError
	if err := f.makeRoom(sched.Request{Prompt: 100, MaxTokens: 1 << 30}); !errors.As(err, &short) || short.Need != one || short.Have != one-1 {
		t.Errorf("%v: %+v, want %d needed and %d had", err, short, one, one-1)
	}
}

// More threads than there is memory for are told of once, and again when others are allowed, or they were allowed before.
func TestThreadsWithoutMemory(t *testing.T) {
	f := follow(t, 8, Config{Sequences: 1, Ctx: 256})
	budget := f.device.budget
	for i, c := range []struct {
		quota   string
		threads int
		says    string // empty: nothing
	}{
		{"300000 100000", 2, "2 threads stay, and 3 are allowed"}, {"300000 100000", 2, ""}, {"200000 100000", 2, ""},
		{"300000 100000", 2, "2 threads stay, and 3 are allowed"}, {"100000 100000", 1, "threads: 1, 2 before"}, {"200000 100000", 2, "threads: 2, 1 before"},
		{"200000 100000", 2, ""}, {"300000 100000", 2, "2 threads stay, and 3 are allowed"},
	} {
		f.set("sys/fs/cgroup/app/cpu.max", c.quota)
		f.lines, f.Machine = nil, f.Machine.Again()
		budget.SetLimit(budget.Used(), "a test")
		f.follow()
		budget.SetLimit(1<<30, "a test")
		if f.device.Threads() != c.threads || len(f.lines) > 1 || len(f.lines) == 1 != (c.says != "") || c.says != "" && !strings.Contains(f.lines[0], c.says) {
			t.Errorf("step %d, with a quota of %s: %d threads, %q, want %d, %q", i, c.quota, f.device.Threads(), f.lines, c.threads, c.says)
		}
	}
}

// Refusals say in words what they have in numbers.
func TestWordsOfRefusals(t *testing.T) {
	for want, err := range map[string]error{
		"3 requests are waiting, try again in 1 s":                                      &BusyError{Queued: 3},
		"3 requests are waiting, try again in 2 s":                                      &BusyError{Queued: 3, RetryAfter: 2 * time.Second},
		"the prompt has 9 tokens and the context is 8, want at least one less":          &TooLongError{Prompt: 9, Ctx: 8},
		"the prompt has at least 9 tokens and the context is 8, want at least one less": &TooLongError{Prompt: 9, Ctx: 8, Least: true},
		"memory is short: the request needs 2 B for keys and values, and 1 B can be had of a limit of 5 B (a test); send a shorter one, or try again in 5 s": &MemoryError{
			Limit: 5, Reason: "a test", RetryAfter: RetryPressure, Need: 2, Have: 1, What: "keys and values"},
		"memory is short: 5 B are all there is (a test), and requests that run have it; try again in 5 s": &MemoryError{
			Limit: 5, Reason: "a test", RetryAfter: RetryPressure},
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
