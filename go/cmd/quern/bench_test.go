package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/synth"
)

func TestParseList(t *testing.T) {
	for in, want := range map[string][]int{
		"512":          {512},
		"1,2,8":        {1, 2, 8},
		"1-4":          {1, 2, 3, 4},
		"1-8+2":        {1, 3, 5, 7},
		"1-64*2":       {1, 2, 4, 8, 16, 32, 64},
		"3-20*3":       {3, 9},
		"7-7":          {7},
		"7-7*1":        {7},
		"0":            {0},
		"512, 1-2,9":   {512, 1, 2, 9},
		"100-1000+450": {100, 550, 1000},
	} {
		got, err := parseList(in, 0, 1000)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for _, bad := range []string{
		"", ",", "1,", "x", "-1", "1.5", "1001", "1-1001", "8-1", "1-", "-", "1-8+", "1-8*x", "1-8/2", "1--8",
		"1-8+0", "1-8*1", "0-8*2", "1-8*99999", "99999999999999999999", "1-8+99999999999999999999",
	} {
		if got, err := parseList(bad, 0, 1000); err == nil {
			t.Errorf("%q is taken as %v", bad, got)
		}
	}
	if _, err := parseList("0-1000000", 0, 1<<24); err == nil {
		t.Error("a million values are taken")
	}
}

func parsedBenchFlags(t *testing.T, args ...string) *benchFlags {
	t.Helper()
	var f benchFlags
	cmd := newBenchCommand()
	cmd.ResetFlags()
	f.define(cmd.Flags())
	if err := cmd.Flags().Parse(doubleDashes(cmd, args)); err != nil {
		t.Fatal(err)
	}
	return &f
}

func TestBenchCases(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"", "pp512; tg128"},
		{"-p 0", "tg128"},
		{"-p 1-3 -n 0", "pp1; pp2; pp3"},
		{"-p 8 -p 4,2 -n 0", "pp8; pp4; pp2"},
		{"-p 0 -n 0 -pg 512,128 -pg 4,2", "pp512+tg128; pp4+tg2"},
		{"-p 8 -n 2 -d 0,64", "pp8; tg2; pp8 @ d64; tg2 @ d64"},
		{"--n-prompt=16 --n-gen 4", "pp16; tg4"},
	} {
		var got []string
		for _, c := range parsedBenchFlags(t, strings.Fields(tt.args)...).cases() {
			got = append(got, c.String())
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("%q: %s; want %s", tt.args, s, tt.want)
		}
	}
}

func TestBenchSetups(t *testing.T) {
	f := parsedBenchFlags(t, "-m", "a,b", "-t", "1,2", "-ub", "32", "-ctk", "f16,f32", "-ctv", "f16,f32", "-fa", "1")
	got, err := f.setups()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 16 {
		t.Fatalf("%d setups, want 16", len(got))
	}
	if want := (bench.Setup{Model: "a", Batch: 2048, UBatch: 32, KV: kvcache.Both(kvcache.F16), FlashAttn: 1, Threads: 1}); got[0] != want {
		t.Errorf("the first is %+v, want %+v", got[0], want)
	}
	if want := (bench.Setup{Model: "b", Batch: 2048, UBatch: 32, KV: kvcache.Both(kvcache.F32), FlashAttn: 1, Threads: 2}); got[15] != want {
		t.Errorf("the last is %+v, want %+v", got[15], want)
	}
}

