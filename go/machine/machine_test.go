package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// files makes a tree from lines "path: content"; \n in the content is a newline.
func files(parts ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, part := range parts {
		for line := range strings.Lines(part) {
			name, content, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if ok {
				m[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(content, `\n`, "\n") + "\n")}
			}
		}
	}
	return m
}

// smt describes cores*2 CPUs in the usual order: the second hyperthreads of
// all cores come after the first ones.
func smt(cores int) string {
	var b, info strings.Builder
	for id := range 2 * cores {
		core := id % cores
		fmt.Fprintf(&info, `processor\t: %d\nmodel name\t: Test CPU @ 2.0\nphysical id\t: 0\ncore id\t\t: %d\nflags\t\t: fpu avx2\n\n`, id, core)
		topology := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", id)
		fmt.Fprintf(&b, "%sthread_siblings_list: %d,%d\n%score_id: %d\n%sphysical_package_id: 0\n",
			topology, core, core+cores, topology, core, topology)
	}
	fmt.Fprintf(&b, "sys/devices/system/cpu/online: 0-%d\n", 2*cores-1)
	return b.String() + "proc/cpuinfo: " + strings.ReplaceAll(info.String(), `\t`, "\t") + "\n"
}

// onlyCpuinfo is smt without its /sys.
func onlyCpuinfo(cores int) string {
	for line := range strings.Lines(smt(cores)) {
		if strings.HasPrefix(line, "proc/cpuinfo") {
			return line
		}
	}
	panic("no cpuinfo")
}

const (
	v2Mount = `30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate`
	v2      = "proc/self/mountinfo: " + v2Mount + "\n"
	v1      = `proc/self/mountinfo: 31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n` +
		`32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n` +
		`35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory` + "\n"
	hybrid = `proc/self/mountinfo: 32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n` +
		`35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n` +
		`40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n` +
		`41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw` + "\n"
)

