// Command scale predicts what large machines would do: it is a model, not a measurement, and its table says so.
//
// A pass of n tokens reads the weights that its tokens use, and multiplies. Each operation takes as long as the slower of
// the two, at the shares of a machine's bandwidth and of its 8-bit peak that were measured on small ones, and ends with a
// barrier. NUMA nodes share a pass in one process; hosts share it by rows, with four exchanges a layer. docs/scale.md has
// the formulas, and where the pieces were measured.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
)

// Shares that are measured, by bench/results, on two virtual cores each.
const (
	ofBandwidth = 0.80 // one token: 0.66 to 0.91 of the read bandwidth
	overhead    = 0.03 // of a pass: norms, activations and copies that each host does for itself
)

// A set of instructions for products of 8 bits.
type set struct {
	name  string
	macs  float64 // multiply-adds of a core and cycle, at most
	share float64 // of them that prompts reach
	from  string  // where the share is from
}

var (
	amx  = set{"AMX", 1024, 0.10, "measured, Granite Rapids"}
	vnni = set{"AVX-512 VNNI", 128, 0.65, "measured, Zen 5"}
	i8mm = set{"I8MM", 128, 0.50, "assumed"}
)

// A machine is one host.
type machine struct {
	name    string
	sockets int
	cores   int     // of a socket
	gbps    float64 // of a socket's memory, by its data sheet
	ghz     float64 // of all cores, with these products
	set     set
}

// practical is the share of a data sheet's bandwidth that plain reading reaches.
const practical = 0.8

var machines = []machine{
	{"2x Xeon 6980P", 2, 128, 12 * 8.8 * 8, 2.4, amx},
	{"2x EPYC 9965", 2, 192, 12 * 6.4 * 8, 3.0, vnni},
	{"1x EPYC 9965", 1, 192, 12 * 6.4 * 8, 3.0, vnni},
	{"Graviton4", 1, 96, 12 * 5.6 * 8, 2.8, i8mm},
}

// barrier returns the seconds of a barrier of all threads: a tree of pairs within a socket, and one step between sockets.
func (m machine) barrier() float64 {
	b := 0.15e-6 * math.Ceil(math.Log2(float64(m.cores)))
	if m.sockets > 1 {
		b += 0.5e-6
	}
	return b
}

func (m machine) read() float64 { return float64(m.sockets) * m.gbps * 1e9 * practical * ofBandwidth }

func (m machine) multiply() float64 {
	return float64(m.sockets*m.cores) * m.ghz * 1e9 * m.set.macs * m.set.share
}

// A link joins hosts.
type link struct {
	name    string
	seconds float64 // of an exchange of a few bytes
	bytes   float64 // a second
}

var links = []link{
	{"RDMA 100G", 4e-6, 11.5e9},
	{"TCP 100G", 25e-6, 6e9},
	{"TCP 25G", 30e-6, 2.8e9},
	{"TCP 10G", 35e-6, 1.15e9},
}

// skew is what a host waits in an exchange because hosts are not in step.
const skew = 3e-6

// A shape is a model: sizes of a token's path, and weights.
type shape struct {
	name          string
	bits          float64 // of a weight
	layers, width int
	heads, ff     int // columns of attention's result, and of the middle of a feed-forward network or of all experts that a token uses
	vocab         int
	common        float64 // weights that each token uses
	experts, used int
	expert        float64 // weights of one expert of all layers
}

var shapes = []shape{
	{"Llama-3.1-8B Q4_K_M", 4.9, 32, 4096, 4096, 14336, 128256, 8.0e9, 0, 0, 0},
	{"Llama-3.1-70B Q4_K_M", 4.85, 80, 8192, 8192, 28672, 128256, 70.6e9, 0, 0, 0},
	{"Qwen3-235B-A22B Q4_K_M", 4.85, 94, 4096, 8192, 8 * 1536, 151936, 7.4e9, 128, 8, 94 * 3 * 4096 * 1536},
	{"DeepSeek-R1 Q4_K_M", 4.85, 61, 7168, 16384, 9 * 2048, 129280, 17.2e9, 256, 8, 58 * 3 * 7168 * 2048},
	{"DeepSeek-R1 Q8_0", 8.5, 61, 7168, 16384, 9 * 2048, 129280, 17.2e9, 256, 8, 58 * 3 * 7168 * 2048},
}

// bytes returns the weights that a pass of n tokens reads, with random routing.
func (s shape) bytes(n float64) float64 {
	weights := s.common
	if s.experts > 0 {
		weights += s.expert * float64(s.experts) * (1 - math.Pow(1-float64(s.used)/float64(s.experts), n))
	}
	return weights * s.bits / 8
}

// macs returns the multiply-adds of a token.
func (s shape) macs() float64 { return s.common + s.expert*float64(s.used) }

