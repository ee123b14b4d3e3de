package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/mem"
)

// A diagnosis is the result of "quern doctor". Its fields are the JSON output.
type diagnosis struct {
	CPU       cpuFacts       `json:"cpu"`
	ISA       isaFacts       `json:"instruction_sets"`
	Nodes     []nodeFact     `json:"numa"`       // nodes; empty if the kernel does not say
	Quotas    []quotaFact    `json:"cpu_quotas"` // of every control group with a quota, innermost first
	Memory    memoryFacts    `json:"memory"`
	HugePages hugePageFacts  `json:"huge_pages"`
	Measured  *measuredFacts `json:"measured,omitempty"` // nil if not requested
	Ranks     *rankFacts     `json:"ranks,omitempty"`    // nil without --ranks
	Model     *modelPlan     `json:"model,omitempty"`    // nil if none was named
	WillDo    consequences   `json:"quern_will"`
}

type cpuFacts struct {
	Model    string `json:"model"`
	Arch     string `json:"arch"`
	Logical  int    `json:"logical"` // hyperthreads, online
	Cores    int    `json:"cores"`
	Sockets  int    `json:"sockets"`
	Nodes    int    `json:"numa_nodes"` // that have CPUs
	Affinity []int  `json:"affinity"`   // CPUs that this process may use
	Reached  int    `json:"cores_in_affinity"`

	Kinds    []kindFact `json:"kinds"`              // of cores, the fastest first; empty where the system does not tell them apart
	Features []string   `json:"features,omitempty"` // of Arm, used or not
	SVE      int        `json:"sve_bits,omitempty"`
}

type kindFact struct {
	Kind     string `json:"kind"`
	CPUs     []int  `json:"cpus"`
	Capacity int    `json:"capacity,omitempty"` // of 1024, by the kernel's measure
	Fast     bool   `json:"fast"`               // of the fastest class, which threads are put on
}

type nodeFact struct {
	Node     int    `json:"node"`
	CPUs     []int  `json:"cpus"`      // that this process may use
	Memory   uint64 `json:"memory"`    // bytes
	Usable   bool   `json:"usable"`    // whether this process may have memory there
	Distance []int  `json:"distances"` // to each node, in order; null if unknown
}

type isaFacts struct {
	Found      string `json:"found"`
	Used       string `json:"used"`
	Restricted string `json:"restricted_by,omitempty"` // the value of QUERN_ISA
}

type quotaFact struct {
	CPUs float64 `json:"cpus"`
	File string  `json:"file"`
}

type memoryFacts struct {
	Total     uint64      `json:"total"`
	Available uint64      `json:"available"`
	Limits    []limitFact `json:"limits"` // of every control group with a limit, innermost first
	Swap      uint64      `json:"swap"`   // which Quern counts on none of
	Swaps     []limitFact `json:"swap_limits"`
}

type limitFact struct {
	Kind  string `json:"kind"`
	Bytes uint64 `json:"bytes"`
	Used  uint64 `json:"used"`
	Taken uint64 `json:"taken_by_others"` // in memory that is no cache
	File  string `json:"file"`
}

func limitFacts(limits []machine.MemLimit) []limitFact {
	facts := []limitFact{}
	for _, l := range limits {
		facts = append(facts, limitFact{l.Kind, l.Bytes, l.Used, l.Taken, l.File})
	}
	return facts
}

type hugePageFacts struct {
	Enabled string `json:"enabled"` // always, madvise, never; empty is unknown
	Defrag  string `json:"defrag"`
	Bytes   uint64 `json:"bytes"`
}

type measuredFacts struct {
	Read float64 `json:"read_bytes_per_second"`
	Int8 float64 `json:"int8_macs_per_second"`
	// Bytes per second at which the threads of each place read memory of each place's node; null for one place, and where
	// memory may not be placed.
	Across [][]float64 `json:"read_across_nodes,omitempty"`
}

