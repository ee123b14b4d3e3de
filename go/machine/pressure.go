package machine

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Pressure is CPU time withheld from this process's machine. It only grows.
type Pressure struct {
	ThrottledPeriods uint64        // quota periods in which the quota was exhausted
	Throttled        time.Duration // time that threads were throttled, summed
	Steal            time.Duration // time that the host gave to other guests, summed over CPUs
}

// ReadPressure reads it from the control groups, the maximum over their levels, and
// from /proc/stat. Unreadable values are 0.
func ReadPressure() Pressure { return readPressure(os.DirFS("/")) }

func readPressure(root fs.FS) (p Pressure) {
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
	return p
}
