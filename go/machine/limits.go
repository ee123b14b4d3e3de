package machine

import (
	"math"
	"path"
	"strconv"
	"strings"
)

// A Quota is the CPU time that a control group may use, as a number of CPUs.
type Quota struct {
	CPUs float64
	File string // that sets it
}

// Quota returns the smallest quota that applies to the process; false if there is none.
func (m *Machine) Quota() (Quota, bool) {
	least := Quota{CPUs: math.Inf(1)}
	for _, q := range m.Quotas {
		if q.CPUs < least.CPUs {
			least = q
		}
	}
	return least, len(m.Quotas) > 0
}

// quotas reads the quota at each level of g, since all of them apply.
func (t tree) quotas(g group) []Quota {
	if !g.has("cpu") {
		return nil
	}
	var quotas []Quota
	for _, dir := range g.dirs {
		var file, quota, period string
		if g.v2 {
			file = path.Join(dir, "cpu.max")
			quota, period, _ = strings.Cut(t.text(file), " ") // "150000 100000" or "max 100000"
		} else {
			file = path.Join(dir, "cpu.cfs_quota_us")
			quota, period = t.text(file), t.text(path.Join(dir, "cpu.cfs_period_us")) // -1 is no quota
		}
		q, err1 := strconv.ParseInt(quota, 10, 64)
		p, err2 := strconv.ParseInt(period, 10, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 {
			quotas = append(quotas, Quota{float64(q) / float64(p), "/" + file})
		}
	}
	return quotas
}

// A MemLimit is the memory limit of a control group.
type MemLimit struct {
	Bytes uint64
	Used  uint64 // by the whole group, page cache included; 0 if unknown
	Kind  string // memory.max, memory.high, memory.limit_in_bytes, ...
	File  string
}

// unlimited is the threshold for "no limit": version 1 reports the largest number of
// whole pages in an int64.
const unlimited = 1 << 62

// memLimits reads the limits at each level of g.
func (t tree) memLimits(g group) []MemLimit {
	if !g.has("memory") {
		return nil
	}
	kinds, usage := []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes"
	if g.v2 {
		// Above memory.high a group is not killed, but throttled until it is unusable.
		kinds, usage = []string{"memory.max", "memory.high"}, "memory.current"
	}
	var limits []MemLimit
	for i, dir := range g.dirs {
		if i > 0 && !g.v2 && t.text(path.Join(dir, "memory.use_hierarchy")) == "0" {
			break // old kernels: this parent does not count its children
		}
		used, _ := t.uint(path.Join(dir, usage))
		for _, kind := range kinds {
			file := path.Join(dir, kind)
			if n, ok := t.uint(file); ok && n > 0 && n < unlimited {
				limits = append(limits, MemLimit{n, used, kind, "/" + file})
			}
		}
	}
	if !g.v2 && len(g.dirs) > 0 {
		limits = append(limits, t.hierarchical(g.dirs[0])...)
	}
	return limits
}

// hierarchical reads the limit that version 1 computes over all parents, including
// those outside this container.
func (t tree) hierarchical(dir string) []MemLimit {
	const kind = "hierarchical_memory_limit"
	file := path.Join(dir, "memory.stat")
	for line := range strings.Lines(t.text(file)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); key == kind && err == nil && n > 0 && n < unlimited {
			return []MemLimit{{n, 0, kind, "/" + file}}
		}
	}
	return nil
}

// MemoryLimit returns how much memory the process may use at most, and a short reason:
// the smallest limit of its control groups, or what the machine has available. The
// groups' current usage is not subtracted, since most of it is reclaimable page cache.
// If nothing is known it returns the largest uint64.
func (m *Machine) MemoryLimit() (bytes uint64, reason string) {
	bytes, reason = math.MaxUint64, "no limit known"
	take := func(n uint64, why string) {
		if n < bytes {
			bytes, reason = n, why
		}
	}
	for _, l := range m.MemLimits {
		take(l.Bytes, "cgroup "+l.Kind)
	}
	if m.MemAvailable > 0 {
		take(m.MemAvailable, "memory available")
	} else if m.MemTotal > 0 {
		take(m.MemTotal, "memory installed")
	}
	return bytes, reason
}

// meminfo reads /proc/meminfo. Kernels before 3.14 do not report available memory.
func (t tree) meminfo() (total, available uint64) {
	for line := range strings.Lines(t.text("proc/meminfo")) {
		key, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil || n > math.MaxUint64/1024 {
			continue
		}
		switch key {
		case "MemTotal":
			total = n * 1024
		case "MemAvailable":
			available = n * 1024
		}
	}
	return total, available
}
