package finetune

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/quant"
)

// keysAndValues is the type of keys and values in passes.
var keysAndValues = kernel.KVTypes{K: kernel.KVF16, V: kernel.KVF16}

// WholeOf says how all weights of a file are trained and written: rounded to a type, or to those of a mix of types.
func WholeOf(f *gguf.File, name string) (model.Whole, error) {
	mix, err := quant.ParseMix(name)
	if err != nil {
		return model.Whole{}, err
	}
	choices, err := quant.Choose(f, mix, quant.Options{})
	if err != nil {
		return model.Whole{}, fmt.Errorf("weights of %s: %w", mix.Name, err)
	}
	types := map[string]gguf.Type{}
	for _, c := range choices {
		types[c.Name] = c.To
	}
	return model.Whole{
		KV:   keysAndValues,
		Type: func(t *gguf.Tensor) gguf.Type { return types[t.Name] },
		Set:  []gguf.KV{{Key: "general.file_type", Value: mix.Kind}, {Key: "general.quantization_version", Value: uint32(2)}},
	}, nil
}

// tuned allocates what is trained.
func (j *Job) tuned(src Source) (*model.Tuned, error) {
	if !j.Settings.fresh() {
		l := j.Settings.LoRA
		l.Classifier = j.Pooling == nn.PoolRank
		return model.NewTuned(j.model, l, src.Budget)
	}
	if j.Settings.Head {
		return j.head(src)
	}
	whole, err := WholeOf(src.File.GGUF, j.Settings.Weights)
	if err != nil {
		return nil, err
	}
	tuned, err := model.NewWhole(src.File, whole, src.Pool, src.Budget)
	if err == nil {
		j.model = tuned.Model()
	}
	return tuned, err
}
