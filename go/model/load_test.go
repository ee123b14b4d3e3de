package model

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// Every way in which metadata or tensors can be wrong is one line that names the
// key or the tensor.
func TestLoadRefuses(t *testing.T) {
	f32 := func(n int) []byte { return make([]byte, 4*n) }
	nan := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	poison := func(name string) func(*draft) {
		return func(d *draft) {
			x := d.tensor(name)
			x.Data = slices.Clone(x.Data)
			copy(x.Data[len(x.Data)-8:], nan)
		}
	}
	key := func(k string, v any) func(*draft) { return func(d *draft) { d.set("llama."+k, v) } }
	for _, tt := range []struct {
		name   string
		change func(*draft)
		want   string
	}{
		{"no architecture", func(d *draft) { d.drop("general.architecture") }, "general.architecture"},
		{"architecture to come", func(d *draft) { d.set("general.architecture", "graniteswitch") }, `architecture "graniteswitch" is not supported: its tokens switch adapters`},
		{"architecture", func(d *draft) { d.set("general.architecture", "rwkv5") }, `architecture "rwkv5" is not supported, supported are llama qwen2 qwen3 `},
		{"no context", func(d *draft) { d.drop("llama.context_length") }, `"llama.context_length"`},
		{"no epsilon", func(d *draft) { d.drop("llama.attention.layer_norm_rms_epsilon") }, "layer_norm_rms_epsilon"},
		{"absurd layers", key("block_count", uint32(1<<31)), "block_count"},
		{"one layer too many", key("block_count", uint32(3)), `tensor "blk.2.`},
		{"no layers", key("block_count", uint32(0)), "block_count"},
		{"negative heads", key("attention.head_count", int32(-4)), "head_count"},
		{"heads that do not divide", key("attention.head_count_kv", uint32(3)), "divisor of the 4 heads"},
		{"width that heads do not divide", key("attention.head_count", uint32(5)), "head_count"},
		{"layers that differ", key("attention.head_count_kv", []int32{2, 1}), `tensor "blk.1.attn_k.weight": shape [32 16], want [32 8]`},
		{"too few layers", key("attention.head_count_kv", []int32{2}), "head_count_kv\": 1 elements, want one for each of the 2 layers"},
		{"epsilon not a number", key("attention.layer_norm_rms_epsilon", float32(math.NaN())), "layer_norm_rms_epsilon"},
		{"text for a number", key("embedding_length", "wide"), "embedding_length"},
		{"another width", key("embedding_length", uint32(64)), `tensor "token_embd.weight": shape [32 `},
		{"values unlike keys", key("attention.value_length", uint32(4)), `tensor "blk.0.attn_v.weight": shape [32 16], want [32 8]`},
		{"odd rotation", key("rope.dimension_count", uint32(5)), "even"},
		{"long rotation", key("rope.dimension_count", uint32(64)), "dimension_count"},
		{"zero base", key("rope.freq_base", float32(0)), "freq_base"},
		{"rope type", key("rope.scaling.type", "dynamic"), `"dynamic" is not supported`},
		{"rope factors", func(d *draft) { d.add("rope_factors_long.weight", gguf.F32, f32(4), 4) }, `tensor "rope_factors_short.weight" is missing`},
		{"unknown tensor", func(d *draft) { d.add("blk.1.attn_q_norm.weight", gguf.F32, f32(8), 8) }, `tensor "blk.1.attn_q_norm.weight" is none that llama models have`},
		{"rope factors of 0", func(d *draft) { d.add("rope_freqs.weight", gguf.F32, f32(4), 4) }, "rope_freqs.weight"},
		{"rope factors too few", func(d *draft) { d.add("rope_freqs.weight", gguf.F32, f32(3), 3) }, "shape [3], want [4]"},
		{"no embedding", func(d *draft) { d.drop("token_embd.weight") }, `tensor "token_embd.weight" is missing`},
		{"no tensor", func(d *draft) { d.drop("blk.1.ffn_up.weight") }, `tensor "blk.1.ffn_up.weight" is missing`},
		{"shape", func(d *draft) { d.tensor("blk.0.attn_k.weight").Dims = []uint64{16, 32} }, `tensor "blk.0.attn_k.weight": shape [16 32], want [32 16]`},
		{"type", func(d *draft) {
			x := d.tensor("blk.0.ffn_norm.weight")
			x.Type, x.Dims = gguf.I32, []uint64{32}
		}, `tensor "blk.0.ffn_norm.weight": type I32`},
		{"type of a matrix", func(d *draft) { d.tensor("blk.0.attn_q.weight").Type = gguf.I32 }, "type I32 is not supported, supported are [F32"},
		{"bias of another length", func(d *draft) { d.add("blk.0.attn_q.bias", gguf.F32, f32(31), 31) }, "shape [31], want [32]"},
		{"NaN in a matrix", poison("blk.1.ffn_down.weight"), `tensor "blk.1.ffn_down.weight": a weight is NaN`},
		{"NaN in the embedding", poison("token_embd.weight"), `tensor "token_embd.weight": a weight is NaN`},
		{"NaN in the output", poison("output.weight"), `tensor "output.weight": a weight is NaN`},
		{"NaN in a norm", poison("output_norm.weight"), `tensor "output_norm.weight": a weight is NaN`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := read(t, "tiny-llama-f32.gguf")
			tt.change(d)
			path := d.write(t, "x.gguf")
			for _, r := range []Residency{Packed, Mapped} {
				_, err := load(t, path, r)
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v: error %v, want one line with %q", r, err, tt.want)
				}
			}
		})
	}
}

