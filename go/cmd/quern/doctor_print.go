package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/platform"
)

// print writes the diagnosis in human-readable form.
func (d diagnosis) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	section := func(name string) { fmt.Fprintf(t, "%s\n", name) }

	section("machine")
	line("cpu", "%s (%s)", orUnknown(d.CPU.Model), d.CPU.Arch)
	line("cores", "%s, %s, %s, %s", count(d.CPU.Cores, "physical core"), count(d.CPU.Logical, "hyperthread"),
		count(d.CPU.Sockets, "socket"), count(d.CPU.Nodes, "NUMA node"))
	if len(d.CPU.Kinds) > 1 {
		for _, k := range d.CPU.Kinds {
			line("kind of core", "%s", k.words())
		}
	}
	line("affinity", "CPUs %s: %s", machine.Ranges(d.CPU.Affinity), count(d.CPU.Reached, "physical core"))
	if len(d.Nodes) > 1 {
		for _, n := range d.Nodes {
			line(fmt.Sprintf("node %d", n.Node), "%s", n.words())
		}
	}
	if len(d.CPU.Features) > 0 {
		line("features", "%s", d.CPU.features())
	}
	line("instruction sets", "%s", d.ISA.Found)
	line("in use", "%s", d.ISA.inUse())
	line("memory", "%s, %s available", size(d.Memory.Total), size(d.Memory.Available))
	line("huge pages", "%s", d.HugePages.words())

	section("limits of " + platform.Limiters)
	if len(d.Quotas) == 0 {
		line("cpu quota", "none")
	}
	for _, q := range d.Quotas {
		line("cpu quota", "%.2f CPUs by %s", q.CPUs, q.File)
	}
	if len(d.Memory.Limits) == 0 {
		line("memory", "none")
	}
	for _, l := range d.Memory.Limits {
		line("memory", "%s by %s, %s used, cache included; %s by other processes without it", mem.FormatBytes(l.Bytes), l.File, mem.FormatBytes(l.Used), mem.FormatBytes(l.Taken))
	}
	for _, l := range d.Memory.Swaps {
		line("swap", "%s by %s: not counted on", mem.FormatBytes(l.Bytes), l.File)
	}

	if m := d.Measured; m != nil {
		section("measured with " + count(d.WillDo.Threads, "thread"))
		line("read bandwidth", "%.1f GB/s", m.Read/1e9)
		line("int8 peak", "%.0f billion multiply-adds/s", m.Int8/1e9)
		for i, row := range m.Across {
			var parts []string
			for j, b := range row {
				parts = append(parts, fmt.Sprintf("%.1f from %s", b/1e9, nodeName(d.WillDo.Nodes, j)))
			}
			line("read by "+nodeName(d.WillDo.Nodes, i), "GB/s: %s", strings.Join(parts, ", "))
		}
	}

	if r := d.Ranks; r != nil {
		section("measured between " + count(r.Ranks, "rank"))
		r.print(line)
	}

	section("quern will")
	line("run", "%s: %s", count(d.WillDo.Threads, "thread"), d.WillDo.ThreadReason)
	if d.WillDo.CPUs != nil {
		line("pin them", "to CPUs %s: %s", machine.Ranges(d.WillDo.CPUs), d.WillDo.PinReason)
	} else {
		line("pin them", "no: %s", d.WillDo.PinReason)
	}
	if n := len(d.WillDo.Nodes); n > 1 {
		line("spread over nodes", "%d: threads, weights, keys and values", n)
		if d.WillDo.Refused != "" {
			line("place memory", "no: %s", d.WillDo.Refused)
		}
	}
	if d.WillDo.HugePages {
		line("use huge pages", "yes, for weights and caches")
	} else if d.HugePages.Bytes > platform.MaxHugePage {
		line("use huge pages", "no: those of %s are too large", size(d.HugePages.Bytes))
	} else {
		line("use huge pages", "no: %s", platform.NoHugePages)
	}
	line("take at most", "%s of memory (%s)", mem.FormatBytes(d.WillDo.Memory), d.WillDo.MemoryReason)
	if d.Model != nil {
		section("with " + visible(d.Model.File))
		d.Model.print(line)
	}
	return t.Flush()
}

func (k kindFact) words() string {
	s := fmt.Sprintf("%s, CPUs %s", k.Kind, machine.Ranges(k.CPUs))
	if k.Capacity > 0 {
		s += fmt.Sprintf(", capacity %d", k.Capacity)
	}
	if !k.Fast {
		s += ", slow"
	}
	return s
}

// features names what the processor has, and how long its vectors are.
func (c cpuFacts) features() string {
	s := strings.Join(c.Features, " ")
	if c.SVE > 0 {
		s += fmt.Sprintf("; vectors of SVE have %d bits", c.SVE)
	}
	return s
}

func (n nodeFact) words() string {
	cpus, memory := "no CPUs for this process", "no memory"
	if len(n.CPUs) > 0 {
		cpus = "CPUs " + machine.Ranges(n.CPUs)
	}
	if n.Memory > 0 {
		memory = mem.FormatBytes(n.Memory)
		if !n.Usable {
			memory += " that this process may not use"
		}
	}
	if n.Distance == nil {
		return cpus + ", " + memory
	}
	return fmt.Sprintf("%s, %s, distances %s", cpus, memory, strings.Trim(fmt.Sprint(n.Distance), "[]"))
}

// nodeName names place i of those on nodes: by its node, unless it is virtual.
func nodeName(nodes []int, i int) string {
	if node := nodes[i]; node >= 0 && !slices.Contains(nodes[:i], node) && !slices.Contains(nodes[i+1:], node) {
		return fmt.Sprintf("node %d", node)
	}
	return fmt.Sprintf("place %d", i)
}

func (f isaFacts) inUse() string {
	switch {
	case f.Restricted != "":
		return fmt.Sprintf("%s (%s=%s)", f.Used, isaVariable, f.Restricted)
	case f.Used == f.Found:
		return "all of them"
	}
	return f.Used
}

func (f hugePageFacts) words() string {
	if f.Enabled == "" {
		return "none"
	}
	return fmt.Sprintf("%s of %s, defrag %s", f.Enabled, size(f.Bytes), orUnknown(f.Defrag))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// size formats a number of bytes; 0 means unknown.
func size(n uint64) string {
	if n == 0 {
		return "unknown"
	}
	return mem.FormatBytes(n)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
