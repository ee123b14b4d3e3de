package machine

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Pressure is time that this process's tasks lost for want of CPUs and of memory. It
// only grows.
type Pressure struct {
	Periods          uint64        // quota periods
	ThrottledPeriods uint64        // in which the quota was exhausted
	Throttled        time.Duration // time that threads were throttled, summed
	Steal            time.Duration // time that the host gave to other guests, summed over CPUs

	MemorySome time.Duration // in which a task waited for memory; of the group, else the machine
	MemoryFull time.Duration // in which all did
}

// ReadPressure reads it from the control groups, the maximum over their levels, and
// from /proc/stat and /proc/pressure. Unreadable values are 0, as are all on systems other than Linux.
func ReadPressure() Pressure { return readPressure(platform.Root()) }

// Pressure reads it as ReadPressure does, of the machine that m is a snapshot of.
func (m *Machine) Pressure() Pressure { return readPressure(m.root.root) }

func readPressure(root fs.FS) (p Pressure) {
	if root == nil {
		return p
	}
	t := tree{root}
	for _, g := range t.groups() {
		if !g.has("cpu") {
			continue
		}
		for _, dir := range g.dirs {
			for line := range strings.Lines(t.text(path.Join(dir, "cpu.stat"))) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				n, err := strconv.ParseUint(value, 10, 63)
				if err != nil {
					continue
				}
				switch name {
				case "nr_periods":
					p.Periods = max(p.Periods, n)
				case "nr_throttled":
					p.ThrottledPeriods = max(p.ThrottledPeriods, n)
				case "throttled_usec": // version 2
					p.Throttled = max(p.Throttled, time.Duration(n)*time.Microsecond)
				case "throttled_time": // version 1
					p.Throttled = max(p.Throttled, time.Duration(n))
				}
			}
		}
	}
	for line := range strings.Lines(t.text("proc/stat")) {
		// cpu user nice system idle iowait irq softirq steal ..., in ticks of 10 ms
		if f := strings.Fields(line); len(f) > 8 && f[0] == "cpu" {
			if n, err := strconv.ParseUint(f[8], 10, 40); err == nil {
				p.Steal = time.Duration(n) * 10 * time.Millisecond
			}
			break
		}
	}
	p.MemorySome, p.MemoryFull = t.memoryStalls()
	return p
}

// memoryStalls reads the stalls of the process's own group or, where the kernel counts
// none for it, of the machine. A line is
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=1234
func (t tree) memoryStalls() (some, full time.Duration) {
	text := ""
	for _, g := range t.groups() {
		if g.v2 && len(g.dirs) > 0 {
			text = t.text(path.Join(g.dirs[0], "memory.pressure"))
		}
	}
	if text == "" {
		text = t.text("proc/pressure/memory")
	}
	for line := range strings.Lines(text) {
		_, total, _ := strings.Cut(strings.TrimSpace(line), "total=")
		us, err := strconv.ParseUint(total, 10, 50)
		switch kind, _, _ := strings.Cut(line, " "); {
		case err != nil:
		case kind == "some":
			some = time.Duration(us) * time.Microsecond
		case kind == "full":
			full = time.Duration(us) * time.Microsecond
		}
	}
	return some, full
}
