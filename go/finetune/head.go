package finetune

import (
	"context"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// head allocates a new head. Its matrices are rounded to BF16, as those of the files that there are.
func (j *Job) head(src Source) (*model.Tuned, error) {
	config, err := src.File.Config()
	if err != nil {
		return nil, err
	}
	shape := model.HeadShape{Seed: j.Settings.Seed}
	if n := j.Settings.HeadTokens; n > 0 {
		shape.Tokens = model.HeadTokens(j.Texts, config.NVocab, n)
	}
	const mostlyBF16 = uint32(32) // general.file_type
	whole := model.Whole{
		KV:   keysAndValues,
		Type: func(*gguf.Tensor) gguf.Type { return gguf.BF16 },
		Set:  []gguf.KV{{Key: "general.file_type", Value: mostlyBF16}, {Key: "general.quantization_version", Value: uint32(2)}},
	}
	tuned, err := model.NewDraftHead(src.File, shape, whole, src.Pool, src.Budget)
	if err == nil {
		j.model = tuned.Model()
	}
	return tuned, err
}

// Guessed returns what the head that is trained, as it is now, guesses of a text. See model.Trainer.Guessed.
func (j *Job) Guessed(ctx context.Context, text model.Text) ([][]bool, error) {
	stop := new(kernel.Stop)
	defer context.AfterFunc(ctx, stop.Set)()
	right, err := j.trainer.Guessed(text, stop)
	return right, stopped(ctx, err)
}

// Recall has passes use the best numbers, as they are written. No further step can be taken.
func (j *Job) Recall() error {
	copy(j.trainer.Adapter.Numbers(), j.Numbers())
	return j.trainer.Adapter.Moved(j.pool)
}
