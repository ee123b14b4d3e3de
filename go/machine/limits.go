package machine

import (
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/platform"
)

// A Quota is the CPU time that a control group may use, as a number of CPUs.
type Quota struct {
	CPUs float64
	File string // that sets it
}

// Quota returns the smallest quota that applies to the process; false if there is none.
func (l *Limits) Quota() (Quota, bool) {
	least := Quota{CPUs: math.Inf(1)}
	for _, q := range l.Quotas {
		if q.CPUs < least.CPUs {
			least = q
		}
	}
	return least, len(l.Quotas) > 0
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
	Taken uint64 // of it by others, in memory that is no cache; 0 if unknown
}

// unlimited is the threshold for "no limit": version 1 reports the largest number of
// whole pages in an int64.
const unlimited = 1 << 62

// limits reads everything that may change.
func (t tree) limits() (l Limits) {
	l.MemTotal, l.MemAvailable, l.SwapTotal = t.meminfo()
	l.MemOwn = t.own()
	for _, g := range t.groups() {
		l.Quotas = append(l.Quotas, t.quotas(g)...)
		l.MemLimits = append(l.MemLimits, t.memLimits(g, l.MemOwn)...)
		l.SwapLimits = append(l.SwapLimits, t.swapLimits(g)...)
	}
	return l
}

// limitsOf returns what the system says by calls.
func limitsOf(m platform.Memories) Limits {
	l := Limits{MemTotal: m.Total, MemAvailable: m.Available, MemOwn: m.Own, SwapTotal: m.Swap, Short: m.Short}
	for _, limit := range m.Limits {
		l.MemLimits = append(l.MemLimits, MemLimit{Bytes: limit.Bytes, Used: limit.Used, Kind: limit.Kind})
	}
	if m.CPUs > 0 {
		l.Quotas = []Quota{{CPUs: m.CPUs, File: "job object"}}
	}
	return l
}

// own returns the bytes of this process that are no file's.
func (t tree) own() (n uint64) {
	for key, kB := range t.kilobytes("proc/self/status") {
		if key == "RssAnon" || key == "RssShmem" {
			n += kB
		}
	}
	return n
}

// swapLimits reads the limits of swap at each level of g. Those of version 1 are of
// memory and swap together.
func (t tree) swapLimits(g group) (limits []MemLimit) {
	if !g.has("memory") {
		return nil
	}
	kind, usage := "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"
	if g.v2 {
		kind, usage = "memory.swap.max", "memory.swap.current"
	}
	for _, dir := range g.dirs {
		file := path.Join(dir, kind)
		if n, ok := t.uint(file); ok && n < unlimited {
			used, _ := t.uint(path.Join(dir, usage))
			limits = append(limits, MemLimit{Bytes: n, Used: used, Kind: kind, File: "/" + file})
		}
	}
	return limits
}

// pinned are the entries of a group's memory.stat that the kernel cannot reclaim without
// swapping, and those of its parents' in version 1 that count their children.
var (
	pinned2 = []string{"anon", "shmem", "kernel_stack", "pagetables", "percpu", "sock", "vmalloc", "slab_unreclaimable"}
	pinned1 = []string{"total_rss", "total_shmem"}
)

// taken returns how many bytes of a group other processes have that are no cache.
func (t tree) taken(dir string, v2 bool, own uint64) (n uint64) {
	names := pinned1
	if v2 {
		names = pinned2
	}
	for line := range strings.Lines(t.text(path.Join(dir, "memory.stat"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if b, err := strconv.ParseUint(value, 10, 62); err == nil && slices.Contains(names, key) {
			n += b
		}
	}
	return n - min(n, own)
}

// memLimits reads the limits at each level of g. Our own memory is own bytes.
func (t tree) memLimits(g group, own uint64) []MemLimit {
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
				limits = append(limits, MemLimit{n, used, kind, "/" + file, t.taken(dir, g.v2, own)})
			}
		}
	}
	if !g.v2 && len(g.dirs) > 0 {
		for _, l := range t.hierarchical(g.dirs[0]) { // of which most are those of the groups, under another name
			if !slices.ContainsFunc(limits, func(own MemLimit) bool { return own.Bytes <= l.Bytes }) {
				limits = append(limits, l)
			}
		}
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
			return []MemLimit{{Bytes: n, Kind: kind, File: "/" + file}}
		}
	}
	return nil
}

// Available is MemoryLimit's reason where nothing limits the process but what the machine has, of which its neighbours take as
// much as they like.
const Available = "memory available"

// MemoryLimit returns how much memory the process may use at most, and a short reason:
// the smallest limit of its control groups less what others in the group have, or what
// the machine has available beside what the process has. Page cache counts as free, since
// it is reclaimed on demand, and swap as absent. If nothing is known it returns the
// largest uint64.
func (l *Limits) MemoryLimit() (bytes uint64, reason string) {
	bytes, reason = math.MaxUint64, "no limit known"
	take := func(n uint64, why string) {
		if n < bytes {
			bytes, reason = n, why
		}
	}
	for _, g := range l.MemLimits {
		why := g.Kind
		if g.File != "" {
			why = "cgroup " + why
		}
		take(g.Bytes-min(g.Bytes-1, g.Taken), why)
	}
	if l.MemAvailable > 0 {
		take(l.MemAvailable+l.MemOwn, Available)
	} else if l.MemTotal > 0 {
		take(l.MemTotal, "memory installed")
	}
	return bytes, reason
}

// meminfo reads /proc/meminfo. Kernels before 3.14 do not report available memory.
func (t tree) meminfo() (total, available, swap uint64) {
	for key, bytes := range t.kilobytes("proc/meminfo") {
		switch key {
		case "MemTotal":
			total = bytes
		case "MemAvailable":
			available = bytes
		case "SwapTotal":
			swap = bytes
		}
	}
	return total, available, swap
}

// kilobytes yields the lines of a file such as "MemTotal:  1234 kB", in bytes.
func (t tree) kilobytes(file string) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for line := range strings.Lines(t.text(file)) {
			key, value, _ := strings.Cut(line, ":")
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 53)
			if err == nil && !yield(key, n*1024) {
				return
			}
		}
	}
}