// Layers of an encoder lie in one another's place, so they are alike.
func TestAnswerLayersAreAlike(t *testing.T) {
	d := read(t, testdata.Path(t, "archs/t5.gguf"))
	n := 0
	for _, x := range d.tensors {
		if strings.HasPrefix(x.Name, "enc.blk.") && strings.HasSuffix(x.Name, ".attn_q.weight") {
			n++
		}
	}
	heads := make([]int32, n)
	for i := range heads {
		heads[i] = int32(min(1+3*i, 4))
	}
	d.set("t5.attention.head_count_kv", heads)
	if _, err := load(t, d.write(t, "x.gguf"), Packed); err == nil || !strings.Contains(err.Error(), "want the same in all") {
		t.Errorf("%d layers with %v heads: %v", n, heads, err)
	}
}

// Fuzzers' files, and ones with rows that are no whole blocks.
func TestHostileFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "hostile/ik-quantize-bad-rows"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d hostile files: %v", len(files), err)
	}
	files = append(files, testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf"))
	for _, path := range files {
		_, err := load(t, path, Packed)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", filepath.Base(path), err)
		}
	}
}

// What a fuzzer kept as interesting.
func TestFuzzCorpus(t *testing.T) {
	packed, err := os.Open(testdata.Path(t, "hostile/bitnet-rs-gguf-fuzz.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := zstd.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	path := filepath.Join(t.TempDir(), "x.gguf")
	files := 0
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		files++
		if _, err := load(t, path, Auto); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", h.Name, err)
		}
	}
	if files == 0 {
		t.Error("the corpus is empty")
	}
}

// Any prefix of a file, and any file with a byte changed, loads or is refused.
func TestDamagedFiles(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(golden, "tiny-llama-f32.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	try := func(name string, b []byte) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, path, Auto); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %v", name, err)
		}
	}
	for n := 0; n < len(raw); n += len(raw)/40 + 1 {
		try("cut.gguf", raw[:n])
	}
	head := min(len(raw), 12_000)
	for at := 0; at < head; at += 97 {
		b := slices.Clone(raw)
		b[at] ^= 0xff
		try("flipped.gguf", b)
	}
}

