package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sched"
)

// Under pressure memory is taken in its order: room for pages of mapped weights, streamed weights, cached prefixes, what
// idle models keep, weights of unused models; of each no more than is still wanted, and all that is given is told.
func TestOrderOfGivingBack(t *testing.T) {
	b := mem.NewBudget(1<<30, "a test")
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: b})
	mapped := open(t, tiny, Config{Device: d, Ctx: 128, Residency: model.Mapped})
	streamed := open(t, testdata.Path(t, "archs/llama.gguf"), Config{Device: d, Ctx: 128, Residency: model.Streamed})
	l := openLoop(t, tiny, Config{Device: d, Sequences: 2, Ctx: 128, Residency: model.Packed, KVBytes: 20 * uint64(mapped.kv.Layout()[0].Bytes)}, LoopConfig{})
	for i := range 4 {
		_, c := submit(t, l, greedyRequest(randomIDs(l.e, uint64(i), 100), 2))
		c.wait(t)
	}
	hot := mapped.hot.Bytes()
	st, _ := streamed.Model().Stream()
	one := least(l.e.kv.Layout(), l.e.ctx)
	pool := l.e.kv.Limit() - one
	if hot == 0 || st.Limit == 0 || pool == 0 || d.mapped() != true {
		t.Fatalf("%d bytes of pages, %d of streamed weights, %d of prefixes: nothing to give", hot, st.Limit, pool)
	}
	var asked []uint64
	d.Shed(func(n uint64) uint64 { asked = append(asked, n); return n / 2 })
	if freed, steps := d.giveBack(0); freed != 0 || steps != "" || len(asked) != 0 {
		t.Errorf("nothing was wanted: %d bytes, %q", freed, steps)
	}
	if freed, steps := d.giveBack(hot / 2); freed != hot/2 || mapped.hot.Bytes() != hot-hot/2 ||
		steps != fmt.Sprintf(", %s of room for pages of weights", mem.FormatBytes(hot/2)) {
		t.Errorf("half of the pages: %d bytes, %q; %d of %d are left", freed, steps, mapped.hot.Bytes(), hot)
	}
	hot = mapped.hot.Bytes()
	freed, steps := d.giveBack(hot + 1)
	now, _ := streamed.Model().Stream()
	if freed < hot+1 || mapped.hot.Bytes() != 0 || freed != hot+st.Limit-now.Limit || !strings.Contains(steps, "of streamed weights") ||
		strings.Contains(steps, "prefixes") {
		t.Errorf("a byte more than the pages: %d bytes, %q; streamed weights have %d of %d", freed, steps, now.Limit, st.Limit)
	}
	weights := now.Limit
	freed, steps = d.giveBack(1 << 40)
	now, _ = streamed.Model().Stream()
	want := weights - now.Limit + pool + one
	if now.Limit >= weights || l.e.kv.Limit() != 0 || len(asked) != 1 || asked[0] != 1<<40-want || freed != want+asked[0]/2 {
		t.Errorf("all: %d bytes, %q, want %d and half of %v", freed, steps, want, asked)
	}
	for _, what := range []string{"streamed weights", "cached prefixes", "of idle models", "weights of idle models"} {
		if !strings.Contains(steps, what) {
			t.Errorf("%q, want %q in it", steps, what)
		}
	}
	// When memory is free again, streamed weights grow back, except into what is to be spare.
	for _, keep := range []uint64{1 << 40, b.Free() - 1<<16, 0} {
		was, free := now.Limit, b.Free()
		d.regrowStreams(keep)
		now, _ = streamed.Model().Stream()
		if want := min(was+free-min(free, keep), streamed.streamed); now.Limit != want {
			t.Errorf("with %d bytes free and %d spare streamed weights may have %d, want %d", free, keep, now.Limit, want)
		}
	}
	if freed, _ := d.giveBack(1000); freed < 1000 {
		t.Errorf("%d bytes of 1000 were given back again", freed)
	}
}

// What is given to a load is first what nothing holds, then prefixes, then what idle models keep, and no more than that.
func TestGiveIsSpareFirst(t *testing.T) {
	f := follow(t, 16, Config{Sequences: 2, Ctx: 128})
	_, c := submit(t, f.Loop, greedyRequest(randomIDs(f.e, 3, 100), 10))
	c.wait(t)
	kv := f.e.kv
	block := uint64(kv.Layout()[0].Bytes)
	used, one := kv.Used(), least(kv.Layout(), f.e.ctx)
	keep := max(one, used)
	spare := kv.Limit() - keep
	for _, n := range []uint64{block, spare - block} {
		was := kv.Limit()
		if got := f.device.Give(n); got != n || kv.Limit() != was-n || kv.Used() != used {
			t.Errorf("%d bytes were given of %d, %d of the pool are used, %d before", got, n, kv.Used(), used)
		}
	}
	if kv.Limit() != keep {
		t.Fatalf("the pool has %d bytes, want %d", kv.Limit(), keep)
	}
	if got := f.device.Give(block); got != block || kv.Limit() != keep-block {
		t.Errorf("%d bytes of what is kept were given, want %d; the pool has %d", got, block, kv.Limit())
	}
	if got := f.device.Give(1 << 40); got != keep-block || kv.Limit() != 0 {
		t.Errorf("%d bytes were given of %d, the pool has %d", got, keep-block, kv.Limit())
	}
	if f.device.Give(1) != 0 {
		t.Error("a byte of nothing was given")
	}
}

