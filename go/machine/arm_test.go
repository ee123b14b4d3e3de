package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// armCPUs is a tree of processors, each as "part" or "part@capacity", of implementer 0x41 or "implementer:part".
func armCPUs(cpus ...string) fstest.MapFS {
	var b, info strings.Builder
	for id, c := range cpus {
		part, capacity, told := strings.Cut(c, "@")
		implementer, number, named := strings.Cut(part, ":")
		if !named {
			implementer, number = "0x41", part
		}
		fmt.Fprintf(&info, "processor\t: %d\\nBogoMIPS\t: 48.00\\nFeatures\t: fp asimd asimddp i8mm sve\\nCPU implementer\t: %s\\n"+
			"CPU architecture: 8\\nCPU variant\t: 0x1\\nCPU part\t: %s\\nCPU revision\t: 1\\n\\n", id, implementer, number)
		if told {
			fmt.Fprintf(&b, "sys/devices/system/cpu/cpu%d/cpu_capacity: %s\n", id, capacity)
		}
	}
	fmt.Fprintf(&b, "sys/devices/system/cpu/online: 0-%d\n", len(cpus)-1)
	return files(b.String() + "proc/cpuinfo: " + info.String())
}

// repeated is n times c.
func repeated(n int, c string) []string { return slices.Repeat([]string{c}, n) }

func TestArmCores(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cpus    []string
		allowed []int
		model   string
		threads int
		on      []int
		why     string
	}{
		{"Graviton 3", repeated(4, "0xd40@1024"), nil, "Arm Neoverse V1", 4, []int{0, 1, 2, 3}, "one on each core"},
		{"Altra Max, without capacities", repeated(3, "0xd0c"), nil, "Arm Neoverse N1", 3, []int{0, 1, 2}, "one on each core"},
		{"Ampere One", repeated(2, "0xc0:0xac3"), nil, "Ampere-1", 2, []int{0, 1}, "one on each core"},
		{"RK3588", slices.Concat(repeated(4, "0xd05@397"), repeated(4, "0xd0b@1024")), nil,
			"4 x Arm Cortex-A76 + 4 x Arm Cortex-A55", 4, []int{4, 5, 6, 7}, "one on each of the fast cores"},
		{"without capacities", slices.Concat(repeated(2, "0xd05"), repeated(2, "0xd0b")), nil,
			"2 x Arm Cortex-A76 + 2 x Arm Cortex-A55", 2, []int{2, 3}, "one on each of the fast cores"},
		{"small cores of more than half the capacity", slices.Concat(repeated(2, "0xd03@592"), repeated(4, "0xd09@1024")), nil,
			"4 x Arm Cortex-A73 + 2 x Arm Cortex-A53", 4, []int{2, 3, 4, 5}, "one on each of the fast cores"},
		{"three kinds: those in the middle help, the largest comes first",
			slices.Concat(repeated(2, "0xd80@330"), repeated(3, "0xd81@840"), repeated(2, "0xd81@790"), repeated(1, "0xd82@1024")), nil,
			"1 x Arm Cortex-X4 + 5 x Arm Cortex-A720 + 2 x Arm Cortex-A520", 6, []int{7, 2, 3, 4, 5, 6}, "one on each of the fast cores"},
		{"one design at two speeds", slices.Concat(repeated(2, "0xd0b@500"), repeated(2, "0xd0b@1024")), nil,
			"Arm Cortex-A76", 2, []int{2, 3}, "one on each of the fast cores"},
		{"small cores alone", repeated(4, "0xd03"), nil, "Arm Cortex-A53", 4, []int{0, 1, 2, 3}, "one on each core"},
		{"a mask of small cores", slices.Concat(repeated(4, "0xd05@397"), repeated(4, "0xd0b@1024")), []int{0, 1},
			"4 x Arm Cortex-A76 + 4 x Arm Cortex-A55", 2, []int{0, 1}, "one on each core"},
		{"Apple's", slices.Concat(repeated(2, "0x61:0x022"), repeated(2, "0x61:0x023")), nil,
			"2 x Apple M1 performance core + 2 x Apple M1 efficiency core", 2, []int{2, 3}, "one on each of the fast cores"},
		{"Apple's fourth", repeated(2, "0x61:0x053"), nil, "Apple M4 performance core", 2, []int{0, 1}, "one on each core"},
		{"Apple's to a guest", repeated(2, "0x61:0x000"), nil, "Arm implementer 0x61 part 0x0", 2, []int{0, 1}, "one on each core"},
		{"not known, by capacity", slices.Concat(repeated(1, "0x99:0x123@300"), repeated(1, "0x99:0x124@1024")), nil,
			"1 x Arm implementer 0x99 part 0x124 + 1 x Arm implementer 0x99 part 0x123", 1, []int{1}, "one on each of the fast cores"},
		{"garbage", []string{"0x4000000@-1", "what@1e9"}, nil, "Arm implementer 0x41 part 0x0", 2, []int{0, 1}, "one on each core"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadFS(armCPUs(tt.cpus...), tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if m.Model != tt.model {
				t.Errorf("model %q, want %q", m.Model, tt.model)
			}
			n := m.Threads()
			if p := m.Place(n); n != tt.threads || !slices.Equal(p.CPUs, tt.on) || p.Why != tt.why {
				t.Errorf("%d threads %v, want %d on %v: %s", n, p, tt.threads, tt.on, tt.why)
			}
		})
	}
}

// The register's own value is believed first: /proc/cpuinfo of a container may be another's.
func TestMIDR(t *testing.T) {
	root := armCPUs("0xd0c", "0xd0c")
	root["sys/devices/system/cpu/cpu0/regs/identification/midr_el1"] = &fstest.MapFile{Data: []byte("0x00000000411fd401\n")}
	root["sys/devices/system/cpu/cpu1/regs/identification/midr_el1"] = &fstest.MapFile{Data: []byte("nothing\n")}
	m, err := ReadFS(root, nil)
	if err != nil || m.CPUs[0].Kind != "Arm Neoverse V1" || m.CPUs[1].Kind != "Arm Neoverse N1" {
		t.Errorf("%+v, %v", m.CPUs, err)
	}
	if want := []string{"neon", "dotprod", "i8mm", "sve"}; !slices.Equal(m.Features(), want) {
		t.Errorf("features %v, want %v", m.Features(), want)
	}
	x86, err := ReadFS(files(strings.ReplaceAll(smt(1), "avx2", "sme")), nil)
	if err != nil || x86.Features() != nil || x86.Clusters() != nil {
		t.Errorf("%v, %v: features %v of x86, kinds %v", x86, err, x86.Features(), x86.Clusters())
	}
}

func TestRISCV(t *testing.T) {
	m, err := ReadFS(files(`proc/cpuinfo: processor: 0\nhart: 0\nisa: rv64imafdcv_zicsr\nmmu: sv39\nuarch: sifive,u74-mc`), nil)
	if err != nil || m.Model != "sifive,u74-mc" || !slices.Equal(m.Flags, []string{"rv64imafdcv_zicsr"}) {
		t.Errorf("%+v, %v", m, err)
	}
}