// A model that was cut into shards, or whose experts are a tensor each, answers
// as the whole one does.
func TestOtherForms(t *testing.T) {
	ids := []int32{1, 20, 30, 40, 50, 60, 70}
	whole := read(t, "tiny-moe-f32.gguf")
	m, err := load(t, whole.write(t, "whole.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	want := logits(t, m, ids)

	stacked := &draft{kvs: whole.kvs}
	for _, x := range whole.tensors {
		base, ok := strings.CutSuffix(x.Name, "_exps.weight")
		if !ok {
			stacked.tensors = append(stacked.tensors, x)
			continue
		}
		n := len(x.Data) / 4
		for e := range 4 {
			stacked.add(fmt.Sprintf("%s.%d.weight", base, e), x.Type, x.Data[e*n:(e+1)*n], x.Dims[0], x.Dims[1])
		}
	}
	dir := t.TempDir()
	const shards = 3
	var paths []string
	for i := range shards {
		part := &draft{}
		if i == 0 {
			part.kvs = slices.Clone(whole.kvs)
		}
		part.set("split.no", uint16(i))
		part.set("split.count", uint16(shards))
		part.set("split.tensors.count", int32(len(whole.tensors)))
		n := len(whole.tensors)
		part.tensors = whole.tensors[i*n/shards : (i+1)*n/shards]
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, shards))
		if err := os.Rename(part.write(t, "part.gguf"), path); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, tt := range []struct{ name, path string }{
		{"a tensor each", stacked.write(t, "stacked.gguf")}, {"first shard", paths[0]}, {"last shard", paths[2]},
	} {
		for _, r := range []Residency{Packed, Mapped} {
			m, err := load(t, tt.path, r)
			if err != nil {
				t.Errorf("%s, %v: %v", tt.name, r, err)
				continue
			}
			for i, row := range logits(t, m, ids) {
				if !slices.Equal(row, want[i]) {
					t.Errorf("%s, %v: logits after token %d differ", tt.name, r, i)
				}
			}
		}
	}
	if err := os.Remove(paths[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(paths[0]); err == nil || !strings.Contains(err.Error(), filepath.Base(paths[1])) {
		t.Errorf("error %v, want one that names the missing shard", err)
	}
}

// A model in memory is the one in the file, and errors have the name that it was given.
func TestOpenBytes(t *testing.T) {
	ids := []int32{1, 20, 30, 40}
	d := read(t, "tiny-llama-mixed.gguf")
	path := d.write(t, "whole.gguf")
	region, err := mem.Map(path) // outside the Go heap, like what a program has in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { region.Close() })
	b := region.Bytes()
	before := slices.Clone(b)
	for _, r := range []Residency{Packed, Mapped} {
		m, err := load(t, path, r)
		if err != nil {
			t.Fatal(err)
		}
		want := logits(t, m, ids)
		f, err := OpenBytes("inside", b)
		if err != nil {
			t.Fatal(err)
		}
		if f.Size() != uint64(len(b)) || !slices.Equal(f.Paths, []string{"inside"}) {
			t.Errorf("%d bytes of %v", f.Size(), f.Paths)
		}
		if m, err = loadFile(t, f, r, kvF32); err != nil {
			t.Fatal(err)
		}
		for i, row := range logits(t, m, ids) {
			if !slices.Equal(row, want[i]) {
				t.Errorf("%v: logits after token %d differ", r, i)
			}
		}
	}
	if !slices.Equal(b, before) {
		t.Error("loading changed it")
	}
	d.set("split.count", uint16(3))
	shard, err := os.ReadFile(d.write(t, "shard.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, b[:100], b[:len(b)/2], shard} {
		if _, err := OpenBytes("inside", bad); err == nil || !strings.HasPrefix(err.Error(), "inside: ") {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func TestMemory(t *testing.T) {
	path := filepath.Join(golden, "tiny-llama-mixed.gguf")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	survey, err := NewSurvey(f, kernel.KVTypes{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := survey.Memory(Use{Sequences: 2, Batch: 64, MaxOut: 4, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	m, err := load(t, path, Packed)
	if err != nil {
		t.Fatal(err)
	}
	if e.Weights != m.WeightBytes() {
		t.Errorf("estimate of %d bytes of weights, %d were taken", e.Weights, m.WeightBytes())
	}
	// One layer, one head of 32: keys and values of 256 positions in 2 bytes, of two sequences.
	if want := uint64(256 * 2 * 32 * 2); e.KV != 2*want || e.KVPer1K != 4*want {
		t.Errorf("KV %d, %d per 1024 tokens, want %d and %d", e.KV, e.KVPer1K, want, 4*want)
	}
	if e.Checks == 0 || e.Total() != e.Weights+e.KV+e.Activations {
		t.Errorf("estimate %+v", e)
	}
	if e := (Estimate{Weights: 1, Checks: 10, KV: 2, Activations: 3}); e.Total() != 11 {
		t.Errorf("total %d, want the 11 of the checks", e.Total())
	}
	huge, err := survey.Memory(Use{Ctx: 1 << 28, Sequences: 1 << 60, Batch: 1, MaxOut: 1, Threads: 1})
	if err != nil || huge.KV < 1<<60 || huge.Total() < huge.KV {
		t.Errorf("estimate of more than any memory: %+v, %v", huge, err)
	}
	threads, err := kernel.NewPool(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer threads.Close()
	for _, residency := range []Residency{Packed, Mapped} {
		e, err := survey.Memory(Use{Sequences: 2, Batch: 64, MaxOut: 4, Threads: 3, Residency: residency})
		if err != nil {
			t.Fatal(err)
		}
		// What is lent serves for the checks, and only what goes beyond is asked for.
		b := mem.NewBudget(e.Weights+e.Checks/2, "test")
		loaded, err := survey.Load(Options{Pack: threads.PackInto, Budget: b, Residency: residency, Lent: e.Checks - e.Checks/2})
		if err != nil {
			t.Fatal(err)
		}
		if b.Peak() != e.Weights+e.Checks/2 || b.Used() != e.Weights {
			t.Errorf("%v: %d bytes at most, %d in the end, want %d and %d", residency, b.Peak(), b.Used(), e.Weights+e.Checks/2, e.Weights)
		}
		b = mem.NewBudget(e.Activations, "test")
		r, err := NewRunner(loaded, RunnerConfig{Pool: threads, Budget: b, MaxTokens: 64, MaxSeqs: 2, MaxBlocks: 4, MaxOut: 4})
		if err != nil {
			t.Fatalf("%v: %v", residency, err)
		}
		if b.Used() != e.Activations {
			t.Errorf("%v: estimate of %d bytes of activations, %d were taken", residency, e.Activations, b.Used())
		}
		r.Close()
		loaded.Close()
	}
	// What an estimate says is refused, is.
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := mem.NewBudget(e.Weights-1, "test")
	var limit *mem.LimitError
	if _, err := survey.Load(Options{Pack: pool.PackInto, Budget: b, Residency: Packed}); !errors.As(err, &limit) || b.Used() != 0 {
		t.Errorf("error %v with %d bytes taken, want a LimitError and none", err, b.Used())
	}
	mapped, err := survey.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(e.Weights-1, "test"), Lent: e.Checks})
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	if mapped.Residency != Mapped {
		t.Errorf("without room for it the model is %v", mapped.Residency)
	}
	last := uint64(0)
	done, err := survey.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Progress: func(done, total uint64) {
		if done <= last || done > total || total > f.Size() {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}})
	if err != nil || last == 0 {
		t.Fatalf("progress %d, %v", last, err)
	}
	done.Close()
}

// Pages of the file are let go as they are read: loading does not take the
// memory of the file on top of that of the weights.
func TestLoadDropsPages(t *testing.T) {
	const rows, size = 200_000, 200_000 * 32 * 4 * 2 // the embedding and the output
	d := read(t, "tiny-llama-f32.gguf")
	big := make([]byte, size/2)
	for _, name := range []string{"token_embd.weight", "output.weight"} {
		x := d.tensor(name)
		x.Dims, x.Data = []uint64{32, rows}, big
	}
	path := d.write(t, "big.gguf")
	debug.FreeOSMemory()
	before := mem.RSS()
	if _, err := load(t, path, Mapped); err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	if after := mem.RSS(); after > before+size/4 {
		t.Errorf("%s more in memory after loading a file of %s", mem.FormatBytes(after-before), mem.FormatBytes(size))
	}
	runtime.KeepAlive(big)
}

// Packed weights lie in the order in which a pass reads them: layer by layer.
func TestWeightsLieInOrder(t *testing.T) {
	m, err := load(t, filepath.Join(golden, "tiny-moe-f32.gguf"), Packed)
	if err != nil {
		t.Fatal(err)
	}
	at, n := uintptr(0), 0
	for il, ops := range m.program.Layers {
		for _, op := range ops {
			x, ok := op.(kernel.Matmul)
			if !ok {
				continue
			}
			for _, p := range x.Parts {
				here := uintptr(unsafe.Pointer(unsafe.SliceData(p.Data)))
				if here <= at {
					t.Errorf("layer %d: a matrix of %d x %d lies before the one that is used before it", il, p.Out, p.In)
				}
				at = here
				n++
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d matrices", n)
	}
}
