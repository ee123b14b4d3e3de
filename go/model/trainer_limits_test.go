package model

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// Gradients are what differences of the loss are where results of products, and what gates are made of, are beyond limits:
// small ones that are put into a program, and those of GPT-OSS, which a large adapter gets to.
func TestGradientBeyondLimits(t *testing.T) {
	archs := filepath.Dir(testdata.Path(t, "archs/llama.gguf"))
	for _, c := range []struct {
		name       string
		qkv, gates float32
		alpha      float64
	}{{"llama", 0.5, 0, 4}, {"llama", 0, 0.1, 4}, {"qwen3moe", 0.5, 0.1, 4}, {"gpt-oss", 0, 0, 400}} {
		m, err := load(t, filepath.Join(archs, c.name+".gguf"), Mapped)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		l := LoRA{Rank: 3, Alpha: c.alpha}
		if c.name == "gpt-oss" {
			l.Targets = []string{"ffn_gate_exps", "ffn_up_exps"}
		}
		plain, err := trainerFor(t, m, l, 1, nn.PoolNone)
		if err != nil {
			t.Fatal(err)
		}
		texts := someTexts(m.Config)
		without, err := plain.Loss(texts, nil)
		if err != nil {
			t.Fatal(err)
		}
		for il, ops := range m.program.Layers {
			ops = slices.Clone(ops)
			for i, op := range ops {
				if p, ok := op.(kernel.Matmul); ok && p.Epilogue == kernel.GLU {
					p.Limit = c.gates
					ops[i] = p
				} else if ok && p.Epilogue == kernel.Store && len(p.Parts) == 3 {
					p.Limit = c.qkv
					ops[i] = p
				}
			}
			m.program.Layers[il] = ops
		}
		limited, err := trainerFor(t, m, l, 1, nn.PoolNone)
		if err != nil {
			t.Fatal(err)
		}
		if loss, err := limited.Loss(texts, nil); err != nil || (loss == without) != (c.qkv == 0 && c.gates == 0) {
			t.Errorf("%s: the loss is %v with limits, %v without: %v", c.name, loss, without, err)
		}
		most, where := differs(t, limited, texts)
		t.Logf("%s: %.4f of the gradient at most: %s", c.name, most, where)
		if most > 0.02 {
			t.Errorf("%s: %.4f of the gradient: %s", c.name, most, where)
		}
		keepsTheSame(t, limited, texts)
	}
}