// Mistakes are usage errors that name the flag, the value and what works.
func TestBenchUsage(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"bench -m x -p -5", []string{"--n-prompt", "-5", "1-8+2"}},
		{"bench -m x -n 1-8*1", []string{"--n-gen", "1-8*1", "does not advance"}},
		{"bench -m x -t 0", []string{"--threads", `"0"`, "from 1 to"}},
		{"bench -m x -ub 0", []string{"--ubatch-size", "from 1"}},
		{"bench -m x -pg 5", []string{"--prompt-gen", "512,128"}},
		{"bench -m x -ctk q3", []string{"--cache-type-k", "q3", "i16 f16 f32 bf16 q8_0 q4_0"}},
		{"bench -m x -ctv q3", []string{"--cache-type-v", "q3", "i16 f16 f32 bf16 q8_0 q4_0"}},
		{"bench -m x -fa 0", []string{"--flash-attn", "always fused"}},
		{"bench -m x -r 0", []string{"--repetitions", "from 1"}},
		{"bench -m x -o xml", []string{"xml", "md json jsonl csv"}},
		{"bench -m x -p 0 -n 0", []string{"nothing to measure"}},
		{"bench --synth llama-9b:Q4_K_M -o y", []string{"llama-9b", "llama-3.1-8b"}},
		{"bench --synth tiny:Q4_7 -o y", []string{"Q4_7", "Q4_K_M"}},
		{"bench --synth tiny:Q4_K_M", []string{"-o FILE"}},
		{"bench --synth tiny:Q4_K_M -m x -o y", []string{"--model"}},
		{"bench -m x --force", []string{"--synth"}},
		{"bench -m x --curve -n 4", []string{"--curve", "-n"}},
		{"bench -m x --curve -p 8 -ub 4", []string{"--ubatch-size 4", "-p 8", "several passes"}},
		{"bench -m x --types q4_k", []string{"--types", "--kernels"}},
		{"bench --kernels -m x", []string{"without a model"}},
		{"bench --kernels --curve", []string{"without a model"}},
		{"bench --kernels --types q4_9", []string{"--types", "q4_9", "Q4_K"}},
		{"bench --kernels -p 0", []string{"-p 0", "from 1 to"}},
		{"bench --kernels -p 1000000", []string{"-p 1000000", "from 1 to"}},
		{"bench --kernels -d 1,2", []string{"one --n-depth"}},
		{"bench -m x --plot y", []string{"--plot", "--profile", "--curve"}},
		{"bench -m x --profile --curve", []string{"--profile", "--curve"}},
		{"bench --profile --kernels", []string{"--profile", "--kernels"}},
		{"bench -m x --train 1", []string{"--train", "from 2"}},
		{"bench -m x --train 8 --rank 0", []string{"--rank", "from 1"}},
		{"bench -m x --rank 8", []string{"--rank", "--train"}},
		{"bench -m x --full F32", []string{"--full", "--train"}},
		{"bench -m x --dora", []string{"--dora", "--train"}},
		{"bench -m x --train 8 --dora --full F32", []string{"--dora", "--full"}},
		{"bench -m x --train 8 --rank 8 --full F32", []string{"--rank", "--full"}},
		{"bench -m x --train 8 --curve", []string{"--train", "--curve"}},
	} {
		var stderr bytes.Buffer
		code := execute(strings.Fields(tt.args), &stderr)
		if code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d and %q", tt.args, code, stderr.String())
		}
		for _, s := range tt.want {
			if !strings.Contains(stderr.String(), s) {
				t.Errorf("%s: no %q in %q", tt.args, s, stderr.String())
			}
		}
	}
}

