package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A part identifies a design of cores, by fields of the register MIDR_EL1: who made it, and their number of it.
type part struct {
	implementer, number int
}

// A design is what is known of a part.
type design struct {
	name  string
	small bool // made to save power: executes in order, or is the smaller kind of a pair
}

// Numbers are those of the reference manuals, as Linux (arch/arm64/include/asm/cputype.h) and lscpu list them.
var designs = map[part]design{
	{0x41, 0xd02}: {"Arm Cortex-A34", true},
	{0x41, 0xd03}: {"Arm Cortex-A53", true},
	{0x41, 0xd04}: {"Arm Cortex-A35", true},
	{0x41, 0xd05}: {"Arm Cortex-A55", true},
	{0x41, 0xd06}: {"Arm Cortex-A65", true},
	{0x41, 0xd07}: {"Arm Cortex-A57", false},
	{0x41, 0xd08}: {"Arm Cortex-A72", false},
	{0x41, 0xd09}: {"Arm Cortex-A73", false},
	{0x41, 0xd0a}: {"Arm Cortex-A75", false},
	{0x41, 0xd0b}: {"Arm Cortex-A76", false},
	{0x41, 0xd0c}: {"Arm Neoverse N1", false},
	{0x41, 0xd0d}: {"Arm Cortex-A77", false},
	{0x41, 0xd0e}: {"Arm Cortex-A76AE", false},
	{0x41, 0xd40}: {"Arm Neoverse V1", false},
	{0x41, 0xd41}: {"Arm Cortex-A78", false},
	{0x41, 0xd42}: {"Arm Cortex-A78AE", false},
	{0x41, 0xd44}: {"Arm Cortex-X1", false},
	{0x41, 0xd46}: {"Arm Cortex-A510", true},
	{0x41, 0xd47}: {"Arm Cortex-A710", false},
	{0x41, 0xd48}: {"Arm Cortex-X2", false},
	{0x41, 0xd49}: {"Arm Neoverse N2", false},
	{0x41, 0xd4a}: {"Arm Neoverse E1", true},
	{0x41, 0xd4b}: {"Arm Cortex-A78C", false},
	{0x41, 0xd4c}: {"Arm Cortex-X1C", false},
	{0x41, 0xd4d}: {"Arm Cortex-A715", false},
	{0x41, 0xd4e}: {"Arm Cortex-X3", false},
	{0x41, 0xd4f}: {"Arm Neoverse V2", false},
	{0x41, 0xd80}: {"Arm Cortex-A520", true},
	{0x41, 0xd81}: {"Arm Cortex-A720", false},
	{0x41, 0xd82}: {"Arm Cortex-X4", false},
	{0x41, 0xd83}: {"Arm Neoverse V3AE", false},
	{0x41, 0xd84}: {"Arm Neoverse V3", false},
	{0x41, 0xd85}: {"Arm Cortex-X925", false},
	{0x41, 0xd87}: {"Arm Cortex-A725", false},
	{0x41, 0xd88}: {"Arm Cortex-A520AE", true},
	{0x41, 0xd89}: {"Arm Cortex-A720AE", false},
	{0x41, 0xd8a}: {"Arm C1-Nano", true},
	{0x41, 0xd8b}: {"Arm C1-Pro", false},
	{0x41, 0xd8c}: {"Arm C1-Ultra", false},
	{0x41, 0xd8e}: {"Arm Neoverse N3", false},
	{0x41, 0xd8f}: {"Arm Cortex-A320", true},
	{0x41, 0xd90}: {"Arm C1-Premium", false},
	{0x43, 0x0af}: {"Cavium ThunderX2", false},
	{0x46, 0x001}: {"Fujitsu A64FX", false},
	{0x46, 0x003}: {"Fujitsu Monaka", false},
	{0x48, 0xd01}: {"HiSilicon TSV110", false},
	{0x4e, 0x004}: {"NVIDIA Carmel", false},
	{0x4e, 0x010}: {"NVIDIA Olympus", false},
	{0x51, 0x001}: {"Qualcomm Oryon", false},
	{0x51, 0x800}: {"Qualcomm Kryo 2xx Gold", false},
	{0x51, 0x801}: {"Qualcomm Kryo 2xx Silver", true},
	{0x51, 0x802}: {"Qualcomm Kryo 3xx Gold", false},
	{0x51, 0x803}: {"Qualcomm Kryo 3xx Silver", true},
	{0x51, 0x804}: {"Qualcomm Kryo 4xx Gold", false},
	{0x51, 0x805}: {"Qualcomm Kryo 4xx Silver", true},
	{0x6d, 0xd49}: {"Microsoft Azure Cobalt 100", false},
	{0xc0, 0xac3}: {"Ampere-1", false},
	{0xc0, 0xac4}: {"Ampere-1A", false},
	{0xc0, 0xac5}: {"Ampere-1B", false},
}

