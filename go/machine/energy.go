package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/quern-llm/quern/go/platform"
)

// Energy is what processors and their memory have used, in joules.
type Energy struct {
	Package float64 // cores, caches and all else of the sockets
	DRAM    float64 // of machines that count it; not part of Package
}

// Sum returns both.
func (e Energy) Sum() float64 { return e.Package + e.DRAM }

// An EnergyMeter adds up what this machine uses, of all processes, by the counters of /sys/class/powercap (RAPL, of Intel's
// and AMD's processors).
type EnergyMeter struct {
	t     tree
	mu    sync.Mutex
	zones []energyZone
	used  Energy
}

// An energyZone is a counter.
type energyZone struct {
	file  string
	dram  bool
	last  uint64 // microjoules
	after uint64 // where it begins again, or 0 if that is unknown
}

const powercap = "sys/class/powercap"

// NewEnergyMeter begins to count. An error says what is missing.
func NewEnergyMeter() (*EnergyMeter, error) { return newEnergyMeter(platform.Root()) }

// EnergyMeter begins to count, as NewEnergyMeter does, on the machine that m is a snapshot of.
func (m *Machine) EnergyMeter() (*EnergyMeter, error) { return newEnergyMeter(m.root.root) }

func newEnergyMeter(root fs.FS) (*EnergyMeter, error) {
	if root == nil {
		return nil, errors.New(platform.Name + " has no counters of energy for programs")
	}
	e := &EnergyMeter{t: tree{root}}
	names, err := fs.Glob(root, powercap+"/*/name")
	if err != nil || len(names) == 0 {
		return nil, errors.New("no counters of energy in /" + powercap)
	}
	for _, name := range names {
		dir := path.Dir(name)
		kind := e.t.text(name)
		// Cores and graphics are parts of the package, which is one of the platform (psys). Through memory-mapped registers
		// (mmio) the package is counted once more.
		if !strings.HasPrefix(kind, "package") && kind != "dram" || strings.HasPrefix(path.Base(dir), "intel-rapl-mmio") {
			continue
		}
		z := energyZone{file: path.Join(dir, "energy_uj"), dram: kind == "dram"}
		z.after, _ = e.t.uint(path.Join(dir, "max_energy_range_uj"))
		if z.last, err = e.count(z); err != nil {
			return nil, err
		}
		e.zones = append(e.zones, z)
	}
	if len(e.zones) == 0 {
		return nil, errors.New("no package among the counters of /" + powercap)
	}
	return e, nil
}

func (e *EnergyMeter) count(z energyZone) (uint64, error) {
	b, err := fs.ReadFile(e.t.root, z.file)
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("/%s may be read by root alone, or by whom root lets", z.file)
	}
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // the path is said already
		}
		return 0, fmt.Errorf("/%s: %w", z.file, err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/%s is not a number", z.file)
	}
	return n, nil
}

// Read returns what was used since the meter was made. Counters begin again after a while, at full load after some minutes
// on large machines: what was used is counted only if they are read once in that time.
func (e *EnergyMeter) Read() (Energy, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.zones {
		z := &e.zones[i]
		now, err := e.count(*z)
		if err != nil {
			return e.used, err
		}
		used := now - z.last
		if now < z.last {
			used = 0 // where it begins again is not known
			if z.last <= z.after {
				used = z.after - z.last + now
			}
		}
		z.last = now
		if z.dram {
			e.used.DRAM += 1e-6 * float64(used)
		} else {
			e.used.Package += 1e-6 * float64(used)
		}
	}
	return e.used, nil
}
