package engine

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/sched"
)

// DeviceConfig selects the resources of the machine. The zero value is everything available to the process.
type DeviceConfig struct {
	Threads int // 0: as many as are available
	Place   machine.Placement
	Budget  *mem.Budget // nil: all memory available to the process
}

// Fill replaces a zero Threads and Budget by what is available.
func (c *DeviceConfig) Fill() error {
	if c.Threads == 0 {
		c.Threads = len(c.Place.CPUs)
	}
	if c.Threads != 0 && c.Budget != nil {
		return nil
	}
	m, err := machine.Read()
	if err != nil {
		return err
	}
	if c.Threads == 0 {
		c.Threads = m.Threads()
	}
	if c.Budget == nil {
		c.Budget = mem.NewBudget(Limit(m, 0))
	}
	return nil
}

// A Device is the threads and the memory budget of a machine, shared by any number of engines: they allocate
// from its budget, and their passes take turns on its threads. It is safe for concurrent use.
type Device struct {
	pool   *kernel.Pool
	budget *mem.Budget
	turn   turn
	shared *model.Shared // weights that engines have in common

	program *mem.Reservation              // what the program itself takes; nil: not counted
	gc      goHeap                        // under mu
	heap    []*heapPart                   // of it, counted apart; under mu
	level   atomic.Int32                  // Pressure
	shed    func(n uint64) (freed uint64) // releases weights of models that are not used; nil: nothing does
	calm    int                           // readings without a cause of pressure, in a row

	mu      sync.Mutex
	engines map[*Engine]struct{}
	loops   []*Loop              // in the order in which they began
	loads   map[*Loop]sched.Load // of loops that have work
	hushed  chan struct{}        // closed when there are none; nil: nobody waits for that
	place   machine.Placement
	callers map[*machine.Thread]struct{} // that have entered
}

// NewDevice starts the threads.
func NewDevice(c DeviceConfig) (*Device, error) {
	if err := c.Fill(); err != nil {
		return nil, err
	}
	d := &Device{
		pool: &kernel.Pool{}, budget: c.Budget, shared: model.NewShared(),
		engines: map[*Engine]struct{}{}, callers: map[*machine.Thread]struct{}{}, loads: map[*Loop]sched.Load{},
	}
	if err := d.start(c.Threads, c.Place); err != nil {
		return nil, err
	}
	return d, nil
}

// start replaces the threads. Those that are not pinned inherit the affinity of the caller's.
func (d *Device) start(threads int, place machine.Placement) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	caller := machine.ThisThread()
	caller.KeepOn(place.Among)
	defer caller.KeepOn(nil)
	at, err := Threads(place, threads)
	if err != nil {
		return err
	}
	if err := d.pool.Resize(threads, at); err != nil {
		return err
	}
	d.place = place
	return nil
}

// Compile-time check: what is placed fits the pool.
var (
	_ [kernel.MaxPlaces]struct{}  = [machine.MaxPlaces]struct{}{}
	_ [kernel.MaxThreads]struct{} = [machine.MaxThreads]struct{}{}
)

// Threads returns where n threads of a pool run.
func Threads(place machine.Placement, n int) ([]kernel.Thread, error) {
	all := 0
	for _, p := range place.Places {
		all += p.Threads
	}
	switch {
	case place.CPUs != nil && len(place.CPUs) < n:
		return nil, fmt.Errorf("%d CPUs for %d threads, want one for each", len(place.CPUs), n)
	case place.Places != nil && all != n:
		return nil, fmt.Errorf("places for %d threads of %d", all, n)
	case place.CPUs == nil && place.Places == nil:
		return nil, nil // those that start them are confined to place.Among
	}
	at := make([]kernel.Thread, n)
	for i := range at {
		at[i].CPUs, at[i].Place = place.Of(i)
	}
	return at, nil
}

// nodes returns the NUMA nodes that weights are divided over; nil: they are not.
func (d *Device) nodes() []int {
	if d == nil {
		return nil
	}
	return d.Placement().Nodes()
}

// Placement returns where the threads run.
func (d *Device) Placement() machine.Placement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.place
}

// Threads returns the number of threads, including the caller's.
func (d *Device) Threads() int { return d.pool.Threads() }

