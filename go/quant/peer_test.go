package quant_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/quant"
)

var oracle = flag.String("oracle", "", "program whose \"quantize IN OUT TYPE\" is llama.cpp's: writes testdata/llamacpp.txt anew")

const peerFile = "testdata/llamacpp.txt"

// A case is a model to quantize.
type peerCase struct {
	model, mix string
	importance bool
}

func (c peerCase) String() string {
	s := c.model + " " + c.mix
	if c.importance {
		s += " imatrix"
	}
	return s
}

// Every mix on the first rows of the matrices of a real model, with importance and without, and whole models: narrow ones,
// where rows do not fit, and experts.
func peerCases() (cases []peerCase) {
	for _, mix := range quant.Mixes() {
		if mix != "NVFP4" && !strings.HasSuffix(mix, "_KT") { // no mix of llama-quantize
			cases = append(cases, peerCase{"rows", mix, false}, peerCase{"rows", mix, true})
		}
	}
	for _, model := range []string{"stories260K-f16", "BabyLlama105-f32", "TinyStories-656K-moe4x2-f16", "TinyStories-656K-x2-f16"} {
		for _, mix := range []string{"Q4_K_M", "Q3_K_L", "IQ4_XS", "MXFP4_MOE"} {
			cases = append(cases, peerCase{model, mix, false})
		}
		cases = append(cases, peerCase{model, "Q4_K_M", true}, peerCase{model, "Q2_K", true})
	}
	return cases
}

// What we write is, byte by byte, what llama.cpp writes.
func TestFilesOfLlamaCPP(t *testing.T) {
	dir := t.TempDir()
	if *oracle != "" {
		writePeerFile(t, dir)
	}
	want := readPeerFile(t)
	for _, c := range peerCases() {
		var out bytes.Buffer
		got := ""
		if err := quantize(&out, peerModel(t, dir, c.model), c, 1+len(c.mix)%3); err != nil {
			got = "refused"
		} else {
			got = fmt.Sprintf("%x", sha256.Sum256(out.Bytes()))
		}
		if got != want[c.String()] {
			t.Errorf("%v: %s, llama.cpp has %q", c, got, want[c.String()])
		}
	}
}

// peerModel returns a model; rows is the beginning of one.
func peerModel(t *testing.T, dir, name string) *gguf.File {
	path := filepath.Join(dir, "rows.gguf")
	if name != "rows" {
		path = testdata.Path(t, "models/"+name+".gguf")
	} else if _, err := os.Stat(path); err != nil {
		whole := peerModel(t, dir, "TinyStories-656K-x2-f16")
		w := gguf.NewWriter()
		for _, kv := range whole.KVs {
			if !strings.HasPrefix(kv.Key, "tokenizer.") {
				w.Set(kv.Key, kv.Value)
			}
		}
		for _, x := range whole.Tensors {
			rows := min(8, x.Elems()/x.Dims[0])
			if len(x.Dims) == 1 || layerIsOne(x.Name) && !strings.Contains(x.Name, "ffn") {
				continue
			}
			w.AddTensor(x.Name, x.Type, []uint64{x.Dims[0], rows}, gguf.Bytes(x.Data[:uint64(len(x.Data))*rows*x.Dims[0]/x.Elems()]))
		}
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func layerIsOne(name string) bool { return strings.HasPrefix(name, "blk.1.") }

// someMatrix is an importance matrix for a model, of numbers that are as different as real ones.
func someMatrix(f *gguf.File) *quant.Matrix {
	m := &quant.Matrix{Entries: map[string]*quant.Entry{}, Datasets: []string{"text"}, Chunks: 10, ChunkSize: 512}
	for _, x := range f.Tensors {
		if len(x.Dims) < 2 || strings.HasPrefix(x.Name, "token_embd") {
			continue
		}
		e := &quant.Entry{}
		h := fnv.New32a()
		h.Write([]byte(x.Name))
		seed := h.Sum32()
		n := uint64(1)
		if len(x.Dims) > 2 {
			n = x.Dims[2]
		}
		for i := range n {
			e.Counts = append(e.Counts, float32(100+i))
		}
		for range x.Dims[0] * n {
			seed = seed*1664525 + 1013904223
			e.Sums = append(e.Sums, float32(1+seed>>16%1000)*float32(uint(1)<<(seed>>28)))
		}
		m.Entries[x.Name] = e
	}
	return m
}

func quantize(out *bytes.Buffer, f *gguf.File, c peerCase, threads int) (err error) {
	mix, err := quant.ParseMix(c.mix)
	if err != nil {
		return err
	}
	job := &quant.Job{From: f, Mix: mix, Threads: threads}
	if c.importance {
		if job.Importance, err = someMatrix(f).Importance(); err != nil {
			return err
		}
	}
	if job.Choices, err = quant.Choose(f, mix, quant.Options{Importance: job.Importance}); err != nil {
		return err
	}
	if err := job.Check(); err != nil {
		return err
	}
	_, err = job.WriteShard(context.Background(), out, 0, 1)
	return err
}

func readPeerFile(t *testing.T) map[string]string {
	f, err := os.Open(peerFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		sum, c, _ := strings.Cut(s.Text(), "  ")
		want[c] = sum
	}
	return want
}

// writePeerFile asks the oracle about every case.
func writePeerFile(t *testing.T, dir string) {
	var text strings.Builder
	for _, c := range peerCases() {
		f := peerModel(t, dir, c.model)
		path := filepath.Join(dir, "rows.gguf")
		if c.model != "rows" {
			path = testdata.Path(t, "models/"+c.model+".gguf")
		}
		out := filepath.Join(dir, "out.gguf")
		os.Remove(out)
		args := []string{"quantize", path, out, c.mix}
		if c.importance {
			matrix := filepath.Join(dir, "matrix.gguf")
			var b bytes.Buffer
			if _, err := someMatrix(f).WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(matrix, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--imatrix", matrix)
		}
		sum := "refused"
		if err := exec.Command(*oracle, args...).Run(); err == nil {
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			sum = fmt.Sprintf("%x", sha256.Sum256(b))
		}
		fmt.Fprintf(&text, "%s  %v\n", sum, c)
	}
	if err := os.WriteFile(peerFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