func TestThreads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		root    fstest.MapFS
		allowed []int
		want    int
	}{
		{"bare metal with SMT", files(smt(4)), nil, 4},
		{"no sysfs", files(onlyCpuinfo(4)), nil, 4},
		{"no sysfs and no core ids, as on Arm", files(`proc/cpuinfo: processor: 0\nprocessor: 1\nprocessor: 2`), nil, 3},
		{"nothing but the mask", files(), []int{3, 5}, 2},
		{"affinity of three cores", files(smt(4)), []int{0, 1, 2}, 3},
		{"affinity of both siblings of two cores", files(smt(4)), []int{1, 2, 5, 6}, 2},
		{"affinity of one hyperthread", files(smt(4)), []int{6}, 1},
		{"affinity of nothing", files(smt(4)), []int{}, 1},
		{"v2 quota 1.5", files(smt(4), v2, `proc/self/cgroup: 0::/app`,
			`sys/fs/cgroup/app/cpu.max: 150000 100000`), nil, 1},
		{"v2 quota 3.9", files(smt(4), v2, `proc/self/cgroup: 0::/app`,
			`sys/fs/cgroup/app/cpu.max: 390000 100000`), nil, 3},
		{"v2 quota below 1", files(smt(4), v2, `proc/self/cgroup: 0::/app`,
			`sys/fs/cgroup/app/cpu.max: 25000 100000`), nil, 1},
		{"v2 quota above the cores", files(smt(4), v2, `proc/self/cgroup: 0::/app`,
			`sys/fs/cgroup/app/cpu.max: 800000 100000`), nil, 4},
		{"v2 quota on a parent only", files(smt(4), v2, `proc/self/cgroup: 0::/kubepods/pod1/app`,
			"sys/fs/cgroup/kubepods/pod1/app/cpu.max: max 100000\nsys/fs/cgroup/kubepods/pod1/cpu.max: 200000 100000"), nil, 2},
		{"v2 quota smallest in the middle", files(smt(4), v2, `proc/self/cgroup: 0::/a/b/c`,
			"sys/fs/cgroup/a/b/c/cpu.max: 400000 100000\nsys/fs/cgroup/a/b/cpu.max: 100000 50000\nsys/fs/cgroup/a/cpu.max: 300000 100000"), nil, 2},
		{"v2 quota of a neighbour", files(smt(4), v2, `proc/self/cgroup: 0::/app`,
			"sys/fs/cgroup/app/cpu.max: max 100000\nsys/fs/cgroup/other/cpu.max: 100000 100000"), nil, 4},
		{"v2 namespace: the mount is the own group", files(smt(4), v2, `proc/self/cgroup: 0::/`,
			`sys/fs/cgroup/cpu.max: 200000 100000`), nil, 2},
		{"v2 outside the namespace", files(smt(4), v2, `proc/self/cgroup: 0::/../other`,
			"sys/fs/cgroup/cpu.max: 300000 100000\nsys/fs/cgroup/other/cpu.max: 100000 100000"), nil, 3},
		{"v1 quota", files(smt(4), v1, `proc/self/cgroup: 2:cpu,cpuacct:/app\n4:memory:/app`,
			"sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us: 250000\nsys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us: 100000"), nil, 2},
		{"v1 quota on the parent", files(smt(4), v1, `proc/self/cgroup: 2:cpu,cpuacct:/a/b`,
			"sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us: -1\nsys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us: 100000",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us: 100000\nsys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us: 100000"), nil, 1},
		{"v1 container: the mount shows only its own group", files(smt(4),
			`proc/self/mountinfo: 32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu`,
			`proc/self/cgroup: 2:cpu:/docker/abc/inner`,
			"sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us: 300000\nsys/fs/cgroup/cpu/inner/cpu.cfs_period_us: 100000",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us: 200000\nsys/fs/cgroup/cpu/cpu.cfs_period_us: 100000"), nil, 2},
		{"v1 container seen from another", files(smt(4),
			`proc/self/mountinfo: 32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu`,
			`proc/self/cgroup: 2:cpu:/docker/abcdef`,
			"sys/fs/cgroup/cpu/def/cpu.cfs_quota_us: 100000\nsys/fs/cgroup/cpu/def/cpu.cfs_period_us: 100000",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us: 200000\nsys/fs/cgroup/cpu/cpu.cfs_period_us: 100000"), nil, 2},
		{"hybrid, quota in v1", files(smt(4), hybrid, `proc/self/cgroup: 9:name=systemd:/s\n1:cpu:/app\n0::/s`,
			"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us: 300000\nsys/fs/cgroup/cpu/app/cpu.cfs_period_us: 100000",
			"sys/fs/cgroup/systemd/s/cpu.cfs_quota_us: 100000\nsys/fs/cgroup/systemd/s/cpu.cfs_period_us: 100000"), nil, 3},
		{"hybrid, quota in v2", files(smt(4), hybrid, `proc/self/cgroup: 4:memory:/app\n0::/app`,
			`sys/fs/cgroup/unified/app/cpu.max: 100000 100000`), nil, 1},
		{"a space in the mount point", files(smt(4),
			`proc/self/mountinfo: 30 23 0:26 / /mnt/my\040cgroup rw - cgroup2 none rw`, `proc/self/cgroup: 0::/`,
			`mnt/my cgroup/cpu.max: 200000 100000`), nil, 2},
		{"mounted at the root", files(smt(4), `proc/self/mountinfo: 1 1 0:2 / / rw - cgroup2 none rw`,
			`proc/self/cgroup: 0::/app`, `app/cpu.max: 200000 100000`), nil, 2},
		{"garbage: text", files(smt(4), v2, `proc/self/cgroup: 0::/app`, `sys/fs/cgroup/app/cpu.max: plenty of it`), nil, 4},
		{"garbage: negative", files(smt(4), v2, `proc/self/cgroup: 0::/app`, `sys/fs/cgroup/app/cpu.max: -5 100000`), nil, 4},
		{"garbage: no period", files(smt(4), v2, `proc/self/cgroup: 0::/app`, `sys/fs/cgroup/app/cpu.max: 100000`), nil, 4},
		{"garbage: period 0", files(smt(4), v2, `proc/self/cgroup: 0::/app`, `sys/fs/cgroup/app/cpu.max: 100000 0`), nil, 4},
		{"garbage: v1 says max", files(smt(4), v1, `proc/self/cgroup: 2:cpu,cpuacct:/`,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us: max\nsys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us: max"), nil, 4},
		{"garbage: lists", files(onlyCpuinfo(2), "sys/devices/system/cpu/online: 0-4000000000",
			"sys/devices/system/cpu/cpu0/topology/thread_siblings_list: 3-1\nsys/devices/system/cpu/cpu0/topology/core_id: -1"), nil, 2},
		{"garbage: cgroup and mountinfo", files(smt(2), `proc/self/cgroup: 0\n:::\n4:\nhello\n0::`,
			`proc/self/mountinfo: - cgroup2\n1 2 - cgroup cgroup\n- - -\n1 2 3 4 5 - cgroup2 x ..`), nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadFS(tt.root, tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Threads(); got != tt.want {
				t.Errorf("Threads() = %d, want %d; quotas %v", got, tt.want, m.Quotas)
			}
			if _, ok := m.Quota(); ok && strings.HasPrefix(tt.name, "garbage") {
				t.Errorf("quotas %v from garbage", m.Quotas)
			}
		})
	}
}

func TestNothingToRead(t *testing.T) {
	if _, err := ReadFS(fstest.MapFS{}, nil); err == nil {
		t.Error("no error for an empty tree")
	}
}

func TestWorkerCPUs(t *testing.T) {
	twoNodes := files(`proc/cpuinfo: processor: 0\nprocessor: 1\nprocessor: 2\nprocessor: 3`,
		"sys/devices/system/node/online: 0,2\nsys/devices/system/node/node0/cpulist: 0,2\nsys/devices/system/node/node2/cpulist: 1,3")
	for _, tt := range []struct {
		name    string
		root    fstest.MapFS
		allowed []int
		n       int
		want    []int
	}{
		{"cores first", files(smt(4)), nil, 4, []int{0, 1, 2, 3}},
		{"then siblings", files(smt(4)), nil, 6, []int{0, 1, 2, 3, 4, 5}},
		{"siblings next to each other", files("sys/devices/system/cpu/online: 0-3",
			"sys/devices/system/cpu/cpu0/topology/thread_siblings_list: 0-1\nsys/devices/system/cpu/cpu1/topology/thread_siblings_list: 0-1",
			"sys/devices/system/cpu/cpu2/topology/thread_siblings_list: 2-3\nsys/devices/system/cpu/cpu3/topology/thread_siblings_list: 2-3"),
			nil, 4, []int{0, 2, 1, 3}},
		{"inside the mask", files(smt(4)), []int{1, 5, 6}, 2, []int{1, 6}},
		{"all of the mask", files(smt(4)), []int{1, 5, 6}, 3, []int{1, 6, 5}},
		{"a node before the next", twoNodes, nil, 3, []int{0, 2, 1}},
		{"more than the mask", files(smt(4)), []int{1, 5, 6}, 4, nil},
		{"more than the machine", files(smt(2)), nil, 5, nil},
		{"none", files(smt(2)), nil, 0, nil},
		{"fewer than none", files(smt(2)), nil, -1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadFS(tt.root, tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.WorkerCPUs(tt.n); !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
				t.Errorf("WorkerCPUs(%d) = %v, want %v", tt.n, got, tt.want)
			}
		})
	}
}

// Threads are pinned if there is one for each core that the process may use, or on request.
func TestPlace(t *testing.T) {
	const (
		auto   = PinWhole
		always = PinAlways
		never  = PinNever
	)
	for _, tt := range []struct {
		name       string
		allowed    []int // of 4 cores with 2 hyperthreads each
		only       []int
		n          int
		pinning    Pinning
		pins, keep []int
		why        string
	}{
		{"one for each core", nil, nil, 4, auto, []int{0, 1, 2, 3}, nil, "one on each core"},
		{"hyperthreads too", nil, nil, 5, auto, []int{0, 1, 2, 3, 4}, nil, "one on each core"},
		{"fewer than the cores", nil, nil, 3, auto, nil, nil, "fewer threads than the 4 cores"},
		{"one", nil, nil, 1, auto, nil, nil, "fewer threads than the 4 cores"},
		{"the whole mask", []int{1, 5, 6}, nil, 2, auto, []int{1, 6}, nil, "one on each core"},
		{"a part of the mask", []int{1, 5, 6}, nil, 1, auto, nil, nil, "fewer threads than the 2 cores"},
		{"a mask of one core", []int{3}, nil, 1, auto, []int{3}, nil, "one on each core"},
		{"more than the mask", []int{1, 5, 6}, nil, 4, auto, nil, nil, "more threads than CPUs"},
		{"more than the mask, always", []int{1, 5, 6}, nil, 4, always, nil, nil, "more threads than CPUs"},
		{"fewer, always", nil, nil, 2, always, []int{0, 1}, nil, "as requested"},
		{"whole, never", nil, nil, 4, never, nil, nil, "as requested"},
		{"named CPUs", nil, []int{2, 3}, 1, auto, []int{2}, nil, "requested CPUs"},
		{"all of the named CPUs", nil, []int{2, 3}, 2, auto, []int{2, 3}, nil, "requested CPUs"},
		{"on the named CPUs, never", nil, []int{2, 3}, 2, never, nil, []int{2, 3}, "as requested"},
		{"more than the named CPUs", nil, []int{2, 3}, 3, auto, nil, []int{2, 3}, "more threads than CPUs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ReadFS(files(smt(4)), tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			m.Pinning = tt.pinning
			if tt.only != nil {
				if err := m.Restrict(tt.only); err != nil {
					t.Fatal(err)
				}
			}
			p := m.Place(tt.n)
			if !slices.Equal(p.CPUs, tt.pins) || !slices.Equal(p.Among, tt.keep) || !strings.Contains(p.Why, tt.why) {
				t.Errorf("Place(%d) = %+v, want %v, among %v, %s", tt.n, p, tt.pins, tt.keep, tt.why)
			}
			home := tt.keep
			if tt.pins != nil {
				home = tt.pins[:1]
			}
			if !slices.Equal(p.Home(), home) {
				t.Errorf("the caller's home is %v, want %v", p.Home(), home)
			}
		})
	}
}

func TestRestrict(t *testing.T) {
	m, err := ReadFS(files(smt(4)), []int{1, 2, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Restrict([]int{0, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if got := m.WorkerCPUs(2); m.Threads() != 2 || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("%d threads on %v, want 2 on 1 and 2", m.Threads(), got)
	}
	if err := m.Restrict([]int{0, 3}); err == nil {
		t.Error("CPUs that are not for this process were taken")
	}
}

func TestFacts(t *testing.T) {
	m, err := ReadFS(files(smt(2),
		"sys/kernel/mm/transparent_hugepage/enabled: always [madvise] never\nsys/kernel/mm/transparent_hugepage/defrag: always defer [defer+madvise] never",
		"sys/kernel/mm/transparent_hugepage/hpage_pmd_size: 2097152"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Model != "Test CPU @ 2.0" || !slices.Equal(m.Flags, []string{"fpu", "avx2"}) {
		t.Errorf("model %q, flags %q", m.Model, m.Flags)
	}
	if want := (THP{"madvise", "defer+madvise"}); m.THP != want || m.HugePageSize != 2<<20 {
		t.Errorf("THP = %v of %d, want %v", m.THP, m.HugePageSize, want)
	}
	if !m.HugePages() {
		t.Error("huge pages of 2 MiB are not used")
	}
	large, err := ReadFS(files(smt(2), "sys/kernel/mm/transparent_hugepage/enabled: [always] madvise never",
		"sys/kernel/mm/transparent_hugepage/hpage_pmd_size: 536870912"), nil)
	if err != nil || large.HugePages() {
		t.Errorf("huge pages of 512 MiB, beside pages of 64 KiB: %v, %v", large.HugePages(), err)
	}
	none, err := ReadFS(files(smt(2)), nil) // a kernel that is built without them
	if err != nil || none.HugePages() {
		t.Errorf("huge pages of a kernel without: %v, %v", none.HugePages(), err)
	}
	if want := (CPU{ID: 3, Core: 1, Allowed: true}); m.CPUs[3] != want {
		t.Errorf("CPUs[3] = %+v, want %+v", m.CPUs[3], want)
	}
	if got := chosen("always"); got != "" {
		t.Errorf("chosen without brackets = %q", got)
	}
	arm, err := ReadFS(files(`proc/cpuinfo: processor: 0\nFeatures: fp asimddp\nCPU implementer: 0x41\nCPU part: 0xd0c`), nil)
	if err != nil || arm.Model != "Arm Neoverse N1" || !slices.Equal(arm.Flags, []string{"fp", "asimddp"}) {
		t.Errorf("Arm: %+v, %v", arm, err)
	}
}

// The machine that the tests run on has at least a CPU and some memory.
func TestRead(t *testing.T) {
	m, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Threads(); n < 1 || n > len(m.CPUs) || len(m.WorkerCPUs(n)) != n {
		t.Errorf("%d threads on CPUs %v", n, m.WorkerCPUs(n))
	}
	if n, why := m.MemoryLimit(); n < 1<<20 || n > 1<<50 || why == "" {
		t.Errorf("MemoryLimit() = %d, %q", n, why)
	}
	if m.PageSize < 4096 {
		t.Errorf("page size %d", m.PageSize)
	}
}