// SetThreads changes the number of threads and their places between two passes, which changes no result. If
// an engine has no memory for the threads' scratch, nothing changes.
func (d *Device) SetThreads(threads int, place machine.Placement) error {
	return d.inTurn(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		for e := range d.engines {
			if err := e.runner.Fit(threads); err != nil {
				return err
			}
		}
		if err := d.start(threads, place); err != nil {
			return err
		}
		for t := range d.callers {
			t.KeepOn(place.Home())
		}
		return nil
	})
}

// join adds an engine with a complete runner.
func (d *Device) join(e *Engine) error {
	return d.inTurn(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.engines[e] = struct{}{}
		return e.runner.Fit(d.pool.Threads()) // there may be more of them than when it was made
	})
}

// leave removes an engine that is about to be closed.
func (d *Device) leave(e *Engine) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.engines, e)
}

// Budget returns the budget that memory is reserved from.
func (d *Device) Budget() *mem.Budget { return d.budget }

// beside returns the load of all loops but one.
func (d *Device) beside(l *Loop) (all sched.Load) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o, load := range d.loads {
		if o != l {
			all = all.Plus(load)
		}
	}
	return all
}

// load records what a loop needs for its next pass; the zero value: nothing.
func (d *Device) load(l *Loop, load sched.Load) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if load == (sched.Load{}) {
		d.unload(l)
	} else {
		d.loads[l] = load
	}
}

// Close stops the threads. Engines on the device must be closed before. Closing again is a no-op.
func (d *Device) Close() {
	d.pool.Close()
	if d.program != nil {
		debug.SetMemoryLimit(d.gc.user)
	}
}

// enter locks the goroutine to its OS thread and puts it in its place while kernels run, because the caller is
// the pool's first thread. The returned function undoes both. Several goroutines may have entered; with
// inTurn, only one at a time uses that place.
func (d *Device) enter() (leave func()) {
	runtime.LockOSThread()
	t := machine.ThisThread()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callers[t] = struct{}{}
	t.KeepOn(d.place.Home())
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.callers, t)
		t.KeepOn(nil)
		runtime.UnlockOSThread()
	}
}

// inTurn calls f, which may run kernels, while no other caller runs any on the device.
func (d *Device) inTurn(f func() error) error {
	d.turn.take()
	defer d.turn.give()
	return f()
}

// yield gives a turn to all waiting callers before the caller's continues, and returns how long that took.
func (d *Device) yield() time.Duration {
	if !d.turn.awaited() {
		return 0
	}
	start := platform.Clock()
	d.turn.give()
	d.turn.take()
	return platform.Clock() - start
}

// aside releases the caller's turn while f runs, which must not run kernels.
func (d *Device) aside(f func()) {
	d.turn.give()
	defer d.turn.take()
	f()
}

// pack packs a part of a matrix. Other engines may take a turn between two parts.
func (d *Device) pack(dst kernel.Matrix, first int, src kernel.Matrix) error {
	return d.inTurn(func() error { return d.pool.PackInto(dst, first, src) })
}

// compute has do compute something beside kernels, with as many threads as these have. Other engines may take a turn before it.
func (d *Device) compute(do func(threads int) error) error {
	return d.inTurn(func() error { return do(d.pool.Threads()) })
}

// PackFile writes the model in f to out as a packed file, which can be mapped or streamed, until the end of ctx. progress,
// unless nil, is called with the number of bytes read so far.
func (d *Device) PackFile(ctx context.Context, out io.Writer, f *model.File, progress func(done, total uint64)) (int64, error) {
	leave := d.enter()
	defer leave()
	return model.Pack(out, f, model.Options{Pack: d.pack, Budget: d.budget, Progress: progress, Until: ctx})
}

// A turn is a fair (FIFO) lock: a goroutine that releases and reacquires it queues behind all waiting ones.
// (A sync.Mutex may be reacquired first.)
type turn struct {
	mu    sync.Mutex
	taken bool
	queue []chan struct{}
}

func (t *turn) take() {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	<-mine
}

// awaited reports whether others wait for the turn.
func (t *turn) awaited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) > 0
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.taken = false
		return
	}
	close(t.queue[0]) // stays locked: ownership passes to the next
	t.queue = t.queue[1:]
}