// consequences are Quern's defaults on this machine.
type consequences struct {
	Threads      int    `json:"threads"`
	ThreadReason string `json:"thread_reason"`
	CPUs         []int  `json:"pinned_to"` // null when threads are not pinned
	PinReason    string `json:"pin_reason"`
	Nodes        []int  `json:"nodes"`                       // that threads and weights are spread over; null for one place
	Refused      string `json:"placement_refused,omitempty"` // why this process may not place memory on them; empty: it may
	HugePages    bool   `json:"huge_pages"`
	Memory       uint64 `json:"memory_budget"`
	MemoryReason string `json:"memory_reason"`
}

func newDoctorCommand() *cobra.Command {
	var (
		flags             modelFlags
		asJSON, noMeasure bool
		prompts           bool
		ranks             rankFlags
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show this machine's resources and how Quern will use them",
		Long: `Show this machine's CPU, memory and limits, and how Quern will use them. With a
model, also show how it would be loaded with the same -c, -ctk, --weights and
--memory, or what would fit instead, and how fast its file can be read. Only the
file's header is parsed, unless --prompt-time is given: then the model is loaded, to
tell how long a prompt of the whole context takes before its answer begins.

With --ranks, also measure exchanges between these ranks, and with a model predict how
long it takes if it is divided by rows or by layers, as "serve --split auto" does. All
ranks are then computers like this one.`,
		Example: `  quern doctor
  quern doctor -m model.gguf --memory 5.5Gi -c 8192 -ctk q8_0 -ctv q8_0
  quern doctor -m model.gguf -c 32768 --prompt-time
  mpirun -np 2 --host a,b quern-mpi doctor -m model.gguf --ranks mpi`,
		Args: flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			isa, err := chooseKernels()
			if err != nil {
				return err
			}
			m, err := flags.device().Machine()
			if err != nil {
				return err
			}
			d := diagnose(m, isa, flags.memory)
			if flags.path != "" {
				flags.warn(notes(cmd.ErrOrStderr()))
				if d.Model, err = planModel(&flags); err != nil {
					return err
				}
				if !noMeasure && !demo.Is(flags.path) {
					if d.Model.Disk, err = measureDisk(flags.path); err != nil {
						return err
					}
				}
				if prompts && d.Model.Fits {
					if d.Model.Prompts, err = measurePrompts(cmd.Context(), &flags); err != nil {
						return err
					}
				}
			} else if prompts {
				return usagef("--prompt-time: of which model? name it with -m FILE")
			}
			if !noMeasure {
				if d.Measured, err = measureMachine(d.WillDo, m.Place(d.WillDo.Threads)); err != nil {
					return err
				}
			}
			if ranks.where != "" {
				if err := ranks.check(); err != nil {
					return err
				}
				var helped bool
				if d.Ranks, helped, err = measureRanks(cmd.Context(), &ranks, &flags, d.Measured); err != nil || helped {
					return err
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), d)
			}
			return d.print(cmd.OutOrStdout())
		},
	}
	flags.define(cmd.Flags())
	flags.defineContext(cmd.Flags(), -1, 0, "tokens of context; 0 is the model's own (default: the model's, at most 4096)")
	cmd.Flags().StringVar(&ranks.where, "ranks", "", "`RANKS` between which exchanges are measured, as of \"serve\": host:port,host:port, 4@:9100, mpi, or a number of threads of this process")
	ranks.token.define(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&prompts, "prompt-time", false, "load the model, and tell how long prompts take")
	cmd.Flags().BoolVar(&noMeasure, "no-measure", false, "skip the measurements, which take some seconds")
	return cmd
}