func tinyModel(t *testing.T) string {
	t.Helper()
	m, err := synth.ParseShape("tiny:Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if _, err := m.WriteFile(context.Background(), path, false); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSynthCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	args := []string{"bench", "--synth", "tiny:q8_0", "-o", path}
	var stderr bytes.Buffer
	if code := execute(args, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Parse(b); err != nil {
		t.Error(err)
	}
	stderr.Reset()
	if code := execute(args, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "--force") {
		t.Errorf("over a file: exit code %d and %q", code, &stderr)
	}
	if code := execute(append(args, "--force"), io.Discard); code != exitOK {
		t.Errorf("--force: exit code %d", code)
	}
}

// benched returns what "quern bench" prints.
func benched(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := newBenchCommand()
	cmd.SetArgs(doubleDashes(cmd, args))
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A machine's own files, and counters of energy that count 2 J of a package and 1 J of memory each time that they are read.
type countingMachine struct {
	fs.FS
	reads map[string]int
}

func (c countingMachine) Open(name string) (fs.File, error) {
	const dir = "sys/class/powercap/"
	if !strings.HasPrefix(name+"/", dir) {
		return c.FS.Open(name)
	}
	files := fstest.MapFS{}
	for i, zone := range []string{"package-0", "dram"} {
		c.reads[name+zone]++
		at := fmt.Sprintf("%sintel-rapl:%d/", dir, i)
		files[at+"name"] = &fstest.MapFile{Data: []byte(zone)}
		files[at+"energy_uj"] = &fstest.MapFile{Data: fmt.Append(nil, (2-i)*1e6*c.reads[name+zone])}
		files[at+"max_energy_range_uj"] = &fstest.MapFile{Data: []byte("1000000000")}
	}
	return files.Open(name)
}

func TestBenchEnergy(t *testing.T) {
	f := parsedBenchFlags(t, "-m", tinyModel(t), "-p", "8", "-n", "2", "-r", "2", "-t", "1", "--energy", "--no-roofline")
	m, err := machine.ReadFS(countingMachine{os.DirFS("/"), map[string]int{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := func(format string, energy bool) string {
		t.Helper()
		plan, err := f.plan(m, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if energy {
			if plan.Energy, err = m.EnergyMeter(); err != nil {
				t.Fatal(err)
			}
		}
		var b bytes.Buffer
		f.output = format
		if err := plan.Run(t.Context(), f.to(&b)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	// 3 J for 2 repetitions of 8 tokens, and of 2.
	var results []bench.Result
	if err := json.Unmarshal([]byte(ran("json", true)), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || results[0].Joules == nil || *results[0].Joules != 3./16 || results[1].Joules == nil || *results[1].Joules != 3./4 {
		t.Errorf("%+v", results)
	}
	if table := ran("md", true); !strings.Contains(table, " J/token |") || !strings.Contains(table, " 0.188 |") || !strings.Contains(table, " 0.75 |") {
		t.Error(table)
	}
	if table := ran("md", false); !strings.Contains(table, " not readable |") {
		t.Error(table)
	}
	if rows := ran("csv", true); !strings.Contains(rows, ",joules_per_token\n") || !strings.Contains(rows, ",0.750000\n") || strings.Contains(rows, "roof") {
		t.Error(rows)
	}
}

// The tiny model, measured in every format.
func TestBenchRun(t *testing.T) {
	path := tinyModel(t)
	measured := func(args ...string) []byte {
		t.Helper()
		return benched(t, append([]string{"-m", path, "-p", "8", "-n", "2", "-r", "2", "-t", "1"}, args...)...)
	}

	var results []bench.Result
	if err := json.Unmarshal(measured("-o", "json", "-d", "0,70", "-pg", "4,2"), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 6 {
		t.Fatalf("%d results, want 6", len(results))
	}
	for _, r := range results {
		name := bench.Case{Prompt: r.Prompt, Gen: r.Gen, Depth: r.Depth}.String()
		if len(r.SamplesNS) != 2 || len(r.SamplesTS) != 2 || !(r.AvgTS > 0) || r.AvgNS == 0 {
			t.Errorf("%s: samples %v, %v, average %g", name, r.SamplesNS, r.SamplesTS, r.AvgTS)
		}
		if r.RoofTS == nil || !(*r.RoofTS > 0) || !(*r.RoofFraction > 0) || !(*r.ReadGBps > 0) || !(*r.Int8GMACs > 0) {
			t.Errorf("%s: no roofline", name)
		}
		if r.ModelType != "llama 3.9M Q4_K - Medium" && r.ModelType != "llama 4M Q4_K - Medium" {
			t.Errorf("%s: model %q", name, r.ModelType)
		}
	}

	lines := strings.Split(strings.TrimSpace(string(measured("-o", "jsonl", "--no-roofline", "--no-warmup"))), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) || strings.Contains(line, "roof") || strings.Contains(line, "read_gbps") {
			t.Errorf("line %s", line)
		}
	}

	rows, err := csv.NewReader(bytes.NewReader(measured("-o", "csv", "--no-roofline"))).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v; want 3", len(rows), err)
	}
	if got, want := strings.Join(rows[0], ","), strings.Join(llamaBenchFields, ","); got != want {
		t.Errorf("fields %s, want %s", got, want)
	}

	table := string(measured("--no-roofline", "-ub", "32"))
	for _, s := range []string{"| model ", "| n_ubatch |", "             pp8 |", "             tg2 |", "\nbuild: "} {
		if !strings.Contains(table, s) {
			t.Errorf("no %q in:\n%s", s, table)
		}
	}
	if strings.Contains(table, "roof") {
		t.Errorf("a roofline in:\n%s", table)
	}
}

// A curve begins with one token, whatever -p says, and its costs are those of
// whole passes.
func TestBenchCurve(t *testing.T) {
	path := tinyModel(t)
	measured := func(args ...string) []byte {
		t.Helper()
		return benched(t, append([]string{"--curve", "-m", path, "-r", "3", "-t", "1", "--no-roofline"}, args...)...)
	}
	var rows []bench.CurveResult
	if err := json.Unmarshal(measured("-o", "json", "-p", "8,3,700", "-d", "0,5"), &rows); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range rows {
		got = append(got, bench.Case{Prompt: r.Prompt, Gen: r.Gen, Depth: r.Depth}.String())
		s := slices.Sorted(slices.Values(r.SamplesNS))
		if one := rows[i/4*4].MedianNS; r.MedianNS != s[1] || r.Cost != float64(s[1])/float64(one) {
			t.Errorf("%s: median %d and cost %g of %v, one token %d", got[i], r.MedianNS, r.Cost, s, one)
		}
		if r.UBatch < r.Prompt || r.Batch < r.Prompt {
			t.Errorf("%s in passes of %d", got[i], r.UBatch)
		}
	}
	if s := strings.Join(got, "; "); s != "pp1; pp8; pp3; pp700; pp1 @ d5; pp8 @ d5; pp3 @ d5; pp700 @ d5" {
		t.Errorf("measured %s", s)
	}
	if table := string(measured("-p", "2")); !strings.Contains(table, " cost(n)/cost(1) |\n") || !strings.Contains(table, " pp1 |") {
		t.Errorf("the table is\n%s", table)
	}
	picture := filepath.Join(t.TempDir(), "curve.svg")
	measured("-p", "8,3", "-d", "0,5", "--plot", picture)
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	var svg struct {
		Lines []struct {
			Points string `xml:"points,attr"`
			Width  int    `xml:"stroke-width,attr"`
		} `xml:"polyline"`
		Text []string `xml:"text"`
	}
	if err := xml.Unmarshal(drawn, &svg); err != nil {
		t.Fatal(err)
	}
	curves := 0
	for _, l := range svg.Lines {
		if points := strings.Fields(l.Points); l.Width == 2 && len(points) == 3 && strings.HasPrefix(points[0], "70.0,") && strings.HasPrefix(points[2], "870.0,") {
			curves++
		}
	}
	if text := strings.Join(svg.Text, "\n"); curves != 2 || !strings.Contains(text, "1 threads, after 5 tokens") || !strings.Contains(text, "\n8\n") {
		t.Errorf("%d curves, want two of three points each, in\n%s", curves, drawn)
	}
	records, err := csv.NewReader(bytes.NewReader(measured("-p", "2", "-o", "csv"))).ReadAll()
	if want := append(slices.Clone(llamaBenchFields), "median_ns", "cost"); err != nil || len(records) != 3 || !slices.Equal(records[0], want) {
		t.Errorf("%d records, %v; the first %v", len(records), err, records[0])
	}
}

// Without -p the curve is of the tokens that are written down, and so are the
// kernels.
func TestBenchDefaultTokens(t *testing.T) {
	f := parsedBenchFlags(t, "--curve", "-m", "x")
	if err := f.planCurve(); err != nil || len(f.prompt) != 38 || f.prompt[0] != 1 || f.prompt[37] != 512 {
		t.Errorf("--curve: %v, %v", f.prompt, err)
	}
	b, err := parsedBenchFlags(t, "--kernels").kernelBench()
	if err != nil || len(b.Tokens) != 10 || b.Tokens[9] != 512 || b.Depth != kernelDepth {
		t.Errorf("--kernels: %v at %d, %v", b.Tokens, b.Depth, err)
	}
	if !slices.Equal(b.Types, kernel.Types()) {
		t.Errorf("--kernels: types %v", b.Types)
	}
}

// Kernels alone, in every format.
func TestBenchKernels(t *testing.T) {
	measured := func(args ...string) []byte {
		t.Helper()
		cmd := newBenchCommand()
		cmd.SetArgs(doubleDashes(cmd, append([]string{"--kernels", "--types", "q8_0", "-p", "1,2", "-d", "70", "-r", "2", "-t", "1"}, args...)))
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(context.Background()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var rows []bench.KernelResult
	if err := json.Unmarshal(measured("-o", "json"), &rows); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		name := fmt.Sprintf("%s %s %s %d", r.Kernel, r.Type, r.From, r.Tokens)
		got = append(got, name)
		roof := r.RoofFraction != nil && *r.RoofFraction > 0
		if !(r.GBps > 0) || len(r.SamplesNS) != 2 || r.ReadGBps == nil || (r.CopyGBps == nil) == (r.Kernel == "pack") || r.Int8GMACs == nil || roof != (r.Kernel != "norm" && r.Kernel != "quantize") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	want := `pack q8_0 memory 0; matmul q8_0 memory 1; matmul q8_0 memory 2; matmul q8_0 cache 1; matmul q8_0 cache 2;
		attention i16 memory 1; attention i16 memory 2; norm f32 cache 1; norm f32 cache 2; quantize f32 cache 1; quantize f32 cache 2`
	if strings.Join(strings.Fields(strings.Join(got, "; ")), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("measured %s", strings.Join(got, "; "))
	}
	table := string(measured("--no-roofline"))
	for _, s := range []string{"| matmul    | q8_0     | cache  |       1 |    2 |", "\nbuild: "} {
		if !strings.Contains(table, s) {
			t.Errorf("no %q in:\n%s", s, table)
		}
	}
	if strings.Contains(table, "roof") {
		t.Errorf("a roofline in:\n%s", table)
	}
}

// llamaBenchFields is what llama-bench prints, in its order.
var llamaBenchFields = strings.Fields(`
	build_commit build_number cpu_info gpu_info backends model_filename model_type model_size model_n_params
	n_batch n_ubatch n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers n_cpu_moe split_mode main_gpu
	no_kv_offload flash_attn devices tensor_split tensor_buft_overrides load_mode embeddings no_op_offload no_host
	fit_target fit_min_ctx n_prompt n_gen n_depth test_time avg_ns stddev_ns avg_ts stddev_ts`)

// A model that is not there is found before others are measured.
func TestBenchMissingModel(t *testing.T) {
	f := parsedBenchFlags(t, "-m", tinyModel(t)+",nowhere.gguf", "--no-roofline")
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := f.run(t.Context(), cmd)
	if !errors.Is(err, os.ErrNotExist) || out.Len() > 0 {
		t.Errorf("error %v and output %q", err, &out)
	}
}