// design returns what is known of a part. Apple numbers its cores by generation from 0x20 on, those for performance odd.
func (p part) design() design {
	const apple, first = 0x61, 0x20
	if generation := p.number>>4 - first>>4 + 1; p.implementer == apple && 1 <= generation && generation <= 4 && p.number&0xf <= 9 {
		if p.number%2 == 0 {
			return design{fmt.Sprintf("Apple M%d efficiency core", generation), true}
		}
		return design{fmt.Sprintf("Apple M%d performance core", generation), false}
	}
	if d, ok := designs[p]; ok {
		return d
	}
	return design{name: fmt.Sprintf("Arm implementer %#x part %#x", p.implementer, p.number)}
}

// midr returns the part that the register's value names, as the kernel prints it; that of /proc/cpuinfo where there is none.
func (t tree) midr(id int, otherwise part) part {
	name := fmt.Sprintf("sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", id)
	v, err := strconv.ParseUint(t.text(name), 0, 64)
	if err != nil {
		return otherwise
	}
	return part{int(v >> 24 & 0xff), int(v >> 4 & 0xfff)}
}

// classify sets the kind of each CPU, and its class: cores that are made small, or have less than half the capacity of the
// largest, are of the slower one. Those of a middle kind take part: work is divided by who is free.
func (t tree) classify(cpus []CPU, parts map[int]part) {
	slow, fast, largest := make([]bool, len(cpus)), false, 0
	for i := range cpus {
		c := &cpus[i]
		if p := t.midr(c.ID, parts[c.ID]); p != (part{}) {
			d := p.design()
			c.Kind, slow[i] = d.name, d.small
		}
		c.Capacity = t.int(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpu_capacity", c.ID), 0)
		largest = max(largest, c.Capacity)
	}
	for i, c := range cpus {
		slow[i] = slow[i] || c.Capacity > 0 && 2*c.Capacity < largest
		fast = fast || !slow[i]
	}
	for i := range cpus {
		if fast && !slow[i] && slices.Contains(slow, true) {
			cpus[i].Class = 1
		}
	}
}

// A Cluster is the CPUs of one kind, which are equally fast.
type Cluster struct {
	Kind     string
	CPUs     []int
	Capacity int // 1024 is the fastest of the machine; 0: the system does not say
	Class    int // as a CPU's
}

// Clusters returns the CPUs by kind, the fastest first. It is nil where the kinds are not known.
func (m *Machine) Clusters() []Cluster {
	type key struct {
		kind            string
		class, capacity int
	}
	cpus := map[key][]int{}
	for _, c := range m.CPUs {
		if c.Kind != "" {
			k := key{c.Kind, c.Class, c.Capacity}
			cpus[k] = append(cpus[k], c.ID)
		}
	}
	keys := slices.SortedFunc(maps.Keys(cpus), func(a, b key) int {
		return cmp.Or(cmp.Compare(b.class, a.class), cmp.Compare(b.capacity, a.capacity), cmp.Compare(a.kind, b.kind))
	})
	var all []Cluster
	for _, k := range keys {
		all = append(all, Cluster{k.kind, cpus[k], k.capacity, k.class})
	}
	return all
}

// kinds names the processor by its cores: "4 x Arm Cortex-A76 + 4 x Arm Cortex-A55", or one name if all are alike.
func (m *Machine) kinds() string {
	var order []string
	number := map[string]int{}
	for _, c := range m.Clusters() {
		if number[c.Kind] == 0 {
			order = append(order, c.Kind)
		}
		number[c.Kind] += len(c.CPUs)
	}
	if len(order) == 1 {
		return order[0]
	}
	for i, kind := range order {
		order[i] = fmt.Sprintf("%d x %s", number[kind], kind)
	}
	return strings.Join(order, " + ")
}

// What of an Arm processor matters to products of weights: the kernel's words, and those that everybody uses.
var armFeatures = []struct{ flag, name string }{
	{"asimd", "neon"}, {"asimdhp", "fp16"}, {"asimddp", "dotprod"}, {"i8mm", "i8mm"}, {"bf16", "bf16"},
	{"sve", "sve"}, {"sve2", "sve2"}, {"svei8mm", "svei8mm"}, {"svebf16", "svebf16"}, {"sme", "sme"}, {"sme2", "sme2"},
}

// Features names the extensions of an Arm processor that matter to products of weights, used by Quern or not; nil for others.
func (m *Machine) Features() []string {
	var names []string
	for _, f := range armFeatures {
		if slices.Contains(m.Flags, "asimd") && slices.Contains(m.Flags, f.flag) { // "sme" is something else on x86
			names = append(names, f.name)
		}
	}
	return names
}