// diagnose collects the facts.
func diagnose(m *machine.Machine, isa kernel.ISA, limit uint64) diagnosis {
	d := diagnosis{
		CPU:    cpuFacts{Model: m.Model, Arch: m.Arch, Logical: len(m.CPUs), Affinity: []int{}, Reached: m.Cores()},
		ISA:    isaFacts{Found: kernel.CPU().String(), Used: isa.String(), Restricted: os.Getenv(isaVariable)},
		Quotas: []quotaFact{},
		Memory: memoryFacts{
			Total: m.MemTotal, Available: m.MemAvailable, Limits: limitFacts(m.MemLimits), Swap: m.SwapTotal, Swaps: limitFacts(m.SwapLimits),
		},
		HugePages: hugePageFacts{Enabled: m.THP.Enabled, Defrag: m.THP.Defrag, Bytes: m.HugePageSize},
	}
	cores, sockets, nodes := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, c := range m.CPUs {
		cores[c.Core], sockets[c.Package], nodes[c.Node] = true, true, true
		if c.Allowed {
			d.CPU.Affinity = append(d.CPU.Affinity, c.ID)
		}
	}
	d.CPU.Cores, d.CPU.Sockets, d.CPU.Nodes = len(cores), len(sockets), len(nodes)
	d.CPU.Kinds, d.CPU.Features, d.CPU.SVE = []kindFact{}, m.Features(), m.SVE
	for i, c := range m.Clusters() {
		fast := i == 0 || c.Class == m.Clusters()[0].Class
		d.CPU.Kinds = append(d.CPU.Kinds, kindFact{c.Kind, c.CPUs, c.Capacity, fast})
	}
	d.Nodes = []nodeFact{}
	for _, n := range m.Nodes {
		own := nodeFact{Node: n.ID, CPUs: []int{}, Memory: n.Memory, Usable: n.Usable, Distance: n.Distance}
		for _, c := range m.CPUs {
			if c.Allowed && c.Node == n.ID {
				own.CPUs = append(own.CPUs, c.ID)
			}
		}
		d.Nodes = append(d.Nodes, own)
	}
	for _, q := range m.Quotas {
		d.Quotas = append(d.Quotas, quotaFact{q.CPUs, q.File})
	}
	d.WillDo = decide(m, limit)
	return d
}

// decide returns the defaults of the other commands, where --memory is limit or, with 0, absent.
func decide(m *machine.Machine, limit uint64) consequences {
	c := consequences{
		Threads:   m.Threads(),
		HugePages: m.HugePages(),
	}
	place := m.Place(c.Threads)
	c.CPUs, c.PinReason, c.Nodes = place.CPUs, place.Why, place.Nodes()
	if err := mem.MayPlace(c.Nodes); err != nil {
		c.Refused = err.Error()
	}
	c.Memory, c.MemoryReason = engine.Limit(m, limit)
	switch q, limited := m.Quota(); {
	case limited && q.CPUs < float64(m.Cores()):
		c.ThreadReason = fmt.Sprintf("a CPU quota of %.2f pays for no more, %s", q.CPUs, q.File)
	case m.Fastest() < m.Cores():
		c.ThreadReason = fmt.Sprintf("one for each fast core; %d are slower", m.Cores()-m.Fastest())
	case m.Cores() < len(m.CPUs):
		c.ThreadReason = "one for each physical core that the affinity mask allows"
	default:
		c.ThreadReason = "one for each core"
	}
	return c
}

// measureMachine measures memory bandwidth and arithmetic throughput; between nodes only where memory may be placed on them.
func measureMachine(c consequences, place machine.Placement) (*measuredFacts, error) {
	at, err := engine.Threads(place, c.Threads)
	if err != nil {
		return nil, err
	}
	pool, err := kernel.NewPool(c.Threads, at)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	r, err := measure.NewRoofline(pool, place.Places)
	if err != nil {
		return nil, err
	}
	f := &measuredFacts{Read: r.ReadBytesPerSec, Int8: r.Int8MACPerSec}
	if len(place.Places) > 1 && c.Refused == "" {
		f.Across, err = measure.ReadAcross(place.Places)
	}
	return f, err
}