// A pool grows back by what is free, up to its size; by as much as one request of a full context needs if there is less
// than that, and all that is free is enough.
func TestRegrow(t *testing.T) {
	f := follow(t, 16, Config{Sequences: 2, Ctx: 128})
	kv := f.e.kv
	one, most, block := f.e.oneContext(), kv.Most(), uint64(kv.Layout()[0].Bytes)
	for name, c := range map[string]struct{ has, n, all, want uint64 }{
		"nothing is free":        {one, 0, 0, one},
		"a block":                {one, block, 1 << 40, one + block},
		"more than there was":    {one, 1 << 40, 1 << 40, most},
		"as much as there was":   {most, 1 << 40, 1 << 40, most},
		"too little for one":     {0, 0, one - block, one - block},
		"just enough for one":    {block, 0, 1 << 40, one},
		"more than one context":  {block, one + block, 1 << 40, one + 2*block},
		"all but a block of one": {one - block, 0, 0, one - block},
	} {
		f.mu.Lock()
		err := kv.Resize(c.has)
		f.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if f.regrow(c.n, c.all); kv.Limit() != c.want {
			t.Errorf("%s: the pool has %d bytes, want %d", name, kv.Limit(), c.want)
		}
	}
	if err := f.Sleep(); err != nil {
		t.Fatal(err)
	}
	if f.regrow(1<<40, 1<<40); kv.Limit() != 0 {
		t.Errorf("a pool of a loop that sleeps has %d bytes", kv.Limit())
	}
	if got := f.device.Give(1 << 40); got != 0 {
		t.Errorf("%d bytes of a loop that sleeps were given", got)
	}
}

// A limit is told where another one rules, or it has changed by more than an eighth; not what others leave available.
func TestTellingLimits(t *testing.T) {
	for _, c := range []struct {
		was, now uint64
		whose    string
		want     bool
	}{
		{8000, 7000, "a test", false}, {8000, 6999, "a test", true}, {7000, 8000, "a test", false}, {6999, 8000, "a test", true},
		{8000, 8000, "a test", false}, {8000, 8000, "another", true}, {8000, 7900, "another", true}, {8000, 16000, "a test", true},
	} {
		d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(c.was<<20, "a test")})
		lines := d.Adjust(Reading{Limit: c.now << 20, Reason: c.whose})
		if told := len(lines) > 0; told != c.want || told && !strings.Contains(lines[0], "the memory limit is") {
			t.Errorf("%+v: %q", c, lines)
		}
	}
}

// Stalls from a tenth on are pressure, from a fifth on of all tasks critical; it ends some readings after them. Where
// weights are read from the file tasks wait in any case.
func TestStalls(t *testing.T) {
	budget := func() *mem.Budget { return mem.NewBudget(1<<30, "a test") }
	plain, mapped := deviceOf(t, DeviceConfig{Threads: 1, Budget: budget()}), deviceOf(t, DeviceConfig{Threads: 1, Budget: budget()})
	open(t, tiny, Config{Device: mapped, Ctx: 128, Residency: model.Mapped})
	for _, c := range []struct {
		some, full float64
		want       Pressure
	}{{0, 0, Calm}, {0.09, 0, Calm}, {0.1, 0, Tight}, {0.5, 0.19, Tight}, {0.5, 0.2, Critical}, {0.3, 0, Tight}} {
		r := Reading{Limit: 1 << 30, Reason: "a test", Some: c.some, Full: c.full}
		was := plain.Pressure()
		lines, says := plain.Adjust(r), fmt.Sprintf("%.0f %% of the time", 100*c.some)
		if plain.Pressure() != c.want || c.want != was && !strings.Contains(strings.Join(lines, ""), says) {
			t.Errorf("%+v: pressure %v, %q", c, plain.Pressure(), lines)
		}
		if mapped.Adjust(r); mapped.Pressure() != Calm {
			t.Errorf("%+v, with mapped weights: pressure %v", c, mapped.Pressure())
		}
	}
	for n := 1; n <= calmReadings; n++ {
		lines := plain.Adjust(Reading{Limit: 1 << 30, Reason: "a test"})
		if over := n == calmReadings; (plain.Pressure() == Calm) != over || (len(lines) > 0) != over {
			t.Errorf("reading %d without stalls: pressure %v, %q", n, plain.Pressure(), lines)
		}
	}
}

