package model

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
)

var oracle = flag.String("oracle", "", `program that is llama.cpp: "toy NAME OUT --f32" makes a small model, "logits MODEL --ids .. --lora FILE:SCALE -o OUT.npy" runs it`)

// Logits with an adapter that was trained are llama.cpp's.
func TestTrainedAdaptersInLlamaCPP(t *testing.T) {
	if *oracle == "" {
		t.Skip("no -oracle")
	}
	names := strings.Fields("llama qwen2 qwen3 gemma2 gemma3 phi3 mistral3 olmo2 glm4 granite command-r starcoder2 llama-moe qwen3moe olmoe granitemoe")
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, file, out := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "adapter.gguf"), filepath.Join(dir, "logits.npy")
			run := func(args ...string) {
				t.Helper()
				if out, err := exec.Command(*oracle, args...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			run("toy", name, path, "--f32")
			l := LoRA{Rank: 4, Alpha: 8}
			if words := expertsOf(t, path); len(words) > 0 {
				l.Targets = append(words, "attn_q", "attn_k", "attn_v", "attn_output")
			}
			m, tr, err := trainer(t, path, l, 1)
			if err != nil {
				t.Fatal(err)
			}
			a, texts := tr.Adapter, someTexts(m.Config)
			for range 5 {
				if _, err := tr.Gradient(texts, nil); err != nil {
					t.Fatal(err)
				}
				size := normOf(a.Gradient())
				for i, d := range a.Gradient() {
					a.Numbers()[i] -= d / float32(size)
				}
				if err := a.Moved(tr.pool); err != nil {
					t.Fatal(err)
				}
			}
			var b bytes.Buffer
			if _, err := a.Write(m.Config.Arch, a.Numbers()).WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			adapter, err := openAdapter(t, m, file)
			if err != nil {
				t.Fatal(err)
			}
			ids := texts[0].Tokens
			plain, got := newStepper(t, m, len(ids)), newStepper(t, m, len(ids))
			if err := got.r.SetAdapters([]*Adapter{nil, adapter}); err != nil {
				t.Fatal(err)
			}
			got.numbers, got.scales = []int32{1}, []float32{1}
			run("logits", path, "--ids", strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]"), "--lora", file+":1",
				"--positions", "all", "--exact-gelu", "-o", out)
			want, p, g := floatsOf(t, out, m.Config.NVocab), plain.outputs(t, nn.Logits, ids), got.outputs(t, nn.Logits, ids)
			if len(want) != len(ids) {
				t.Fatalf("logits after %d tokens, want %d", len(want), len(ids))
			}
			t.Logf("%.1e of the logits' size from llama.cpp, %.2f from those without the adapter", difference(g, want), difference(g, p))
			if d := difference(g, want); !(d <= 1e-5) {
				t.Errorf("logits with the adapter are %g of their size away from llama.cpp's", d)
			}
			if d := difference(g, p); d < 0.05 {
				t.Errorf("logits without the adapter are as near as %g", d)
			}
		})
	}
}

// floatsOf reads an array of 32-bit floats of NumPy as rows of n.
func floatsOf(t *testing.T, path string, n int) (rows [][]float32) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 10 || !bytes.Contains(data[:128], []byte("<f4")) {
		t.Fatalf("%s: no array of floats: %v", path, err)
	}
	data = data[10+int(binary.LittleEndian.Uint16(data[8:])):]
	for ; len(data) >= 4*n; data = data[4*n:] {
		row := make([]float32, n)
		for i := range row {
			row[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		rows = append(rows, row)
	}
	return rows
}
