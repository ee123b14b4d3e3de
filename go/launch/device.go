package launch

import (
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// DeviceSettings say which part of the machine models have. The zero value is all that the process may use.
type DeviceSettings struct {
	Threads int   // 0: as many as are of use
	CPUs    []int // that threads may run on; nil: all
	Pinning machine.Pinning
	NUMA    machine.NUMA
	Nodes   int    // NUMA nodes to pretend that there are; 0: the real ones
	Memory  uint64 // maximum bytes; 0: what is free
}

// Machine returns the machine, restricted to the CPUs.
func (s DeviceSettings) Machine() (*machine.Machine, error) {
	m, err := machine.Read()
	if err != nil {
		return nil, err
	}
	if s.CPUs != nil {
		if err := m.Restrict(s.CPUs); err != nil {
			return nil, usage.Errorf("--cpu-mask, --cpu-range: %w", err)
		}
	}
	return m, s.Place(m)
}

// Place tells the machine where threads are to run.
func (s DeviceSettings) Place(m *machine.Machine) error {
	m.Pinning, m.NUMA, m.Virtual = s.Pinning, s.NUMA, s.Nodes
	if s.NUMA != machine.NUMAIsolate {
		return nil
	}
	if err := m.Isolate(); err != nil {
		return usage.Errorf("--numa isolate: %w", err)
	}
	return nil
}

// Config returns the configuration of the device.
func (s DeviceSettings) Config() (engine.DeviceConfig, error) {
	m, err := s.Machine()
	if err != nil {
		return engine.DeviceConfig{}, err
	}
	c := engine.DeviceConfig{Threads: s.Threads, Budget: mem.NewBudget(engine.Limit(m, s.Memory))}
	if c.Threads == 0 {
		c.Threads = m.Threads()
	}
	if c.Place = m.Place(c.Threads); s.CPUs != nil && m.WorkerCPUs(c.Threads) == nil {
		return engine.DeviceConfig{}, usage.Errorf("--threads %d: --cpu-mask and --cpu-range name fewer CPUs that this process "+
			"may use; give fewer threads or more CPUs", c.Threads)
	}
	return c, nil
}

// Open returns the device. What the program itself takes, with the tokenizers that were read, counts from here
// on.
func (s DeviceSettings) Open() (*engine.Device, error) {
	c, err := s.Config()
	if err != nil {
		return nil, err
	}
	d, err := engine.NewDevice(c)
	if err != nil {
		return nil, err
	}
	if err := d.CountProgram(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}
