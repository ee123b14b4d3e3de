package finetune

import (
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
)

// Matrices have the names of the class that Transformers loads the model with, or an error before training.
func TestNamesOfTheLoadedClass(t *testing.T) {
	for _, c := range []struct {
		pooling    nn.Pooling
		name, want string // "": an error
	}{
		{nn.PoolNone, "model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj"},
		{nn.PoolNone, "transformer.h.1.attn.c_attn", "transformer.h.1.attn.c_attn"},
		{nn.PoolLast, "model.layers.1.mlp.up_proj", "layers.1.mlp.up_proj"},
		{nn.PoolMean, "layers.1.mlp.up_proj", "layers.1.mlp.up_proj"},
		{nn.PoolCLS, "encoder.layer.1.output.dense", "encoder.layer.1.output.dense"},
		{nn.PoolMean, "transformer.h.1.attn.c_attn", ""},
		{nn.PoolRank, "model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj"},
		{nn.PoolRank, "encoder.layer.1.output.dense", ""},
	} {
		got, err := loadedAs(c.pooling, c.name)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v, %s: %q, %v", c.pooling, c.name, got, err)
		}
	}
	if taskOf(nn.PoolNone) != "CAUSAL_LM" || taskOf(nn.PoolMean) != "FEATURE_EXTRACTION" || taskOf(nn.PoolRank) != nil {
		t.Error("other tasks")
	}
}
