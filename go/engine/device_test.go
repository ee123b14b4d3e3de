package engine

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/sched"
)

func TestNewDevice(t *testing.T) {
	for want, c := range map[string]DeviceConfig{
		"threads":              {Threads: 1 << 20},
		"1 CPUs for 2 threads": {Threads: 2, Place: machine.Placement{CPUs: []int{0}}},
	} {
		if _, err := NewDevice(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A thread that runs passes is where the device's placement says, also when that changes, and nowhere else
// after it has left.
func TestPlaceOfCallers(t *testing.T) {
	affinity := func() []int { return threadCPUs(t) }
	free := affinity()
	last := free[len(free)-1:]
	d := deviceOf(t, DeviceConfig{Threads: 1, Place: machine.Placement{CPUs: last}, Budget: testBudget()})
	leave := d.enter()
	for i, step := range []struct {
		place machine.Placement
		want  []int
	}{
		{machine.Placement{CPUs: last}, last},
		{machine.Placement{}, free},
		{machine.Placement{Among: free[:1]}, free[:1]},
		{machine.Placement{CPUs: last}, last},
	} {
		if err := d.SetThreads(1, step.place); err != nil {
			t.Fatal(err)
		}
		if got := affinity(); !slices.Equal(got, step.want) {
			t.Errorf("step %d: on CPUs %v, want %v", i, got, step.want)
		}
	}
	leave()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if got := affinity(); !slices.Equal(got, free) {
		t.Errorf("after it has left: on CPUs %v, want %v", got, free)
	}
}

// Turns are had in the order in which they were asked for, also by who has just had one.
func TestTurnsAreFair(t *testing.T) {
	var turn turn
	var got []int
	var wg sync.WaitGroup
	waiting := func(n int) {
		for {
			turn.mu.Lock()
			there := len(turn.queue)
			turn.mu.Unlock()
			if there == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	turn.take()
	for i := range 3 {
		wg.Go(func() {
			turn.take()
			got = append(got, i) // the turn is its lock
			turn.give()
		})
		waiting(i + 1)
	}
	turn.give()
	turn.take()
	got = append(got, 3)
	turn.give()
	wg.Wait()
	if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("turns of %v, want %v", got, want)
	}
	if turn.taken || len(turn.queue) != 0 {
		t.Errorf("left %+v", &turn)
	}
}

func BenchmarkTurn(b *testing.B) {
	d := &Device{}
	nothing := func() error { return nil }
	for b.Loop() {
		_ = d.inTurn(nothing)
	}
}

// Engines that share a device have the logits that each has alone, whatever runs
// beside them, and their memory is of one budget.
func TestSharedDevice(t *testing.T) {
	shared := device(t, 2)
	prompt := []int32{1, 5, 9, 13, 17}
	want := greedy(t, open(t, tiny, Config{}), prompt, 40)
	var loops []*Loop
	used := uint64(0)
	for range 2 {
		loops = append(loops, openLoop(t, tiny, Config{Device: shared, Sequences: 4}, LoopConfig{}))
		if now := shared.Budget().Used(); now <= used {
			t.Errorf("%d bytes are taken, %d before", now, used)
		} else {
			used = now
		}
	}
	var wg sync.WaitGroup
	for i := range 12 {
		l := loops[i%2]
		wg.Go(func() {
			if i%4 >= 2 { // company that leaves early
				ticket, catcher := submit(t, l, greedyRequest(prompt[:2+i%3], 200))
				time.Sleep(time.Duration(i) * time.Millisecond)
				ticket.Cancel()
				catcher.wait(t)
				return
			}
			_, catcher := submit(t, l, greedyRequest(prompt, 40))
			if r := catcher.wait(t); r.Err != nil || !slices.Equal(catcher.ids, want) {
				t.Errorf("engine %d: %v, %v, want %v", i%2, catcher.ids, r.Err, want)
			}
		})
	}
	wg.Wait()
	for _, l := range loops {
		checkBlocks(t, l)
	}
	// A loop without work asks for nothing of the others' passes.
	for end := time.Now().Add(time.Minute); shared.beside(nil) != (sched.Load{}); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("loops without requests need %+v", shared.beside(nil))
		}
	}
}

// While a loop has a stream, the others on the device know.
func TestStreamsAreKnownBeside(t *testing.T) {
	shared := device(t, 1)
	a := openLoop(t, tiny, Config{Device: shared}, LoopConfig{})
	b := openLoop(t, tiny, Config{Device: shared}, LoopConfig{})
	request := greedyRequest([]int32{1, 5, 9}, 8)
	catcher := request.Sink.(*catcher)
	var told, own sched.Load
	catcher.on = func(n int) { // between two passes of the stream: the second token comes from one that was planned with it
		if n == 3 {
			told, own = shared.beside(b), shared.beside(a)
		}
	}
	submit(t, a, request)
	if r := catcher.wait(t); r.Err != nil {
		t.Fatal(r.Err)
	}
	if told.Target <= 0 || told.Streams <= 0 {
		t.Errorf("the other loop is told of %+v", told)
	}
	if own != (sched.Load{}) {
		t.Errorf("the loop itself is told of %+v", own)
	}
}
