package engine

import (
	"runtime"
	"sync"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// DeviceConfig says what of the machine is used. The zero value is all that it
// grants.
type DeviceConfig struct {
	Threads int         // 0: as many as the machine grants
	CPUs    []int       // one for each thread, the first for the caller's; nil: not pinned
	Budget  *mem.Budget // nil: all memory that the process can hope for
}

// Fill replaces zero values by what the machine grants. CPUs that are nil stay so.
func (c *DeviceConfig) Fill() error {
	if c.Threads == 0 {
		c.Threads = len(c.CPUs)
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
		c.Budget = mem.NewBudget(m.MemoryLimit())
	}
	return nil
}

// A Device is the threads of a machine and its memory. Any number of engines share
// one: all take their memory from its budget, and their passes take turns on its
// threads. It may be used from several goroutines.
type Device struct {
	pool   *kernel.Pool
	budget *mem.Budget
	cpu    int // of the caller's thread while it runs; -1: any
	turn   turn
}

// NewDevice starts the threads.
func NewDevice(c DeviceConfig) (*Device, error) {
	if err := c.Fill(); err != nil {
		return nil, err
	}
	pool, err := kernel.NewPool(c.Threads, c.CPUs)
	if err != nil {
		return nil, err
	}
	d := &Device{pool: pool, budget: c.Budget, cpu: -1}
	if c.CPUs != nil {
		d.cpu = c.CPUs[0]
	}
	return d, nil
}

// Threads returns the number of threads, the caller's included.
func (d *Device) Threads() int { return d.pool.Threads() }

// Budget returns what memory is taken from.
func (d *Device) Budget() *mem.Budget { return d.budget }

// Close ends the threads. Engines on it must be closed before. Closing again does
// nothing.
func (d *Device) Close() { d.pool.Close() }

// enter ties the goroutine to its thread, and that to its CPU, while kernels run:
// the pool's first thread is the caller's. What it returns undoes it. Several
// goroutines may have entered; with inTurn, one at a time keeps that CPU busy.
func (d *Device) enter() (leave func()) {
	runtime.LockOSThread()
	unpin := machine.Pin(d.cpu)
	return func() {
		unpin()
		runtime.UnlockOSThread()
	}
}

// inTurn calls f, which may run kernels, when nobody else on the device does.
func (d *Device) inTurn(f func() error) error {
	d.turn.take()
	defer d.turn.give()
	return f()
}

// pack packs a part of a matrix. Others may have a turn between two parts.
func (d *Device) pack(dst []byte, src kernel.Matrix) error {
	return d.inTurn(func() error { return d.pool.PackMat(dst, src) })
}

// A turn is a lock that is had in the order in which it was asked for: who gives it
// back and asks again comes after all who wait. (A sync.Mutex may be taken again
// first.)
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

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.taken = false
		return
	}
	close(t.queue[0]) // it stays taken
	t.queue = t.queue[1:]
}