// size returns the bytes of all weights.
func (s shape) size() float64 { return (s.common + s.expert*float64(s.experts)) * s.bits / 8 }

// operations returns the number of barriers of a pass.
func (s shape) operations() float64 {
	n := 9.0 // norms, projections, keys and values, attention, its result, gate and up, down, activations
	if s.experts > 0 {
		n += 4 // routing, gathering, combining, the shared expert
	}
	return n*float64(s.layers) + 4
}

// exchanged returns the bytes a token's activations have in the exchanges of a pass, and their number.
func (s shape) exchanged() (bytes, number float64) {
	each := 1.25*float64(s.heads) + 4*float64(s.width) + 1.25*float64(s.ff) + 4*float64(s.width)
	return each * float64(s.layers), float64(4*s.layers + 1)
}

// pass returns the seconds of a pass of n tokens on one host.
func pass(m machine, s shape, n float64) float64 {
	return max(s.bytes(n)/m.read(), n*s.macs()/m.multiply()) + s.operations()*m.barrier()
}

// split returns those on so many hosts that share it by rows.
func split(m machine, s shape, n, hosts float64, l link) float64 {
	one := pass(m, s, n)
	bytes, number := s.exchanged()
	received := (hosts - 1) / hosts * (bytes*n + 4*float64(s.vocab))
	return one/hosts + overhead*one*(1-1/hosts) + number*(l.seconds+skew) + received/l.bytes
}

// A published figure of another engine.
type published struct {
	engine, machine, model, what, source string
}

var others = []published{
	{"SGLang", "2x Xeon 6980P", "DeepSeek-R1, 8 bits", "14.7 tokens/s, one stream", "lmsys.org, 2025-07-14"},
	{"llama.cpp", "2x Xeon 6980P, the better of one and two sockets", "DeepSeek-R1, 8 bits", "5.8 tokens/s", "the same"},
	{"KTransformers", "2x Xeon 6454S and a GPU", "DeepSeek-V3, Q4", "12.2 tokens/s, one socket 8.7; prompts 82.9 and 54.2", "its release notes"},
	{"ik_llama.cpp", "one socket of 2x EPYC 9965, 275 GB/s measured there", "Kimi-K2, 2.9 bits", "13.4 tokens/s; prompts of 512 at 107.6", "its pull request 612"},
}

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "scale predicts the speed of large machines, as Markdown: go run ./bench/scale")
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "scale: %q: it takes no arguments\n", flag.Arg(0))
		os.Exit(2)
	}
	print(os.Stdout)
}

// print writes the tables.
func print(w io.Writer) {
	fmt.Fprint(w, "Predicted by a model (`go run ./bench/scale`); nothing here was measured on these machines.\n\n")
	fmt.Fprint(w, "| machine | memory, GB/s | 8-bit products, 10^12/s | of peak | barrier, us |\n| --- | ---: | ---: | --- | ---: |\n")
	for _, m := range machines {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f %% (%s, %s) | %.1f |\n", m.name, m.read()/1e9, m.multiply()/1e12, 100*m.set.share,
			m.set.name, m.set.from, m.barrier()*1e6)
	}
	fmt.Fprint(w, "\nTokens/s on one host, all nodes in one process:\n\n")
	fmt.Fprint(w, "| machine | model | GB | 1 stream | 8 streams | 64 streams | prompts of 512 |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, m := range machines {
		for _, s := range shapes {
			fmt.Fprintf(w, "| %s | %s | %.0f |", m.name, s.name, s.size()/1e9)
			for _, n := range []float64{1, 8, 64, 512} {
				fmt.Fprintf(w, " %.0f |", n/pass(m, s, n))
			}
			fmt.Fprintln(w)
		}
	}
	const hosts = 2
	fmt.Fprintf(w, "\nTimes as fast on %d hosts, split by rows, as on one:\n\n", hosts)
	fmt.Fprint(w, "| machine | model | link | 1 stream | 8 streams | prompts of 512 |\n| --- | --- | --- | ---: | ---: | ---: |\n")
	for _, m := range machines[1:2] {
		for _, s := range shapes[:4] {
			for _, l := range links {
				fmt.Fprintf(w, "| %s | %s | %s |", m.name, s.name, l.name)
				for _, n := range []float64{1, 8, 512} {
					fmt.Fprintf(w, " %.2f |", pass(m, s, n)/split(m, s, n, hosts, l))
				}
				fmt.Fprintln(w)
			}
		}
	}
	fmt.Fprint(w, "\nPublished by others:\n\n| engine | machine | model | figure | source |\n| --- | --- | --- | --- | --- |\n")
	for _, o := range others {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", o.engine, o.machine, o.model, o.what, o.source)
	}
}