// A device knows what its loops need, of all but the one that asks, and forgets those that need nothing or have ended.
func TestLoadsBeside(t *testing.T) {
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: testBudget()})
	a, b := &Loop{}, &Loop{}
	one, two := sched.Load{Streams: time.Second, Target: time.Minute}, sched.Load{Streams: time.Minute, Target: time.Second}
	d.begin(a)
	d.begin(b)
	d.load(a, one)
	d.load(b, two)
	if d.beside(a) != two || d.beside(b) != one || d.beside(nil) != one.Plus(two) && d.beside(nil) != two.Plus(one) {
		t.Errorf("beside: %+v, %+v", d.beside(a), d.beside(b))
	}
	if d.load(a, sched.Load{}); len(d.loads) != 1 || d.beside(b) != (sched.Load{}) {
		t.Errorf("%d loops need something", len(d.loads))
	}
	if d.end(b); len(d.loads) != 0 || !slices.Equal(d.running(), []*Loop{a}) {
		t.Errorf("%d loops need something, %d run", len(d.loads), len(d.running()))
	}
}

// What is not said of a device is what the machine has: threads by the places for them, or by the cores.
func TestFillDevice(t *testing.T) {
	b := testBudget()
	own := DeviceConfig{Threads: 3, Budget: b, Place: machine.Placement{CPUs: []int{0, 1}}}
	placed := DeviceConfig{Budget: b, Place: machine.Placement{CPUs: []int{4, 5}}}
	bare, counted := DeviceConfig{Budget: b}, DeviceConfig{Threads: 1}
	m, err := machine.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*DeviceConfig{&own, &placed, &bare, &counted} {
		if err := c.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	if own.Threads != 3 || own.Budget != b || placed.Threads != 2 || bare.Threads != m.Threads() || bare.Budget != b {
		t.Errorf("%+v, %+v, %+v", own, placed, bare)
	}
	if counted.Threads != 1 || counted.Budget == nil {
		t.Fatalf("%+v", counted)
	}
	limit, _ := Limit(m, 0)
	if got, _ := counted.Budget.Limit(); got < limit/2 || got > 2*limit { // what is available varies
		t.Errorf("a limit of %d bytes, want some %d", got, limit)
	}
	for user, want := range map[uint64]string{0: "", 1: "--memory", limit / 2: "--memory", 1 << 62: ""} {
		n, reason := Limit(m, user)
		if own := reason == "--memory"; own != (want != "") || own && n != user {
			t.Errorf("the user allows %d: %d, by %s", user, n, reason)
		}
	}
}

// Who yields gives the turn to those who wait, and takes no time where nobody does; who steps aside has the turn again
// afterwards.
func TestYield(t *testing.T) {
	d := &Device{}
	d.turn.take()
	if took := d.yield(); took != 0 || !d.turn.taken {
		t.Errorf("nobody waits: %v", took)
	}
	done := make(chan bool)
	go func() {
		d.turn.take()
		time.Sleep(time.Millisecond)
		d.turn.give()
		done <- true
	}()
	for !d.turn.awaited() {
		time.Sleep(time.Millisecond)
	}
	if took := d.yield(); took < time.Millisecond || !d.turn.taken || d.turn.awaited() {
		t.Errorf("one waits: it took %v", took)
	}
	<-done
	had := false
	d.aside(func() {
		had = !d.turn.taken
	})
	if !had || !d.turn.taken {
		t.Errorf("beside the turn: it was free %v, and is taken again %v", had, d.turn.taken)
	}
}

// Shares of the time are of what has passed since the last reading: an alarm rings from a tenth on, once.
func TestSharesOfAReading(t *testing.T) {
	f := follow(t, 12, Config{Sequences: 2, Ctx: 128})
	stat := func(periods, throttled, steal int) []string {
		f.set("sys/fs/cgroup/app/cpu.stat", fmt.Sprintf("nr_periods %d\nnr_throttled %d\nthrottled_usec 5\n", periods, throttled))
		f.set("proc/stat", fmt.Sprintf("cpu 1 2 3 4 5 6 7 %d 9 10\n", steal))
		return f.after()
	}
	stat(0, 0, 0)
	var shares [3]int
	for i, c := range []struct {
		periods, throttled, steal int // more than at the last reading
		want                      string
	}{
		{100, 9, 29, ""}, {100, 10, 0, "10 % of its periods"}, {100, 100, 0, ""}, {100, 5, 31, "10 % of the CPU time"}, {100, 100, 100, ""},
		{100, 4, 14, ""}, {100, 50, 0, "50 % of its periods"}, {0, 0, 150, "50 % of the CPU time"}, {0, 0, 0, ""},
	} {
		shares[0], shares[1], shares[2] = shares[0]+c.periods, shares[1]+c.throttled, shares[2]+c.steal
		lines := stat(shares[0], shares[1], shares[2])
		if c.want == "" && len(lines) > 0 || c.want != "" && (len(lines) != 1 || !strings.Contains(lines[0], c.want)) {
			t.Errorf("reading %d: %q, want %q", i, lines, c.want)
		}
	}
}
