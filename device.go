package quern

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/machine"
)

// A DeviceConfig says which part of the machine models have. The zero value is all that the process may use: its CPUs,
// within the quota of its container, and the memory that is free, within that container's limit.
type DeviceConfig struct {
	Threads int    // 0: as many as are of use
	CPUs    []int  // that the threads may run on; nil: all that the process may use
	Memory  uint64 // bytes, at most; 0: what is free
	// How threads, weights and keys and values are spread over NUMA nodes: "auto" (also ""), "off", "distribute", "isolate"
	// or "numactl", which mean what they do for the program's --numa.
	NUMA string
}

// A Device is threads and memory that models share: their passes take turns on the threads, and what they reserve comes
// from one budget. It is safe for concurrent use.
type Device struct {
	engine *engine.Device

	open    context.Context // until Close
	end     context.CancelCauseFunc
	closing sync.Once
	loading sync.WaitGroup // models that are being opened

	mu     sync.Mutex
	closed bool
	models map[*Model]bool // that do not own it
}

// NewDevice starts the threads. The error is [ErrInvalid].
func NewDevice(c DeviceConfig) (*Device, error) {
	if c.Threads < 0 {
		return nil, invalid("DeviceConfig.Threads is below 0; give 0 for as many as are of use")
	}
	numa, err := machine.ParseNUMA(cmp.Or(c.NUMA, machine.NUMAAuto.String()))
	if err != nil {
		return nil, invalid(fmt.Sprintf("DeviceConfig.NUMA is %q: %v", c.NUMA, err))
	}
	config, err := launch.DeviceSettings{Threads: c.Threads, CPUs: c.CPUs, NUMA: numa, Memory: c.Memory}.Config()
	if err != nil {
		return nil, classify(err, ErrInvalid)
	}
	d := &Device{models: map[*Model]bool{}}
	d.open, d.end = context.WithCancelCause(context.Background())
	if d.engine, err = engine.NewDevice(config); err != nil {
		return nil, classify(err, ErrInvalid)
	}
	return d, nil
}

// DeviceStatus is the use of a device.
type DeviceStatus struct {
	Threads int
	Models  int
	Limit   uint64            // bytes that models may reserve
	Used    uint64            // of which are reserved
	Parts   map[string]uint64 // for what
}

// Status returns the use of the device.
func (d *Device) Status() DeviceStatus {
	d.mu.Lock()
	n := len(d.models)
	d.mu.Unlock()
	b := d.engine.Budget()
	s := DeviceStatus{Threads: d.engine.Threads(), Models: n, Used: b.Used(), Parts: b.ByPurpose()}
	s.Limit, _ = b.Limit()
	return s
}

// Close closes the models of the device, ends the opening of others, and ends its threads. Closing again does nothing.
func (d *Device) Close() error {
	d.closing.Do(func() {
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		d.end(errDeviceClosed)
		d.loading.Wait()
		d.mu.Lock()
		open := slices.Collect(maps.Keys(d.models))
		d.mu.Unlock()
		for _, m := range open {
			m.Close()
		}
		d.engine.Close()
	})
	return nil
}

// load adds a model that is about to be loaded. The returned context ends with the device, which waits for loaded.
func (d *Device) load(ctx context.Context, m *Model) (_ context.Context, loaded func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, errDeviceClosed
	}
	d.models[m] = true
	d.loading.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.open, func() { cancel(context.Cause(d.open)) })
	return ctx, func() {
		stop()
		cancel(nil)
		d.loading.Done()
	}, nil
}

func (d *Device) leave(m *Model) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.models, m)
}
