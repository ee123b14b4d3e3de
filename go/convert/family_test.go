package convert

import (
	"testing"

	"github.com/quern-llm/quern/go/model/arch"
)

// Every architecture that runs is that of a family. Those that settings of another family make are named here.
func TestEveryArchitectureIsConverted(t *testing.T) {
	made := map[string]bool{}
	for _, f := range families {
		made[f.arch] = true
	}
	for _, f := range []func(*config, *family) *family{withTasks, withExperts, nemotronKind} {
		c := &config{m: map[string]any{"lora_adaptations": []any{}, "moe_every_n_layers": 2.0, "num_experts_per_tok": 2.0}}
		made[f(c, &family{}).arch] = true
	}
	for _, name := range arch.Names() {
		if !made[name] {
			t.Errorf("no family is %s", name)
		}
		delete(made, name)
	}
	for name := range made {
		t.Errorf("%s is no architecture that runs", name)
	}
}
